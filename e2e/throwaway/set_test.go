package throwaway

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
)

func TestStartKillRestart(t *testing.T) {
	t.Parallel()
	for _, f := range []Flavour{MySQL, MariaDB} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			src, err := Find(t.Context(), f)
			if errors.Is(err, ErrNotFound) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			t.Log(src)
			set, err := Start(t.Context(), src, Options{Servers: 2, Password: "se cret"})
			if err != nil {
				t.Fatal(err)
			}
			defer set.Stop()
			// Its temporary table is a file in its own directory: a MariaDB that
			// starts removes those that it finds in the directory it is given.
			db := connect(t, set.Servers[0])
			db.SetMaxOpenConns(1)
			if _, err := db.ExecContext(t.Context(), "CREATE TEMPORARY TABLE mysql.kept (a INT) ENGINE=MyISAM"); err != nil {
				t.Fatal(err)
			}
			more, err := set.Add(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "DROP TEMPORARY TABLE mysql.kept"); err != nil {
				t.Errorf("a server that started took another one's temporary table: %v", err)
			}
			for i, srv := range append(set.Servers[:2:2], more) {
				if err := ask(t.Context(), srv, fmt.Sprintf("CREATE DATABASE d%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			more.Kill()
			if err := ask(t.Context(), more, "SELECT 1"); err == nil {
				t.Error("a killed server answers")
			}
			if err := more.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := ask(t.Context(), more, "DROP DATABASE d2"); err != nil {
				t.Error(err)
			}
			more.Shutdown()
			if err := more.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			more.Pause()
			set.Stop() // kills what is paused, too
			if src.Image != "" {
				if left, err := docker(t.Context(), "ps", "--all", "--quiet", "--filter", "label="+set.label()).CombinedOutput(); err != nil || len(left) > 0 {
					t.Errorf("containers are left: %s %v", left, err)
				}
			}
			if _, err := os.Stat(set.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there: %v", set.Dir(), err)
			}
		})
	}
}

func connect(t *testing.T, srv *Server) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", srv.User, srv.Password, srv.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func ask(ctx context.Context, srv *Server, query string) error {
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", srv.User, srv.Password, srv.Addr()))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, query)
	return err
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]Source{
		"/usr/sbin/mysqld  Ver 9.7.4 for Linux on x86_64 (MySQL Community Server - GPL)":      {Flavour: MySQL, Version: "9.7.4", Program: "p"},
		"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)": {Flavour: MariaDB, Version: "10.11.19", Program: "p"},
	} {
		if got, err := parseVersion("p", out); err != nil || got != want {
			t.Errorf("%q: %+v, %v", out, got, err)
		}
	}
	if _, err := parseVersion("p", "nonsense"); err == nil {
		t.Error("nonsense has a version")
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	if got := excerpt("\none\ntwo\n"); got != "one\ntwo" {
		t.Errorf("short output: %q", got)
	}
	lines := []string{"begin"}
	for range 500 {
		lines = append(lines, strings.Repeat("x", 50))
	}
	lines[250] = "ERROR: 1051  Unknown table"
	lines = append(lines, "end")
	got := excerpt(strings.Join(lines, "\n"))
	for _, want := range []string{"begin\n", "[240 lines left out]\nERROR: 1051  Unknown table\n[", "\nend"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if len(got) > 4096 {
		t.Errorf("an excerpt of %d bytes", len(got))
	}
}
