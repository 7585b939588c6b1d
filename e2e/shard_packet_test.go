package e2e

import (
	"strings"
	"testing"
)

// TestShardMaxPacket: a statement that is larger than a shard takes fails with what the server says
// of it, however far its sending has come by then.
func TestShardMaxPacket(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2, "--max-allowed-packet=1M")
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}, servers: servers})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE users (id BIGINT PRIMARY KEY, name LONGTEXT)")
		for range 5 {
			err := execError(t, c, "INSERT INTO users VALUES (1, '"+strings.Repeat("x", 8<<20)+"')")
			if code := errorCode(err); code != 1153 && code != 1430 || !strings.Contains(err.Error(), "max_allowed_packet") {
				t.Errorf("too large: %v", err)
			}
			want(t, c, "SELECT COUNT(*) AS n FROM users", "n", "0")
		}
		out, code := shunt(t, "check", "--config", p.config)
		if code != 0 || strings.Count(out, "note: max_allowed_packet is 1048576, Shunt's is 67108864") != 2 {
			t.Errorf("check: %d\n%s", code, out)
		}
	})
}
