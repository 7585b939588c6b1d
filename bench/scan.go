package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// scanned is what reading one column costs.
type scanned struct {
	reading, job, plain float64 // rows a second
	client              string
	build               time.Duration
}

// scans measures a maintenance scan that finds nothing to change, by the
// proxy's own metrics (its rows by the time of reading and of whole jobs), and the plain
// client reading the same column of all shards, in turns.
func (b *bench) scans(ctx context.Context) (s *scanned, err error) {
	fmt.Fprintln(b.out, scansCase)
	s = &scanned{}
	start := time.Now()
	if _, err := b.db.ExecContext(ctx, "CREATE VIRTUAL INDEX idx_scanned ON scanned (email)"); err != nil {
		return s, fmt.Errorf("create index: %w", err)
	}
	if err := b.awaitIndexes(ctx); err != nil {
		return s, err
	}
	s.build = time.Since(start)
	var reading, jobs, plains []float64
	for range 5 {
		start := time.Now()
		for i := range b.servers {
			if s.client, err = b.readPlain(ctx, i); err != nil {
				return s, err
			}
		}
		plains = append(plains, float64(b.rows)/time.Since(start).Seconds())
		rate, err := b.maintain(ctx)
		if err != nil {
			return s, err
		}
		reading, jobs = append(reading, rate.reading), append(jobs, rate.job)
	}
	s.reading, s.job, s.plain = median(reading), median(jobs), median(plains)
	return s, nil
}

// scanRate is a scan's rows a second: while it reads, and over its whole job,
// which also reads the index before and after.
type scanRate struct{ reading, job float64 }

// maintain causes a scan of every shard by writes whose keys Shunt can't
// compute, and waits until all jobs are done.
func (b *bench) maintain(ctx context.Context) (rate scanRate, err error) {
	if err := b.idle(ctx); err != nil {
		return rate, err
	}
	before, err := b.scanMetrics(ctx)
	if err != nil {
		return rate, err
	}
	for id := range 64 { // enough to meet every shard
		if _, err := b.db.ExecContext(ctx, fmt.Sprintf("UPDATE scanned SET email = CONCAT(email, '') WHERE id = %d", id)); err != nil {
			return rate, fmt.Errorf("cause a scan: %w", err)
		}
	}
	if err := b.idle(ctx); err != nil {
		return rate, err
	}
	after, err := b.scanMetrics(ctx)
	if err != nil {
		return rate, err
	}
	if after.jobs == before.jobs {
		return rate, fmt.Errorf("no scan ran")
	}
	rows := after.rows - before.rows
	return scanRate{reading: rows / (after.reading - before.reading), job: rows / (after.jobs - before.jobs)}, nil
}

// idle waits until there is no maintenance job.
func (b *bench) idle(ctx context.Context) error {
	for {
		jobs, err := b.column(ctx, "SHOW MAINTENANCE JOBS", "Id")
		if err != nil || len(jobs) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// scanTotals are what the proxy's metrics say of scans: rows, seconds in which
// they were read, seconds of whole jobs.
type scanTotals struct{ rows, reading, jobs float64 }

func (b *bench) scanMetrics(ctx context.Context) (t scanTotals, err error) {
	resp, err := b.shunt.ask(ctx, "/metrics")
	if err != nil {
		return t, fmt.Errorf("get metrics: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
		case strings.HasPrefix(series, "shunt_scan_rows_total"):
			t.rows += value
		case strings.HasPrefix(series, "shunt_scan_read_seconds_total"):
			t.reading += value
		case series == `shunt_job_seconds_sum{type="maintain_index"}`:
			t.jobs += value
		}
	}
	return t, lines.Err()
}

// readPlain reads the column with the command line client, else with the Go
// driver, and says which.
func (b *bench) readPlain(ctx context.Context, shard int) (client string, err error) {
	s := b.servers[shard]
	const query = "SELECT email FROM scanned"
	for _, name := range []string{"mysql", "mariadb"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port="+strconv.Itoa(s.Port()),
			"--user="+s.User, "--password="+s.Password, "--quick", "--batch", "--skip-column-names", "--execute="+query, "bench")
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return "the plain client " + name, nil
	}
	db, err := openDB(straight(s), "bench", false)
	if err != nil {
		return "", err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return "", fmt.Errorf("read column: %w", err)
	}
	defer rows.Close()
	var cell sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&cell); err != nil {
			return "", fmt.Errorf("read column: %w", err)
		}
	}
	return "the plain Go driver", rows.Err()
}
