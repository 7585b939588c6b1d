package planner

import (
	"reflect"
	"testing"

	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestReadOnce: whatever is asked of a text, it is lexed once, and nobody changes what was read.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(255));\n-- @virtual idx_email email")
	cat.MariaDB, cat.ServerVersion = true, "11.4.2-MariaDB"
	s := text.Settings{Schema: "shop", Charset: "utf8mb4"}
	tokens := func(t *spoken.Text) *text.Token { // which are others each time that it is read
		st, err := t.Statement()
		if err != nil {
			return nil
		}
		return &st.Tokens[0]
	}
	for _, sql := range []string{
		"SELECT USER(), id FROM users WHERE email = 'a' AND id > 5 LIMIT 3",
		"SET STATEMENT max_statement_time = 1 FOR SELECT 1",
		"INSERT INTO users VALUES (1, 'a'), (2, LOWER('B')) RETURNING id",
		"DELETE FROM users WHERE id = 7 RETURNING email",
		"UPDATE users SET email = ? WHERE id = ?",
		"PREPARE p FROM 'SELECT 1'",
		"SELECT id INTO @a FROM users WHERE id = 1",
		"ALTER TABLE users ADD COLUMN a INT",
		"SELECT 'it is not closed",
	} {
		asked := spoken.Read(sql, s, cat)
		before, failed := text.Read(sql, s, cat)
		if _, err := asked.Named(); (err != nil) != (failed != nil) {
			t.Errorf("%s: %v", sql, err)
		}
		read := tokens(asked)
		for range 2 {
			_, _, _ = asked.SetStatement()
			_, _ = asked.Prepared()
			_, _ = asked.Into()
			_, _ = asked.ForSession(func(string) string { return "'x'" })
			_ = asked.OwnParameters()
			_, _ = asked.Parameters()
			_, _ = asked.WithValues(nil)
			plan, _ := New().PlanText(asked.Under(s, cat))
			_ = asked.Marks(plan)
		}
		if now, _ := asked.Statement(); tokens(asked) != read || !reflect.DeepEqual(now, before) {
			t.Errorf("%s is read again, or otherwise", sql)
		}
	}
	// Settings by which it reads otherwise, and servers of another version.
	asked := spoken.Read(`SELECT "a" /*!110400 , 1 */`, s, cat)
	_, _ = asked.Named()
	ansi, older := s, *cat
	ansi.ANSIQuotes, older.ServerVersion = true, "10.6.0-MariaDB"
	if tokens(asked.Under(ansi, cat)) == tokens(asked) || tokens(asked.Under(s, &older)) == tokens(asked) {
		t.Error("it is not read again")
	}
}
