package proxy

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/scratch"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// A server that inserts a query's rows has more of their values than it answers. Where that
// may be another value in the column at hand, the query is gathered, and its rows are stored
// where it runs in a temporary table of such columns, which are then read:
//
//	INSERT INTO t (k, n) SELECT id + 1, 0x3132 FROM u       12594, and the query answers '12'
//
// What that server warns of, or fails with, is what one server would say. A query that can't
// be gathered is refused then.

// storing is a query whose rows are to be stored so, and what the server told of it.
type storing struct {
	*plan.Stored
	table    string // its name where it is
	warned   uint16
	warnings [][][]byte
}

// asStored are a query's rows as the columns of to take them: those that it answers where
// they tell all, else those of a server that stores them. It drops the rows that it doesn't return.
func (s *session) asStored(ctx context.Context, query string, rows *collected, to *plan.Stored, lenient bool) (*collected, error) {
	why := cmp.Or(rows.into(to.Columns, s.catalog())...)
	var strict error
	if !lenient {
		strict = strictly(rows.warnings, s.catalog().MariaDB)
	}
	if why == nil && strict == nil {
		return rows, nil
	}
	stored, err := s.stored(ctx, query, to)
	if err == nil {
		rows.drop()
		return stored, nil
	}
	rows.drop()
	if coded(err).Code != mysqlerr.NotSupportedYet {
		return nil, err // as one server
	}
	return nil, cmp.Or(why, strict)
}

// stored has a server store a query's rows, and reads them.
func (s *session) stored(ctx context.Context, query string, to *plan.Stored) (*collected, error) {
	st := &storing{Stored: to}
	rows, err := s.collectBy(ctx, query, st)
	if err != nil {
		return nil, err
	}
	rows.warned, rows.warnings = st.warned, st.warnings
	rows.exact = true
	rows.into(to.Columns, s.catalog())
	return rows, nil
}

// makeStoring makes the table of g.r.storing, of the connection that runs the query.
func (g *gathering) makeStoring(ctx context.Context) error {
	st := g.r.storing
	if g.home == nil { // the copies are ordinary tables
		conn, err := g.at.Get(ctx)
		if err != nil {
			return err
		}
		g.home = conn
	}
	definition, ok := st.Definition(g.s.settings.planning, g.s.mariaDB())
	if !ok {
		return refuse("a server can't be asked for what columns of these types or names store")
	}
	st.table = scratch.Table(g.sc.Names(1)[0])
	_, err := g.home.Exec(ctx, "CREATE TEMPORARY TABLE "+st.table+" ("+definition+") ENGINE=InnoDB")
	if err != nil {
		return g.serverError(g.unlessOrdinary(err))
	}
	return nil
}

// store stores the query's rows. REQUIRES: the connection has the session's settings.
func (g *gathering) store(ctx context.Context, query string) error {
	st := g.r.storing
	// Replicas don't have the table. It may be refused.
	if _, err := g.home.ExecAll(ctx, "SET SESSION sql_log_bin = 0"); err != nil {
		return g.serverError(err)
	}
	sum, err := g.home.Exec(ctx, st.Insert(st.table, query, g.s.mariaDB()))
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return g.serverError(g.unlessOrdinary(err))
	}
	if st.warned = sum.Warnings; st.warned == 0 {
		return nil
	}
	res, err := g.home.Query(ctx, "SHOW WARNINGS")
	if err != nil {
		return g.serverError(err)
	}
	for _, w := range res.Rows {
		w[len(w)-1] = []byte(g.original(string(w[len(w)-1])))
	}
	st.warnings = res.Rows
	return nil
}

// unsure is why the answer doesn't tell what a column of that type stores of an expression; "" where it does.
// base: the expression is a column itself.
func unsure(col *wire.Column, base bool, into *catalog.Column, untold planner.Untold, mariaDB bool) (what, instead string) {
	target := into.BaseType()
	number := isNumeric(target)
	text := isTextTarget(target)
	switch {
	case col.Type == mysql.MYSQL_TYPE_BIT && !base:
		return "BIT expression", "CAST(... AS UNSIGNED)"
	case isTime(col.Type) && (target == "year" || target == "bit"),
		// As a number, or as its text: 20240229 or 2024.
		isTime(col.Type) && !base && (number || (col.Type == mysql.MYSQL_TYPE_TIME) != (target == "time") && !text):
		return "expression of a date or time", "CAST(... AS CHAR) or CAST(... AS UNSIGNED)"
	case target == "year" && isText(col.Type):
		return "text", "YEAR(...)" // another error
	case base:
		return "", ""
	case isDecimal(col.Type) && (text || target == "json" || target == "enum" || target == "set"):
		return "DECIMAL expression", "CAST(... AS CHAR)" // 1, and it is shown as 1.000
	case mariaDB && untold.Digits && isDecimal(col.Type) && (target != "decimal" || planner.Scale(into) != int(col.Decimals)):
		return "quotient", "CAST(... AS DECIMAL(m, n))"
	case untold.Bits && number && isText(col.Type) && col.Charset == binaryCollation:
		return "hexadecimal or bit literal", "it as a decimal number, or CONCAT(...)"
	case col.Type == mysql.MYSQL_TYPE_JSON && !text && target != "json":
		return "JSON expression", "JSON_UNQUOTE(...)"
	}
	return "", ""
}

func isDecimal(columnType byte) bool {
	return columnType == mysql.MYSQL_TYPE_DECIMAL || columnType == mysql.MYSQL_TYPE_NEWDECIMAL
}

// isTextTarget reports a column type whose values are texts or bytes.
func isTextTarget(columnType string) bool {
	return slices.ContainsFunc([]string{"char", "text", "binary", "blob"}, func(end string) bool { return strings.HasSuffix(columnType, end) })
}
