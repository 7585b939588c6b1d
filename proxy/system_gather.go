package proxy

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Known gap: the answer has the column types of JSON_TABLE's columns, all of which may be
// NULL. Drivers' own queries about tables and columns see that.

// maxSystem bounds the rows of a system table that are sent to a shard, as
// MariaDB's default of max_allowed_packet does.
const maxSystem = 15 << 20

// systemColumn is a column of a system table.
type systemColumn struct {
	name, typ string
	collation string // "" for one that holds no text
}

// gatherSystem gathers system tables from all shards and runs the query over
// them on one. A shard has its own in the same place, so the rows go there as a
// JSON text in a user variable, which JSON_TABLE makes a table of.
func (s *session) gatherSystem(ctx context.Context, r *request) error {
	b := r.bound
	sys, run := b.System, b.Statements[0]
	tables := make([]string, len(sys.Sources))
	texts := make([][]byte, len(sys.Sources))
	for i, t := range sys.Sources {
		if sys.Here {
			tables[i] = besideOwn(t, s.catalog().MariaDB)
			continue
		}
		cols, err := s.systemColumns(ctx, t)
		if err != nil {
			return err
		}
		rows, err := s.systemRows(ctx, run.Shard, t, cols)
		if err != nil {
			return err
		}
		if texts[i], err = json.Marshal(rows); err != nil {
			return err
		}
		if 2*len(texts[i]) > maxSystem {
			return refuse("information_schema.%s has too many rows over all shards (%d) for a query like this: name its schema in SHOW statements, or ask one shard with /* shunt: shard=NAME */", strings.ToUpper(t.Name), len(rows))
		}
		tables[i] = jsonTable(i, cols, !s.catalog().MariaDB && t.Name != "processlist")
	}
	var sql strings.Builder
	for i, part := range sys.Parts {
		sql.WriteString(part)
		if i < len(sys.Order) {
			sql.WriteString(tables[sys.Order[i]])
		}
	}
	conn, err := s.borrow(ctx, run.Shard)
	if err != nil {
		return err
	}
	defer s.giveBack(run.Shard, conn)
	if sys.Here {
		texts = nil
	}
	for i, text := range texts {
		set := fmt.Sprintf("SET @shunt_system_%d = CONVERT(0x%s USING utf8mb4)", i, hex.EncodeToString(text))
		if _, err := conn.Exec(ctx, set); err != nil {
			return s.shardError(run.Shard, err)
		}
	}
	defer func() {
		for i := range texts {
			if conn.Broken || conn.Busy() {
				return
			}
			if _, err := conn.Exec(ctx, fmt.Sprintf("SET @shunt_system_%d = NULL", i)); err != nil {
				conn.Broken = true // not for another session
			}
		}
	}()
	unlimit, err := s.limitOn(ctx, conn, r)
	if err != nil {
		return s.unsent(run.Shard, err)
	}
	defer unlimit()
	willAssign(r, conn)
	if err := s.send(ctx, conn, r, plan.ShardStatement{Shard: run.Shard, SQL: sql.String(), Params: run.Params}); err != nil {
		return err
	}
	sum, err := conn.Forward(s.client, shard.Result, s.forwardOptions())
	if err := s.forwarded(run.Shard, &sum, err); err != nil {
		return err
	}
	s.diag.keep(ctx, conn, &sum)
	if slices.ContainsFunc(sys.Sources, func(t *plan.SystemTable) bool { return t.Name == "processlist" }) {
		s.diag.add(s.unheardWarnings()...)
	}
	unlimit()
	s.diag.find(ctx, conn, r.found, &sum)
	return s.tookOver(ctx, r, run.Shard, conn)
}

// jsonTable is the table that the i-th variable's text is read as. In MySQL most
// tables of information_schema are views: a column is answered by its own name,
// however the query writes it, as from a derived table. In MariaDB, and of PROCESSLIST, it is answered
// as written, as from a derived table with a LIMIT; JSON_TABLE alone would do that
// too, but MariaDB 10.11 crashes where a column of it is named with a schema. The
// paths tell their character set: MySQL takes none of the session's where it is binary.
func jsonTable(i int, cols []systemColumn, view bool) string {
	var defs, names []string
	for n, c := range cols {
		text := ""
		if c.collation != "" {
			charset, _, _ := strings.Cut(c.collation, "_")
			text = " CHARACTER SET " + charset + " COLLATE " + c.collation
		}
		defs = append(defs, fmt.Sprintf("%s %s%s PATH _utf8mb4'$[%d]'", catalog.QuoteName(c.name), c.typ, text, n))
		names = append(names, catalog.QuoteName(c.name))
	}
	table := fmt.Sprintf("JSON_TABLE(@shunt_system_%d, _utf8mb4'$[*]' COLUMNS (%s))", i, strings.Join(defs, ", "))
	return fmt.Sprintf("(SELECT %s FROM %s AS shunt_system%s)", strings.Join(names, ", "), table, asWritten(view))
}

// asWritten has columns of a derived table answered as the query writes them, as of what is no
// view.
func asWritten(view bool) string {
	if !view {
		return " LIMIT 18446744073709551615"
	}
	return ""
}

// besideOwn is a system table without the rows of Shunt's own schemas.
func besideOwn(t *plan.SystemTable, mariaDB bool) string {
	return fmt.Sprintf("(SELECT * FROM %s.%s WHERE %s NOT IN ('%s')%s)", t.Schema, strings.ToUpper(t.Name), t.Owner, strings.Join(catalog.OwnSchemas, "', '"), asWritten(!mariaDB))
}

