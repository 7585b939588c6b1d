package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestDifferential sends the same random statements to Shunt and to one plain
// server: answers, affected rows and errors must agree. What Shunt refuses
// (1235) is not sent to the plain server. SHUNT_SEED repeats a
// run, SHUNT_DIFFERENTIAL sets the number of statements.
func TestDifferential(t *testing.T) {
	suite.Promise(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		for _, shape := range []struct {
			shards  int
			indexes bool
		}{{4, true}, {2, true}, {4, false}, {1, true}} {
			t.Run(fmt.Sprintf("%d shards, index %v", shape.shards, shape.indexes), func(t *testing.T) {
				t.Parallel()
				seed := uint64(envInt(t, "SHUNT_SEED", int(time.Now().UnixNano())))
				t.Logf("SHUNT_SEED=%d", seed)
				d := &differential{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), mariaDB: f.name == "mariadb"}
				d.run(f, shape.shards, shape.indexes)
			})
		}
	})
}

// differential is one run.
type differential struct {
	t            *testing.T
	rnd          *rand.Rand
	mariaDB      bool
	shunt, plain *sql.Conn
	// history are the writes so far, for the report of a difference.
	history []string
	// answered by both; of those, with an error, and with rows; refused by Shunt.
	answered, failed, found, refused int
}

