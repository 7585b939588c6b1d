package e2e

import (
	"database/sql"
	"reflect"
	"testing"
)

// startTriggers has users, orders and items by the user's id, countries and regions on every
// shard, and settings on one.
func startTriggers(t *testing.T, f *flavour) (*process, *sql.Conn) {
	t.Helper()
	p := start(t, f, setup{tables: []string{
		"users: {shard_key: id}", "orders: {shard_key: user_id}", "items: {shard_key: user_id}",
		"countries: {placement: reference}", "regions: {placement: reference}", "settings: {placement: single, shard: s2}",
	}})
	c := p.conn()
	for _, statement := range []string{
		"CREATE TABLE users (id BIGINT PRIMARY KEY, country CHAR(2), n INT)",
		"CREATE TABLE orders (user_id BIGINT, id BIGINT, total INT, PRIMARY KEY (user_id, id))",
		"CREATE TABLE items (user_id BIGINT, order_id BIGINT, price INT, PRIMARY KEY (user_id, order_id))",
		"CREATE TABLE countries (code CHAR(2) PRIMARY KEY, n INT DEFAULT 0, token VARCHAR(36), at DATETIME(6))",
		"CREATE TABLE regions (code CHAR(2) PRIMARY KEY, at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6))",
		"CREATE TABLE settings (k VARCHAR(20) PRIMARY KEY, v INT)",
		"INSERT INTO countries (code, n) VALUES ('DE', 10), ('FR', 20)",
	} {
		mustExec(t, c, statement)
	}
	return p, c
}

// onEach runs a statement on each shard, past Shunt, which then reads all of the schema again.
func (p *process) onEach(c *sql.Conn, statement string) {
	p.t.Helper()
	for i := range p.servers {
		mustExec(p.t, p.shard(i), statement)
	}
	mustExec(p.t, c, "ALTER DATABASE "+p.schema+" CHARACTER SET utf8mb4")
}

// TestTriggersOverSeveralTables: UPDATE and DELETE of several tables change those that they name
// so, not the first one: a copy of a reference table that changes alone is another one from then on.
func TestTriggersOverSeveralTables(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startTriggers(t, f)
		mustExec(t, c, "INSERT INTO orders VALUES (1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 1, 0)")
		const counts = "CREATE TRIGGER counts AFTER INSERT ON users FOR EACH ROW UPDATE orders o JOIN countries k ON k.code = NEW.country SET k.n = k.n + 1 WHERE o.user_id = NEW.id"
		mustExec(t, c, "CREATE TRIGGER drops AFTER INSERT ON users FOR EACH ROW DELETE k FROM orders o JOIN countries k ON k.code = NEW.country WHERE o.user_id = NEW.id")
		failsWith(t, c, "INSERT INTO users (id, country) VALUES (1, 'DE')", 1235, "DELETE on countries")
		mustExec(t, c, "DROP TRIGGER drops")
		mustExec(t, c, counts)
		failsWith(t, c, "INSERT INTO users (id, country) VALUES (1, 'DE')", 1235, "a trigger of users that does UPDATE on countries")
		mustExec(t, c, "DROP TRIGGER counts")

		mustExec(t, c, "CREATE TRIGGER priced AFTER INSERT ON users FOR EACH ROW UPDATE orders o JOIN countries k ON k.code = NEW.country SET o.total = o.total + k.n WHERE o.user_id = NEW.id")
		mustExec(t, c, "CREATE TRIGGER left_it AFTER DELETE ON users FOR EACH ROW DELETE o FROM orders o JOIN countries k ON k.code = OLD.country WHERE o.user_id = OLD.id")
		mustExec(t, c, "INSERT INTO users (id, country) VALUES (1, 'DE'), (2, 'FR'), (3, 'XX')")
		want(t, c, "SELECT user_id, total FROM orders", "user_id total", "1 10", "2 20", "3 0", "4 0")
		mustExec(t, c, "DELETE FROM users")
		want(t, c, "SELECT user_id, total FROM orders", "user_id total", "3 0", "4 0")
		want(t, c, "SELECT COUNT(*) AS n FROM countries", "n", "2")
	})
}

