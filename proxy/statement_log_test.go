package proxy

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
)

func loggedLines(t *testing.T, path string) (lines []loggedStatement) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var l loggedStatement
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestStatementLog: what takes long is logged, without its literals unless these are wanted, and the file
// is opened anew when it is rotated.
func TestStatementLog(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	s.answer("SELECT email", fakeAnswer{columns: []string{"email"}, rows: [][]any{{"a"}}})
	s.answer("DELETE", fakeAnswer{err: mysqlerr.New(mysqlerr.LockWaitTimeout, "too late")})
	path := filepath.Join(t.TempDir(), "statements.log")
	set := func(l StatementLog) {
		t.Helper()
		if err := s.p.SetStatementLog(&l); err != nil {
			t.Fatal(err)
		}
	}
	db := s.open("root", "")
	st, err := db.PrepareContext(t.Context(), "SELECT email FROM people WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	run := func() {
		t.Helper()
		answers(t, db, "SELECT email FROM people WHERE id = 505", "a")
		rows, err := st.QueryContext(t.Context(), 606)
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	set(StatementLog{File: path, Slow: 0, Share: 1})
	run()
	fails(t, db, "DELETE FROM people WHERE id = 7", mysqlerr.LockWaitTimeout, "too late")
	lines := loggedLines(t, path)
	if len(lines) != 3 {
		t.Fatal(lines)
	}
	for i, l := range lines[:2] {
		if l.Statement != "SELECT email FROM people WHERE id = ?" || l.Digest != lines[0].Digest || l.Rows != 1 || l.Error != 0 || l.User != "root" || l.Schema != "shop" || l.Connection == 0 ||
			len(l.Shards) != 1 || l.Shards[0].Thread == 0 || l.Shards[0].TookMS <= 0 || l.Shards[0].TookMS > l.TookMS || l.Access != "shard_key" || l.Time.IsZero() {
			t.Errorf("%d: %+v", i, l)
		}
	}
	if l := lines[2]; l.Error != mysqlerr.LockWaitTimeout || l.Digest == lines[0].Digest {
		t.Errorf("%+v", l)
	}

	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	set(StatementLog{File: path, Slow: 0, Share: 1, Literals: true})
	run()
	lines = loggedLines(t, path)
	if len(lines) != 2 || !strings.HasSuffix(lines[0].Statement, "505") || !strings.Contains(lines[1].Statement, "606") {
		t.Errorf("%+v", lines)
	}

	set(StatementLog{File: path, Slow: time.Hour, Share: 1})
	run()
	set(StatementLog{File: path, Slow: 0, Share: 0})
	run()
	if n := len(loggedLines(t, path)); n != 2 {
		t.Errorf("%d lines", n)
	}
	if err := s.p.SetStatementLog(&StatementLog{File: filepath.Join(path, "no directory")}); err == nil {
		t.Error("opened a file where none can be")
	}
	if err := s.p.SetStatementLog(nil); err != nil {
		t.Fatal(err)
	}
	run()
	if n := len(loggedLines(t, path)); n != 2 {
		t.Errorf("%d lines", n)
	}
}

// TestStatementLogFails: a line that can't be written is told once, and no statement fails by it.
func TestStatementLogFails(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	s := serve(t, 1, fakeOptions{})
	s.answer("SELECT email", fakeAnswer{columns: []string{"email"}, rows: [][]any{{"a"}}})
	if err := s.p.SetStatementLog(&StatementLog{File: "/dev/full", Share: 1}); err != nil {
		t.Fatal(err)
	}
	db := s.open("root", "")
	for range 3 {
		answers(t, db, "SELECT email FROM people WHERE id = 505", "a")
	}
	if n := strings.Count(s.log.String(), "statements are not logged"); n != 1 {
		t.Errorf("told %d times", n)
	}
}
