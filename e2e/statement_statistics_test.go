package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestStatementStatistics: what statements cost is told by their shape, however they were sent.
func TestStatementStatistics(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 100, setup{})
		mustExec(t, c, "FLUSH STATEMENT STATISTICS")
		point, byIndex := "SELECT email FROM people WHERE id = ?", "SELECT id FROM people WHERE email = ?"
		for i := range 20 {
			want(t, c, fmt.Sprintf("SELECT email FROM people WHERE id = %d", i), "email", fmt.Sprintf("p%d@x", i))
			mustRows(t, c, point, i) // the driver prepares it
			want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", fmt.Sprint(i))
		}
		for n := range 3 {
			mustRows(t, c, "SELECT id FROM people WHERE id IN ("+strings.Repeat("5, ", n)+"6)")
			mustExec(t, c, fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'secret'), (%d, 'secret')", 1000+n, 2000+n))
		}
		if got := affected(t, mustExec(t, c, "UPDATE people SET age = 7 WHERE id >= 1000")); got != 6 {
			t.Errorf("%d rows changed", got)
		}
		mustRows(t, c, "SELECT city, COUNT(*) FROM people GROUP BY city")
		mustRows(t, c, "SELECT a.id FROM people a JOIN people b ON a.age = b.age AND a.id < b.id WHERE a.id < 10")
		if _, err := c.ExecContext(t.Context(), "INSERT INTO people (id) VALUES (5)"); err == nil {
			t.Error("a duplicate key was taken")
		}
		of := map[string]row{}
		for _, r := range mustRows(t, c, "SHOW STATEMENT STATISTICS") {
			of[r["Statement"]] = r
		}
		for statement, want := range map[string]string{
			point:   "Calls=40 Errors=0 Rows_sent=40 Shards=1.00 Route=route Access=shard_key",
			byIndex: "Calls=20 Errors=0 Rows_sent=20 Shards=1.00 Route=route Access=index:idx_email Lookups_in_vain=0",
			"SELECT id FROM people WHERE id IN (...)":                                                 "Calls=3",
			"INSERT INTO people(id, email) VALUES (?, ?)":                                             "Calls=3 Rows_affected=6",
			"UPDATE people SET age = ? WHERE id >= ?":                                                 "Calls=1 Rows_affected=6 Shards=4.00 Access=scatter",
			"SELECT city, COUNT(*) FROM people GROUP BY city":                                         "Calls=1 Rows_sent=1 Shards=4.00 Route=merge",
			"SELECT a.id FROM people a JOIN people b ON a.age = b.age AND a.id < b.id WHERE a.id < ?": "Calls=1 Route=gather",
			"INSERT INTO people(id) VALUES (?)":                                                       "Calls=1 Errors=1 Last_error=1062 Rows_affected=0",
			"FLUSH STATEMENT STATISTICS":                                                              "Calls=1 Route=admin Shards=0.00",
		} {
			r := of[statement]
			for pair := range strings.FieldsSeq(want) {
				column, value, _ := strings.Cut(pair, "=")
				if r[column] != value {
					t.Errorf("%s: %s is %q, not %q: %v", statement, column, r[column], value, r)
				}
			}
		}
		gather := of["SELECT a.id FROM people a JOIN people b ON a.age = b.age AND a.id < b.id WHERE a.id < ?"]
		if gather["Rows_copied"] == "0" || gather["Shards"] == "0.00" {
			t.Error(gather)
		}
		if strings.Contains(fmt.Sprint(of), "secret") {
			t.Error("a literal is told:", of)
		}
		if got := mustRows(t, p.conn(), "SHOW STATEMENT STATISTICS LIKE '%people WHERE id = ?' ORDER BY Calls DESC LIMIT 1"); len(got) != 1 || got[0]["Statement"] != point {
			t.Error(got)
		}
	})
}

// TestStatementPercentiles: they lie between what the servers have taken, and what clients have seen.
func TestStatementPercentiles(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 10, setup{})
		seed := rand.Uint64()
		t.Log("seed", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		var least, most []float64
		for range 40 {
			sleep := 0.02 + r.ExpFloat64()*0.04
			least = append(least, sleep*1e3)
			began := time.Now()
			mustRows(t, c, fmt.Sprintf("SELECT SLEEP(%.6f) FROM people WHERE id = 5", sleep))
			most = append(most, float64(time.Since(began).Microseconds())/1e3)
		}
		slices.Sort(least)
		slices.Sort(most)
		got := mustRows(t, p.conn(), "SHOW STATEMENT STATISTICS LIKE 'SELECT SLEEP%'")
		if len(got) != 1 || got[0]["Calls"] != "40" {
			t.Fatal(got)
		}
		for column, rank := range map[string]int{"P50_ms": 19, "P95_ms": 37, "P99_ms": 39, "Max_ms": 39, "Shard_P50_ms": 19, "Shard_P95_ms": 37, "Shard_Max_ms": 39} {
			if v, err := strconv.ParseFloat(got[0][column], 64); err != nil || v < least[rank]*0.98 || v > most[rank]*1.02 {
				t.Errorf("%s is %v, the servers took %v, clients waited %v", column, got[0][column], least[rank], most[rank])
			}
		}
	})
}

// TestStatementLog: SIGHUP has statements logged, and goes on in a new file behind a rotation.
func TestStatementLog(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 10, setup{})
		path := filepath.Join(t.TempDir(), "statements.log")
		logged := func(path string) string {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		const before = "maintenance: {delay"
		p.reload(before, fmt.Sprintf("statement_log: {file: %q, slow: 0s}\n%s", path, before))
		want(t, c, "SELECT email FROM people WHERE id = 5", "email", "p5@x")
		if got := logged(path); !strings.Contains(got, `"statement":"SELECT email FROM people WHERE id = ?"`) || strings.Contains(got, "= 5") {
			t.Error(got)
		}
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		p.reload("slow: 0s", "slow: 0s, literals: true")
		want(t, c, "SELECT email FROM people WHERE id = 6", "email", "p6@x")
		if got := logged(path); !strings.Contains(got, "= 6") {
			t.Error(got)
		}
		if got := logged(path + ".1"); strings.Contains(got, "= 6") {
			t.Error(got)
		}
	})
}
