package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestConfiguredIndexes: an index of the configuration is made once its table is
// there, whatever else is wrong, and one that says otherwise than what was made is told.
func TestConfiguredIndexes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: a}"}})
		told := func(text string) {
			t.Helper()
			eventually(t, text, func() bool { return strings.Contains(p.log.String(), text) })
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

// TestConfiguredIndexesBehindDDL: an index of the configuration that goes with its table, or with
// a column, comes back with it.
func TestConfiguredIndexesBehindDDL(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: a}"}})
		const before, create = "maintenance: {delay", "CREATE TABLE users (a INT PRIMARY KEY, b INT, KEY (b))"
		p.reload(before, "indexes:\n- {name: idx_b, table: "+p.schema+".users, columns: [b]}\n- {name: idx_ba, table: "+p.schema+".users, columns: [b, a]}\n"+before)
		mustExec(t, p.db(), create)
		p.waitIndex(p.db(), "idx_b")
		for _, ddl := range [][]string{
			{"DROP TABLE users", create},
			{"ALTER TABLE users DROP COLUMN b", "ALTER TABLE users ADD COLUMN b INT"},
			{"RENAME TABLE users TO users_old", create},
			{"CREATE TABLE users_new LIKE users", "DROP TABLE users_old", "RENAME TABLE users TO users_old, users_new TO users"},
			{"DROP DATABASE " + p.schema, "CREATE DATABASE " + p.schema, "CREATE TABLE " + p.schema + ".users (a INT PRIMARY KEY, b INT)"},
		} {
			c := p.conn()
			for _, sql := range ddl {
				mustExec(t, c, sql)
			}
			eventually(t, ddl[0]+": the index is there again", func() bool {
				return slices.Contains(p.indexNames(p.db()), "users.idx_b ready")
			})
		}
		mustExec(t, p.db(), "DROP VIRTUAL INDEX idx_b ON users")
		mustExec(t, p.db(), "ALTER TABLE users ADD COLUMN c INT")
		mustExec(t, p.db(), "DROP TABLE users")
		mustExec(t, p.db(), create)
		// What is made again is made in the configuration's order.
		eventually(t, "the other index is there again", func() bool { return slices.Contains(p.indexNames(p.db()), "users.idx_ba ready") })
		if rows := mustRows(t, p.db(), "SHOW VIRTUAL INDEXES FROM users"); len(rows) != 1 {
			t.Errorf("dropped by its own statement, and made again: %v", rows)
		}
	})
}

// TestMembersConfiguredIndexes: members that begin at once make the indexes of their configuration once.
func TestMembersConfiguredIndexes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"users: {shard_key: a}"}, extra: "store: {shards: true}"})
		mustExec(t, p.db(), "CREATE TABLE users (a INT PRIMARY KEY, b INT)")
		p.stop()
		const before = "maintenance: {delay"
		indexes, names := "indexes:\n", []string{}
		for i := range 20 {
			name := fmt.Sprintf("idx_%d", i)
			names = append(names, name)
			indexes += fmt.Sprintf("- {name: %s, table: %s.users, columns: [b]}\n", name, p.schema)
		}
		p.edit(before, indexes+before)
		members := []*process{p, p.beside(), p.beside()}
		var starting sync.WaitGroup
		for _, m := range members {
			starting.Go(func() {
				if err := m.launch(); err != nil {
					t.Error(err)
				}
			})
		}
		starting.Wait()
		if t.Failed() {
			return
		}
		for _, m := range members {
			for _, name := range names {
				m.waitIndex(m.db(), name)
			}
		}
	})
}
