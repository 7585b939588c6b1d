package spoken

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

func TestNamedSchemas(t *testing.T) {
	for _, x := range []struct {
		sql, schemas, qualifiers, system string
		hinted                           bool
	}{
		{"SELECT 1", "[]", "[]", "[]", false},
		{"SELECT o.id, a.orders.id FROM shop.orders o, b.x", "[a]", "[o a shop b]", "[]", false},
		{"SELECT `my``db`.f(1), 'x.y'", "[my`db]", "[my`db]", "[]", false},
		{"SELECT * FROM information_schema.TABLES t JOIN information_schema.`innodb_tables` USING (name)", "[]", "[]", "[tables innodb_tables]", false},
		{"INSERT INTO a.t (x) VALUES ((SELECT id FROM b.t LIMIT 1)), (c.f(2))", "[c]", "[a b c]", "[]", false},
		{"INSERT INTO a.t (x) SELECT c.f(2)", "[c]", "[a c]", "[]", false},
		{"SHOW TABLES FROM other", "[other]", "[]", "[]", false},
		{"SHOW FULL COLUMNS FROM orders IN other LIKE 'x'", "[other]", "[]", "[]", false},
		{"SHOW COLUMNS FROM orders", "[]", "[]", "[]", false},
		{"SHOW INDEX FROM other.orders", "[]", "[other]", "[]", false},
		{"SHOW CREATE DATABASE IF NOT EXISTS other", "[other]", "[]", "[]", false},
		{"SHOW TRIGGERS IN other WHERE x IN (a)", "[other]", "[]", "[]", false},
		{"/* shunt: shard=s0 */ CALL a.p()", "[a]", "[a]", "[]", true},
	} {
		n, err := Read(x.sql, text.Settings{Charset: "utf8mb4"}, &catalog.Catalog{Shards: []catalog.Shard{{Name: "s0"}}}).Named()
		if err != nil {
			t.Errorf("%s: %v", x.sql, err)
		}
		if fmt.Sprint(n.Schemas) != x.schemas || fmt.Sprint(n.Qualifiers) != x.qualifiers || fmt.Sprint(n.System) != x.system || n.Hinted != x.hinted {
			t.Errorf("%s\n got %+v\nwant %s %s %s %v", x.sql, n, x.schemas, x.qualifiers, x.system, x.hinted)
		}
	}
}

func TestBears(t *testing.T) {
	for _, x := range []struct {
		sql  string
		want bool
	}{
		{"SELECT shop.a FROM shop", true},
		{"SELECT Shop.a FROM orders AS `shop`", true},
		{"SELECT shop.a FROM x.shop", true},
		{"SELECT NEXTVAL(shop.s)", false},
		{"SELECT 'shop', @shop, shop.a.b", false},
	} {
		n, err := Read(x.sql, text.Settings{Charset: "utf8mb4"}, &catalog.Catalog{}).Named()
		if got := n.Bears("shop"); err != nil || got != x.want {
			t.Errorf("%s: %v, %v", x.sql, got, err)
		}
	}
}
