package e2e

import (
	"database/sql"
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
		p, c := startTriggers(t, f)
		mustExec(t, c, "INSERT INTO orders VALUES (1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 1, 0)")
		const counts = "CREATE TRIGGER counts AFTER INSERT ON users FOR EACH ROW UPDATE orders o JOIN countries k ON k.code = NEW.country SET k.n = k.n + 1 WHERE o.user_id = NEW.id"
		failsWith(t, c, counts, 1235, "a trigger of users that does UPDATE on countries")
		failsWith(t, c, "CREATE TRIGGER drops AFTER INSERT ON users FOR EACH ROW DELETE k FROM orders o JOIN countries k ON k.code = NEW.country WHERE o.user_id = NEW.id", 1235, "DELETE on countries")
		p.onEach(c, counts)
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
