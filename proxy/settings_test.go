package proxy

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

func testCatalog() *catalog.Catalog {
	return &catalog.Catalog{
		Version:          1,
		SQLMode:          "STRICT_TRANS_TABLES,NO_ZERO_DATE",
		DefaultCollation: map[string]string{"utf8mb4": "utf8mb4_0900_ai_ci", "latin1": "latin1_swedish_ci"},
		Collations:       map[int]catalog.Collation{45: {Name: "utf8mb4_general_ci", Charset: "utf8mb4"}, 8: {Name: "latin1_swedish_ci", Charset: "latin1"}},
	}
}

func TestNewSettings(t *testing.T) {
	t.Parallel()
	s := newSettings(testCatalog(), 45, "shop", ownVariables{})
	if s.fingerprint != "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, SESSION net_write_timeout = 3600, "+noSelectLimit {
		t.Errorf("fingerprint %q", s.fingerprint)
	}
	if !s.planning.Strict || s.planning.Schema != "shop" || s.planning.Charset != "utf8mb4" || !s.autocommit {
		t.Errorf("settings %+v", s)
	}
	// A collation that the shards don't have is answered as servers do: with
	// the default.
	if s := newSettings(testCatalog(), 4711, "", ownVariables{}); s.collation != "utf8mb4_0900_ai_ci" {
		t.Errorf("unknown collation id: %q", s.collation)
	}
}

// A later fingerprint of the same session begins with the earlier one, so that
// only what is new is sent.
func TestFingerprintGrows(t *testing.T) {
	t.Parallel()
	c := testCatalog()
	s := newSettings(c, 45, "", ownVariables{})
	s.with(variable{"@@sql_mode", "SET SESSION sql_mode = 'ANSI'", "ANSI"})
	s.update(c)
	before := s.fingerprint
	s.with(variable{"@@time_zone", "SET SESSION time_zone = '+00:00'", "+00:00"})
	s.update(c)
	if !strings.HasPrefix(s.fingerprint, before+separator) {
		t.Errorf("%q does not begin with %q", s.fingerprint, before)
	}
	if !s.planning.ANSIQuotes || !s.planning.PipesAsConcat || s.planning.Strict {
		t.Errorf("planning settings of ANSI: %+v", s.planning)
	}
	clone := s.clone()
	clone.with(variable{"@@time_zone", "SET SESSION time_zone = '+01:00'", "+01:00"})
	clone.update(c)
	if v, _ := s.value("@@time_zone"); v != "+00:00" {
		t.Errorf("a clone's change shows in the original: %s", v)
	}
}

// TestUserVariablesSentOnce: a connection is sent what has changed since it had the
// session's variables, and nothing of who has others.
func TestUserVariablesSentOnce(t *testing.T) {
	t.Parallel()
	c := testCatalog()
	of := func(pairs ...string) *settings {
		s := newSettings(c, 45, "", ownVariables{})
		for i := 0; i < len(pairs); i += 2 {
			if strings.HasPrefix(pairs[i], "@@") {
				s.with(variable{pairs[i], "SET SESSION " + pairs[i][2:] + " = " + pairs[i+1], pairs[i+1]})
			} else {
				s.withUser(pairs[i], pairs[i+1])
			}
		}
		s.update(c)
		return &s
	}
	long := strings.Repeat("x", 1<<20)
	for _, x := range []struct {
		had, has []string
		todo     string // "reset": from the beginning
	}{
		{[]string{"a", "1"}, []string{"a", "1", "b", "2"}, "SET @`b` = 2"},
		{[]string{"a", "1", "b", "2"}, []string{"a", "3", "b", "2"}, "SET @`a` = 3"},
		{[]string{"a", long, "b", "2"}, []string{"b", "5", "a", long}, "SET @`b` = 5"},
		{nil, []string{"a", "1"}, "SET @`a` = 1"},
		{[]string{"a", "1"}, []string{"a", "2", "@@time_zone", "'+00:00'"}, "SET SESSION time_zone = '+00:00';SET @`a` = 2"},
		{[]string{"a", "1", "@@time_zone", "'+00:00'"}, []string{"a", "2", "@@time_zone", "'+00:00'"}, "SET @`a` = 2"},
		{[]string{"a", "1"}, []string{"b", "1"}, "reset"},
		{[]string{"a", "1", "@@time_zone", "'+00:00'"}, []string{"a", "1"}, "reset"},
		{[]string{"a", "1"}, nil, "reset"},
		// A name like a system variable's.
		{[]string{"@sql_mode", "1", "@@sql_mode", "'ANSI'"}, []string{"@sql_mode", "2", "@@sql_mode", "'ANSI'"}, "SET @`@sql_mode` = 2"},
	} {
		had, has := of(x.had...), of(x.has...)
		todo, ok := has.lacking(had.fingerprint)
		got := strings.Join(todo, ";")
		if !ok {
			got = "reset"
		}
		if got != x.todo {
			t.Errorf("had %.40q, has %.40q: got %.80q, want %q", x.had, x.has, got, x.todo)
		}
		if len(has.fingerprint) > 1000 || has.sqlMode(c) != c.SQLMode && len(x.has) > 2 && x.has[3] != "'ANSI'" {
			t.Errorf("has %.40q: %d bytes of fingerprint, sql_mode %s", x.has, len(has.fingerprint), has.sqlMode(c))
		}
		if todo, ok = has.lacking(""); !ok || len(todo) != 1+len(x.has)/2 {
			t.Errorf("has %.40q: %d statements for a new connection", x.has, len(todo))
		}
	}
}

// Literals are read in one character set and stored from another: they are not
// what they look like, and no index is used for them.
func TestMixedCharsetsAreNotTrusted(t *testing.T) {
	t.Parallel()
	c := testCatalog()
	for _, v := range []variable{
		{"@@character_set_client", "", "latin1"},
		{"@@character_set_connection", "", "latin1"},
		{"@@collation_connection", "", "latin1_swedish_ci"},
	} {
		s := newSettings(c, 45, "", ownVariables{})
		s.with(v)
		s.update(c)
		if s.planning.Charset == "utf8mb4" {
			t.Errorf("%s = %s is planned as utf8mb4", v.name, v.value)
		}
	}
}

func TestUnsafeCharsets(t *testing.T) {
	t.Parallel()
	for name, safe := range map[string]bool{"utf8mb4": true, "latin1": true, "cp1251": true, "gbk": false, "SJIS": false, "utf16": false} {
		if err := checkCharset(name); (err == nil) != safe {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJoinInfo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []string
		want string
	}{
		{[]string{"Rows matched: 2  Changed: 1  Warnings: 0", "Rows matched: 3  Changed: 3  Warnings: 1"}, "Rows matched: 5  Changed: 4  Warnings: 1"},
		{[]string{"Records: 2  Duplicates: 0  Warnings: 0", ""}, "Records: 2  Duplicates: 0  Warnings: 0"},
		{[]string{"", ""}, ""},
		{nil, ""},
		{[]string{"a 1", "b 1 2"}, ""},
	} {
		if got := joinInfo(c.in); got != c.want {
			t.Errorf("joinInfo(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}
