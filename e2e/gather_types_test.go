package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestGatherTypes carries values of all types through scratch tables: what comes
// back, and how expressions see it there, is what one server answers.
func TestGatherTypes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{tables: []string{"kinds: {shard_key: id}"}})
		cols := [][2]string{ // definition, values
			{"b1 TINYINT", "-128|127|NULL"},
			{"b2 TINYINT UNSIGNED ZEROFILL", "0|255|7"},
			{"b3 SMALLINT", "-32768|1|2"},
			{"b4 MEDIUMINT UNSIGNED", "16777215|0|NULL"},
			{"b5 INT", "-2147483648|3|4"},
			{"b6 BIGINT UNSIGNED", "18446744073709551615|0|9223372036854775808"},
			{"b7 BIGINT", "-9223372036854775808|9223372036854775807|NULL"},
			{"d1 DECIMAL(65,30)", "12345678901234567890123456789012345.123456789012345678901234567891|-0.000000000000000000000000000001|NULL"},
			{"d2 DECIMAL(5,0)", "-99999|0|1"},
			{"f1 FLOAT", "1.1|16777217|3.4e38"},
			{"f2 DOUBLE", "0.30000000000000004|-0e0|1.7976931348623157e308"},
			{"f3 DOUBLE", "5e-324|123456789012345680000|1e16"},
			{"f4 FLOAT(7,3)", "1234.567|-0.001|NULL"},
			{"i1 BIT(1)", "b'1'|b'0'|NULL"},
			{"i2 BIT(64)", "b'1111111111111111111111111111111111111111111111111111111111111111'|5|256"},
			{"t1 DATE", "'2020-02-30'|'0000-00-00'|'9999-12-31'"},
			{"t2 DATETIME(6)", "'2020-01-00 10:11:12.000001'|'0000-00-00'|'1000-01-01 00:00:00'"},
			{"t3 TIME(3)", "'-838:59:58.999'|'838:59:59'|'00:00:00.001'"},
			{"t4 YEAR", "0|1901|2155"},
			{"t5 TIMESTAMP(6) NULL", "'2024-10-27 02:30:00.25'|'0000-00-00 00:00:00'|NULL"},
			{"t6 TIMESTAMP NOT NULL DEFAULT '2001-01-01 00:00:00'", "'2024-03-31 01:59:59'|'1970-01-02 00:00:01'|'2038-01-18 00:00:00'"},
			{"t7 DATETIME", "'2021-01-01 01:02:03'|NULL|'2021-01-01'"},
			{"s1 CHAR(10)", "'a  '|''|NULL"},
			{"s2 VARCHAR(50)", `'it''s \\ "q" \n\0\Z%_'|'trail  '|'é😀ß'`},
			{"s3 VARCHAR(20) CHARACTER SET latin1", "'é€ÿ'|X'81'|'z'"},
			{"s4 TEXT CHARACTER SET cp932", "X'879082BE'|X'FA54'|''"},
			{"s5 VARCHAR(20) CHARACTER SET utf16", "'😀a'|''|NULL"},
			{"s6 VARCHAR(20) CHARACTER SET gbk", "X'B0A1A2A2'|'x'|NULL"},
			{"s7 MEDIUMTEXT CHARACTER SET utf8mb3 COLLATE utf8mb3_bin", "'ÄÖ'|'a'|NULL"},
			{"s8 VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin", "'A'|'b'|'~'"},
			{"s9 LONGTEXT CHARACTER SET ucs2", "'Ω'|'a'|''"},
			{"x1 BINARY(4)", "X'00FF'|X''|NULL"},
			{"x2 VARBINARY(20)", "X'2700005C'|X'FFFFFFFF'|''"},
			{"x3 LONGBLOB", "X'0027225C0A'|''|NULL"},
			{"x4 TINYBLOB", "'\\\\'|X'80'|NULL"},
			{"e1 ENUM('x','it''s','','é')", "'it''s'|'no such'|''"},
			{"e2 SET('a','b','c','d')", "'d,a'|''|NULL"},
			{"e3 ENUM('α','β') CHARACTER SET greek NOT NULL DEFAULT 'β'", "'β'|0|1"},
			{"j1 JSON", `'{"b": [1, 2.5, null, "\\u00e9\\"\\\\"], "a": 1.0}'|'null'|NULL`},
			{"g1 GEOMETRY", "POINT(1.5, -2)|ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)|NULL"},
			{"g2 POINT", "POINT(0, 0)|NULL|POINT(1e300, 5)"},
			{"`odd ``name``` INT", "1|2|3"},
			{"n1 INT GENERATED ALWAYS AS (b5 DIV 2) VIRTUAL", ""},
			{"n2 VARCHAR(60) GENERATED ALWAYS AS (CONCAT(s2, '!')) STORED", ""},
			{"v1 INT DEFAULT 5 INVISIBLE", "8|NULL|9"},
		}
		if f.name == "mariadb" {
			cols = append(cols, [2]string{"m1 UUID", "'123e4567-e89b-12d3-a456-426655440000'|NULL|'00000000-0000-0000-0000-000000000001'"}, [2]string{"m2 INET6", "'::1'|'1.2.3.4'|NULL"})
		} else {
			cols = append(cols, [2]string{"m1 VECTOR(3)", "TO_VECTOR('[1,2.5,-3]')|NULL|TO_VECTOR('[0,0,1]')"}, [2]string{"m2 VARCHAR(9) COLLATE utf8mb4_0900_as_cs NOT NULL", "'a'|'A'|'á'"})
		}
		var defs, names []string
		rows := [3][]string{{"1"}, {"2"}, {"3"}}
		insertNames := []string{"id"}
		for _, c := range cols {
			defs = append(defs, c[0])
			name := strings.Fields(c[0])[0]
			if strings.HasPrefix(c[0], "`") {
				name = c[0][:strings.LastIndex(c[0], "`")+1]
			}
			names = append(names, name)
			if c[1] == "" {
				continue
			}
			insertNames = append(insertNames, name)
			for i, v := range strings.Split(c[1], "|") {
				rows[i] = append(rows[i], v)
			}
		}
		var tuples []string
		for _, r := range rows {
			tuples = append(tuples, "("+strings.Join(r, ", ")+")")
		}
		for _, sql := range []string{
			"SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
			"CREATE TABLE kinds (id INT NOT NULL PRIMARY KEY, " + strings.Join(defs, ", ") + ") DEFAULT CHARSET utf8mb4 ROW_FORMAT=DYNAMIC",
			"INSERT INTO kinds (" + strings.Join(insertNames, ", ") + ") VALUES " + strings.Join(tuples, ", "),
		} {
			mustExec(t, g.shunt, sql)
			mustExec(t, g.plain, sql)
		}
		hex := func(alias string) string {
			var out []string
			for _, n := range names {
				if strings.HasPrefix(n, "f") { // HEX() of a double is that of an integer
					out = append(out, alias+"."+n)
				} else {
					out = append(out, fmt.Sprintf("HEX(%s.%s), %s.%s", alias, n, alias, n))
				}
			}
			return strings.Join(out, ", ")
		}
		queries := []string{
			"SELECT a.* FROM kinds a JOIN kinds b ON a.id + 1 = b.id OR a.id = b.id + 2 ORDER BY a.id",
			"SELECT " + hex("a") + " FROM kinds a JOIN kinds b ON a.id + 1 = b.id OR a.id = b.id + 2 ORDER BY a.id",
			"SELECT a.v1, b.e1 + 0, a.e3 + 0, a.f1 = 1.1, a.f2, a.t5 + INTERVAL 1 HOUR, UNIX_TIMESTAMP(a.t6), LENGTH(b.s4) FROM kinds a JOIN kinds b ON b.s2 = a.s2 ORDER BY a.id",
			"SELECT a.id FROM kinds a WHERE a.t1 = '2020-02-30' AND a.s2 IN (SELECT s2 FROM kinds) AND a.s1 = 'A'",
			"SELECT a.id FROM kinds a WHERE a.e1 = '' AND a.id IN (SELECT id FROM kinds WHERE b6 > 5 OR t2 = 0)",
		}
		for _, settings := range []string{
			"SET time_zone = '+05:30', sql_mode = ''",
			"SET NAMES latin1",
			"SET NAMES utf8mb4, time_zone = '-03:00', character_set_results = latin1",
			"SET NAMES utf8mb4, sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
		} {
			mustExec(t, g.shunt, settings)
			mustExec(t, g.plain, settings)
			for _, q := range queries {
				g.gathered(q)
			}
		}
	})
}

