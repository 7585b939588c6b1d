package proxy

import (
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// statisticsOf are the rows of SHOW STATEMENT STATISTICS, by the statement; "" for the others.
func statisticsOf(t *testing.T, db *sql.DB, clauses string) (rows map[string]map[string]string, order []string) {
	t.Helper()
	got, err := db.QueryContext(t.Context(), "SHOW STATEMENT STATISTICS "+clauses)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	names, _ := got.Columns()
	rows = map[string]map[string]string{}
	for got.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := got.Scan(into...); err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		for i, n := range names {
			row[n] = values[i].String
		}
		rows[row["Statement"]] = row
		order = append(order, row["Statement"])
	}
	if err := got.Err(); err != nil {
		t.Fatal(err)
	}
	return rows, order
}

func hasStatistics(t *testing.T, row map[string]string, want ...string) {
	t.Helper()
	for i := 0; i < len(want); i += 2 {
		if row[want[i]] != want[i+1] {
			t.Errorf("%s is %q, not %q: %v", want[i], row[want[i]], want[i+1], row)
		}
	}
}

// TestStatementStatistics: each way of sending a statement counts for the same shape, with what it
// has cost.
func TestStatementStatistics(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{}, func(o *Options) {
		o.Shapes = 100
		o.Users["some"] = User{Schemas: []string{"shop"}}
		o.Users["reader"] = User{ReadOnly: true}
	})
	s.answer("SELECT email", fakeAnswer{columns: []string{"email"}, rows: [][]any{{"a"}, {"b"}, {"c"}}})
	s.answer("SELECT id", fakeAnswer{columns: []string{"id"}})
	s.answer("DELETE", fakeAnswer{err: mysqlerr.New(mysqlerr.LockWaitTimeout, "too late")})
	db := s.open("root", "")
	for i := range 3 { // by the shape's plan from the second on
		answers(t, db, fmt.Sprint("SELECT email FROM people WHERE id = ", i), "a", "b", "c")
	}
	answers(t, db, "SELECT email  FROM people\nWHERE id=7 -- by hand", "a", "b", "c")
	st, err := db.PrepareContext(t.Context(), "SELECT email FROM people WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i := range 2 {
		rows, err := st.QueryContext(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	for range 2 {
		answers(t, db, "SELECT id FROM people WHERE email > 'secret'")
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE people SET email = 'secret' WHERE id = 5"); err != nil {
		t.Fatal(err)
	}
	fails(t, db, "DELETE FROM people WHERE id = 5", mysqlerr.LockWaitTimeout, "too late")
	fails(t, db, "SELECT nothing FROM nowhere WHERE id = 'secret'", mysqlerr.UnknownError, "no shard answers")
	fails(t, db, "SELEKT 'secret'", mysqlerr.ParseError, "")

	rows, _ := statisticsOf(t, db, "")
	point := rows["SELECT email FROM people WHERE id = ?"]
	hasStatistics(t, point, "Calls", "6", "Errors", "0", "Rows_sent", "18", "Rows_affected", "0", "Shards", "1.00", "Route", "route", "Access", "shard_key", "Schema", "shop", "Lookups_in_vain", "0", "Rows_copied", "0", "Waits", "0")
	hasStatistics(t, rows["SELECT id FROM people WHERE email > ?"], "Calls", "2", "Rows_sent", "0", "Shards", "2.00", "Access", "scatter")
	hasStatistics(t, rows["UPDATE people SET email = ? WHERE id = ?"], "Calls", "1", "Rows_affected", "0", "Shards", "1.00")
	hasStatistics(t, rows["DELETE FROM people WHERE id = ?"], "Calls", "1", "Errors", "1", "Last_error", fmt.Sprint(mysqlerr.LockWaitTimeout), "Rows_affected", "0")
	hasStatistics(t, rows["SELECT nothing FROM nowhere WHERE id = ?"], "Calls", "1", "Errors", "1", "Last_error", fmt.Sprint(mysqlerr.UnknownError), "Shards", "0.00")
	for _, times := range []string{"Total_ms", "P50_ms", "P999_ms", "Max_ms", "Shard_P50_ms", "Shard_Max_ms"} {
		if v := point[times]; v == "0.000" || !strings.Contains(v, ".") {
			t.Errorf("%s is %q", times, v)
		}
	}
	if all := fmt.Sprint(rows); strings.Contains(all, "secret") || strings.Contains(all, "by hand") {
		t.Error("a literal is told:", all)
	}

	_, order := statisticsOf(t, db, "LIKE 'SELECT%people%' ORDER BY calls DESC")
	if want := []string{"SELECT email FROM people WHERE id = ?", "SELECT id FROM people WHERE email > ?"}; !slices.Equal(order, want) {
		t.Error(order)
	}
	if _, order := statisticsOf(t, db, "ORDER BY Last_error DESC LIMIT 1"); len(order) != 1 || order[0] != "DELETE FROM people WHERE id = ?" {
		t.Error(order)
	}
	fails(t, db, "SHOW STATEMENT STATISTICS ORDER BY colour", mysqlerr.BadField, "colour")

	for _, user := range []string{"some", "reader"} {
		fails(t, s.open(user, ""), "SHOW STATEMENT STATISTICS", mysqlerr.SpecificAccessDenied, "PROCESS")
	}
	fails(t, s.open("some", ""), "FLUSH STATEMENT STATISTICS", mysqlerr.SpecificAccessDenied, "RELOAD")
	fails(t, s.open("reader", ""), "FLUSH STATEMENT STATISTICS", mysqlerr.OptionPreventsStatement, "")

	if _, err := db.ExecContext(t.Context(), "FLUSH STATEMENT STATISTICS"); err != nil {
		t.Fatal(err)
	}
	rows, _ = statisticsOf(t, db, "")
	if len(rows) != 1 || rows["FLUSH STATEMENT STATISTICS"]["Calls"] != "1" {
		t.Error("behind FLUSH:", rows)
	}
	if all := fmt.Sprint(rows); strings.Contains(all, "secret") {
		t.Error("a sample is kept:", all)
	}
	// What was prepared before counts on.
	if more, err := st.QueryContext(t.Context(), 5); err != nil {
		t.Fatal(err)
	} else {
		more.Close()
	}
	rows, _ = statisticsOf(t, db, "")
	hasStatistics(t, rows["SELECT email FROM people WHERE id = ?"], "Calls", "1", "Rows_sent", "3")
}

// TestStatementStatisticsOfWaits: connections that were waited for are counted.
func TestStatementStatisticsOfWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, 1, fakeOptions{Options: shard.Options{Max: 1}}, func(o *Options) { o.Shapes = 100 })
	s.answer("SELECT email", fakeAnswer{columns: []string{"email"}, rows: [][]any{{"a"}}})
	release := s.shards[0].hold("SELECT email")
	db := s.open("root", "")
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := rowsOf(t.Context(), db, "SELECT email FROM people WHERE id = 5")
			done <- err
		}()
	}
	until(t, "one waits for the other's connection", func() bool {
		for _, h := range s.p.pools[0].Holders() {
			if h.Waiting == 1 {
				return true
			}
		}
		return false
	})
	release()
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := statisticsOf(t, db, "")
	row := rows["SELECT email FROM people WHERE id = ?"]
	if hasStatistics(t, row, "Calls", "2", "Waits", "1"); row["Wait_ms"] == "0.000" {
		t.Error(row)
	}
}

