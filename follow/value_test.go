package follow

import (
	"bytes"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/planner/keys"
)

// typesOf are columns of all types, apart from those of texts.
func typesOf(mariaDB bool) []string {
	types := strings.Split("tinyint;tinyint unsigned;tinyint(1);smallint;smallint unsigned;mediumint;mediumint unsigned;int;int unsigned;"+
		"int(7) unsigned zerofill;bigint;bigint unsigned;year;float;double;bit(1);bit(13);bit(64);"+
		"decimal(10,2);decimal(65,30);decimal(20,0);decimal(5,5);decimal(8,3) unsigned;decimal(1,0);decimal(9,9);decimal(18,9);decimal(38,10);"+
		"date;datetime;datetime(1);datetime(3);datetime(6);timestamp null;timestamp(2) null;timestamp(4) null;timestamp(6) null;time;time(1);time(2);time(3);time(6);"+
		"binary(1);binary(4);binary(16);binary(255);varbinary(10);varbinary(300);tinyblob;blob;mediumblob;longblob", ";")
	if mariaDB {
		return append(types, "uuid", "inet4", "inet6")
	}
	return types
}

// enums are of members whose bytes differ by character set.
var enums = []string{"enum('a','B','é','x y','5','2024-01-01','it''s')", "set('a','B','é','x y','5')"}

// literals are values of all types. Servers make something of each in every column.
func literals(r *rand.Rand) []string {
	list := strings.Fields(`NULL 0 1 -1 5 7 12 69 70 99 100 127 128 -128 -129 255 256 1901 1999 2024 2155 2156 20240101 32767 32768 -32768 65535 65536
		8388607 8388608 -8388608 16777215 2147483647 2147483648 -2147483648 4294967295 9223372036854775807 -9223372036854775808 18446744073709551615
		0.5 -0.5 0.004 -0.004 1.005 99999999.99 -99999999.99 123456789012345678901234567890.123456789012345678901234567890 0.000000001 -0.999999999 1e10 1.5e300 -2.5e-5 b'1' b'1010101010101'
		'2024-01-01' '1999-12-31' '0000-00-00' '1000-01-01' '9999-12-31' '2024-02-29' '1970-01-01' '2038-01-19'
		'10:11:12' '-10:11:12' '10:11:12.5' '-10:11:12.55' '-00:00:00.01' '-00:00:00.000001' '00:00:00.999999' '838:59:59' '-838:59:59' '100:00:00' '-01:00:00'
		'6ccd780c-baba-1026-9564-5b8c656024db' '018f2b6e-7b5a-7cc0-8a3e-1b2c3d4e5f60' '018f2b6e-7b5a-4cc0-8a3e-1b2c3d4e5f60' 'ffffffff-ffff-ffff-ffff-ffffffffffff'
		'1.2.3.4' '255.255.255.255' '0.0.0.0' '::' '::1' '2001:db8::1' '::ffff:1.2.3.4' 'ffff:ffff::'
		'' 'a' 'B' 'b' 'é' '5' 'a,B' 'a,é,5' '{"k":[1,"x"]}' 'it''s' X'00' X'0001' X'6100' X'610000' X'ff' X'c3a9' X'80' X'f0' 'ß' '日本' '😀' 'ł' '€' '?' 'a?'`)
	list = append(list, "' '", "'  '", "'a '", "'a  '", "'x y'", "'2024-01-01 10:11:12'", "'2024-01-01 10:11:12.5'", "'2024-01-01 10:11:12.123456'", "'1970-01-01 00:00:01'",
		"'2038-01-19 03:14:07.999999'", "'0000-00-00 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1999-12-31 23:59:59.9'",
		"REPEAT('a', 255)", "REPEAT('é', 200)", "REPEAT('x', 3000)", "REPEAT(X'00', 20)", "CONCAT('a', REPEAT(X'00', 15))")
	for range 60 {
		switch r.IntN(6) {
		case 0:
			list = append(list, strconv.FormatInt(r.Int64()>>r.IntN(64), 10), strconv.FormatInt(-(r.Int64()>>r.IntN(64)), 10))
		case 1:
			list = append(list, fmt.Sprintf("%d.%0*d", r.IntN(2_000_000)-1_000_000, 1+r.IntN(9), r.IntN(1000)))
		case 2:
			list = append(list, fmt.Sprintf("'%04d-%02d-%02d %02d:%02d:%02d.%06d'", 1971+r.IntN(66), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6)))
		case 3:
			list = append(list, fmt.Sprintf("'%s%d:%02d:%02d.%06d'", []string{"", "-"}[r.IntN(2)], r.IntN(839), r.IntN(60), r.IntN(60), r.IntN(1e6)))
		case 4:
			list = append(list, fmt.Sprintf("X'%x'", []byte(strconv.FormatUint(r.Uint64(), 36))[:1+r.IntN(8)]))
		case 5:
			var id [16]byte
			for i := range id {
				id[i] = byte(r.Uint32())
			}
			list = append(list, fmt.Sprintf("'%x-%x-%x-%x-%x'", id[:4], id[4:6], id[6:8], id[8:10], id[10:]))
		}
	}
	for range 80 {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			limits := []rune{0x80, 0x100, 0x250, 0x500, 0x800, 0x3100, 0xd800, 0x10000, 0x1fa00}
			if c := r.Int32N(limits[r.IntN(len(limits))]); utf8.ValidRune(c) {
				b.WriteRune(c)
			}
		}
		list = append(list, fmt.Sprintf("_utf8mb4 X'%x'", b.String()))
	}
	return list
}

