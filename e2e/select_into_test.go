package e2e

import (
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestSelectInto: SELECT ... INTO @a gives user variables what one server gives them.
func TestSelectInto(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		for name, capabilities := range map[string]uint32{"EOF": 0, "no EOF": mysql.CLIENT_DEPRECATE_EOF} {
			t.Run(name, func(t *testing.T) {
				p := dial(t, capabilities)
				show := "SELECT @a, @b, HEX(@a), CHARSET(@a), COLLATION(@a), @a + 1, @b <=> NULL"
				p.query(
					"DELETE FROM people", "INSERT INTO people (id, email, city, age) VALUES (1, 'a', 'Oslo', 1), (2, 'b', 'Rome', 2), (3, 'c', '', NULL), (4, 'é', 'x', 4), (5, NULL, 'Paris', -5)",
					"SET @a = 'before', @b = 7",
					"SELECT id, age INTO @a, @b FROM people WHERE id = 3", show,
					"SELECT email, city INTO @a, @b FROM people WHERE id = 4", show,
					"SELECT email INTO @`a` FROM people WHERE email = 'b'", show,
					"SELECT COUNT(*), SUM(age) INTO @a, @b FROM people", show,
					"SELECT MAX(email) INTO @b FROM people", "SELECT @b",
					"SELECT AVG(age) + 0e0 INTO @a FROM people", show,
					"SELECT 1.50, x'6100' INTO @b, @a", show,
					"SELECT CAST(-1 AS SIGNED), CAST(18446744073709551615 AS UNSIGNED) INTO @b, @a", show,
					"SELECT email INTO @a FROM people WHERE id = 99", "SHOW WARNINGS", show,
					"SELECT email INTO @a FROM people WHERE id IN (1, 2, 3)", // too many rows
					"SELECT email, id INTO @a FROM people WHERE id = 1", "SELECT email INTO @a, @b FROM people WHERE id = 1",
					"SELECT nothing INTO @a FROM people",
					"BEGIN", "SELECT id INTO @a FROM people WHERE id = 2 FOR UPDATE", "UPDATE people SET age = @a + 40 WHERE id = @a", "COMMIT", "SELECT age FROM people WHERE id = 2",
					"SELECT email FROM people WHERE email = (SELECT @c) OR id = @a", "SELECT id INTO @id FROM people WHERE city = 'Paris'", "SELECT email, age FROM people WHERE id = @id",
					"SELECT COUNT(*) INTO @n FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'people' AND column_name = 'email'", "SELECT @n",
					"WITH q AS (SELECT MAX(id) AS m FROM people) SELECT m INTO @a FROM q", show,
					"SELECT email INTO @a FROM people WHERE id = 1", "SELECT id FROM people WHERE email = @a",
				)
				if f.name == "mysql" { // MariaDB warns of an INTO at the end
					p.query("SELECT email, city FROM people WHERE id = 4 INTO @a, @b", show, "(SELECT id FROM people WHERE id = 1) UNION (SELECT 1) INTO @a", show,
						"SELECT id FROM people WHERE id = 3 FOR UPDATE INTO @a", show)
				}
			})
		}
	})
}

// TestSelectIntoCharset: texts come in the character set of the variables, whatever the
// client gets its own in, or without definitions of columns.
func TestSelectIntoCharset(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		optional := uint32(0)
		if f.name == throwaway.MySQL {
			optional = mysql.CLIENT_OPTIONAL_RESULTSET_METADATA
		}
		p := packetSides(t, f)(t, optional)
		p.query("INSERT INTO people (id, email) VALUES (1, 'é')")
		for _, charset := range []string{"latin1", "utf8mb4"} {
			for _, results := range []string{"latin1", "utf8mb4", "NULL", "binary"} {
				p.query("SET NAMES "+charset, "SET character_set_results = "+results, "SELECT email INTO @l FROM people WHERE id = 1",
					"SET NAMES utf8mb4", "SELECT HEX(CONVERT(@l USING utf8mb4)), @l")
			}
		}
		if f.name == throwaway.MySQL {
			p.query("SET resultset_metadata = NONE", "SELECT id, email INTO @i, @l FROM people WHERE id = 1", "SELECT @i, @l", "SET resultset_metadata = FULL")
		}
		p.shunt.query("CREATE TABLE measured (id INT PRIMARY KEY, f FLOAT)")
		p.shunt.query("INSERT INTO measured VALUES (1, 0.1)")
		if got := p.shunt.query("SELECT f INTO @f FROM measured WHERE id = 1"); !strings.HasPrefix(got, "ERR 1235") {
			t.Errorf("a FLOAT: %s", got)
		}
		if got, want := p.shunt.query("SELECT f + 0e0 INTO @f FROM measured WHERE id = 1"), "OK 00 1 0 0002 0\n"; got != want {
			t.Errorf("a DOUBLE: %s", got)
		}
	})
}
