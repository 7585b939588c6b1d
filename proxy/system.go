package proxy

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// system answers a statement about the servers and their schemas.
func (s *session) system(ctx context.Context, r request, b *planner.Bound) error {
	switch {
	case b.System.Route != nil:
		return s.explained(ctx, r, b)
	case b.System.Any:
		return s.askAny(ctx, b)
	case len(b.System.Sources) > 0:
		return s.gatherSystem(ctx, r, b)
	}
	return s.everywhere(ctx, b)
}

// said is what one shard answered.
type said struct {
	shard catalog.ShardID
	res   *shard.QueryResult
	err   error
}

// ask sends statements to their shards and waits for all answers.
func (s *session) ask(ctx context.Context, statements []planner.ShardStatement) ([]said, error) {
	out := make([]said, len(statements))
	conns := make([]*shard.Conn, len(statements))
	defer func() {
		for i, conn := range conns {
			if conn != nil {
				s.giveBack(statements[i].Shard, conn)
			}
		}
	}()
	for i, st := range statements {
		conn, err := s.borrow(ctx, st.Shard)
		if err != nil {
			return nil, err
		}
		conns[i] = conn
		s.activity.sent(st.Shard, conn)
	}
	var wg sync.WaitGroup
	for i, st := range statements {
		wg.Go(func() {
			res, err := conns[i].Query(ctx, st.SQL)
			out[i] = said{st.Shard, res, err}
		})
	}
	wg.Wait()
	s.last.warnings = nil
	for i := range out {
		if out[i].err == nil && out[i].res.Summary.Warnings > 0 {
			if w, err := conns[i].Query(ctx, "SHOW WARNINGS"); err == nil {
				s.last.warnings = append(s.last.warnings, w.Rows...)
			}
		}
		if out[i].err != nil {
			out[i].err = s.shardError(out[i].shard, out[i].err)
		}
	}
	return out, nil
}

// everywhere answers with what all shards say, joined.
func (s *session) everywhere(ctx context.Context, b *planner.Bound) error {
	if b.System.Everywhere {
		if err := s.commit(ctx); err != nil {
			return err
		}
	}
	answers, err := s.ask(ctx, b.Statements)
	if err != nil {
		return err
	}
	var failed, done []string
	var first error
	for _, a := range answers {
		name := s.catalog().ShardName(a.shard)
		if a.err != nil {
			if first == nil {
				first = a.err
			}
			failed = append(failed, fmt.Sprintf("%s: %v", name, a.err))
			continue
		}
		done = append(done, name)
	}
	switch {
	case first != nil && b.System.Everywhere && len(done) > 0:
		e := coded(first)
		e.msg = fmt.Sprintf("done on %s, and failed on %s", strings.Join(done, ", "), strings.Join(failed, "; "))
		return e
	case first != nil:
		return first
	}
	if !answers[0].res.Summary.ResultSet {
		ok := wire.OK{}
		for _, a := range answers {
			ok.Affected, ok.Warnings = ok.Affected+a.res.Summary.Affected, ok.Warnings+a.res.Summary.Warnings
		}
		return s.answerOK(ok)
	}
	t := b.System.Rows
	if t == nil {
		t = &planner.SystemTable{Each: true}
	}
	rows, err := s.join(t, answers)
	if err != nil {
		return err
	}
	return s.answerTexts(answers[0].res.Definitions, rows)
}

// answerTexts answers with rows as shards gave them.
func (s *session) answerTexts(cols []wire.Column, rows [][][]byte) error {
	if n := s.settings.own.limit.rows; s.cutsShown && uint64(len(rows)) > n {
		rows = rows[:n]
	}
	out := make([][]any, len(rows))
	for i, row := range rows {
		out[i] = make([]any, len(row))
		for j, v := range row {
			if v != nil {
				out[i][j] = string(v)
			}
		}
	}
	return s.answerRows(cols, out)
}

