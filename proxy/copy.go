package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// copyRows executes an INSERT ... SELECT whose rows come from other shards than
// they go to: the query is run as a client's own, by whatever way answers it,
// and its rows are inserted by statements of many rows, which are routed,
// indexed and counted as any other.
//
//	query ── route, merge or gather ── spool ── collected ── INSERT ... VALUES ── shards
//
// The query's rows are read without locks, as of before the first insert.
func (s *session) copyRows(ctx context.Context, r request) error {
	if err := s.ambiguous(ctx, r); err != nil {
		return err
	}
	head, query, tail := r.plan.Copy.Texts(r.values)
	rows, err := s.collect(ctx, query)
	if err != nil {
		return err
	}
	defer rows.drop()
	if !r.plan.Copy.Lenient {
		if err := strictly(rows.warnings, s.catalog().MariaDB); err != nil {
			return err
		}
	}
	if err := rows.into(r.plan.Copy.Target, s.catalog()); err != nil {
		return err
	}
	total, err := s.insertCollected(ctx, rows, head, tail)
	if err != nil {
		return err
	}
	return s.answerOK(total)
}

// ambiguous fails where a name behind ON DUPLICATE KEY UPDATE means a column of the table and
// one of the query's tables, which are not in sight behind the rows that were copied. A shard
// tells by EXPLAIN: MariaDB doesn't as it prepares.
//
// Counter-example: INSERT INTO t (k, n) SELECT id, n FROM u ON DUPLICATE KEY UPDATE n = n + 1,
// where n is t's and u's: an error (1052), which inserts of u's rows don't have.
func (s *session) ambiguous(ctx context.Context, r request) error {
	const ambiguousName = 1052
	all := knowing(r.plan)
	if !r.plan.Copy.Updates() || all.Empty() {
		return nil
	}
	err := s.onOneOf(ctx, all, func(conn *shard.Conn) error {
		_, err := conn.Query(ctx, "EXPLAIN "+r.plan.Copy.Text(r.values))
		return err
	})
	if err != nil && coded(err).code == ambiguousName {
		return err
	}
	return nil // what else is wrong the query or the inserts say
}

// strictErrors are the SQLSTATEs of what is a warning of a query and, by a strict mode, an
// error where its rows are inserted; strictMySQL and strictMariaDB are of one of them alone:
// CONVERT(x'ff' USING utf8mb4) warns on both (1300), and fails on MariaDB.
// https://dev.mysql.com/doc/refman/9.0/en/sql-mode.html#sql-mode-strict
var (
	strictErrors = map[string]string{
		"1292": "22007", "1365": "22012", "1264": "22003", "1265": "01000", "1366": "HY000", "1411": "HY000", "1441": "22008", "1260": "HY000", "1301": "HY000",
	}
	strictMySQL   = map[string]string{"3020": "2201E", "3156": "22018", "6527": "22008"}
	strictMariaDB = map[string]string{"1259": "HY000", "1300": "HY000", "1958": "HY000"}
)

// nullDate is what MySQL warns of as it groups rows of which the first has NULL for a DATE. That
// depends on the order in which rows come, and the answer is right.
const nullDate = "Incorrect date value: '0000-00-00' for column "

// strictly is the error that a strict server makes of a query's first warning when
// its rows are inserted; nil where it stays a warning.
func strictly(warnings [][][]byte, mariaDB bool) error {
	own := strictMySQL
	if mariaDB {
		own = strictMariaDB
	}
	for _, w := range warnings {
		if len(w) < 3 || string(w[0]) != "Warning" || strings.HasPrefix(string(w[2]), nullDate) {
			continue
		}
		if state := cmp.Or(strictErrors[string(w[1])], own[string(w[1])]); state != "" {
			code, err := strconv.ParseUint(string(w[1]), 10, 16)
			if err != nil {
				continue
			}
			return sqlError{uint16(code), state, string(w[2])}
		}
	}
	return nil
}

// inUTF8 has texts answered in utf8mb4, in which literals name them whatever the
// client's own character set is.
//
// Counter-example: SET NAMES latin1; INSERT INTO t SELECT ... of a text with a euro
// sign and a snowman, which latin1 makes a question mark of.
func (s *session) inUTF8() (undo func()) { return s.resultsIn("utf8mb4") }

// resultsIn has texts answered in a character set.
func (s *session) resultsIn(charset string) (undo func()) {
	const name = "@@character_set_results"
	if _, set := s.settings.value(name); !set && s.settings.charset == charset {
		return func() {}
	}
	vars := s.settings.vars
	s.settings.vars = slices.Clone(vars)
	s.settings.with(variable{name, "SET character_set_results = " + charset, charset})
	s.settings.update(s.catalog())
	return func() {
		s.settings.vars = vars
		s.settings.update(s.catalog())
	}
}

