package proxy

import (
	"context"
	"errors"
	"reflect"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// TestShowMembers: a row each, for users of some schemas too, as SHOW SHARDS is; and an error where
// nobody tells.
func TestShowMembers(t *testing.T) {
	t.Parallel()
	var members []MemberRow
	var failed error
	s := serve(t, 1, fakeOptions{}, func(o *Options) {
		o.Users["narrow"] = User{Schemas: []string{"shop"}}
		o.Members = func(context.Context) ([]MemberRow, error) { return members, failed }
	})
	members = []MemberRow{
		{Member: "k1", Addr: "a:4000", State: "joined", Since: "2026-01-02 03:04:05", Told: "s0: 3 of 4", Catalog: 7, Connections: 5, Open: 2, Version: "1.0"},
		{Member: "k2", State: "alone"},
	}
	want := [][]string{
		{"k1", "a:4000", "joined", "2026-01-02 03:04:05", "s0: 3 of 4", "7", "5", "2", "1.0"},
		{"k2", "", "alone", "", "NULL", "0", "0", "0", ""},
	}
	for _, user := range []string{"root", "narrow"} {
		rows, err := s.open(user, "").QueryContext(t.Context(), "SHOW MEMBERS")
		if err != nil {
			t.Fatal(err)
		}
		names, err := rows.Columns()
		if wanted := []string{"Member", "Addr", "State", "Since", "Told", "Catalog", "Connections", "Open", "Version"}; err != nil || !reflect.DeepEqual(names, wanted) {
			t.Errorf("%v, %v", names, err)
		}
		var got [][]string
		for rows.Next() {
			cells, to := make([]*string, len(names)), make([]any, len(names))
			for i := range cells {
				to[i] = &cells[i]
			}
			if err := rows.Scan(to...); err != nil {
				t.Fatal(err)
			}
			row := make([]string, len(cells))
			for i, c := range cells {
				if row[i] = "NULL"; c != nil {
					row[i] = *c
				}
			}
			got = append(got, row)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v, %v", user, got, want, err)
		}
	}
	failed = errors.New("no shard tells")
	_, err := s.open("root", "").ExecContext(t.Context(), "SHOW MEMBERS")
	if refused, ok := errors.AsType[*mysqldriver.MySQLError](err); !ok || refused.Number != mysqlerr.UnknownError {
		t.Errorf("%v", err)
	}
	s.unsent("members")
}