// column is one of a test's table.
type column struct{ name, columnType, charset, collation string }

// TestKeys: the keys that are made of the log are those that a scan makes, byte for byte, and so are the
// texts; for values of all types, in columns of all types, character sets and collations.
func TestKeys(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		seed := rand.Uint64()
		if text := os.Getenv("SHUNT_TEST_SEED"); text != "" {
			_, err := fmt.Sscan(text, &seed)
			check(t, err)
		}
		t.Logf("SHUNT_TEST_SEED=%d", seed)
		random := rand.New(rand.NewPCG(seed, 1))
		all := literals(random)
		// As scans set it (indexer/snapshot.go).
		s.exec("SET NAMES utf8mb4", "SET SESSION sql_mode = '', time_zone = '+00:00'")
		tables := s.texts()
		tables["types"] = typesOf(s.mariaDB)
		progress := NewProgress(s.now())
		for name, columns := range tables {
			definitions := []string{"id INT PRIMARY KEY"}
			for i, c := range columns {
				definitions = append(definitions, fmt.Sprintf("c%d %s", i, c))
			}
			s.exec("CREATE TABLE " + name + " (" + strings.Join(definitions, ", ") + ") ROW_FORMAT=DYNAMIC")
			s.exec("BEGIN")
			refused, values := 0, all
			if name != "types" { // so many columns get a part of the values each, others with each seed
				values = nil
				for range 60 {
					values = append(values, all[random.IntN(len(all))])
				}
			}
			for half := range 2 { // a value that one column refuses even so doesn't keep the others from it
				for at := 0; at < len(values); at += 20 {
					some := values[at:min(at+20, len(values))]
					if _, err := s.db.Exec(s.insert(name, at*2+half, len(columns), half, some...)); err == nil {
						continue
					}
					for i, v := range some {
						if _, err := s.db.Exec(s.insert(name, (at+i)*2+half, len(columns), half, v)); err != nil {
							refused++
						}
					}
				}
			}
			s.exec("COMMIT")
			if refused > len(values)/2 {
				t.Errorf("%s: the server refused %d of %d rows", name, refused, 2*len(values))
			}
		}
		s.checkKeys(progress, tables)
	})
}

// insert makes a row of each value, in every second column. Their ids are id, id+2, ..
func (s *server) insert(table string, id, columns, half int, values ...string) string {
	var names, rows []string
	for c := half; c < columns; c += 2 {
		names = append(names, fmt.Sprintf("c%d", c))
	}
	for i, v := range values {
		rows = append(rows, fmt.Sprintf("(%d%s)", id+2*i, strings.Repeat(", "+v, len(names))))
	}
	return fmt.Sprintf("INSERT IGNORE INTO %s (id, %s) VALUES %s", table, strings.Join(names, ", "), strings.Join(rows, ", "))
}

// texts are tables with columns of all collations, by name.
func (s *server) texts() map[string][]string {
	query := "SELECT CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLLATIONS"
	if s.mariaDB {
		query = "SELECT CHARACTER_SET_NAME, FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
	}
	rows, err := s.db.Query(query + " ORDER BY 2")
	check(s.t, err)
	defer rows.Close()
	tables := map[string][]string{}
	n := 0
	for rows.Next() {
		var charset, collation string
		check(s.t, rows.Scan(&charset, &collation))
		if charset == "binary" {
			continue
		}
		types := []string{"varchar(10)", "char(5)"}
		if n%8 == 0 {
			types = append(types, "varchar(300)", "tinytext", "text", "longtext", enums[0], enums[1])
		}
		name := fmt.Sprintf("texts%d", n/25)
		n++
		for _, typ := range types {
			tables[name] = append(tables[name], fmt.Sprintf("%s CHARACTER SET %s COLLATE %s", typ, charset, collation))
		}
	}
	check(s.t, rows.Err())
	return tables
}