// systemColumns asks a shard for the columns of a system table.
func (s *session) systemColumns(ctx context.Context, t *plan.SystemTable) ([]systemColumn, error) {
	if cols, ok := s.proxy.systemColumns.Load(t.Name); ok {
		return cols.([]systemColumn), nil
	}
	name := t.Name
	if t.Schema == "information_schema" {
		name = strings.ToUpper(name)
	}
	sql := "SELECT COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '" + t.Schema + "' AND TABLE_NAME = '" + name + "' ORDER BY ORDINAL_POSITION"
	res, err := s.askOne(ctx, plan.ShardStatement{Shard: s.anyShard(), SQL: sql})
	if err != nil {
		return nil, err
	}
	// The views of MySQL answer other integers than they say: NON_UNIQUE, an int, is a bigint.
	shown, err := s.askOne(ctx, plan.ShardStatement{Shard: s.anyShard(), SQL: "SELECT * FROM " + t.Schema + "." + name + " LIMIT 0"})
	if err != nil || len(shown.Definitions) != len(res.Rows) {
		return nil, cmp.Or(err, fmt.Errorf("the shards don't tell the columns of %s.%s that they answer", t.Schema, name))
	}
	var cols []systemColumn
	for i, row := range res.Rows {
		// utf8mb3 is deprecated, which MySQL warns of; its collations sort as
		// those of utf8mb4 do.
		c := systemColumn{name: string(row[0]), typ: string(row[1]), collation: strings.Replace(string(row[2]), "utf8mb3_", "utf8mb4_", 1)}
		if c.collation == "utf8mb4_tolower_ci" {
			c.collation = "utf8mb4_general_ci" // the one that has no likeness
		}
		if s.catalog().MariaDB && (strings.HasPrefix(c.typ, "enum") || strings.HasPrefix(c.typ, "set")) {
			c.typ = "varchar(512)" // JSON_TABLE there knows neither
		}
		c.typ = integerType(c.typ, shown.Definitions[i])
		if after, ok := strings.CutPrefix(c.typ, "timestamp"); ok {
			c.typ = "datetime" + after // 0000-00-00 is none of a timestamp's
		}
		cols = append(cols, c)
	}
	if len(cols) == 0 {
		return nil, fmt.Errorf("the shards tell nothing of %s.%s", t.Schema, name)
	}
	s.proxy.systemColumns.Store(t.Name, cols)
	return cols, nil
}

// integerType is that of an INT or BIGINT as a server answers it.
func integerType(typ string, shown wire.Column) string {
	name, sign, _ := strings.Cut(typ, " ")
	switch {
	case name == "int" && shown.Type == mysql.MYSQL_TYPE_LONGLONG:
		name = "bigint"
	case name == "bigint" && shown.Type == mysql.MYSQL_TYPE_LONG:
		name = "int"
	}
	return strings.TrimSpace(name + " " + sign)
}

// systemRows are the rows of a system table over all shards; those of the
// servers' own schemas are of the shard that is named.
func (s *session) systemRows(ctx context.Context, run catalog.ShardID, t *plan.SystemTable, cols []systemColumn) ([][]any, error) {
	switch t.Name {
	case "processlist":
		return s.processRows(ctx, cols), nil
	case "session_connect_attrs", "session_account_connect_attrs":
		return s.attributeRows(cols, t.Name == "session_account_connect_attrs"), nil
	}
	// Whatever character set the session has its results in, these are ASCII.
	exprs := make([]string, len(cols))
	for i, c := range cols {
		exprs[i] = catalog.QuoteName(c.name)
		if c.collation != "" {
			exprs[i] = "HEX(CONVERT(" + exprs[i] + " USING utf8mb4)) AS " + catalog.QuoteName(c.name)
		}
	}
	var statements []plan.ShardStatement
	for _, sh := range s.catalog().Shards {
		sql := "SELECT " + strings.Join(exprs, ", ") + " FROM information_schema." + strings.ToUpper(t.Name)
		if sh.ID != run {
			sql += " WHERE " + strings.ToUpper(t.Owner) + " NOT IN ('mysql','information_schema','performance_schema','sys')"
		}
		statements = append(statements, plan.ShardStatement{Shard: sh.ID, SQL: sql})
	}
	// Connections are taken in the order of the shards, as everywhere.
	slices.SortStableFunc(statements, func(a, b plan.ShardStatement) int { return int(a.Shard) - int(b.Shard) })
	answers, err := s.ask(ctx, statements)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(answers, func(a, b said) int {
		if a.shard == run {
			return -1
		}
		if b.shard == run {
			return 1
		}
		return 0
	})
	for _, a := range answers {
		if a.err != nil {
			return nil, a.err
		}
		for _, row := range a.res.Rows {
			for i, c := range cols {
				if c.collation == "" || row[i] == nil {
					continue
				}
				text := make([]byte, hex.DecodedLen(len(row[i])))
				if _, err := hex.Decode(text, row[i]); err != nil {
					return nil, fmt.Errorf("read information_schema.%s: %w", t.Name, err)
				}
				row[i] = text
			}
		}
	}
	joined, err := s.join(t, answers)
	if err != nil {
		return nil, err
	}
	return texts(joined), nil
}
