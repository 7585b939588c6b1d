package proxy

import (
	"testing"
	"time"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestSetInFullTransaction: a SET of which a server may warn needs no connection besides the transaction's own.
func TestSetInFullTransaction(t *testing.T) {
	t.Parallel()
	s := serve(t, 1, fakeOptions{Options: shard.Options{Max: 1, WaitTimeout: time.Millisecond}})
	s.answer("SELECT id", fakeAnswer{columns: []string{"id"}})
	c := s.conn()
	for _, sql := range []string{"BEGIN", "SELECT id FROM people WHERE id = 1", "SET SESSION sort_buffer_size = 1", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "COMMIT"} {
		if _, err := c.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}
