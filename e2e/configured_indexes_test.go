package e2e

import (
	"strings"
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
		indexes := "indexes:\n- {name: idx_no, table: " + p.schema + ".users, columns: [c]}\n- {name: idx_b, table: " + p.schema + ".users, columns: [b]}\n"
		p.reload(before, indexes+before)
		told("its table doesn't exist yet; once it does, CREATE VIRTUAL INDEX makes the index, and so do SIGHUP and the next start")
		mustExec(t, p.db(), "CREATE TABLE users (a INT PRIMARY KEY, b INT, KEY (b))")
		p.reload("columns: [c]", "columns: [c ]")
		p.waitIndex(p.db(), "idx_b")
		told("idx_no: table users has no column c")
		p.reload("columns: [b]", "columns: [a]")
		told("is on other columns than the configuration says")
	})
}
