// Command bench measures what Shunt costs, on throwaway shards of this machine,
// and writes a Markdown report:
//
//	go run ./bench -shunt bin/shunt -o docs/benchmarks.md
//	go run ./bench -shunt bin/shunt -o docs/benchmarks.md -tpch 0.05
//
// The second replaces the report's part about TPC-H only.
//
// Compared things are measured in turns (ABAB...), and what is reported is the
// median of the pairs' ratios: a machine that is slow for a while slows both
// halves of a pair. Clients, proxy and shards share the machine, so ratios say
// more than absolute figures.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	binary  string
	flavour throwaway.Flavour
	// only leaves the cases whose names it matches.
	only    *regexp.Regexp
	conns   []int
	rounds  int
	seconds int
	rows    int
	pairs   int
	out     io.Writer
	source  throwaway.Source

	// The four shards of the parts that work on them.
	*stage
	shunt *shunt
	db    *sql.DB
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	b := &bench{out: out}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.binary, "shunt", "bin/shunt", "the `binary` to measure")
	report := flags.String("o", "", "`file` to write the report to (default: standard output)")
	flavour := flags.String("flavour", "mysql", "mysql or mariadb")
	only := flags.String("only", "", "measure the cases whose names match this `regexp`")
	conns := flags.String("conns", "1,8,32,256", "connections of the one-shard cases")
	flags.IntVar(&b.rounds, "rounds", 3, "rounds, in each of which every target is measured once")
	flags.IntVar(&b.seconds, "seconds", 2, "measured seconds of each target in each round")
	flags.IntVar(&b.rows, "rows", 200_000, "rows in each table")
	flags.IntVar(&b.pairs, "pairs", 400, "measured pairs")
	scale := flags.Float64("tpch", 0, "measure TPC-H at this `scale` factor, and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b.flavour = throwaway.Flavour(*flavour)
	if b.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	for field := range strings.SplitSeq(*conns, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return fmt.Errorf("-conns: %q is no number of connections", field)
		}
		b.conns = append(b.conns, n)
	}
	if b.source, err = throwaway.Find(ctx, b.flavour); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "shards: %s\n", b.source)
	if *scale == 0 {
		if _, err := b.oneShard(ctx); err != nil {
			return err
		}
		if !b.only.MatchString("pairs") {
			return nil
		}
	}
	text, err := b.fourShards(ctx, *scale)
	if err != nil {
		return err
	}
	if *report == "" {
		_, err = io.WriteString(out, text)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*report), 0o755); err != nil {
		return fmt.Errorf("make report's directory: %w", err)
	}
	text = joinParts(*report, text, *scale > 0)
	if err := os.WriteFile(*report, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	fmt.Fprintf(out, "%s\nwritten to %s\n", text, *report)
	return nil
}

const shards = 4

// fourShards measures what needs several shards: TPC-H where there is a scale,
// else the rest.
func (b *bench) fourShards(ctx context.Context, scale float64) (text string, err error) {
	if b.stage, err = b.newStage(ctx, shards); err != nil {
		return "", err
	}
	defer b.stop()
	schemas := "{bench: {tables: {plain: {shard_key: id}, indexed: {shard_key: id}, scanned: {shard_key: id}}}, tpch: " + tpchPlacements() + "}"
	if b.shunt, err = b.startShunt(ctx, b.binary, schemas); err != nil {
		return "", err
	}
	if scale > 0 {
		return b.tpch(ctx, scale)
	}
	if err := b.load(ctx); err != nil {
		return "", err
	}
	return b.measure(ctx)
}

func (b *bench) load(ctx context.Context) (err error) {
	admin, err := open(b.shunt.addr, "bench", "bench", "")
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE bench"); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	if b.db, err = open(b.shunt.addr, "bench", "bench", "bench"); err != nil {
		return err
	}
	b.onStop(func() { b.db.Close() })
	for _, table := range []string{"plain", "indexed", "scanned"} {
		key := "KEY (email), KEY (code)"
		if table == "scanned" {
			key = "KEY (code)" // so that a scan by email reads rows
		}
		if _, err := b.db.ExecContext(ctx, "CREATE TABLE "+table+" (id BIGINT PRIMARY KEY, email VARCHAR(100) NOT NULL, code VARCHAR(20) NOT NULL, "+key+")"); err != nil {
			return fmt.Errorf("create table: %w", err)
		}
		fmt.Fprintf(b.out, "loading %d rows into %s\n", b.rows, table)
		for from := 0; from < b.rows; from += 1000 {
			var q strings.Builder
			q.WriteString("INSERT INTO " + table + " VALUES ")
			for i := from; i < min(from+1000, b.rows); i++ {
				if i > from {
					q.WriteByte(',')
				}
				fmt.Fprintf(&q, "(%d,'user%d@example.com','c%d')", i, i, i)
			}
			if _, err := b.db.ExecContext(ctx, q.String()); err != nil {
				return fmt.Errorf("load: %w", err)
			}
		}
	}
	for _, q := range []string{"CREATE VIRTUAL INDEX idx_email ON indexed (email)", "CREATE VIRTUAL INDEX idx_code ON indexed (code)"} {
		if _, err := b.db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return b.awaitIndexes(ctx)
}

// awaitIndexes waits until every virtual index is ready.
func (b *bench) awaitIndexes(ctx context.Context) error {
	for {
		states, err := b.column(ctx, "SHOW VIRTUAL INDEXES", "Status")
		if err != nil {
			return err
		}
		waiting := false
		for _, s := range states {
			if s == "failed" {
				return fmt.Errorf("a virtual index failed")
			}
			waiting = waiting || s != "ready"
		}
		if !waiting {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// column reads one column of an answer.
func (b *bench) column(ctx context.Context, query, name string) (values []string, err error) {
	rows, err := b.db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	cells := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		for i, n := range names {
			if n == name {
				values = append(values, cells[i].String)
			}
		}
	}
	return values, rows.Err()
}

func open(addr, user, password, schema string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", addr, user, password, schema
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", addr, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(16)
	return db, nil
}

// machine describes where the figures are from.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs (%s), %s", runtime.NumCPU(), model, runtime.Version())
}
