package proxy

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestLostUntold: a connection that was lost while the client was told of another shard's
// error fails the transaction for statements that go elsewhere, too, and with a cause.
func TestLostUntold(t *testing.T) {
	tx := &transaction{conns: shardConns{{}, {}}, order: []catalog.ShardID{0, 1}}
	if err := tx.mayGoOn(); err != nil {
		t.Fatal(err)
	}
	tx.conns.at(1).Broken = true
	err := tx.mayGoOn()
	if err == nil || coded(err).Code != 1180 || strings.Contains(err.Error(), "nil") {
		t.Errorf("got %v", err)
	}
	if tx.failed == nil {
		t.Error("COMMIT would be tried")
	}
}
