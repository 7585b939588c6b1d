package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/advise"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

const (
	sampledValues = 64
	// A sample that takes longer, as of a large table without an index, is left out.
	sampleTime = "10"

	// tableSizes and columnValues are what a server's statistics say of tables, and of columns that begin an index.
	tableSizes = `SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH + INDEX_LENGTH, 0)
		FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'`
	columnValues = `SELECT TABLE_SCHEMA, TABLE_NAME, LOWER(COLUMN_NAME), MAX(CARDINALITY) FROM information_schema.STATISTICS
		WHERE SEQ_IN_INDEX = 1 AND COLUMN_NAME IS NOT NULL AND CARDINALITY > 0 AND SUB_PART IS NULL GROUP BY 1, 2, 3`
)

// advisedServer is one whose application is to be sharded. It is only read.
type advisedServer struct {
	db      *sql.DB
	conn    *sql.Conn
	mariaDB bool
	schema  string   // of the DSN
	schemas []string // advised on
	facts   *schema.Facts
	shards  int
	stats   map[catalog.TableName]advise.Stats
	foreign []advise.ForeignKey
	notes   []string
}

func reachAdvised(ctx context.Context, dsn string, shards int) (*advisedServer, error) {
	sh, c, err := advisedShard(dsn)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("DSN: %w", err)
	}
	a := &advisedServer{db: sql.OpenDB(connector), schema: c.DBName, shards: shards}
	if a.conn, err = a.db.Conn(ctx); err != nil {
		a.db.Close()
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	version := ""
	if err := a.conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		a.close()
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	a.mariaDB = isMariaDB(version)
	begin := []string{"SET SESSION TRANSACTION READ ONLY"}
	if a.mariaDB {
		begin = append(begin, "SET SESSION max_statement_time = "+sampleTime)
	} else {
		begin = append(begin, "SET SESSION max_execution_time = "+sampleTime+"000", "SET SESSION information_schema_stats_expiry = 0")
	}
	for _, set := range begin {
		if _, err := a.conn.ExecContext(ctx, set); err != nil {
			a.notes = append(a.notes, fmt.Sprintf("%s: %v", set, err))
		}
	}
	conn, err := shard.Dial(ctx, shard.Config{Name: sh.Name, Addr: sh.Addr, User: sh.User, Password: sh.Password, TLS: c.TLS, Target: &shard.Target{}}, false)
	if err == nil {
		a.facts, err = schema.Read(ctx, querier{conn})
		_ = conn.Close()
	}
	if err == nil {
		err = a.describe(ctx)
	}
	if err != nil {
		a.close()
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	return a, nil
}

func (a *advisedServer) close() {
	_ = a.conn.Close()
	_ = a.db.Close()
}

// describe reads what the schemas' tables have in them, by the server's statistics.
func (a *advisedServer) describe(ctx context.Context) error {
	a.schemas = a.facts.Schemas
	if a.schema != "" {
		if !slices.Contains(a.facts.Schemas, a.schema) {
			return fmt.Errorf("the server has no schema %s, or the account may not see it", a.schema)
		}
		a.schemas = []string{a.schema}
	}
	a.stats = map[catalog.TableName]advise.Stats{}
	err := a.each(ctx, tableSizes, func(rows *sql.Rows) error {
		var n catalog.TableName
		s := advise.Stats{Distinct: map[string]uint64{}}
		err := rows.Scan(&n.Schema, &n.Name, &s.Rows, &s.Bytes)
		a.stats[n] = s
		return err
	})
	if err != nil {
		return err
	}
	err = a.each(ctx, columnValues, func(rows *sql.Rows) error {
		var n catalog.TableName
		column, distinct := "", uint64(0)
		err := rows.Scan(&n.Schema, &n.Name, &column, &distinct)
		if s, ok := a.stats[n]; ok {
			s.Distinct[column] = distinct
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.each(ctx, `SELECT CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, COLUMN_NAME, REFERENCED_COLUMN_NAME
		FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION`, func(rows *sql.Rows) error {
		var fk advise.ForeignKey
		column, refers := "", ""
		err := rows.Scan(&fk.Name, &fk.Table.Schema, &fk.Table.Name, &fk.Parent.Schema, &fk.Parent.Name, &column, &refers)
		if last := len(a.foreign) - 1; last < 0 || a.foreign[last].Name != fk.Name || a.foreign[last].Table != fk.Table {
			a.foreign = append(a.foreign, fk)
		}
		last := &a.foreign[len(a.foreign)-1]
		last.Columns, last.Refers = append(last.Columns, column), append(last.Refers, refers)
		return err
	})
}

func (a *advisedServer) each(ctx context.Context, query string, row func(*sql.Rows) error, args ...any) error {
	rows, err := a.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// digests reads the statements that performance_schema has counted.
func (a *advisedServer) digests(ctx context.Context, work *advise.Workload) (notes []string, err error) {
	on, longest := 0, 0
	if err := a.conn.QueryRowContext(ctx, "SELECT @@performance_schema").Scan(&on); err != nil {
		return nil, err
	}
	if on == 0 {
		return nil, errors.New("the server runs without performance_schema: set it ON (which needs a restart), or read a log with --slow-log or --general-log")
	}
	sample := "NULL"
	if !a.mariaDB {
		sample = "QUERY_SAMPLE_TEXT"
		if err := a.conn.QueryRowContext(ctx, "SELECT @@performance_schema_max_sql_text_length").Scan(&longest); err != nil {
			return nil, err
		}
	}
	lost := uint64(0)
	err = a.each(ctx, "SELECT COALESCE(SCHEMA_NAME, ''), DIGEST_TEXT, "+sample+`, COUNT_STAR, SUM_TIMER_WAIT / 1e12
		FROM performance_schema.events_statements_summary_by_digest WHERE COUNT_STAR > SUM_ERRORS`, func(rows *sql.Rows) error {
		var digest, text sql.NullString
		schema, calls, seconds := "", uint64(0), 0.0
		if err := rows.Scan(&schema, &digest, &text, &calls, &seconds); err != nil {
			return err
		}
		if !digest.Valid {
			lost += calls
			return nil
		}
		if !a.counts(schema, digest.String) {
			return nil
		}
		if len(text.String) >= longest || strings.HasSuffix(text.String, "...") {
			text.String = "" // cut short
		}
		work.Add(schema, digest.String, text.String, calls, seconds)
		return nil
	})
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && (refused.Number == mysqlerr.TableAccessDenied || refused.Number == mysqlerr.DBAccessDenied) {
		return nil, fmt.Errorf("%w (GRANT SELECT ON performance_schema.* TO the account, or read a log)", err)
	}
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		notes = append(notes, fmt.Sprintf("%d executions are of statements that performance_schema had no room for (performance_schema_digests_size)", lost))
	}
	return notes, nil
}

// counts reports statements of the application: of its schemas, and about no server.
func (a *advisedServer) counts(schema, digest string) bool {
	lower := strings.ToLower(digest)
	for _, own := range []string{"information_schema", "performance_schema", "`mysql`", "`sys`"} {
		if strings.Contains(lower, own) {
			return false
		}
	}
	return schema != "" && slices.Contains(a.schemas, schema) || schema == "" && slices.ContainsFunc(a.schemas, func(s string) bool {
		return strings.Contains(lower, "`"+strings.ToLower(s)+"`")
	})
}

func (a *advisedServer) source(work *advise.Workload) *advise.Source {
	return &advise.Source{
		Build: a.build, Stats: a.stats, ForeignKeys: a.foreign, Shapes: work.Shapes(), Sample: a.sample, Schemas: a.schemas,
	}
}

// build is the catalog that a Shunt would have if each shard had the server's tables.
func (a *advisedServer) build(d advise.Design) (*catalog.Catalog, error) {
	src := schema.Sources{
		Version: 1, Facts: map[catalog.ShardID]*schema.Facts{}, Placements: schema.Placements{},
		Kept: func(string, string) (schema.TablePlacement, bool, error) { return schema.TablePlacement{}, false, nil },
	}
	for i := range a.shards {
		id := catalog.ShardID(i)
		src.Shards = append(src.Shards, catalog.Shard{ID: id, Name: fmt.Sprintf("s%d", i)})
		src.Facts[id] = a.facts
	}
	for i := range src.Slots {
		src.Slots[i] = catalog.ShardID(i * a.shards / catalog.Slots)
	}
	for _, name := range a.schemas {
		src.Placements[name] = schema.SchemaPlacement{Tables: map[string]schema.TablePlacement{}}
	}
	for n, p := range d.Placements {
		placement := schema.TablePlacement{Placement: p.Placement, ShardKey: p.Key}
		if p.Placement == catalog.Single {
			placement.Shard = src.Shards[0].Name
		}
		src.Placements[n.Schema].Tables[n.Name] = placement
	}
	for i, x := range d.Indexes {
		src.Indexes = append(src.Indexes, catalog.IndexDef{
			ID: catalog.IndexID(i + 1), Schema: x.Table.Schema, Table: x.Table.Name, Name: x.Name, Columns: x.Columns, Partitions: 1, Status: catalog.Ready,
		})
	}
	return schema.Build(src)
}

// sample asks where the rows of some values are: of rows drawn by an integer primary key, or of as
// large a share of all.
func (a *advisedServer) sample(ctx context.Context, t *catalog.Table, columns []string, key string) ([]advise.Value, error) {
	drawn, err := a.draw(ctx, t, columns)
	if err != nil || len(drawn) == 0 {
		return nil, err
	}
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = catalog.QuoteName(c)
	}
	list := strings.Join(quoted, ", ")
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ") + ")"
	var args []any
	for _, value := range drawn {
		for _, v := range value {
			args = append(args, v)
		}
	}
	values := map[string]*advise.Value{}
	cells := make([]sql.NullString, len(columns)+1)
	into := []any{}
	for i := range cells {
		into = append(into, &cells[i])
	}
	n := uint64(0)
	into = append(into, &n)
	// As text: what Shunt makes keys of.
	query := fmt.Sprintf("SELECT %s, CAST(%s AS CHAR), COUNT(*) FROM %s WHERE (%s) IN (%s) GROUP BY %s, %s", list, catalog.QuoteName(key),
		catalog.QuoteTable(t.Schema, t.Name), list, strings.TrimSuffix(strings.Repeat(row+", ", len(drawn)), ", "), list, catalog.QuoteName(key))
	err = a.each(ctx, query, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		value := make([]string, len(columns))
		for i := range value {
			value[i] = cells[i].String
		}
		name := valueKey(value)
		v := values[name]
		if v == nil {
			v = &advise.Value{}
			values[name] = v
		}
		v.Rows += n
		v.ShardKeys = append(v.ShardKeys, []byte(cells[len(columns)].String))
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	// A value that was drawn twice counts twice: see advise.Value.
	var out []advise.Value
	for _, value := range drawn {
		if v := values[valueKey(value)]; v != nil {
			out = append(out, *v)
		}
	}
	return out, nil
}

// valueKey tells values apart, but for case: most collations don't mind it.
func valueKey(value []string) string { return strings.ToLower(strings.Join(value, "\x00")) }

// draw gives the values of rows drawn at random.
func (a *advisedServer) draw(ctx context.Context, t *catalog.Table, columns []string) (out [][]string, err error) {
	quoted, set := make([]string, len(columns)), []string{}
	for i, c := range columns {
		quoted[i] = catalog.QuoteName(c)
		set = append(set, quoted[i]+" IS NOT NULL")
	}
	list, table, given := strings.Join(quoted, ", "), catalog.QuoteTable(t.Schema, t.Name), strings.Join(set, " AND ")
	share := min(1, 2*sampledValues/float64(max(1, a.stats[catalog.TableName{Schema: t.Schema, Name: t.Name}].Rows)))
	query := fmt.Sprintf("SELECT %s FROM %s WHERE RAND() < %g AND %s LIMIT %d", list, table, share, given, sampledValues)
	if len(t.PrimaryKey) == 1 && catalog.IsInteger(t.PrimaryKey[0].BaseType()) {
		pk := catalog.QuoteName(t.PrimaryKey[0].Name)
		var least, most sql.NullInt64
		if err := a.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT MIN(%s), MAX(%s) FROM %s", pk, pk, table)).Scan(&least, &most); err == nil && most.Int64 > least.Int64 {
			r := rand.New(rand.NewPCG(1, 1)) // the same advice each time
			var each []string
			for range sampledValues {
				at := least.Int64 + r.Int64N(most.Int64-least.Int64+1)
				each = append(each, fmt.Sprintf("(SELECT %s FROM %s WHERE %s >= %d AND %s ORDER BY %s LIMIT 1)", list, table, pk, at, given, pk))
			}
			query = strings.Join(each, " UNION ALL ")
		}
	}
	cells := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	err = a.each(ctx, query, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		value := make([]string, len(cells))
		for i, c := range cells {
			value[i] = c.String
		}
		out = append(out, value)
		return nil
	})
	slices.SortFunc(out, func(x, y []string) int { return cmp.Compare(strings.Join(x, "\x00"), strings.Join(y, "\x00")) })
	return out, err
}