// TestGatherJSONValues: what the text of a JSON value doesn't tell is not lost
// in silence.
func TestGatherJSONValues(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{tables: []string{"docs: {shard_key: id}"}})
		for _, sql := range []string{
			"CREATE TABLE docs (id INT PRIMARY KEY, j JSON)",
			`INSERT INTO docs VALUES (1, '{"a": [1, 1.5, 1e100, true, null, "x\\"y"], "b": 12345678901234567890}'), (2, NULL), (3, '[]'), (4, JSON_OBJECT('n', 3, 's', 'é')), (5, '"str"')`,
		} {
			mustExec(t, g.shunt, sql)
			mustExec(t, g.plain, sql)
		}
		query := "SELECT a.id, a.j, JSON_EXTRACT(a.j, '$.a[1]'), JSON_TYPE(JSON_EXTRACT(a.j, '$.b')) FROM docs a JOIN docs b ON b.id = a.id OR b.id = a.id + 1 ORDER BY a.id, b.id"
		g.gathered(query)
		for i, v := range []string{"JSON_OBJECT('d', CAST('2020-01-01 10:00:00' AS DATETIME))", "JSON_ARRAY(1.10)"} {
			mustExec(t, g.shunt, fmt.Sprintf("INSERT INTO docs VALUES (%d, %s)", 10+i, v))
			mustExec(t, g.plain, fmt.Sprintf("INSERT INTO docs VALUES (%d, %s)", 10+i, v))
			if g.mariaDB {
				g.gathered(query) // its JSON is text
				continue
			}
			_, err := rowsOf(t.Context(), g.shunt, query)
			wantError(t, err, 1235, "JSON value of column j")
			mustExec(t, g.shunt, fmt.Sprintf("DELETE FROM docs WHERE id = %d", 10+i))
			mustExec(t, g.plain, fmt.Sprintf("DELETE FROM docs WHERE id = %d", 10+i))
		}
	})
}

