package e2e

import "testing"

// TestWritingFunctions: stored functions that write, of a schema that is on one shard, run there: by themselves, in writes, in
// transactions, prepared, in procedures and triggers. Where rows of other shards are named the statement is refused.
func TestWritingFunctions(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{
			"counters: {placement: single, shard: s2}", "invoices: {placement: single, shard: s2}", "elsewhere: {placement: single, shard: s1}",
		}})
		c := p.conn()
		for _, statement := range []string{
			"CREATE TABLE counters (name VARCHAR(20) PRIMARY KEY, n INT NOT NULL)",
			"CREATE TABLE invoices (id INT AUTO_INCREMENT PRIMARY KEY, number INT)",
			"CREATE TABLE elsewhere (id INT PRIMARY KEY)",
			"CREATE TABLE spread (id INT PRIMARY KEY, number INT)",
			"CREATE FUNCTION next_number(what VARCHAR(20)) RETURNS INT MODIFIES SQL DATA BEGIN UPDATE counters SET n = n + 1 WHERE name = what; RETURN (SELECT n FROM counters WHERE name = what); END",
			"CREATE FUNCTION twice(what VARCHAR(20)) RETURNS INT MODIFIES SQL DATA RETURN next_number(what) + next_number(what)",
			"CREATE FUNCTION last_number(what VARCHAR(20)) RETURNS INT READS SQL DATA RETURN (SELECT n FROM counters WHERE name = what)",
			"CREATE PROCEDURE invoice() BEGIN INSERT INTO invoices (number) VALUES (next_number('a')); SELECT MAX(number) AS n FROM invoices; END",
			"INSERT INTO counters VALUES ('a', 0), ('b', 100)",
		} {
			mustExec(t, c, statement)
		}
		want(t, c, "SELECT next_number('a') AS n", "n", "1")
		failsWith(t, c, "SELECT next_number(name) FROM counters", 1442, "") // as on one server
		want(t, c, "SELECT next_number('a') AS n, next_number('b') AS m FROM (SELECT 1) x", "n m", "2 101")
		want(t, c, "SELECT twice('a') AS n", "n", "7")
		mustExec(t, c, "DO next_number('b')")
		want(t, c, "SELECT last_number('b') AS n", "n", "102")
		mustExec(t, c, "INSERT INTO invoices (number) VALUES (next_number('a')), (0)")
		want(t, c, "SELECT LAST_INSERT_ID() AS id", "id", "1")
		mustExec(t, c, "UPDATE invoices SET number = next_number('a') WHERE id = 2")
		want(t, c, "SELECT id, number FROM invoices ORDER BY id", "id number", "1 5", "2 6")
		if n := affected(t, mustExec(t, c, "DELETE FROM invoices WHERE number = last_number('a')")); n != 1 {
			t.Errorf("%d rows are deleted, want 1", n)
		}
		want(t, c, "CALL invoice()", "n", "7")

		mustExec(t, c, "BEGIN")
		want(t, c, "SELECT next_number('a') AS n", "n", "8")
		want(t, c, "SELECT n FROM counters WHERE name = 'a'", "n", "8")
		mustExec(t, c, "ROLLBACK")
		want(t, c, "SELECT n FROM counters WHERE name = 'a'", "n", "7")

		prepared, err := c.PrepareContext(t.Context(), "SELECT next_number(?)")
		if err != nil {
			t.Fatal(err)
		}
		defer prepared.Close()
		for i := range 3 {
			var n int
			if err := prepared.QueryRowContext(t.Context(), "a").Scan(&n); err != nil || n != 8+i {
				t.Errorf("prepared: %d, %v, want %d", n, err, 8+i)
			}
		}

		mustExec(t, c, "CREATE TRIGGER numbers BEFORE INSERT ON invoices FOR EACH ROW SET NEW.number = next_number('a')")
		mustExec(t, c, "INSERT INTO invoices (id) VALUES (50)")
		want(t, c, "SELECT number FROM invoices WHERE id = 50", "number", "11")

		for _, statement := range []string{
			"INSERT INTO spread VALUES (1, next_number('a'))", "SELECT next_number('a') FROM elsewhere",
			"UPDATE spread SET number = next_number('a')", "INSERT INTO invoices (number) VALUES (next_number('a') + (SELECT COUNT(*) FROM spread))",
		} {
			failsWith(t, c, statement, 1235, "next_number() may change rows that Shunt does not see, since the statement may touch")
		}
		want(t, c, "SELECT n FROM counters WHERE name = 'a'", "n", "11")
	})
}
