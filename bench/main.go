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
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
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

// bench is one run: the shards, the proxy, and the data.
type bench struct {
	binary  string
	flavour throwaway.Flavour
	rows    int
	pairs   int
	out     io.Writer

	source  throwaway.Source
	servers []*throwaway.Server
	proxy   *exec.Cmd
	addr    string
	http    string
	db      *sql.DB
}

func run(ctx context.Context, args []string, out io.Writer) error {
	b := &bench{out: out}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.binary, "shunt", "bin/shunt", "the `binary` to measure")
	report := flags.String("o", "", "`file` to write the report to (default: standard output)")
	flavour := flags.String("flavour", "mysql", "mysql or mariadb")
	flags.IntVar(&b.rows, "rows", 200_000, "rows in each table")
	flags.IntVar(&b.pairs, "pairs", 400, "measured pairs")
	scale := flags.Float64("tpch", 0, "measure TPC-H at this `scale` factor, and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b.flavour = throwaway.Flavour(*flavour)
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.stop()
	var text string
	var err error
	if *scale > 0 {
		text, err = b.tpch(ctx, *scale)
	} else if err = b.load(ctx); err == nil {
		text, err = b.measure(ctx)
	}
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

// durable makes the shards as safe as production has them: what a statement
// costs beside a proxy's share is mostly that.
var durable = []string{"--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M"}

// stoppers are undone in reverse.
var stoppers []func()

func (b *bench) stop() {
	for _, f := range slices.Backward(stoppers) {
		f()
	}
	stoppers = nil
}

func (b *bench) start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.source, err = throwaway.Find(ctx, b.flavour); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "shards: %s\n", b.source)
	set, err := throwaway.Start(ctx, b.source, throwaway.Options{Servers: shards, Password: "bench", Args: durable})
	if err != nil {
		return err
	}
	stoppers = append(stoppers, set.Stop)
	b.servers = set.Servers
	dir, err := os.MkdirTemp("", "shunt-bench-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	stoppers = append(stoppers, func() { os.RemoveAll(dir) })
	if b.addr, err = freeAddress(); err != nil {
		return err
	}
	if b.http, err = freeAddress(); err != nil {
		return err
	}
	var cfg strings.Builder
	fmt.Fprintf(&cfg, "listen: %s\nhttp: %s\ndata_dir: %s\nusers: [{name: bench, password: bench}]\nshards:\n", b.addr, b.http, filepath.Join(dir, "data"))
	for i, s := range b.servers {
		fmt.Fprintf(&cfg, "- {name: s%d, addr: '%s', user: %s, password: '%s'}\n", i, s.Addr(), s.User, s.Password)
	}
	// The defaults, but one worker, so that a build runs alone.
	cfg.WriteString("schemas: {bench: {tables: {plain: {shard_key: id}, indexed: {shard_key: id}, scanned: {shard_key: id}}}, tpch: " + tpchPlacements() + "}\n" +
		"maintenance: {delay: 1s, scan_duty: 0.1, reconcile_every: 24h, workers: 1, audit: 0.001}\n")
	file := filepath.Join(dir, "shunt.yaml")
	if err := os.WriteFile(file, []byte(cfg.String()), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	b.proxy = exec.CommandContext(context.WithoutCancel(ctx), b.binary, "serve", "--config", file)
	b.proxy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	b.proxy.Stdout, b.proxy.Stderr = &log, &log
	if err := b.proxy.Start(); err != nil {
		return fmt.Errorf("start %s: %w", b.binary, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = b.proxy.Wait() // told by the log
		close(exited)
	}()
	stoppers = append(stoppers, func() {
		_ = b.proxy.Process.Signal(syscall.SIGTERM) // may have ended
		<-exited
	})
	for {
		resp, err := http.Get("http://" + b.http + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-exited:
			return fmt.Errorf("shunt ended: %s", log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (b *bench) load(ctx context.Context) (err error) {
	admin, err := open(b.addr, "bench", "bench", "")
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE bench"); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	if b.db, err = open(b.addr, "bench", "bench", "bench"); err != nil {
		return err
	}
	stoppers = append(stoppers, func() { b.db.Close() })
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

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
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
