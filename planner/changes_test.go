package planner

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestChanges: what reads by a covering index need not wait for.
func TestChanges(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, `
CREATE TABLE people (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(100), name VARCHAR(50), age INT, UNIQUE (email));
-- @virtual idx_email email include name
CREATE TABLE stamped (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(100), age INT, seen DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP);
-- @virtual idx_seen email include seen
CREATE TABLE watched (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(100), age INT);
-- @virtual idx_watched email include id
-- @trigger UPDATE watched
-- @trigger INSERT watched
`)
	for sql, want := range map[string]string{
		"UPDATE people SET age = 5 WHERE id = 7":                                                  "nothing",
		"UPDATE people SET age = 5, name = 'x' WHERE id = 7":                                      "any",
		"UPDATE people SET email = 'x' WHERE id = 7":                                              "any",
		"UPDATE stamped SET age = 5 WHERE id = 7":                                                 "any",
		"UPDATE watched SET age = 5 WHERE id = 7":                                                 "any",
		"UPDATE people p JOIN people q ON p.id = q.id SET p.age = 5, q.name = 'x' WHERE p.id = 7": "any",
		"DELETE FROM people WHERE id = 7":                                                         "any",
		"INSERT INTO people VALUES (7, 'x', 'y', 1)":                                              "keys",
		"INSERT INTO people VALUES (7, NULL, 'y', 1)":                                             "nothing",
		"INSERT IGNORE INTO people VALUES (7, 'x', 'y', 1), (8, 'z', 'y', 1)":                     "keys",
		"INSERT INTO people (id, email) VALUES (7, CONCAT('x', RAND()))":                          "any",
		"INSERT INTO people VALUES (7, 'x', 'y', 1) ON DUPLICATE KEY UPDATE name = 'z'":           "any",
		"REPLACE INTO people VALUES (7, 'x', 'y', 1)":                                             "any",
		"INSERT INTO watched VALUES (7, 'x', 1)":                                                  "any",
	} {
		p := New()
		planned, err := p.Plan(sql, text.Settings{Schema: "shop", Charset: "utf8mb4"}, cat)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		rows := planned.(*plan.Rows)
		b, err := p.Bind(rows, []keys.Value{}, nil)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		c := Changes(rows, b)
		ix := c.Tables[0].Indexes[0]
		touches, of := c.Touches(ix)
		got := "nothing"
		switch {
		case touches && of == nil:
			got = "any"
		case touches:
			got = "keys"
		}
		if got != want {
			t.Errorf("%s touches %s, wanted %s", sql, got, want)
		}
		other := &catalog.Index{Table: &catalog.Table{}, Include: ix.Include}
		if touches, of := c.Touches(other); !touches || of != nil {
			t.Errorf("%s leaves rows of another table", sql)
		}
	}
}
