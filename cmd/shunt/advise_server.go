package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/advise"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// sampleTime: a sample that takes longer, as of a large table without an index, is left out.
const sampleTime = 10 * time.Second

// advisedServer is one whose application is to be sharded. It is only read.
type advisedServer struct {
	db      *sql.DB
	conn    *sql.Conn
	q       querier // on the same server
	mariaDB bool
	schema  string   // of the DSN
	schemas []string // advised on
	facts   *schema.Facts
	shards  int
	stats   tableStats
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
	conn, err := shard.Dial(ctx, shard.Config{Name: sh.Name, Addr: sh.Addr, User: sh.User, Password: sh.Password, TLS: c.TLS, Target: &shard.Target{}}, false)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	a.q = querier{conn}
	for _, set := range advising(a.mariaDB, sampleTime) {
		_, err := a.conn.ExecContext(ctx, set)
		if err == nil {
			_, err = conn.Exec(ctx, set)
		}
		if err != nil {
			a.notes = append(a.notes, fmt.Sprintf("%s: %v", set, err))
		}
	}
	a.facts, err = schema.Read(ctx, a.q)
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
	if a.q.conn != nil {
		_ = a.q.conn.Close()
	}
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
	var err error
	if a.stats, err = readStats(ctx, a.q); err != nil {
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

// sample asks where the rows of some values would be.
func (a *advisedServer) sample(ctx context.Context, t *catalog.Table, columns []*catalog.Column, key string) ([]advise.Value, error) {
	drawn, err := sampler{a.q}.draw(ctx, t, columns, sampledValues)
	if err != nil {
		return nil, err
	}
	var wanted []string
	for _, value := range drawn {
		var cells []string
		for i, c := range columns {
			cells = append(cells, literal(c, value[i]))
		}
		if value[0] != nil {
			wanted = append(wanted, "("+strings.Join(cells, ", ")+")")
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	// As text: what Shunt makes keys of.
	list := catalog.QuoteColumns(columns)
	rows, err := a.q.Rows(ctx, fmt.Sprintf("SELECT %s, COUNT(*), CAST(%s AS CHAR) FROM %s WHERE (%s) IN (%s) GROUP BY %s, %s", list, catalog.QuoteName(key),
		catalog.QuoteTable(t.Schema, t.Name), list, strings.Join(wanted, ", "), list, catalog.QuoteName(key)))
	if err != nil {
		return nil, err
	}
	values := map[string]*advise.Value{}
	for _, row := range rows {
		name, behind := valueKey(row[:len(columns)]), row[len(columns):]
		v := values[name]
		if v == nil {
			v = &advise.Value{}
			values[name] = v
		}
		n, err := strconv.ParseUint(string(behind[0]), 10, 64)
		if err != nil {
			return nil, err
		}
		v.Rows += n
		v.ShardKeys = append(v.ShardKeys, behind[1])
	}
	// A value that was drawn twice counts twice.
	var out []advise.Value
	for _, value := range drawn {
		if v := values[valueKey(value)]; v != nil {
			out = append(out, *v)
		} else if value[0] == nil {
			out = append(out, advise.Value{})
		}
	}
	return out, nil
}

// valueKey tells values apart, but for case: most collations don't mind it.
func valueKey(value [][]byte) string { return strings.ToLower(string(bytes.Join(value, []byte{0}))) }
