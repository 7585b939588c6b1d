package proxy

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/shard"
)

type lostStore struct{}

func (lostStore) Error() string   { return "it doesn't answer" }
func (lostStore) StoreLost() bool { return true }

type busyStore struct{}

func (busyStore) Error() string   { return "others keep it" }
func (busyStore) StoreBusy() bool { return true }

// TestShardErrorCodes: a client can tell that a shard can't be reached, whatever was asked of it.
func TestShardErrorCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code uint16
	}{
		{shard.ErrShard, mysqlerr.ShardLost},
		{shard.ErrPoolExhausted, 1040},
		{&shard.ShareError{}, 1226},
		{&shard.ServerError{Code: 1290}, 1290},
		{lostStore{}, mysqlerr.ShardLost},
		{busyStore{}, mysqlerr.LockWaitTimeout},
	} {
		if got := coded(fmt.Errorf("tell the shards: %w", c.err)); got.Code != c.code {
			t.Errorf("%v: %d, want %d", c.err, got.Code, c.code)
		}
	}
}
