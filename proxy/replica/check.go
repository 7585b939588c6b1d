package replica

import (
	"context"
	"fmt"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// Check reports whether a server could be read from as a replica of a primary, but
// for how far it is behind. advice is what is allowed, though not wise; "" for
// nothing.
func Check(ctx context.Context, primary, replica shard.Config) (advice string, err error) {
	p := asking{cfg: primary}
	defer p.close()
	var source *server
	if err := p.once(ctx, func(ctx context.Context, c *shard.Conn) (err error) {
		source, err = askPrimary(ctx, c)
		return err
	}); err != nil {
		return "", fmt.Errorf("its primary: %w", err)
	}
	r := asking{cfg: replica}
	defer r.close()
	err = r.once(ctx, func(ctx context.Context, c *shard.Conn) error {
		if _, err := askReplica(ctx, c, source); err != nil {
			return err
		}
		res, err := c.Query(ctx, "SELECT @@GLOBAL.read_only")
		if err == nil && len(res.Rows) == 1 && string(res.Rows[0][0]) == "0" {
			advice = "it takes writes from anybody, which its primary would lack: SET PERSIST read_only = ON (MariaDB: in its configuration)"
		}
		return err
	})
	return advice, err
}