// TestGatherLongValues: a value that is too long for a server to convert is an
// error, never NULL.
func TestGatherLongValues(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{tables: []string{"long_texts: {shard_key: id}"}})
		for _, sql := range []string{
			"CREATE TABLE long_texts (id INT PRIMARY KEY, t LONGTEXT, l LONGTEXT CHARACTER SET latin1)",
			"INSERT INTO long_texts VALUES (1, REPEAT('é', 3000000), REPEAT('ab', 1500000)), (2, 'x', 'y')",
		} {
			mustExec(t, g.shunt, sql)
			mustExec(t, g.plain, sql)
		}
		query := "SELECT a.id, LENGTH(a.t), SHA2(a.t, 256), LENGTH(a.l), SHA2(a.l, 256) FROM long_texts a JOIN long_texts b ON a.id + b.id = 3"
		g.gathered(query)
	})
}

// TestGatherConnectionCollation: what the client's strings would be doesn't change
// what is copied.
func TestGatherConnectionCollation(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{tables: []string{"kinds: {shard_key: id}"}})
		columns, values := "d DATE, dt DATETIME(3), t TIME(2), s VARCHAR(10)", "'2024-02-29', '2024-02-29 10:11:12.5', '-10:11:12.25', 'é'"
		if f.name == "mariadb" {
			columns, values = columns+", u UUID, i INET6, j INET4", values+", '123e4567-e89b-12d3-a456-426655440000', '::1', '1.2.3.4'"
		}
		for _, sql := range []string{"CREATE TABLE kinds (id INT PRIMARY KEY, " + columns + ")", "INSERT INTO kinds VALUES (1, " + values + "), (2, " + values + ")"} {
			mustExec(t, g.shunt, sql)
			mustExec(t, g.plain, sql)
		}
		for _, settings := range []string{"SET collation_connection = utf16_general_ci", "SET collation_connection = binary", "SET collation_connection = utf8mb4_bin"} {
			mustExec(t, g.shunt, settings)
			mustExec(t, g.plain, settings)
			g.gathered("SELECT a.* FROM kinds a JOIN kinds b ON a.d = b.d AND a.id < b.id")
		}
	})
}

// TestGatherColumnOrigins: the original names and flags of columns that are gathered are those that a server gives them, which
// are its temporary table's for what is computed, and for UNION and window functions.
func TestGatherColumnOrigins(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"users: {shard_key: id}", "orders: {shard_key: id}"}})
		w.exec("CREATE TABLE users (id BIGINT PRIMARY KEY, age INT)", "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT, total INT)",
			"INSERT INTO users VALUES (1, 20), (2, 30), (3, 40)", "INSERT INTO orders VALUES (10, 1, 5), (11, 2, 6), (12, 2, 7)")
		for _, query := range []string{
			"SELECT id * 2 AS x FROM users UNION SELECT total FROM orders WHERE user_id IN (SELECT id FROM users)",
			"SELECT u.id, SUM(o.total) OVER (ORDER BY o.id) AS s FROM users u JOIN orders o ON o.user_id = u.id",
			"SELECT u.age + 1 AS a, COUNT(*) AS n FROM users u JOIN orders o ON o.user_id = u.id GROUP BY a",
			"SELECT u.age, o.total + 1 FROM users u JOIN orders o ON o.user_id = u.id",
			"SELECT DISTINCT u.age + 1 AS a, o.total FROM users u JOIN orders o ON o.user_id = u.id",
		} {
			got, err := w.shunt.Execute(query)
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			want, err := w.plain.Execute(query)
			if err != nil {
				t.Fatal(err)
			}
			planned := !strings.Contains(query, "UNION") && !strings.Contains(query, "OVER") // flags depend on the server's plan
			for i, f := range got.Fields {
				if o := want.Fields[i]; string(f.OrgName) != string(o.OrgName) || string(f.OrgTable) != string(o.OrgTable) || string(f.Table) != string(o.Table) || f.Flag != o.Flag && !planned {
					t.Errorf("%s: column %s is %s.%s of %s, flags %x; want %s.%s of %s, %x", query, f.Name, f.OrgTable, f.OrgName, f.Table, f.Flag, o.OrgTable, o.OrgName, o.Table, o.Flag)
				}
			}
		}
	})
}
