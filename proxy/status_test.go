package proxy

import (
	"testing"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestBackslashFlag: clients escape what they put into statements by a flag of
// the last answer, which is the session's, not that of a shard's connection.
func TestBackslashFlag(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	s.ids("SELECT", 4)
	c, err := client.ConnectWithDialer(t.Context(), "", "127.0.0.1:1", "root", "", "shop", s.dial)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, step := range []struct {
		sql  string
		flag bool
	}{
		{"SET sql_mode = 'NO_BACKSLASH_ESCAPES'", true},
		{"SELECT id, city FROM people WHERE id = 3", true},
		{"SELECT id, city FROM people", true},
		{"SELECT id, city FROM people ORDER BY id", true},
		{"UPDATE people SET city = 3 WHERE id = 3", true},
		{"BEGIN", true},
		{"SET sql_mode = ''", false},
		{"SELECT id, city FROM people WHERE id = 3", false},
		{"COMMIT", false},
	} {
		r, err := c.Execute(step.sql)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Status&mysql.SERVER_STATUS_NO_BACKSLASH_ESCAPED != 0; got != step.flag {
			t.Errorf("%s: flag %v, want %v", step.sql, got, step.flag)
		}
	}
}
