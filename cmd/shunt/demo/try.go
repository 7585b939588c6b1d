package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// samples is how often the compared query runs each way.
const samples = 300

// try is something worth trying.
type try struct {
	why        string
	statements []string
}

// favourite is the user that the statements are about.
func (d *demo) favourite() user { return userAt(min(4711, d.Users)) }

func byEmail(email string) string {
	return fmt.Sprintf("SELECT id, name, email FROM users WHERE email = '%s'", email)
}

const changedEmail = "countess@example.org"

// tries are the five statements that the demo prints, in order.
func (d *demo) tries() []try {
	u := d.favourite()
	return []try{
		{"A user by email. Only the shard that has it is asked.", []string{byEmail(u.email)}},
		{"Where a statement goes, and why.", []string{"EXPLAIN ROUTE " + byEmail(u.email)}},
		{"Change the email; the very next read by the new one finds the row.", []string{
			fmt.Sprintf("UPDATE users SET email = '%s' WHERE id = %d", changedEmail, u.id),
			byEmail(changedEmail),
		}},
		{"A user with all orders: both tables go by the user's id, so one shard joins them.", []string{fmt.Sprintf(
			"SELECT u.name, o.tracking, o.product, o.total FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = %d", u.id)}},
		{"The virtual indexes and their state.", []string{"SHOW VIRTUAL INDEXES"}},
	}
}

// measured is one query with and without its virtual index.
type measured struct{ with, without measurement }

type measurement struct {
	// visited are the shards that EXPLAIN ROUTE names.
	visited []string
	access  string
	// median and p99 latency over the samples.
	median, p99 time.Duration
}

// compare measures the query by email with its index and with it disabled.
func (d *demo) compare(ctx context.Context) (m measured, err error) {
	if m.with, err = d.measure(ctx); err != nil {
		return m, err
	}
	if _, err := d.db.ExecContext(ctx, "ALTER VIRTUAL INDEX idx_email ON users DISABLE"); err != nil {
		return m, fmt.Errorf("disable index: %w", err)
	}
	m.without, err = d.measure(ctx)
	if _, enableErr := d.db.ExecContext(ctx, "ALTER VIRTUAL INDEX idx_email ON users ENABLE"); enableErr != nil {
		return m, errors.Join(err, fmt.Errorf("enable index: %w", enableErr))
	}
	return m, err
}

func (d *demo) measure(ctx context.Context) (m measurement, err error) {
	rows, err := queryRows(ctx, d.db, "EXPLAIN ROUTE "+byEmail(d.favourite().email))
	if err != nil {
		return m, err
	}
	for _, row := range rows {
		m.access = row["Access"]
		for _, name := range shardNames(row["Shards"]) {
			if !slices.Contains(m.visited, name) {
				m.visited = append(m.visited, name)
			}
		}
	}
	took := make([]time.Duration, samples)
	for i := range took {
		u := userAt(1 + i*7919%d.Users)
		var id int
		var name, email string
		start := time.Now()
		if err := d.db.QueryRowContext(ctx, byEmail(u.email)).Scan(&id, &name, &email); err != nil {
			return m, fmt.Errorf("query by email %s: %w", u.email, err)
		}
		took[i] = time.Since(start)
		if id != u.id || name != u.name {
			return m, fmt.Errorf("query by email %s: got user %d, expected %d", u.email, id, u.id)
		}
	}
	slices.Sort(took)
	m.median, m.p99 = took[samples/2], took[samples*99/100]
	return m, nil
}

// shardNames splits EXPLAIN ROUTE's Shards.
func shardNames(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// explain prints how to connect, what to try, and what the index saves.
func (d *demo) explain(ctx context.Context, src throwaway.Source, m measured) {
	host, port, err := net.SplitHostPort(d.Listen)
	if err != nil {
		host, port = d.Listen, ""
	}
	client := "mysql"
	if c, found := findCommandLine(ctx); found {
		client = strings.Join(append([]string{c.name}, c.options...), " ")
	}
	w := d.Out
	fmt.Fprintf(w, "\nShunt serves on %s: one MySQL over %d shards (%s).\n", d.Listen, d.Shards, src)
	fmt.Fprintf(w, "\nConnect\n  %s --host=%s --port=%s --user=%s --password=%s %s\n", client, host, port, account, password, schema)
	fmt.Fprintf(w, "  or any driver: host %s, port %s, user %s, password %s, schema %s\n", host, port, account, password, schema)
	if d.HTTP != "" && len(d.members) == 0 {
		fmt.Fprintf(w, "  metrics: http://%s/metrics\n", d.HTTP)
	}
	fmt.Fprintf(w, "\nTry\n")
	for i, t := range d.tries() {
		fmt.Fprintf(w, "  %d. %s\n", i+1, t.why)
		for _, s := range t.statements {
			fmt.Fprintf(w, "       %s;\n", s)
		}
	}
	fmt.Fprintf(w, "\nA query by email, %d times        shards visited    median    99 %%\n", samples)
	for _, line := range []struct {
		name string
		m    measurement
	}{{"with virtual index idx_email", m.with}, {"without (index disabled)", m.without}} {
		fmt.Fprintf(w, "  %-32s %6d of %-8d %8s %8s\n", line.name, len(line.m.visited), d.Shards,
			line.m.median.Round(10*time.Microsecond), line.m.p99.Round(10*time.Microsecond))
	}
	if len(d.members) > 0 {
		d.explainMembers()
	}
	if !d.Check {
		fmt.Fprintf(w, "\nCtrl-C stops and removes everything.\n")
	}
}