// into prepares the rows for the columns that they go to, whose types typeOf tells, and refuses
// what literals would store otherwise than the server.
//
// Counter-example: INSERT INTO t (id, n) SELECT ..., colour FROM u of an ENUM's third
// member stores 3 in an INT, where 'green' stores 0.
func (c *collected) into(typeOf func(i int) string, cat *catalog.Catalog) error {
	c.targets = make([]target, len(c.columns))
	for i, col := range c.columns {
		target := typeOf(i)
		number, bytes := isNumeric(target), false
		switch target {
		case "bit":
			number, bytes = true, true
		case "binary", "varbinary":
			bytes = true
		case "tinyblob", "blob", "mediumblob", "longblob":
			bytes, c.targets[i] = true, longText
		case "tinytext", "text", "mediumtext", "longtext":
			c.targets[i] = longText
		case "json":
			c.targets[i] = document
		case "timestamp":
			if col.Type == mysql.MYSQL_TYPE_TIMESTAMP && col.OrgName != "" {
				c.targets[i] = instant
			}
		}
		if number && col.Flags&(mysql.ENUM_FLAG|mysql.SET_FLAG) != 0 {
			return refuse("INSERT ... SELECT of the ENUM or SET column %s into a column of numbers, from other shards than its rows go to, is not supported: write %s + 0, or CONCAT(%s) for its text", col.Name, col.Name, col.Name)
		}
		if c.targets[i] == longText && isFloat(col.Type) && col.Decimals > maxDecimals && col.Flags&mysql.ZEROFILL_FLAG != 0 {
			return refuse("INSERT ... SELECT of the ZEROFILL column %s, which has no fixed digits, into a TEXT or BLOB, from other shards than its rows go to, is not supported: write CONCAT(%s)", col.Name, col.Name)
		}
		if !bytes || !isText(col.Type) || col.Charset == binaryCollation {
			continue
		}
		var from *catalog.Column
		if t := cat.Table(col.Schema, col.OrgTable); t != nil {
			from = t.Column(col.OrgName)
		}
		switch {
		case from == nil:
			c.targets[i] = asciiBytes
		case !slices.Contains([]string{"utf8mb4", "utf8mb3", "utf8", "ascii"}, strings.ToLower(from.Charset)):
			return refuse("INSERT ... SELECT of column %s, whose bytes are not those of its text in utf8mb4, into a binary column, from other shards than its rows go to, is not supported: write CAST(%s AS BINARY)", col.Name, col.Name)
		}
	}
	return nil
}

// isNumeric reports a column type whose values are numbers.
func isNumeric(columnType string) bool {
	switch columnType {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "decimal", "numeric", "float", "double", "real", "year":
		return true
	}
	return false
}

// insertCollected inserts rows by statements that begin with head and end with
// tail, all of them or none.
func (s *session) insertCollected(ctx context.Context, rows *collected, head, tail string) (wire.OK, error) {
	if err := s.onceOnly(ctx, rows); err != nil {
		return wire.OK{}, err
	}
	var all insertedRows
	err := s.within(ctx, func() error { return all.addRows(ctx, s, rows, head, tail) })
	if err != nil {
		return wire.OK{}, err
	}
	if all.id != 0 {
		s.last.give(all.id)
	}
	s.last.warnings = append(rows.warnings, all.warnings...)
	all.ok.Warnings = warningCount(int(rows.warned) + int(all.ok.Warnings))
	if all.ok.Info = joinInfo(all.infos); rows.count == 0 {
		all.ok.Info = "Records: 0  Duplicates: 0  Warnings: 0"
	}
	all.ok.Info = infoWarnings.ReplaceAllString(all.ok.Info, fmt.Sprintf("Warnings: %d", all.ok.Warnings))
	return all.ok, nil
}

// onceOnly refuses TIMESTAMPs of days on which clocks are set back: a literal is of the
// session's time zone, in which an hour of these comes twice.
//
// Counter-example: in Berlin 00:30 and 01:30 UTC of 2024-10-27 are both 02:30.
func (s *session) onceOnly(ctx context.Context, rows *collected) error {
	days, err := rows.days()
	if zone, set := s.settings.value("@@time_zone"); err != nil || set && offset.MatchString(zone) {
		return err
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(days)), 500) {
		var day []byte
		err := s.computed(ctx, "SELECT CAST(MIN(d) AS CHAR) FROM (SELECT DATE'"+strings.Join(part, "' AS d UNION ALL SELECT DATE'")+
			"' AS d) AS days WHERE UNIX_TIMESTAMP(d + INTERVAL 1 DAY) - UNIX_TIMESTAMP(d) > 86400", func(row [][]byte, _ []wire.Column) { day = row[0] })
		if err != nil {
			return err
		}
		if day != nil {
			return refuse("INSERT ... SELECT of a TIMESTAMP of %s, when clocks are set back in the session's time zone, from other shards than its rows go to is not supported: SET time_zone = '+00:00'", day)
		}
	}
	return nil
}

// offset is a time zone without a clock that is ever set.
var offset = regexp.MustCompile(`^'?[+-][0-9]`)

// days are those of the values that go to an instant.
func (c *collected) days() (map[string]bool, error) {
	out := map[string]bool{}
	if !slices.Contains(c.targets, instant) {
		return out, nil
	}
	for c.left > 0 {
		p, err := c.next()
		if err != nil {
			return nil, err
		}
		nulls, p, ok := wire.TakeNulls(p, len(c.columns))
		if !ok {
			return nil, wire.ErrMalformed
		}
		for i := range c.columns {
			if nulls.Has(i) {
				continue
			}
			v, rest, ok := wire.TakeBinary(p, c.columns[i].Type)
			if !ok {
				return nil, wire.ErrMalformed
			}
			if p = rest; c.targets[i] == instant && len(v) > 0 {
				x := wire.Param{Type: mysql.MYSQL_TYPE_DATE, Data: v}
				out[x.Text()] = true
			}
		}
	}
	return out, c.rewind()
}
