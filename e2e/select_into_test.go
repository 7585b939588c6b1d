package e2e

import (
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestSelectInto: SELECT ... INTO @a gives user variables what one server gives them.
func TestSelectInto(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
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
