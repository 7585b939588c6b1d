package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// tables are digests of the columns that tables have, by schema and name, with a zero
// byte between.
type tables map[string]string

// columns follows the tables of one server, beside what is asked more often: it may take
// long.
type columns struct {
	// told is nil before the first answer.
	told atomic.Pointer[tables]
	// again asks for them now.
	again chan struct{}
}

// tablesEvery is how often the columns are asked for where nothing is amiss.
const tablesEvery = 5 * time.Second

func newColumns() *columns { return &columns{again: make(chan struct{}, 1)} }

// follow asks a server until ctx ends, for a twentieth of the time at most while nothing
// is amiss.
func (c *columns) follow(ctx context.Context, cfg shard.Config) {
	a := asking{cfg: cfg}
	defer a.close()
	for {
		began := time.Now()
		// What fails is told by those who ask more often.
		_ = a.once(ctx, func(ctx context.Context, conn *shard.Conn) error {
			t, err := askTables(ctx, conn)
			if err == nil {
				c.told.Store(&t)
			}
			return err
		})
		took := time.Since(began)
		select {
		case <-c.again:
		case <-ctx.Done():
		case <-time.After(max(tablesEvery, 20*took)):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(took, 100*time.Millisecond)):
		}
	}
}

// askTables digests the columns of all tables that the account may see.
func askTables(ctx context.Context, c *shard.Conn) (tables, error) {
	res, err := c.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, BIT_XOR(CAST(CRC32(CONCAT_WS('/', ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE)) AS UNSIGNED)) "+
		"FROM information_schema.COLUMNS WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema', 'shunt_scratch', 'shunt_store') GROUP BY TABLE_SCHEMA, TABLE_NAME")
	if err != nil {
		return nil, err
	}
	out := tables{}
	for _, row := range res.Rows {
		out[string(row[0])+"\x00"+string(row[1])] = string(row[2])
	}
	return out, nil
}

// differ reports a table that has other columns on a replica than on its primary. One that
// only one of them has is not compared: it may be new, or hidden from the account.
//
// Counter-example: an ALTER TABLE that ran on a replica alone gave a column another
// collation. Its rows would be merged with other shards' in another order than they come.
func (c *columns) differ(primary *columns) error {
	mine, its := c.told.Load(), primary.told.Load()
	if mine == nil || its == nil {
		return nil
	}
	for name, digest := range *mine {
		if at, there := (*its)[name]; there && at != digest {
			// One may have been asked before an ALTER TABLE, the other after it.
			for _, x := range []*columns{c, primary} {
				select {
				case x.again <- struct{}{}:
				default:
				}
			}
			return fmt.Errorf("%w: table %q", errTables, name)
		}
	}
	return nil
}

// errTables: the replica isn't read from until both have the same.
var errTables = errors.New("it has other columns than its primary, so answers over several shards may be wrong: make them equal")
