package e2e

import "testing"

// TestOwnStatements: what is wrong with a statement of Shunt's own, or with its
// hint, is told by Shunt: to a server all of it is wrong.
func TestOwnStatements(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: a}"}})
		mustExec(t, p.db(), "CREATE TABLE users (a INT PRIMARY KEY, b INT)")
		for statement, told := range map[string]string{
			"CREATE VIRTUAL INDEX i ON users (b) PARTITIONS 4096": "PARTITIONS",
			"CREATE VIRTUAL INDEX i ON users":                     "the statement ends too early",
			"ALTER VIRTUAL INDEX i ON users PARTITION 4":          "near 'PARTITION 4'",
			"EXPLAIN ROUTE /* shunt: shrad=s0 */ SELECT 1":        "is not understood",
			"/* shunt: shard=s0 */ SHOW SHARDS":                   "a statement that Shunt answers by itself",
		} {
			_, err := p.db().ExecContext(t.Context(), statement)
			wantError(t, err, 1064, told)
		}
		wantRoute(t, p.db(), "/* shunt: shard=s1 */ SELECT COUNT(*) FROM users", 1, "hint")
	})
}
