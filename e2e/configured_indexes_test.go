package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// TestConfiguredIndexes: an index of the configuration is made once its table is
// there, whatever else is wrong, and one that says otherwise than what was made is told.
func TestConfiguredIndexes(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: a}"}})
		told := func(text string) {
			t.Helper()
			eventually(t, oneMinute, text, func() bool { return strings.Contains(p.log.String(), text) })
		}
		const before = "maintenance: {delay"
		indexes := "indexes:\n- {name: idx_no, table: " + p.schema + ".users, columns: [c]}\n- {name: idx_b, table: " + p.schema + ".users, columns: [b]}\n- {name: idx_x, table: " + p.schema + ".other, columns: [x]}\n"
		p.reload(before, indexes+before)
		told("virtual index will be made once its table exists")
		mustExec(t, p.db(), "CREATE TABLE users (a INT PRIMARY KEY, b INT, KEY (b))")
		p.waitIndex(p.db(), "idx_b")
		told("idx_no: table users has no column c")
		// What is dropped stays dropped until the configuration is read again.
		mustExec(t, p.db(), "DROP VIRTUAL INDEX idx_b ON users")
		mustExec(t, p.db(), "CREATE TABLE other (a INT PRIMARY KEY, x INT, KEY (x))")
		p.waitIndex(p.db(), "idx_x")
		if rows := mustRows(t, p.db(), "SHOW VIRTUAL INDEXES FROM users"); len(rows) > 0 {
			t.Errorf("dropped, and made again: %v", rows)
		}
		p.signal(syscall.SIGHUP)
		p.waitIndex(p.db(), "idx_b")
		p.reload("columns: [b]", "columns: [a]")
		told("is on other columns than the configuration says")
	})
}
