package proxy

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// copyWay is how an INSERT ... SELECT is executed whose rows move from shard to shard.
var copyWay = &way{
	at:   refused,
	fits: func(_ *session, r *request) bool { return r.plan.Copy != nil },
	explain: func(s *session, ctx context.Context, r *request) ([][]any, error) {
		head, query, tail := r.plan.Copy.Texts(nil)
		return s.explainBehind(ctx, query, explainRow("shard_key", "the query's rows are inserted by statements of many rows", head+"(...)"+tail))
	},
	execute: (*session).copyRows,
}

// copyRows executes an INSERT ... SELECT whose rows come from other shards than
// they go to: the query is run as a client's own, by whatever way answers it,
// and its rows are inserted by statements of many rows, which are routed,
// indexed and counted as any other.
//
//	query ── route, merge or gather ── spool ── collected ── INSERT ... VALUES ── shards
//
// The query's rows are read without locks, as of before the first insert.
func (s *session) copyRows(ctx context.Context, r *request) error {
	if err := s.ambiguous(ctx, r); err != nil {
		return err
	}
	head, query, tail := r.plan.Copy.Texts(r.values)
	rows, err := s.collect(ctx, query)
	if err != nil {
		return err
	}
	c := r.plan.Copy
	if rows, err = s.asStored(ctx, query, rows, &c.Into, c.Lenient); err != nil {
		return err
	}
	defer rows.drop()
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
func (s *session) ambiguous(ctx context.Context, r *request) error {
	all := knowing(r.plan)
	if !r.plan.Copy.Updates() || all.Empty() {
		return nil
	}
	err := s.onOneOf(ctx, all, func(conn *shard.Conn) error {
		_, err := conn.Query(ctx, "EXPLAIN "+r.plan.Copy.Text(r.values))
		return err
	})
	if err != nil && coded(err).Code == mysqlerr.NonUniq {
		return err
	}
	return nil // what else is wrong the query or the inserts say
}

// Known gap: an INSERT ... SELECT that is copied doesn't fail in a strict mode for what its
// condition converts badly where a query doesn't warn of it. Examples: `id = '5x'` on MySQL,
// `WHERE text_column` on MariaDB. Of constants EXPLAIN of the INSERT would tell, for one more
// statement each time.

// strictErrors are what is a warning of a query and, by a strict mode, an
// error where its rows are inserted; strictMySQL and strictMariaDB are of one of them alone:
// CONVERT(x'ff' USING utf8mb4) warns on both (1300), and fails on MariaDB.
// https://dev.mysql.com/doc/refman/9.0/en/sql-mode.html#sql-mode-strict
var (
	strictErrors = []uint16{
		mysqlerr.TruncatedWrongValue, mysqlerr.DivisionByZero, mysqlerr.WarnDataOutOfRange, mysqlerr.WarnDataTruncated, mysqlerr.TruncatedWrongValueForField,
		mysqlerr.WrongValueForType, mysqlerr.DatetimeFunctionOverflow, mysqlerr.CutValueGroupConcat, mysqlerr.WarnAllowedPacketOverflowed,
	}
	strictMySQL   = []uint16{mysqlerr.InvalidArgumentForLogarithm, mysqlerr.InvalidJSONValueForCast, mysqlerr.TemporalFunctionOverflow}
	strictMariaDB = []uint16{mysqlerr.ZlibDataError, mysqlerr.InvalidCharacterString, mysqlerr.BadBase64Data}
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
		if code := codeOf(w); slices.Contains(strictErrors, code) || slices.Contains(own, code) {
			return mysqlerr.New(code, string(w[2]))
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
	return s.temporarily(variable{name, "SET character_set_results = " + charset, charset})
}

// temporarily gives a variable a value of ours.
func (s *session) temporarily(v variable) (undo func()) {
	vars := s.settings.vars
	s.settings.vars = slices.Clone(vars)
	s.settings.with(v)
	s.settings.update(s.catalog())
	return func() {
		s.settings.vars = vars
		s.settings.update(s.catalog())
	}
}

// into prepares the rows for the columns that they go to, nil for one that isn't known. why tells,
// by column, of what literals might store otherwise than a server does from the query.
//
// Counter-example: INSERT INTO t (id, n) SELECT ..., colour FROM u of an ENUM's third
// member stores 3 in an INT, where 'green' stores 0.
func (c *collected) into(to []*catalog.Column, cat *catalog.Catalog) (why []error) {
	c.targets, why = make([]target, len(c.columns)), make([]error, len(c.columns)+1)
	for i := range c.columns {
		if i < len(to) && to[i] != nil { // else a server says what is wrong
			c.targets[i], why[i] = c.intoColumn(&c.columns[i], to[i], cat)
		}
	}
	return why
}

func (c *collected) intoColumn(col *wire.Column, to *catalog.Column, cat *catalog.Catalog) (into target, why error) {
	from := to
	if !c.exact {
		from = nil
		if t := cat.Table(col.Schema, col.OrgTable); t != nil && !t.IsView {
			from = t.Column(col.OrgName)
		}
	}
	name := to.BaseType()
	number, bytes := isNumeric(name), false
	switch name {
	case "bit":
		number, bytes = true, true
	case "binary", "varbinary":
		bytes = true
	case "tinyblob", "blob", "mediumblob", "longblob":
		bytes, into = true, longText
	case "tinytext", "text", "mediumtext", "longtext":
		into = longText
	case "json":
		into = document
	case "timestamp":
		if col.Type == mysql.MYSQL_TYPE_TIMESTAMP {
			into = instant
		}
	}
	if c.exact {
		return into, nil
	}
	if number && col.Flags&(mysql.ENUM_FLAG|mysql.SET_FLAG) != 0 {
		return into, refuse("INSERT ... SELECT of the ENUM or SET column %s into a column of numbers, from other shards than its rows go to, is not supported: write %s + 0, or CONCAT(%s) for its text", col.Name, col.Name, col.Name)
	}
	if into == longText && isFloat(col.Type) && col.Decimals > maxDecimals && col.Flags&mysql.ZEROFILL_FLAG != 0 {
		return into, refuse("INSERT ... SELECT of the ZEROFILL column %s, which has no fixed digits, into a TEXT or BLOB, from other shards than its rows go to, is not supported: write CONCAT(%s)", col.Name, col.Name)
	}
	if what, instead := unsure(col, from != nil, to, c.untold, cat.MariaDB); what != "" {
		return into, refuse("INSERT ... SELECT of the %s %s into a column of type %s, from other shards than its rows go to, is not supported in a query that can't be gathered: write %s", what, col.Name, to.Type, instead)
	}
	if !bytes || !isText(col.Type) || col.Charset == binaryCollation {
		return into, nil
	}
	switch {
	case from == nil:
		into = asciiBytes
	case !slices.Contains([]string{"utf8mb4", "utf8mb3", "utf8", "ascii"}, strings.ToLower(from.Charset)):
		return into, refuse("INSERT ... SELECT of column %s, whose bytes are not those of its text in utf8mb4, into a binary column, from other shards than its rows go to, is not supported: write CAST(%s AS BINARY)", col.Name, col.Name)
	}
	return into, nil
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
		s.diag.give(all.id)
	}
	s.diag.replace(append(rows.warnings, all.warnings...)...)
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
