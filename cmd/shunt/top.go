package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type topCmd struct {
	clientFlags
	Every time.Duration `default:"2s" help:"How often it looks."`
	Rows  int           `default:"20" help:"How many statements to show."`
	By    string        `default:"time" enum:"time,calls,p99,errors" help:"What comes first: time, calls, p99 or errors."`
	Once  bool          `help:"Look twice, --every apart, print that and end; so it does where the output is no terminal."`
}

func (topCmd) Help() string {
	return `What a Shunt executes, live: shards, and the statements that take most of the time since the last look.

  shunt top 'app:secret@tcp(127.0.0.1:4000)/'
  shunt top --by p99 --every 5s 'app:secret@tcp(127.0.0.1:4000)/'
  SHUNT_DSN='app:secret@tcp(127.0.0.1:4000)/' shunt top --once --json | jq .Statement`
}

// Run shows it until it is interrupted. Exit status 1: Shunt can't be asked.
func (c *topCmd) Run(ctx context.Context, s streams) error {
	if c.Every <= 0 || c.Rows <= 0 {
		return fmt.Errorf("--every and --rows: expected more than 0 (%w)", errUsage)
	}
	db, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	before, err := lookAt(ctx, db)
	if err != nil {
		return err
	}
	tty := terminal(s.out)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
		now, err := lookAt(ctx, db)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		rows := c.since(before, now)
		if c.JSON || tty == nil {
			return c.print(s.out, topColumns, rows)
		}
		width, height := size(tty)
		if !c.Once {
			rows = rows[:min(len(rows), max(1, height-len(now.shards)-4))]
			fmt.Fprint(s.out, "\x1b[H\x1b[2J")
		}
		fmt.Fprintf(s.out, "shunt top  %s  %.0f statements/s\n\n", now.at.Format("15:04:05"), now.rate(before))
		if err := writeTable(s.out, []string{"Shard", "State", "In use", "Idle", "Lacks"}, now.shards, width); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
		if err := writeTable(s.out, topColumns, rows, width); err != nil || c.Once {
			return err
		}
		before = now
	}
}

// glance is what a Shunt told at a time.
type glance struct {
	at         time.Time
	shards     []told
	statements map[string]told // by digest
}

func lookAt(ctx context.Context, db *sql.DB) (*glance, error) {
	_, rows, err := asked(ctx, db, "SHOW STATEMENT STATISTICS")
	if err != nil {
		return nil, fmt.Errorf("SHOW STATEMENT STATISTICS: %w", err)
	}
	l := &glance{at: time.Now(), statements: map[string]told{}}
	for _, r := range rows {
		l.statements[r["Digest"]] = r
	}
	if _, rows, err = asked(ctx, db, "SHOW SHARDS"); err != nil {
		return nil, fmt.Errorf("SHOW SHARDS: %w", err)
	}
	for _, r := range rows {
		l.shards = append(l.shards, told{"Shard": r["Name"], "State": r["State"], "In use": r["Connections_in_use"], "Idle": r["Connections_idle"], "Lacks": r["Error"]})
	}
	return l, nil
}

// number is a column's, 0 where there is none.
func (r told) number(column string) float64 {
	n, _ := strconv.ParseFloat(r[column], 64)
	return n
}

// grown is by how much a statement's counter has grown.
func (l *glance) grown(before *glance, digest, column string) float64 {
	return max(0, l.statements[digest].number(column)-before.statements[digest].number(column))
}

func (l *glance) rate(before *glance) (n float64) {
	for digest := range l.statements {
		n += l.grown(before, digest, "Calls")
	}
	return n / l.at.Sub(before.at).Seconds()
}

var topColumns = []string{"Calls/s", "Load", "Mean", "p99", "Errors/s", "Shards", "Access", "Statement"}

// since has a row for each statement that was executed between two looks. Load is how many of it are
// executed at a time, on average; times are in ms, p99 since Shunt was started.
func (c *topCmd) since(before, now *glance) []told {
	type counted struct {
		digest                   string
		calls, time, p99, errors float64
	}
	seconds := now.at.Sub(before.at).Seconds()
	var list []counted
	for digest, r := range now.statements {
		if n := now.grown(before, digest, "Calls"); n > 0 {
			list = append(list, counted{digest, n, now.grown(before, digest, "Total_ms"), r.number("P99_ms"), now.grown(before, digest, "Errors")})
		}
	}
	by := map[string]func(counted) float64{
		"time": func(x counted) float64 { return x.time }, "calls": func(x counted) float64 { return x.calls },
		"p99": func(x counted) float64 { return x.p99 }, "errors": func(x counted) float64 { return x.errors },
	}[c.By]
	slices.SortFunc(list, func(a, b counted) int { return cmp.Or(cmp.Compare(by(b), by(a)), strings.Compare(a.digest, b.digest)) })
	rows := []told{}
	for _, x := range list[:min(len(list), c.Rows)] {
		r := now.statements[x.digest]
		rows = append(rows, told{
			"Calls/s": fmt.Sprintf("%.1f", x.calls/seconds), "Load": fmt.Sprintf("%.2f", x.time/1000/seconds), "Mean": fmt.Sprintf("%.3f", x.time/x.calls), "p99": r["P99_ms"],
			"Errors/s": fmt.Sprintf("%.1f", x.errors/seconds), "Shards": r["Shards"], "Access": r["Access"], "Statement": cmp.Or(r["Statement"], "(all others)"),
		})
	}
	return rows
}
