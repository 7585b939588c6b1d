package e2e

import (
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestPreparedText: PREPARE, EXECUTE and DEALLOCATE PREPARE, as migrations have them that change a
// table only where that is to be done, answer as one server does.
func TestPreparedText(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query(
			"INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'O''Br\\\\ien', 5), (6, NULL, 6)",
			"PREPARE s FROM 'SELECT email FROM people WHERE id = ?'",
			"SET @id = 3, @mail = 'b', @u = CAST(4 AS UNSIGNED), @none = NULL, @neg = -1, @d = 2.5, @f = 2e0, @hard = 'O\\'Br\\\\ien', @bin = x'62', @l = _latin1 x'E9'",
			"EXECUTE s USING @id", "EXECUTE S USING @u", "execute `s` using @none", "EXECUTE s USING @f", "EXECUTE s USING @unset",
			"EXECUTE s", "EXECUTE s USING @id, @u", "EXECUTE none", "EXECUTE none USING @id", "DEALLOCATE PREPARE none", "DROP PREPARE none",
			"PREPARE two FROM \"SELECT id FROM people WHERE email = ? OR age > ? - ? ORDER BY id DESC LIMIT ?\"",
			"SET @n = 2", "EXECUTE two USING @mail, @id, @neg, @n", "EXECUTE two USING @hard, @id, @neg, @n", "EXECUTE two USING @bin, @d, @neg, @n",
			"PREPARE types FROM 'SELECT ? AS a, ? + 1 AS b, ? AS c, ? AS d, HEX(?) AS e, CHARSET(?) AS f, COLLATION(?) AS g, ? <=> NULL AS h'",
			"EXECUTE types USING @mail, @id, @id, @hard, @l, @l, @mail, @none",
			// As writes.
			"PREPARE w FROM 'UPDATE people SET age = ? WHERE email = ?'", "SET @age = 40", "EXECUTE w USING @age, @mail", "SELECT ROW_COUNT()", "EXECUTE w USING @age, @mail", "SELECT id, age FROM people WHERE age = 40",
			"PREPARE i FROM 'INSERT INTO people (id, email) VALUES (?, ?)'", "SET @new = 77", "EXECUTE i USING @new, @hard", "EXECUTE i USING @new, @hard", "SELECT email FROM people WHERE id = 77",
			"BEGIN", "SET @new = 78", "EXECUTE i USING @new, @mail", "ROLLBACK", "SELECT COUNT(*) FROM people WHERE id = 78",
			// One that is made anew is gone, though the new one is none.
			"PREPARE s FROM 'SELEC 1'", "EXECUTE s USING @id",
			"PREPARE s FROM NULL", "PREPARE s FROM @unset", "PREPARE s FROM ''", "PREPARE s FROM 'SELECT 1; SELECT 2'", "PREPARE s FROM 'SELECT 1;'", "EXECUTE s",
			"PREPARE s FROM 'SELECT * FROM nowhere'", "PREPARE s FROM 'EXECUTE two'", "PREPARE s FROM 'PREPARE x FROM ''SELECT 1'''",
			"PREPARE s", "PREPARE FROM 'SELECT 1'", "EXECUTE", "EXECUTE s USING", "PREPARE s FROM @@sql_mode",
			// What a server knows without values PREPARE tells.
			"PREPARE s FROM 'SELECT nonsense FROM people WHERE id = ?'", "EXECUTE s USING @id", "PREPARE s FROM 'INSERT INTO people (id, email) VALUES (?, 1, 2)'", "PREPARE s FROM 'SELECT nofunc(?)'",
			"PREPARE s FROM 'SELECT id FROM people UNION SELECT id, email FROM people'", "PREPARE s FROM 'SELECT SQL_CALC_FOUND_ROWS id FROM people WHERE id = ?'", "SHOW WARNINGS", "PREPARE s FROM 'SELECT 1'", "SHOW WARNINGS",
			"PREPARE w FROM 'SHOW WARNINGS'", "PREPARE w FROM 'SHOW ERRORS LIMIT 1'", "PREPARE w FROM 'SHOW COUNT(*) WARNINGS'", "EXECUTE w",
			// The schema is that of PREPARE.
			"PREPARE here FROM 'SELECT COUNT(*) FROM people'", "USE mysql", "EXECUTE here", "SELECT DATABASE() = 'mysql'", "USE SCHEMA", "DEALLOCATE PREPARE here", "EXECUTE here",
			// A migration.
			"SET @missing = (SELECT COUNT(*) = 0 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'people' AND column_name = 'nick')",
			"SET @ddl = IF(@missing, 'ALTER TABLE people ADD COLUMN nick VARCHAR(20)', 'SELECT 1')", "PREPARE m FROM @ddl", "EXECUTE m", "DEALLOCATE PREPARE m",
			"SET @missing = (SELECT COUNT(*) = 0 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'people' AND column_name = 'nick')",
			"SET @ddl = IF(@missing, 'ALTER TABLE people ADD COLUMN nick VARCHAR(20)', 'SELECT 1')", "PREPARE m FROM @ddl", "EXECUTE m", "DEALLOCATE PREPARE m",
			"UPDATE people SET nick = 'x' WHERE id = 3", "SELECT nick FROM people WHERE id = 3",
		)
		if f.name == "mariadb" {
			p.query("EXECUTE IMMEDIATE 'SELECT email FROM people WHERE id = ?' USING 3", "EXECUTE IMMEDIATE @ddl", "EXECUTE IMMEDIATE 'SELECT ? AS a, ? AS b' USING 'it''s', NULL",
				"PREPARE s FROM 'SELECT email FROM people WHERE id = ?'", "EXECUTE s USING 4", "EXECUTE s USING -4")
		}
	})
}
