package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestVirtualKeys: values by a key of any type stay in memory, and follow the logs, by each way in which statements write the key.
func TestVirtualKeys(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		// A type, the keys of three rows, and other ways to write the first one; doubtful ones aren't taken for it without a server's word.
		types := map[string]struct {
			is              string
			keys            [3]string
			other, doubtful []string
		}{
			"words":  {"VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", [3]string{"'Émile'", "'b''c'", "''"}, []string{"'émile'", "'EMILE'", "_latin1 X'C96D696C65'"}, nil},
			"exact":  {"VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", [3]string{"'Émile'", "'émile'", "'x '"}, []string{"_latin1 X'C96D696C65'"}, []string{"CONCAT('É', 'mile')"}},
			"latins": {"VARCHAR(40) CHARACTER SET latin1", [3]string{"'Émile'", "'b'", "'c'"}, []string{"'émile'"}, nil},
			"uuids":  {"CHAR(36) CHARACTER SET ascii", [3]string{"'6ccd780c-baba-1026-9564-5b8c656024db'", "'b'", "'c'"}, []string{"'6CCD780C-baba-1026-9564-5b8c656024db'"}, nil},
			"bytes":  {"BINARY(16)", [3]string{"0x6ccd780cbaba102695645b8c656024db", "0x00000000000000000000000000000027", "0xff5c2700000000000000000000000000"}, []string{"X'6CCD780CBABA102695645B8C656024DB'"}, nil},
			"days":   {"DATE", [3]string{"'2026-02-03'", "'2026-02-04'", "'2026-02-05'"}, []string{"DATE'2026-02-03'"}, []string{"20260203", "'2026-2-3'"}},
			"prices": {"DECIMAL(10,2)", [3]string{"5.25", "0", "-3.5"}, []string{"5.250"}, []string{"'5.25'"}},
			"whole":  {"INT UNSIGNED", [3]string{"5", "0", "4294967295"}, []string{"5.0", "'5'"}, nil},
		}
		if f.name == throwaway.MariaDB {
			of := types["uuids"]
			of.is = "UUID"
			of.keys = [3]string{of.keys[0], "'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'"}
			types["named"] = of
		}
		p := start(t, f, setup{servers: f.own(t, 2, f.binlogs()...)})
		db := p.db()
		for name, of := range types {
			mustExec(t, db, fmt.Sprintf("CREATE TABLE %s (k %s NOT NULL PRIMARY KEY, n INT)", name, of.is))
			mustExec(t, db, fmt.Sprintf("CREATE TABLE %s_rows (id INT PRIMARY KEY, k %s, KEY (k))", name, of.is))
			for i, k := range of.keys {
				mustExec(t, db, fmt.Sprintf("INSERT INTO %s VALUES (%s, %d)", name, k, i))
				mustExec(t, db, fmt.Sprintf("INSERT INTO %s_rows VALUES (%d, %s)", name, i, k))
			}
			mustExec(t, db, fmt.Sprintf("CREATE VIRTUAL COLUMN total ON %s AS (SELECT COUNT(*) FROM %[1]s_rows r WHERE r.k = %[1]s.k)", name))
		}
		columnsReady(t, p, len(types))
		from := func() float64 { n, _ := p.metric("shunt_virtual_column_reads_total", `from="memory"`); return n }
		for name, of := range types {
			n := len(of.keys)
			// read compares a key's value with its query's, and reports that it was in memory.
			read := func(q queryer, key, wanted string) bool {
				t.Helper()
				before := from()
				is := flat(mustRows(t, q, fmt.Sprintf("SELECT total, n FROM %s WHERE k = %s", name, key)), "total")
				if fmt.Sprint(is) != "["+wanted+"]" {
					t.Fatalf("%s, %s: %v, want %s", name, key, is, wanted)
				}
				return from() > before
			}
			for i, k := range of.keys {
				eventually(t, name+": the value is kept", func() bool { return read(db, k, "1") })
				mustExec(t, db, fmt.Sprintf("INSERT INTO %s_rows VALUES (%d, %s)", name, n, k))
				n++
				if !read(db, k, "2") {
					t.Errorf("%s, %s: another row has the value leave memory", name, k)
				}
				if i > 0 {
					continue
				}
				for _, other := range of.other {
					if !read(db, other, "2") {
						t.Errorf("%s, %s: it isn't read from memory", name, other)
					}
				}
				for _, other := range of.doubtful {
					read(db, other, "2")
				}
			}
			want(t, db, fmt.Sprintf("SELECT total FROM %s WHERE k = (SELECT MAX(k) FROM %[1]s WHERE n = 1)", name), "total", "2")
			want(t, db, fmt.Sprintf("SELECT SUM(total) AS s FROM %s", name), "s", "6")
		}

		// By parameters, and in other modes.
		prepared := func(query string, arg any) (total int) {
			t.Helper()
			if err := db.QueryRowContext(t.Context(), query, arg).Scan(&total); err != nil {
				t.Fatalf("%s, %v: %v", query, arg, err)
			}
			return total
		}
		for query, arg := range map[string]any{
			"SELECT total FROM words WHERE k = ?": "émile",
			"SELECT total FROM exact WHERE k = ?": "x ",
			"SELECT total FROM bytes WHERE k = ?": []byte{0xff, 0x5c, 0x27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			"SELECT total FROM uuids WHERE k = ?": "6CCD780C-baba-1026-9564-5b8c656024db",
			"SELECT total FROM whole WHERE k = ?": "5",
		} {
			prepared(query, arg)
			before := from()
			if total := prepared(query, arg); total != 2 || from() == before {
				t.Errorf("%s, %v: %d, from memory: %v", query, arg, total, from() > before)
			}
		}
		want(t, db, "SELECT total FROM whole WHERE k = 99999999999999999999", "total")
		var total sql.NullInt64
		st, err := db.PrepareContext(t.Context(), "SELECT total FROM whole WHERE k = 5")
		if err == nil {
			err = st.QueryRowContext(t.Context()).Scan(&total)
		}
		if err != nil || total.Int64 != 2 {
			t.Errorf("prepared without parameters: %v, %v", total, err)
		}
		c := p.conn()
		mustExec(t, c, "SET NAMES latin1")
		want(t, c, "SELECT total FROM words WHERE k = '\xe9mile'", "total", "2")
		mustExec(t, c, "SET NAMES utf8mb4")
		mustExec(t, c, "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'")
		if _, err := c.ExecContext(context.Background(), "SELECT total FROM uuids WHERE k = 'b'"); err != nil {
			t.Error(err)
		}
	})
}
