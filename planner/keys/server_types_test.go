package keys

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
)

// columnsOnServer are the columns of TestTypesOnServer: type, character set,
// collation ("" both: none).
func columnsOnServer(mariaDB bool) [][3]string {
	nopad := "utf8mb4_0900_ai_ci"
	nopadBin := "utf8mb4_0900_bin"
	if mariaDB {
		nopad, nopadBin = "utf8mb4_unicode_nopad_ci", "utf8mb4_nopad_bin"
	}
	var out [][3]string
	if mariaDB {
		out = append(out, [3]string{"uuid", "", ""}, [3]string{"inet4", "", ""}, [3]string{"inet6", "", ""})
	}
	if !mariaDB {
		out = append(out, [3]string{"char(5)", "utf8mb4", nopad}, [3]string{"char(5)", "utf8mb4", "utf8mb4_0900_as_cs"},
			[3]string{"varchar(10)", "utf8mb4", "utf8mb4_hu_0900_as_cs"})
	}
	for _, t := range []string{
		"tinyint", "tinyint unsigned", "tinyint(1)", "smallint", "smallint unsigned", "mediumint", "mediumint unsigned",
		"int", "int unsigned", "int(7) unsigned zerofill", "bigint", "bigint unsigned", "year",
		"decimal(10,2)", "decimal(65,30)", "decimal(20,0)", "decimal(5,5)", "decimal(8,3) unsigned",
		"date", "datetime", "datetime(3)", "datetime(6)", "time", "time(2)", "time(6)",
		"binary(4)", "varbinary(10)", "tinyblob", "blob",
	} {
		out = append(out, [3]string{t, "", ""})
	}
	return append(out,
		[3]string{"char(5)", "utf8mb4", nopadBin},
		[3]string{"char(5)", "utf8mb4", "utf8mb4_general_ci"},
		[3]string{"char(5)", "utf8mb4", "utf8mb4_unicode_ci"},
		[3]string{"char(5)", "utf8mb4", "utf8mb4_bin"},
		[3]string{"char(5)", "latin1", "latin1_swedish_ci"},
		[3]string{"char(5)", "latin1", "latin1_bin"},
		[3]string{"char(5)", "ucs2", "ucs2_general_ci"},
		[3]string{"varchar(10)", "utf8mb4", nopad},
		[3]string{"varchar(10)", "utf8mb4", "utf8mb4_bin"},
		[3]string{"varchar(10)", "utf8mb4", "utf8mb4_general_ci"},
		[3]string{"varchar(10)", "utf8mb3", "utf8mb3_general_ci"},
		[3]string{"varchar(10)", "latin1", "latin1_swedish_ci"},
		[3]string{"varchar(10)", "latin1", "latin1_bin"},
		[3]string{"varchar(10)", "latin2", "latin2_general_ci"},
		[3]string{"varchar(10)", "ascii", "ascii_general_ci"},
		[3]string{"varchar(10)", "utf16", "utf16_unicode_ci"},
		[3]string{"varchar(25)", "utf32", "utf32_general_ci"},
		[3]string{"varchar(10)", "ucs2", "ucs2_bin"},
		[3]string{"tinytext", "utf8mb4", "utf8mb4_unicode_ci"},
		[3]string{"text", "latin1", "latin1_general_cs"},
		[3]string{"longtext", "utf8mb4", nopad},
		[3]string{"enum('a','B','é','x y','5','2024-01-01','it''s')", "utf8mb4", "utf8mb4_general_ci"},
		[3]string{"enum('a','B','','é')", "latin1", "latin1_bin"},
		[3]string{"enum('a','aa','ß')", "utf8mb4", nopad},
	)
}