// TestNoStatementStatistics: nothing is counted without room for a shape.
func TestNoStatementStatistics(t *testing.T) {
	t.Parallel()
	db := serve(t, 1, fakeOptions{}).open("root", "")
	if _, err := db.ExecContext(t.Context(), "FLUSH STATEMENT STATISTICS"); err != nil {
		t.Fatal(err)
	}
	if rows, _ := statisticsOf(t, db, ""); len(rows) != 0 {
		t.Error(rows)
	}
}

// TestStatementSamples: where it is configured, the longest execution of a shape is told with its values.
func TestStatementSamples(t *testing.T) {
	t.Parallel()
	s := serve(t, 1, fakeOptions{}, func(o *Options) { o.Shapes, o.Samples = 100, true })
	s.answer("SELECT email", fakeAnswer{columns: []string{"email"}})
	db := s.open("root", "")
	sample := func(of string) string {
		t.Helper()
		rows, _ := statisticsOf(t, db, "")
		return rows[of]["Sample"]
	}
	const shape = "SELECT email FROM people WHERE id = ?"
	answers(t, db, "SELECT email FROM people WHERE id = 4711")
	if got := sample(shape); got != "SELECT email FROM people WHERE id = 4711" {
		t.Errorf("%q", got)
	}
	release := s.shards[0].hold("SELECT email")
	st, err := db.PrepareContext(t.Context(), "SELECT email FROM people WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	done := make(chan error, 1)
	go func() {
		rows, err := st.QueryContext(t.Context(), 5)
		if err == nil {
			rows.Close()
		}
		done <- err
	}()
	longest, _ := statisticsOf(t, db, "")
	until(t, "the shard has it", func() bool { return s.shards[0].waiting("SELECT email") > 0 })
	took, err := time.ParseDuration(longest[shape]["Max_ms"] + "ms")
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) <= took; { // it is to take longer than the one before
		runtime.Gosched()
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	answers(t, db, "SELECT email FROM people WHERE id = 6")
	if got := sample(shape); got != "SELECT email FROM people WHERE id =  5 " {
		t.Errorf("%q, of the longest is expected", got)
	}
	long := "SELECT email FROM people WHERE email = '" + strings.Repeat("ü", 2000) + "'"
	answers(t, db, long)
	if got := sample("SELECT email FROM people WHERE email = ?"); !strings.HasPrefix(got, "SELECT email FROM people WHERE email = 'üü") || len(got) > 1<<10 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