func (d *differential) run(f *flavour, shards int, indexes bool) {
	t := d.t
	servers := f.servers(t)
	p := start(t, f, setup{tables: []string{"people: {shard_key: id}", "pets: {shard_key: owner}"}, servers: servers[:shards]})
	plainSchema := p.schema + "_plain"
	direct := onShard(t, servers[3], "")
	mustExec(t, direct, "CREATE DATABASE "+plainSchema)
	t.Cleanup(func() {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", servers[3].User, servers[3].Password, servers[3].Addr()))
		if err == nil {
			_, _ = db.ExecContext(context.Background(), "DROP DATABASE "+plainSchema) // the servers go anyway
			db.Close()
		}
	})
	d.shunt = p.conn()
	var err error
	if d.plain, err = onShard(t, servers[3], plainSchema).Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer d.plain.Close()

	collations := []string{"utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "latin1_swedish_ci", "utf8mb4_unicode_520_ci"}
	if !d.mariaDB {
		collations = append(collations, "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin")
	}
	collation := d.any(collations...)
	charset, _, _ := strings.Cut(collation, "_")
	t.Logf("collation %s", collation)
	for _, ddl := range []string{
		fmt.Sprintf("CREATE TABLE people (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(20) CHARACTER SET %s COLLATE %s, city CHAR(10) CHARACTER SET %s COLLATE %s NOT NULL DEFAULT 'x', age SMALLINT, paid DECIMAL(6,2), born DATE, KEY (email), KEY (city, age))",
			charset, collation, charset, collation),
		"CREATE TABLE pets (owner BIGINT NOT NULL, name VARCHAR(20) NOT NULL, weight INT UNSIGNED, PRIMARY KEY (owner, name))",
	} {
		mustExec(t, d.shunt, ddl)
		mustExec(t, d.plain, ddl)
	}
	if indexes {
		p.createIndex(d.shunt, "i_email", "people (email)")
		p.createIndex(d.shunt, "i_city_age", "people (city, age) PARTITIONS 2")
		p.createIndex(d.shunt, "i_age", "people (age)")
		p.createIndex(d.shunt, "i_paid", "people (paid)")
		p.createIndex(d.shunt, "i_born", "people (born)")
		p.createIndex(d.shunt, "i_name", "pets (name)")
	}
	n := suite.Size(200, 700)
	for i := range envInt(t, "SHUNT_DIFFERENTIAL", n) {
		if t.Failed() {
			break
		}
		switch {
		case i%100 == 50:
			mode := d.any("''", "'STRICT_TRANS_TABLES'", "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'", "'STRICT_TRANS_TABLES,PAD_CHAR_TO_FULL_LENGTH'")
			if !d.mariaDB {
				mode = d.any("''", "'STRICT_TRANS_TABLES'", "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'")
			}
			mustExec(t, d.shunt, "SET SESSION sql_mode = "+mode)
			mustExec(t, d.plain, "SET SESSION sql_mode = "+mode)
			d.history = append(d.history, "SET SESSION sql_mode = "+mode)
		case d.rnd.IntN(3) == 0:
			d.both(d.write(), true)
		default:
			d.both(d.read(), false)
		}
	}
	d.both("SELECT id, email, city, age, paid, born FROM people", false)
	d.both("SELECT owner, name, weight FROM pets", false)
	t.Logf("%d statements compared: %d failed on both sides, %d found rows or changed some; %d refused", d.answered, d.failed, d.found, d.refused)
	if d.found < n/10 {
		t.Errorf("only %d of %d statements found anything: the test says little", d.found, n)
	}
}

func (d *differential) any(of ...string) string { return of[d.rnd.IntN(len(of))] }

// both runs a statement on both sides and compares.
func (d *differential) both(statement string, write bool) {
	got, gotErr := outcome(d.t.Context(), d.shunt, statement, write)
	if errorCode(gotErr) == 1235 {
		d.refused++
		return
	}
	want, wantErr := outcome(d.t.Context(), d.plain, statement, write)
	d.answered++
	switch {
	case wantErr != nil:
		d.failed++
	case len(want) > 0 && want[0] != "0":
		d.found++
	}
	if write {
		d.history = append(d.history, statement)
	}
	// An error is an error: shards may meet another one of several first.
	if (gotErr == nil) != (wantErr == nil) || gotErr == nil && !slices.Equal(got, want) {
		explained, err := rowsOf(d.t.Context(), d.shunt, "EXPLAIN ROUTE "+statement)
		d.t.Errorf("%s\n shunt: %q %v\n plain: %q %v\n route now: %v %v\n the writes before:\n  %s", statement, got, gotErr, want, wantErr,
			explained, err, strings.Join(d.history[max(0, len(d.history)-40):], ";\n  "))
	}
}

// outcome is a statement's answer in a form that can be compared.
func outcome(ctx context.Context, c *sql.Conn, statement string, write bool) ([]string, error) {
	if write {
		r, err := c.ExecContext(ctx, statement)
		if err != nil {
			return nil, err
		}
		n, err := r.RowsAffected()
		return []string{fmt.Sprint(n)}, err
	}
	rows, err := rowsOf(ctx, c, statement)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, r := range rows {
		var names []string
		for name := range r {
			names = append(names, name)
		}
		slices.Sort(names)
		var line strings.Builder
		for _, name := range names {
			fmt.Fprintf(&line, "%s=%s|", name, r[name])
		}
		lines = append(lines, line.String())
	}
	slices.Sort(lines)
	return lines, nil
}

// equal reports whether the plain server takes two constants for equal.
func (d *differential) equal(a, b string) bool {
	d.t.Helper()
	var equal sql.NullBool
	if err := d.plain.QueryRowContext(d.t.Context(), "SELECT "+a+" = "+b).Scan(&equal); err != nil {
		d.t.Fatal(err)
	}
	return equal.Bool
}

// id is the id of one of a few people.
func (d *differential) id() string { return strconv.Itoa(d.rnd.IntN(40)) }

// text is a value that is like others but for what collations care about.
func (d *differential) text() string {
	base := d.any("ann", "bob", "eve", "straße", "strasse", "émile", "emile", "a", "", "10", "1e1", "x")
	switch d.rnd.IntN(8) {
	case 0:
		base = strings.ToUpper(base)
	case 1:
		base += " "
	case 2:
		base = " " + base
	case 3:
		base += strconv.Itoa(d.rnd.IntN(4))
	}
	return "'" + base + "'"
}

// value is a literal, now and then of a type that the column doesn't have.
func (d *differential) value(column string) string {
	if d.rnd.IntN(12) == 0 {
		column = d.any("id", "email", "age", "paid", "born")
	}
	switch column {
	case "id", "owner":
		return d.id()
	case "age", "weight":
		return d.any(strconv.Itoa(20+d.rnd.IntN(10)), strconv.Itoa(20+d.rnd.IntN(10)), "'21'", "22.5", "-1", "40000", "0")
	case "paid":
		return d.any("1.5", "1.50", "'1.5'", "2", "0.005", "99999.999", "-3.25", "1.555")
	case "born":
		return d.any("'2020-01-02'", "'2020-1-2'", "DATE'2020-01-02'", "20200102", "'2021-12-31'", "'2021-02-30'", "'0000-00-00'", "'2020-01-02 10:00:00'")
	default:
		return d.text()
	}
}

func (d *differential) predicate(depth int) string {
	if depth > 0 && d.rnd.IntN(3) == 0 {
		l, r := d.predicate(depth-1), d.predicate(depth-1)
		switch d.rnd.IntN(5) {
		case 0:
			return "(" + l + " OR " + r + ")"
		case 1:
			return "NOT (" + l + ")"
		default:
			return "(" + l + " AND " + r + ")"
		}
	}
	c := d.any("id", "email", "email", "email", "city", "age", "paid", "born")
	switch d.rnd.IntN(14) {
	case 0:
		return fmt.Sprintf("%s IN (%s, %s, %s)", c, d.value(c), d.value(c), d.value(c))
	case 1:
		low, high := d.value(c), d.value(c)
		// MariaDB may take bounds that are equal in the connection's collation for
		// one value, by the way it reads the table.
		if d.mariaDB && d.equal(low, high) {
			high = low
		}
		// Of a text, a text and a date, what MySQL finds depends on the rows that it read before.
		if strings.HasPrefix(low, "DATE") != strings.HasPrefix(high, "DATE") {
			high = low
		}
		return fmt.Sprintf("%s BETWEEN %s AND %s", c, low, high)
	case 2:
		return fmt.Sprintf("%s %s %s", c, d.any("<", "<=", ">", ">=", "<>"), d.value(c))
	case 3:
		return fmt.Sprintf("email LIKE '%s%%'", d.any("a", "AN", "str", "stra", "e", "x_", "é", ""))
	case 4:
		return c + d.any(" IS NULL", " IS NOT NULL")
	case 5:
		return fmt.Sprintf("%s <=> %s", c, d.any(d.value(c), "NULL"))
	case 6:
		return fmt.Sprintf("city = %s AND age = %s", d.value("city"), d.value("age"))
	case 7:
		return fmt.Sprintf("(city, age) IN ((%s, %s), (%s, %s))", d.value("city"), d.value("age"), d.value("city"), d.value("age"))
	case 8:
		return fmt.Sprintf("%s = %s", d.value(c), c)
	case 9:
		return fmt.Sprintf("email = %s COLLATE utf8mb4_bin", d.value("email"))
	case 10:
		return fmt.Sprintf("email = BINARY %s", d.value("email"))
	default:
		return fmt.Sprintf("%s = %s", c, d.value(c))
	}
}

func (d *differential) read() string {
	switch d.rnd.IntN(12) {
	case 0:
		return "SELECT p.id, p.email, q.name FROM people p JOIN pets q ON q.owner = p.id WHERE q.name = " + d.text()
	case 1:
		return "SELECT p.id, q.name FROM people p LEFT JOIN pets q ON q.owner = p.id AND q.weight = " + d.value("weight") + " WHERE p.email = " + d.text()
	case 2:
		return "SELECT owner, name FROM pets WHERE name IN (" + d.text() + ", " + d.text() + ") AND weight > " + strconv.Itoa(d.rnd.IntN(10))
	case 3:
		return "SELECT COUNT(*) AS n, MAX(age) AS m FROM people WHERE id = " + d.id() + " AND " + d.predicate(1)
	case 4:
		return "SELECT id FROM people WHERE id IN (SELECT owner FROM pets WHERE name = " + d.text() + ") AND " + d.predicate(1)
	default:
		return "SELECT id, email, city, age, paid, born FROM people WHERE " + d.predicate(2)
	}
}

func (d *differential) write() string {
	people := func(n int) string {
		rows := make([]string, n)
		for i := range rows {
			rows[i] = fmt.Sprintf("(%s, %s, %s, %s, %s, %s)", d.id(), d.any(d.value("email"), d.value("email"), "NULL", "CONCAT('a', 'nn')"),
				d.any(d.value("city"), "DEFAULT"), d.any(d.value("age"), "NULL"), d.value("paid"), d.any(d.value("born"), "NULL"))
		}
		return strings.Join(rows, ", ")
	}
	set := func() string {
		c := d.any("email", "city", "age", "paid", "born")
		v := d.value(c)
		if d.rnd.IntN(5) == 0 {
			v = d.any("UPPER(email)", "CONCAT(city, '')", "age", "id", "NULL")
		}
		return c + " = " + v
	}
	switch d.rnd.IntN(12) {
	case 0, 1:
		return "INSERT INTO people (id, email, city, age, paid, born) VALUES " + people(1)
	case 2:
		return "INSERT INTO people (id, email, city, age, paid, born) VALUES " + people(1+d.rnd.IntN(4))
	case 3:
		return "REPLACE INTO people (id, email, city, age, paid, born) VALUES " + people(1)
	case 4:
		return "INSERT INTO people (id, email, city, age, paid, born) VALUES " + people(1) + " ON DUPLICATE KEY UPDATE " +
			d.any(set(), "email = VALUES(email)", "email = VALUES(email), age = VALUES(age)")
	case 5:
		return "INSERT IGNORE INTO people (id, email, city, age, paid, born) VALUES " + people(1)
	case 6:
		return "UPDATE people SET " + set() + ", " + set() + " WHERE id = " + d.id()
	case 7:
		return "UPDATE people SET " + set() + " WHERE email = " + d.value("email")
	case 8:
		return "DELETE FROM people WHERE id = " + d.id()
	case 9:
		// No number for the text: a strict mode refuses it where a row is looked at, and shards that
		// have no row of the age aren't asked.
		return "DELETE FROM people WHERE email = " + d.text() + " AND age = " + d.value("age")
	default:
		return d.any("INSERT INTO", "REPLACE INTO", "INSERT IGNORE INTO") + fmt.Sprintf(" pets (owner, name, weight) VALUES (%s, %s, %s)", d.id(), d.text(), d.value("weight"))
	}
}