// logged is a value of the log.
type logged struct {
	text  []byte
	state State
}

func (s *server) checkKeys(progress *Progress, tables map[string][]string) {
	t := s.t
	got := map[string]logged{}
	until := s.written()
	stream := s.open(progress)
	for !progress.Passed(until) {
		e, err := stream.Next()
		check(t, err)
		switch e := e.(type) {
		case *Unknown:
			if e.Schema == s.schema || e.Schema == "" {
				t.Fatalf("unknown: %+v", e)
			}
		case *Rows:
			if e.Table.Schema != s.schema {
				continue
			}
			check(t, e.Each(func(_, after *Row) error {
				id, _ := after.Append(nil, 0)
				for i := range e.Table.Columns {
					text, state := after.Append(nil, i)
					got[fmt.Sprintf("%s/%s/%s", e.Table.Name, id, e.Table.Columns[i].Name)] = logged{text, state}
				}
				return nil
			}))
		}
	}
	keyed, values, unreadable := map[string]bool{}, 0, map[string]int{}
	for name := range tables {
		columns := s.columns(name)
		rows, err := s.db.Query("SELECT * FROM " + name)
		check(t, err)
		raw := make([]sql.RawBytes, len(columns))
		to := make([]any, len(columns))
		for i := range raw {
			to[i] = &raw[i]
		}
		for rows.Next() {
			check(t, rows.Scan(to...))
			for i, c := range columns {
				v, ok := got[fmt.Sprintf("%s/%s/%s", name, raw[0], c.name)]
				if !ok {
					t.Fatalf("%s: the row %s has not come", name, raw[0])
				}
				values++
				codec, err := keys.For(c.columnType, c.charset, c.collation, s.mariaDB)
				if v.state == Unreadable {
					unreadable[c.columnType+" "+c.charset]++
					if err == nil {
						t.Errorf("%s: %q is unreadable", c, raw[i])
					}
					continue
				}
				text := v.text
				if v.state == Null {
					text = nil
				} else if text, ok = TextOf(c.columnType, append([]byte{}, text...)); !ok {
					t.Errorf("%s: no text of %q", c, v.text)
				}
				if (raw[i] == nil) != (text == nil) || !sameText(c, raw[i], text) {
					t.Errorf("%s: %q by SELECT, %q by the log", c, raw[i], text)
				}
				if err != nil {
					continue
				}
				keyed[c.columnType+c.collation] = true
				want, ok := codec.Scanned(nil, raw[i])
				key, same := codec.Scanned(nil, text)
				if ok != same || !bytes.Equal(want, key) {
					t.Errorf("%s: %q has key %x %v, %q key %x %v", c, raw[i], want, ok, text, key, same)
				}
			}
		}
		check(t, rows.Err())
		rows.Close()
	}
	t.Logf("%d values, %d kinds of columns have keys, unreadable: %v", values, len(keyed), unreadable)
	if len(keyed) < 200 {
		t.Errorf("only %d kinds of columns have keys", len(keyed))
	}
}

// sameText reports whether two texts are the same, but for what Append leaves out.
func sameText(c column, raw, text []byte) bool {
	switch {
	case bytes.Equal(raw, text):
		return true
	case c.collation == "latin2_czech_cs": // has less characters than its character set; there are no keys of it
		return bytes.Equal(raw, []byte("?")) || len(raw) == len(text)
	case c.columnType == "float", c.columnType == "double":
		bits := map[string]int{"float": 32, "double": 64}[c.columnType]
		a, err := strconv.ParseFloat(string(raw), bits)
		b, err2 := strconv.ParseFloat(string(text), bits)
		// A FLOAT's text has six digits.
		return err == nil && err2 == nil && (a == b || bits == 32 && math.Abs(a-b) <= 1e-5*math.Abs(b))
	case strings.Contains(c.columnType, "zerofill"), strings.HasPrefix(c.columnType, "year"):
		return strings.TrimLeft(string(raw), "0") == strings.TrimLeft(string(text), "0")
	}
	return false
}

func (s *server) columns(table string) (list []column) {
	rows, err := s.db.Query("SELECT COLUMN_NAME, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, '') FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION", table)
	check(s.t, err)
	defer rows.Close()
	for rows.Next() {
		var c column
		check(s.t, rows.Scan(&c.name, &c.columnType, &c.charset, &c.collation))
		list = append(list, c)
	}
	check(s.t, rows.Err())
	return list
}