// TestTriggersThatRead: a trigger would see the rows of the shard that it runs on, so it reads only
// what is there as a whole, or beside its row.
func TestTriggersThatRead(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startTriggers(t, f)
		mustExec(t, c, "CREATE FUNCTION total() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM users)")
		mustExec(t, c, "INSERT INTO settings VALUES ('a', 1)")
		for body, text := range map[string]string{
			"SET NEW.n = (SELECT COUNT(*) FROM users) + 1":                                                                "a trigger of users that reads users",
			"BEGIN IF EXISTS (SELECT 1 FROM users WHERE country = NEW.country) THEN SIGNAL SQLSTATE '45000'; END IF; END": "that reads users",
			"SET NEW.n = total()":                                         "a trigger that calls total()",
			"SET NEW.n = (SELECT v FROM settings)":                        "that reads settings",
			"SET NEW.n = (SELECT SUM(total) FROM orders)":                 "orders.user_id = NEW.id",
			"DELETE FROM orders WHERE id IN (SELECT order_id FROM items)": "that reads items",
		} {
			mustExec(t, c, "CREATE TRIGGER looking BEFORE INSERT ON users FOR EACH ROW "+body)
			failsWith(t, c, "INSERT INTO users (id) VALUES (1)", 1235, text)
			mustExec(t, c, "DROP TRIGGER looking")
		}
		p.onEach(c, "CREATE FUNCTION writes() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE items SET price = 0; RETURN 1; END")
		p.onEach(c, "CREATE TRIGGER calls BEFORE INSERT ON users FOR EACH ROW SET NEW.n = `writes`()")
		failsWith(t, c, "INSERT INTO users (id) VALUES (1)", 1235, "a trigger that calls the function writes")
		mustExec(t, c, "DROP TRIGGER calls")
		// What it reads is placed when it is there already.
		mustExec(t, c, "CREATE TRIGGER early BEFORE INSERT ON users FOR EACH ROW SET NEW.n = (SELECT COUNT(*) FROM later)")
		mustExec(t, c, "CREATE TABLE later (id BIGINT PRIMARY KEY)")
		failsWith(t, c, "INSERT INTO users (id) VALUES (1)", 1235, "a trigger of users that reads later")
		mustExec(t, c, "DROP TRIGGER early")

		mustExec(t, c, "CREATE VIEW codes AS SELECT code, n FROM countries")
		mustExec(t, c, "CREATE TRIGGER known BEFORE INSERT ON users FOR EACH ROW BEGIN IF NOT EXISTS (SELECT 1 FROM codes WHERE code = NEW.country) THEN SIGNAL SQLSTATE '45000'; END IF; SET NEW.n = (SELECT n FROM countries WHERE code = NEW.country); END")
		mustExec(t, c, "CREATE TRIGGER summed AFTER INSERT ON orders FOR EACH ROW UPDATE users SET n = (SELECT SUM(total) FROM orders WHERE user_id = NEW.user_id) WHERE id = NEW.user_id")
		mustExec(t, c, "CREATE TRIGGER priced AFTER INSERT ON items FOR EACH ROW UPDATE orders o JOIN items i ON i.user_id = o.user_id SET o.total = i.price WHERE i.order_id = NEW.order_id AND o.id = NEW.order_id AND i.user_id = NEW.user_id")
		mustExec(t, c, "INSERT INTO users (id, country) VALUES (1, 'DE'), (2, 'FR'), (3, 'DE'), (4, 'FR')")
		failsWith(t, c, "INSERT INTO users (id, country) VALUES (5, 'XX')", 1644, "")
		want(t, c, "SELECT id, n FROM users", "id n", "1 10", "2 20", "3 10", "4 20")
		mustExec(t, c, "INSERT INTO orders VALUES (1, 1, 5), (1, 2, 6), (2, 1, 7), (3, 1, 8), (4, 1, 9)")
		want(t, c, "SELECT id, n FROM users", "id n", "1 11", "2 7", "3 8", "4 9")
	})
}

// TestTriggersOfCopies: what a trigger or a stored function computes is the same in each copy of a
// reference table, or refused.
func TestTriggersOfCopies(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startTriggers(t, f)
		alike := func(query string) {
			t.Helper()
			first := mustRows(t, p.shard(0), query)
			for i := range p.servers {
				if got := mustRows(t, p.shard(i), query); len(got) == 0 || !reflect.DeepEqual(got, first) {
					t.Errorf("%s: %v on s0, %v on s%d", query, first, got, i)
				}
			}
		}
		const tokens = "CREATE TRIGGER tokens BEFORE INSERT ON countries FOR EACH ROW SET NEW.token = UUID()"
		mustExec(t, c, tokens)
		failsWith(t, c, "INSERT INTO countries (code) VALUES ('US')", 1235, "uses UUID()")
		mustExec(t, c, "DROP TRIGGER tokens")

		mustExec(t, c, "CREATE FUNCTION fresh() RETURNS CHAR(36) NO SQL RETURN UUID()")
		mustExec(t, c, "CREATE FUNCTION stamp() RETURNS DATETIME(6) NO SQL RETURN NOW(6)")
		for _, sql := range []string{
			"INSERT INTO countries (code, token) VALUES ('US', fresh())", "UPDATE countries SET token = fresh()", "DELETE FROM countries WHERE token = fresh()",
		} {
			failsWith(t, c, sql, 1235, "the stored function fresh()")
		}
		mustExec(t, c, "CREATE TRIGGER tokens BEFORE INSERT ON countries FOR EACH ROW SET NEW.token = fresh()")
		failsWith(t, c, "INSERT INTO countries (code) VALUES ('US')", 1235, "the stored function fresh()")
		mustExec(t, c, "DROP TRIGGER tokens")
		mustExec(t, c, "UPDATE countries SET at = stamp()")
		alike("SELECT * FROM countries")
		mustExec(t, c, "INSERT INTO countries (code, at) VALUES ('US', stamp())")
		alike("SELECT * FROM countries")

		mustExec(t, c, "CREATE TRIGGER timed BEFORE INSERT ON countries FOR EACH ROW SET NEW.at = NOW(6)")
		mustExec(t, c, "CREATE TRIGGER logged AFTER UPDATE ON countries FOR EACH ROW INSERT INTO regions (code) VALUES (NEW.code)")
		mustExec(t, c, "INSERT INTO countries (code) VALUES ('IT'), ('ES')")
		mustExec(t, c, "UPDATE countries SET n = 5")
		alike("SELECT * FROM countries")
		alike("SELECT * FROM regions")
	})
}