// valuesOnServer is one pool for all columns, so that each also meets values of
// the wrong type.
func valuesOnServer(r *rand.Rand) []Value {
	var out []Value
	text := func(list ...string) {
		for _, s := range list {
			out = append(out, String([]byte(s), "utf8mb4"))
		}
	}
	for _, n := range []int64{
		0, 1, -1, 2, 5, 7, 12, 42, 69, 70, 99, 100, 1900, 1901, 1999, 2024, 2155, 2156, 20240101,
		127, 128, -128, -129, 255, 256, 32767, 32768, -32768, 65535, 65536, 8388607, 8388608, -8388608, 16777215, 16777216,
		math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MaxUint32, math.MaxUint32 + 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, -(1<<53 + 1),
		math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, r.Int64(), -r.Int64(), r.Int64N(1000),
	} {
		out = append(out, Int(n))
	}
	out = append(out, Null(), Uint(5), Uint(1<<63), Uint(1<<63+1), Uint(math.MaxUint64), Uint(r.Uint64()))
	for _, s := range []string{
		"0.0", "-0.0", "5.0", "5.00", "05.5", "5.5", "-5.5", "4.5", "2.5", "-2.5", "0.5", "-0.5", "0.4", "-0.4", "1.005", "1.004", "1.0049",
		"99999999.99", "99999999.994", "99999999.995", "-99999999.995", "0.00001", "0.000009", "0.99999", "0.999995", "127.4", "127.5", "-128.5", "-128.4",
		"9007199254740993.0", "18446744073709551615.0", "18446744073709551616", "-9223372036854775809", "9223372036854775807.5", "123456789012345678901234567890.123456789012345678901234567890",
		"12345.678", "1234567890123456789.5", "-12.5", ".5", "5.",
	} {
		out = append(out, Decimal(s))
	}
	for range 10 {
		out = append(out, Decimal(fmt.Sprintf("%d.%0*d", r.IntN(2000)-1000, 1+r.IntN(5), r.IntN(10))))
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 1, 5, -5, 5.5, 0.1, 1e10, 1 << 53, 1<<53 - 1, 1e15, 1e19, 1e300, 2.5, -2.5, 20240101} {
		out = append(out, Float(f))
	}
	text("", " ", "  ", "0", "5", "-5", "05", "5 ", " 5", "5.0", "5e0", "+5", "0x5", "-0", "42", "127", "128", "255", "256", "1999", "2024", "99", "00", "0000", "1900",
		"9007199254740991", "9007199254740992", "9007199254740993", "18446744073709551615", "-9223372036854775808", "5.5", "-5.5", "1.005", "0.5", "-0.00", "00.5", "12345.678", "1e2",
		"a", "A", "a ", "a  ", "b", "B", "aa", "AA", "é", "É", "e\u0301", "ß", "ss", "SS", "s", "x y", "X Y", "x", "it's", `back\slash`, "%", "_", "ab", "abc", "abcde", "abcdef", "abcd ", "abcde ", "abcde   ",
		"abcdefghij", "abcdefghij ", "abcdefghijk", "a\tb", "a\x00", "a\x00b", "\x00", "😀", "😀😀😀😀😀", "日本", "ł", "€", "\u0081", "?", "a?", "\ufffd", "\uffff", "\t", "a\t", "a\t ", "abcde\t", "abcde\n ", "abcd \r", "abcde\u00a0", "abcdefghij\t", "\u00a0", "a\u00a0",
		strings.Repeat("é", 100), strings.Repeat("a", 255), strings.Repeat("a", 256), strings.Repeat("é", 128), strings.Repeat("x", 300)+"1", strings.Repeat("x", 300)+"2", strings.Repeat("x", 300), strings.Repeat(" ", 300)+"y")
	times := []string{
		"2024-01-01", "2024-02-29", "2023-02-29", "1999-12-31", "1000-01-01", "0999-01-01", "9999-12-31", "0000-00-00", "2024-00-00", "2024-01-00",
		"2024-01-01 00:00:00", "2024-01-01 10:11:12", "2024-01-01 10:11:12.5", "2024-01-01 10:11:12.500", "2024-01-01 10:11:12.123", "2024-01-01 10:11:12.1234", "2024-01-01 10:11:12.999999", "2024-01-01 00:00:00.000",
		"2024-01-01 23:59:59.9", "2024-01-01 24:00:00", "2024-01-01 10:11:60", "1999-12-31 23:59:59", "9999-12-31 23:59:59", "9999-12-31 23:59:59.999999",
		"00:00:00", "-00:00:00", "10:11:12", "-10:11:12", "10:11:12.5", "10:11:12.50", "10:11:12.55", "10:11:12.555", "-10:11:12.123456", "100:00:00", "838:59:59", "-838:59:59", "838:59:59.5", "839:00:00", "010:00:00",
	}
	for _, s := range times {
		out = append(out, Temporal(s))
	}
	text(times...)
	for range 6 {
		s := fmt.Sprintf("%04d-%02d-%02d", 1000+r.IntN(9000), 1+r.IntN(12), 1+r.IntN(31))
		clock := fmt.Sprintf("%02d:%02d:%02d.%06d", r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000000))
		text(s, s+" "+clock, s+" "+clock[:8], clock, clock[:8])
	}
	text("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "6ccd780c-baba-1026-9564-5b8c656024db", "6CCD780C-BABA-1026-9564-5B8C656024DB", "6ccd780cbaba102695645b8c656024db",
		"{6ccd780c-baba-1026-9564-5b8c656024db}", "6ccd-780c-baba-1026-9564-5b8c-6560-24db", "6ccd780c-baba-1026-9564-5b8c656024db ", "018f2b6e-7b5a-7cc0-8a3e-1b2c3d4e5f60", "018f2b6e-7b5a-4cc0-8a3e-1b2c3d4e5f60", "6ccd780c-baba-1026-9564-5b8c656024d",
		"0.0.0.0", "1.2.3.4", "01.2.3.4", "1.2.3.4 ", "255.255.255.255", "1.2.3", "1.2.3.256", "::", "::1", "::1.2.3.4", "::ffff:1.2.3.4", "::FFFF:102:304", "2001:db8::1", "2001:DB8:0:0:0:0:0:1", "2001:0db8::0001", "2001:db8::1%eth0", "fe80::", "1::2::3")
	text("2024-1-1", "20240101", "2024.01.01", "2024-01-01T10:11:12", "2024-01-01 10:11", "2024-01-01 10:11:12+00:00", "10:11", "101112", "1 10:11:12", "2024-01-01 ", " 2024-01-01", "24-01-01", "2024-01-01 1:2:3", "1:02:03", "2024-01-01 10:11:12.")
	for _, s := range []string{"", "a", "A", "é", "abc", "\x81", "\x80", "5", "a "} {
		out = append(out, String([]byte(s), "latin1"))
	}
	out = append(out, String([]byte("\xe9"), "latin1"), String([]byte("abc"), "ascii"), String([]byte("5"), "ascii"), String([]byte("é"), "utf8mb3"),
		String([]byte("\xb3"), "latin2"), String([]byte("\x00a"), "ucs2"))
	for _, s := range []string{"", "a", "ab", "abcd", "abcd\x00", "ab\x00\x00", "abcde", "\xff", "\xe9", "\xc3\xa9", "\x00", "5", "😀", "abcdefghijk", "A", "a "} {
		out = append(out, Bytes([]byte(s)))
	}
	for range 20 {
		text(randomText(r))
	}
	return out
}