// askAny asks one shard after the other until one knows the answer.
func (s *session) askAny(ctx context.Context, b *planner.Bound) error {
	var first error
	for _, st := range b.Statements {
		answers, err := s.ask(ctx, []planner.ShardStatement{st})
		if err == nil {
			err = answers[0].err
		}
		if err == nil {
			return s.answerTexts(answers[0].res.Definitions, answers[0].res.Rows)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// joiner makes rows of several shards into those that one server would have.
type joiner struct {
	c       *catalog.Catalog
	t       *planner.SystemTable
	user    *User
	columns []string // lower case
	rows    [][][]byte
	byKey   map[string]int
	// of Each: the shards that gave a row, and where the rows of a table are.
	from []catalog.ShardSet
	// order is that of the tables in the statement.
	order []string
}

func (s *session) join(t *planner.SystemTable, answers []said) ([][][]byte, error) {
	j := &joiner{c: s.catalog(), t: t, user: s.rights(), byKey: map[string]int{}}
	for _, c := range answers[0].res.Columns {
		j.columns = append(j.columns, strings.ToLower(c))
	}
	var asked catalog.ShardSet
	if t.Each {
		// Every shard speaks of every table, if only to say that it isn't there:
		// the first one has them in the statement's order.
		for _, row := range answers[0].res.Rows {
			if name := string(j.column(row, t.Table)); !slices.Contains(j.order, name) {
				j.order = append(j.order, name)
			}
		}
	}
	for i, a := range answers {
		if len(a.res.Columns) != len(j.columns) {
			return nil, fmt.Errorf("shard %s answers other columns than %s: are their versions the same?", s.catalog().ShardName(a.shard), s.catalog().ShardName(answers[0].shard))
		}
		asked.Add(a.shard)
		for _, row := range a.res.Rows {
			j.add(a.shard, i == 0, row)
		}
	}
	j.finish(asked)
	return j.rows, nil
}

// column is a row's value by column name; nil where there is no such column.
func (j *joiner) column(row [][]byte, name string) []byte {
	if i := slices.Index(j.columns, name); name != "" && i >= 0 && i < len(row) {
		return row[i]
	}
	return nil
}

// table is the table that a row is about; nil for none that is known.
func (j *joiner) table(row [][]byte) *catalog.Table {
	schema := j.t.OfSchema
	if j.t.Owner != "" {
		schema = string(j.column(row, j.t.Owner))
	}
	name := string(j.column(row, j.t.Table))
	switch {
	case j.t.Table == "" && j.t.OfSchema != "" && len(row) > 0: // SHOW TABLES
		name = string(row[0])
	case schema == "":
		schema, name, _ = strings.Cut(name, ".") // as table maintenance answers
	}
	return j.c.Table(schema, name)
}

func (j *joiner) add(id catalog.ShardID, first bool, row [][]byte) {
	schema := j.column(row, j.t.Owner)
	if j.t.Schemas {
		schema = row[0]
	}
	if strings.EqualFold(string(schema), catalog.ScratchSchema) {
		return // Shunt's own, of no use to a client
	}
	if len(schema) > 0 && !j.user.sees(string(schema), j.c) {
		return
	}
	t := j.table(row)
	if t != nil && !t.Shards.Has(id) {
		return // a leftover that no statement reaches
	}
	if j.t.Owner != "" && !first && catalog.IsSystemSchema(string(schema)) {
		return
	}
	var key []byte
	switch {
	case j.t.Each:
		for _, v := range row {
			key = append(wire.AppendLenBytes(key, v), 0)
		}
	case len(j.t.Key) == 0:
		key = row[0]
	default:
		for _, name := range j.t.Key {
			key = append(append(key, j.column(row, name)...), 0)
		}
	}
	at, seen := j.byKey[string(key)]
	if !seen {
		j.byKey[string(key)] = len(j.rows)
		j.rows = append(j.rows, row)
		j.from = append(j.from, catalog.Only(id))
		return
	}
	j.from[at].Add(id)
	if t != nil && t.Placement == catalog.Reference {
		return // a full copy, which counts once
	}
	for i, name := range j.columns {
		j.rows[at][i] = joinValues(j.t.Join[name], j.rows[at][i], row[i])
	}
}

// joinValues joins the values of two shards; nil is NULL.
func joinValues(how planner.Joining, a, b []byte) []byte {
	if how == planner.Checksum && (a == nil || b == nil) {
		return nil
	}
	if how == 0 || b == nil {
		return a
	}
	if a == nil {
		return b
	}
	x, errX := strconv.ParseUint(string(a), 10, 64)
	y, errY := strconv.ParseUint(string(b), 10, 64)
	numbers := errX == nil && errY == nil
	less := bytes.Compare(a, b) < 0
	if numbers {
		less = x < y
	}
	switch {
	case how == planner.Sum && numbers:
		return strconv.AppendUint(nil, x+y, 10)
	case how == planner.Checksum && numbers:
		return strconv.AppendUint(nil, (x+y)&0xFFFFFFFF, 10)
	case how == planner.Largest && less, how == planner.Smallest && !less:
		return b
	}
	return a
}

func (j *joiner) finish(asked catalog.ShardSet) {
	for i, row := range j.rows {
		if j.t.Each {
			holders := asked
			if t := j.table(row); t != nil {
				holders = asked.Intersect(t.Shards)
			}
			if j.from[i] != holders && len(row) > 0 {
				var names []string
				for id := range j.from[i].All {
					names = append(names, j.c.ShardName(id))
				}
				row[len(row)-1] = fmt.Appendf(slices.Clone(row[len(row)-1]), " (shard %s)", strings.Join(names, ", "))
			}
		}
		for c, name := range j.columns {
			if j.t.Join[name] != planner.RowLength || j.from[i].Len() < 2 {
				continue
			}
			rows := j.column(row, "table_rows")
			if rows == nil {
				rows = j.column(row, "rows")
			}
			n, errN := strconv.ParseUint(string(rows), 10, 64)
			size, errSize := strconv.ParseUint(string(j.column(row, "data_length")), 10, 64)
			if errN == nil && errSize == nil && n > 0 {
				row[c] = strconv.AppendUint(nil, size/n, 10)
			}
		}
	}
	if j.t.Each {
		place := func(row [][]byte) int { return slices.Index(j.order, string(j.column(row, j.t.Table))) }
		slices.SortStableFunc(j.rows, func(a, b [][]byte) int { return place(a) - place(b) })
	}
	if j.t.Sorted {
		slices.SortStableFunc(j.rows, func(a, b [][]byte) int { return bytes.Compare(a[0], b[0]) })
	}
}

// explained answers an EXPLAIN with the route: as a last row, a first line, or a first
// member, whatever the format has. Programs ask the first row how many rows there are and
// by which key they are read.
//
// Counter-example: pt-online-schema-change, mydumper. Without a number they copy a table of
// any size at once.
func (s *session) explained(ctx context.Context, r request, b *planner.Bound) error {
	st := b.Statements[0]
	if len(r.params) > 0 {
		// With parameters the rows come in the binary protocol, as they are.
		_, err := s.readOne(ctx, r, st)
		return err
	}
	answers, err := s.ask(ctx, []planner.ShardStatement{st})
	if err == nil {
		err = answers[0].err
	}
	if err != nil {
		return err
	}
	res := answers[0].res
	if !res.Summary.ResultSet || len(res.Columns) == 0 {
		return s.answerOK(wire.OK{Warnings: res.Summary.Warnings})
	}
	route := b.System.Route
	shards := strings.Join(route.Shards, ",")
	last := make([][]byte, len(res.Columns))
	if len(res.Columns) > 1 {
		for i, c := range res.Columns {
			switch strings.ToLower(c) {
			case "select_type":
				last[i] = []byte("ROUTE")
			case "table":
				last[i] = []byte(shards)
			case "type":
				last[i] = []byte(route.Plan)
			case "key":
				last[i] = []byte(route.Access)
			case "extra":
				last[i] = []byte(route.Reason)
			}
		}
		return s.answerTexts(res.Definitions, append(res.Rows, last))
	}
	if len(res.Rows) > 0 {
		res.Rows[0][0] = onTop(res.Rows[0][0], route, shards)
	}
	return s.answerTexts(res.Definitions, res.Rows)
}

// onTop puts the route into an explanation that is one text.
func onTop(text []byte, route *planner.Route, shards string) []byte {
	if rest, isJSON := bytes.CutPrefix(bytes.TrimSpace(text), []byte("{")); isJSON {
		member, err := json.Marshal(map[string]any{"plan": route.Plan, "shards": route.Shards, "access": route.Access, "reason": route.Reason})
		if err == nil {
			return fmt.Appendf(nil, "{\n  \"route\": %s,%s", member, rest)
		}
	}
	return fmt.Appendf(nil, "-> Route: %s to %s by %s (%s)\n%s", route.Plan, shards, route.Access, route.Reason, text)
}

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
func (s *session) gatherSystem(ctx context.Context, r request, b *planner.Bound) error {
	sys, run := b.System, b.Statements[0]
	tables := make([]string, len(sys.Sources))
	texts := make([][]byte, len(sys.Sources))
	for i, t := range sys.Sources {
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
		tables[i] = jsonTable(i, cols, s.catalog().MariaDB)
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
	if err := s.send(ctx, conn, r, planner.ShardStatement{Shard: run.Shard, SQL: sql.String(), Params: run.Params}); err != nil {
		return err
	}
	sum, err := conn.Forward(s.client, shard.Result, s.forwardOptions())
	if err := s.forwarded(run.Shard, sum, err); err != nil {
		return err
	}
	s.remember(ctx, conn, sum)
	unlimit()
	s.findIn(ctx, conn, r, sum)
	return nil
}

// jsonTable is the table that the i-th variable's text is read as. In MySQL the
// tables of information_schema are views: a column is answered by its own name,
// however the query writes it, as from a derived table. In MariaDB it is answered
// as written, as from a derived table with a LIMIT; JSON_TABLE alone would do that
// too, but MariaDB 10.11 crashes where a column of it is named with a schema. The
// paths tell their character set: MySQL takes none of the session's where it is binary.
func jsonTable(i int, cols []systemColumn, mariaDB bool) string {
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
	limit := ""
	if mariaDB {
		limit = " LIMIT 18446744073709551615"
	}
	return fmt.Sprintf("(SELECT %s FROM %s AS shunt_system%s)", strings.Join(names, ", "), table, limit)
}

// systemColumns asks a shard for the columns of a system table.
func (s *session) systemColumns(ctx context.Context, t *planner.SystemTable) ([]systemColumn, error) {
	if cols, ok := s.proxy.systemColumns.Load(t.Name); ok {
		return cols.([]systemColumn), nil
	}
	name := t.Name
	if t.Schema == "information_schema" {
		name = strings.ToUpper(name)
	}
	sql := "SELECT COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '" + t.Schema + "' AND TABLE_NAME = '" + name + "' ORDER BY ORDINAL_POSITION"
	answers, err := s.ask(ctx, []planner.ShardStatement{{Shard: s.anyShard(), SQL: sql}})
	if err == nil {
		err = answers[0].err
	}
	if err != nil {
		return nil, err
	}
	var cols []systemColumn
	for _, row := range answers[0].res.Rows {
		// utf8mb3 is deprecated, which MySQL warns of; its collations sort as
		// those of utf8mb4 do.
		c := systemColumn{name: string(row[0]), typ: string(row[1]), collation: strings.Replace(string(row[2]), "utf8mb3_", "utf8mb4_", 1)}
		if c.collation == "utf8mb4_tolower_ci" {
			c.collation = "utf8mb4_general_ci" // the one that has no likeness
		}
		if s.catalog().MariaDB && (strings.HasPrefix(c.typ, "enum") || strings.HasPrefix(c.typ, "set")) {
			c.typ = "varchar(512)" // JSON_TABLE there knows neither
		}
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

// systemRows are the rows of a system table over all shards; those of the
// servers' own schemas are of the shard that is named.
func (s *session) systemRows(ctx context.Context, run catalog.ShardID, t *planner.SystemTable, cols []systemColumn) ([][]any, error) {
	switch t.Name {
	case "processlist":
		return s.processRows(cols), nil
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
	var statements []planner.ShardStatement
	for _, sh := range s.catalog().Shards {
		sql := "SELECT " + strings.Join(exprs, ", ") + " FROM information_schema." + strings.ToUpper(t.Name)
		if sh.ID != run {
			statements = append(statements, planner.ShardStatement{Shard: sh.ID, SQL: sql + " WHERE " + strings.ToUpper(t.Owner) + " NOT IN ('mysql','information_schema','performance_schema','sys')"})
			continue
		}
		statements = append([]planner.ShardStatement{{Shard: sh.ID, SQL: sql}}, statements...)
	}
	// Connections are taken in the order of the shards, as everywhere.
	slices.SortStableFunc(statements, func(a, b planner.ShardStatement) int { return int(a.Shard) - int(b.Shard) })
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
	out := make([][]any, len(joined))
	for i, row := range joined {
		out[i] = make([]any, len(row))
		for n, v := range row {
			if v != nil {
				out[i][n] = string(v)
			}
		}
	}
	return out, nil
}
