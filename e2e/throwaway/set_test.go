package throwaway

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
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
			more, err := set.Add(t.Context())
			if err != nil {
				t.Fatal(err)
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
			set.Stop()
			if _, err := os.Stat(set.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there: %v", set.Dir(), err)
			}
		})
	}
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