// TestTypesOnServer stores every value in every column and compares it with
// every row: Stored, Equal and Order must agree with the server wherever they
// are sure.
func TestTypesOnServer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		r := rand.New(rand.NewPCG(s.seed, 2))
		values := valuesOnServer(r)
		pick := rand.New(rand.NewPCG(s.seed, 4))
		for _, column := range columnsOnServer(s.mariaDB) {
			if suite.Size(pick.IntN(3) > 0, false) {
				continue // a third of them a run, others with each seed
			}
			t.Run(strings.ReplaceAll(column[0], "/", "")+column[2], func(t *testing.T) {
				c, err := For(column[0], column[1], column[2], s.mariaDB)
				if err != nil {
					t.Fatal(err)
				}
				for _, strict := range []bool{false, true} {
					s.checkColumn(t, c, column, r, values, strict)
				}
			})
		}
	})
}

type storedRow struct {
	id  int
	raw []byte
	key []byte
	ok  bool
}

func (s *server) checkColumn(t *testing.T, c *Codec, column [3]string, r *rand.Rand, values []Value, strict bool) {
	mode := "''"
	if strict {
		mode = "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'"
	}
	s.exec(t, "SET SESSION sql_mode = "+mode)
	t.Cleanup(func() { s.exec(t, "SET SESSION sql_mode = DEFAULT") })
	s.exec(t, "DROP TABLE IF EXISTS v")
	charset, prefix := "", ""
	if column[1] != "" {
		charset = " CHARACTER SET " + column[1] + " COLLATE " + column[2]
	}
	if strings.HasSuffix(column[0], "text") || strings.HasSuffix(column[0], "blob") {
		prefix = "(20)"
	}
	s.exec(t, "CREATE TABLE v (id INT PRIMARY KEY, c "+column[0]+charset+" NULL, KEY k (c"+prefix+"))")
	if got := s.rows(t, "SELECT column_type, character_set_name, collation_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'v' AND column_name = 'c'")[0]; string(got[2]) != column[2] {
		t.Fatalf("column is %s, wanted %s", got, column)
	} else if again, err := For(string(got[0]), string(got[1]), string(got[2]), s.mariaDB); err != nil || again.class != c.class {
		t.Fatalf("For(%s): %v, %v", got, again, err)
	}

	s.exec(t, "BEGIN") // one commit: the server may sync each
	for i, v := range values {
		_, ok := c.Stored(nil, v, strict, false)
		_, err := s.Exec(fmt.Sprintf("INSERT INTO v VALUES (%d, %s)", i, v.Literal()))
		var refusal *mysql.MySQLError
		if err != nil && !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		if ok && err != nil {
			t.Errorf("strict %v: Stored(%s) is sure, the server refuses it: %v", strict, v.Literal(), err)
		}
	}
	s.exec(t, "COMMIT")
	var rows []storedRow
	byID := map[string]int{}
	for _, x := range s.rows(t, "SELECT id, c FROM v ORDER BY id") {
		var row storedRow
		fmt.Sscan(string(x[0]), &row.id)
		row.raw = x[1]
		row.key, row.ok = c.Scanned(nil, row.raw)
		want, ok := c.Stored(nil, values[row.id], strict, false)
		if ok && (!row.ok && !strings.ContainsAny(string(row.raw), "?") || row.ok && !bytes.Equal(want, row.key)) {
			t.Errorf("strict %v: stored %s as %x, read back %q %x %v", strict, values[row.id].Literal(), want, row.raw, row.key, row.ok)
		}
		byID[string(x[0])] = len(rows)
		rows = append(rows, row)
	}
	if strict {
		return // comparisons were tried with the rows that lenient mode made too
	}
	sure := 0
	// The servers compare in their indexes too, and not always alike.
	tables := []string{"v", "v FORCE INDEX (k)"}
	exhaustive := os.Getenv("SHUNT_TEST_EXHAUSTIVE") != ""
	for _, v := range values {
		key, ok := c.Equal(nil, v)
		if ok {
			sure++
		}
		if !exhaustive && r.IntN(suite.Size(8, 2)) > 0 {
			continue // an eighth or half of them a run, others with each seed
		}
		lit := v.Literal()
		if ok {
			s.checkEqual(t, rows, byID, lit, key, fmt.Sprintf("SELECT id, c = %[1]s, %[1]s = c, c <=> %[1]s, c IN (%[1]s), c IN (%[1]s, NULL) FROM v", lit), 5)
			s.checkEqual(t, rows, byID, lit, key, "SELECT id FROM v FORCE INDEX (k) WHERE c = "+lit, 0)
			// With another sure literal in one list.
			for range 6 {
				other := values[r.IntN(len(values))]
				if key2, ok := c.Equal(nil, other); ok && !bytes.Equal(key, key2) {
					s.checkIn(t, tables[r.IntN(2)], rows, byID, lit+", "+other.Literal(), key, key2)
				}
			}
			if arg, ok := argument(v); ok {
				s.checkPrepared(t, rows, byID, v, key, arg)
			}
		}
		if at, ok := c.Order(nil, v); ok {
			after := Successor(at)
			for _, op := range []string{"<", "<=", ">", ">="} {
				query := fmt.Sprintf("SELECT id FROM %s WHERE c %s %s", tables[r.IntN(2)], op, lit)
				for _, x := range s.rows(t, query) {
					row := rows[byID[string(x[0])]]
					if inside := (op[0] == '<' && (after == nil || bytes.Compare(row.key, after) < 0)) || (op[0] == '>' && bytes.Compare(row.key, at) >= 0); row.ok && !inside {
						t.Errorf("%s: %q %x is outside of %x", query, row.raw, row.key, at)
					}
				}
			}
			for range 12 {
				other := values[r.IntN(len(values))]
				to, ok := c.Order(nil, other)
				if !ok {
					continue
				}
				query := fmt.Sprintf("SELECT id FROM %s WHERE c BETWEEN %s AND %s", tables[r.IntN(2)], lit, other.Literal())
				for _, x := range s.rows(t, query) {
					row := rows[byID[string(x[0])]]
					if row.ok && (bytes.Compare(row.key, at) < 0 || bytes.Compare(row.key, Successor(to)) >= 0) {
						t.Errorf("%s: %q %x is outside", query, row.raw, row.key)
					}
				}
			}
		}
		if from, to, ok := c.LikePrefix(v); ok && !strings.ContainsAny(v.text, `%_\`) && (v.kind == kindBytes || v.charset == "utf8mb4") {
			pattern := strings.Replace(lit+"|", "'|", "%'", 1)
			if v.kind == kindBytes || strings.Contains(lit, "X'") {
				pattern = "CONCAT(" + lit + ", '%')"
			}
			for _, x := range s.rows(t, "SELECT id FROM "+tables[r.IntN(2)]+" WHERE c LIKE "+pattern) {
				row := rows[byID[string(x[0])]]
				if row.ok && (bytes.Compare(row.key, from) < 0 || to != nil && bytes.Compare(row.key, to) >= 0) {
					t.Errorf("LIKE %s: %q %x is outside of %x", pattern, row.raw, row.key, from)
				}
			}
		}
	}
	if sure == 0 {
		t.Error("Equal is sure of nothing")
	}
	t.Logf("Equal sure of %d of %d values, %d rows", sure, len(values), len(rows))
}

// checkEqual compares a column of truth values per form (forms > 0), or the
// set of ids (forms 0), with the keys.
func (s *server) checkEqual(t *testing.T, rows []storedRow, byID map[string]int, lit string, key []byte, query string, forms int) {
	t.Helper()
	found := map[int]bool{}
	for _, x := range s.rows(t, query) {
		i := byID[string(x[0])]
		found[i] = true
		for f := range forms {
			server := string(x[f+1]) == "1"
			if row := rows[i]; row.ok && server != bytes.Equal(row.key, key) {
				t.Errorf("form %d of %s with %q %x: the server says %s, the key %x", f, lit, row.raw, row.key, x[f+1], key)
			}
		}
	}
	for i, row := range rows {
		if forms == 0 && row.ok && found[i] != bytes.Equal(row.key, key) {
			t.Errorf("%s: %q %x: found %v, the key is %x", query, row.raw, row.key, found[i], key)
		}
	}
}

func (s *server) checkIn(t *testing.T, table string, rows []storedRow, byID map[string]int, list string, keys ...[]byte) {
	t.Helper()
	found := map[int]bool{}
	for _, x := range s.rows(t, "SELECT id FROM "+table+" WHERE c IN ("+list+")") {
		found[byID[string(x[0])]] = true
	}
	for i, row := range rows {
		want := false
		for _, key := range keys {
			want = want || bytes.Equal(row.key, key)
		}
		if row.ok && found[i] != want {
			t.Errorf("IN (%s): %q %x: found %v", list, row.raw, row.key, found[i])
		}
	}
}

// argument is v as a parameter of a prepared statement, where the driver has
// one of the same type.
func argument(v Value) (any, bool) {
	switch v.kind {
	case kindInt:
		return int64(v.num), true
	case kindUint:
		return v.num, true
	case kindFloat:
		return math.Float64frombits(v.num), true
	case kindString:
		return v.text, v.charset == "utf8mb4"
	default:
		return nil, false
	}
}

func (s *server) checkPrepared(t *testing.T, rows []storedRow, byID map[string]int, v Value, key []byte, arg any) {
	t.Helper()
	for _, query := range []string{"SELECT id FROM v WHERE c = ?", "SELECT id FROM v WHERE c IN (?, NULL)"} {
		result, err := s.Query(query, arg)
		if err != nil {
			t.Errorf("%s with %v: %v", query, arg, err)
			return
		}
		found := map[int]bool{}
		for result.Next() {
			var id string
			if err := result.Scan(&id); err != nil {
				t.Fatal(err)
			}
			found[byID[id]] = true
		}
		if err := result.Close(); err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if row.ok && found[i] != bytes.Equal(row.key, key) {
				t.Errorf("%s with %v: %q %x: found %v, the key is %x", query, v.Literal(), row.raw, row.key, found[i], key)
			}
		}
	}
}
