package demo

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// client runs statements as a user would, and gives the rows by column name.
type client struct {
	name string
	run  func(ctx context.Context, statement string) ([]map[string]string, error)
}

// commandLine is how to run the plain MySQL or MariaDB client.
type commandLine struct {
	name, path string
	options    []string
}

// findCommandLine finds a client. MariaDB's from 11.4 on ask for TLS, which the demo hasn't,
// when they send a password.
func findCommandLine(ctx context.Context) (c commandLine, found bool) {
	for _, name := range []string{"mysql", "mariadb"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		c = commandLine{name: name, path: path}
		if version, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil && strings.Contains(string(version), "MariaDB") {
			c.options = []string{"--skip-ssl"}
		}
		return c, true
	}
	return c, false
}

// clients are all that this machine has: the Go driver always.
func (d *demo) clients(ctx context.Context) []client {
	all := []client{{"go-sql-driver", func(ctx context.Context, statement string) ([]map[string]string, error) {
		return queryRows(ctx, d.db, statement)
	}}}
	c, found := findCommandLine(ctx)
	if !found {
		return all
	}
	host, port, err := net.SplitHostPort(d.Listen)
	if err != nil {
		return all
	}
	return append(all, client{c.name, func(ctx context.Context, statement string) ([]map[string]string, error) {
		args := append([]string{
			"--no-defaults", "--protocol=tcp", "--host=" + host, "--port=" + port,
			"--user=" + account, "--password=" + password, "--batch", "--execute=" + statement,
		}, c.options...)
		cmd := exec.CommandContext(ctx, c.path, append(args, schema)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w: %s", c.name, statement, err, strings.TrimSpace(stderr.String()))
		}
		return parseBatch(string(out)), nil
	}})
}

// parseBatch reads the client's tab-separated output.
func parseBatch(out string) []map[string]string {
	var names []string
	var rows []map[string]string
	for line := range strings.Lines(out) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if names == nil {
			names = cells
			continue
		}
		row := map[string]string{}
		for i, c := range cells[:min(len(cells), len(names))] {
			row[names[i]] = c
		}
		rows = append(rows, row)
	}
	return rows
}

// check executes what was printed and verifies answers and routes. All
// failures are reported.
func (d *demo) check(ctx context.Context, m measured) error {
	fmt.Fprintln(d.Out, "\nChecking")
	var failures []error
	verify := func(what string, err error) {
		if err != nil {
			fmt.Fprintf(d.Out, "  FAILED  %s: %v\n", what, err)
			failures = append(failures, fmt.Errorf("%s: %w", what, err))
			return
		}
		fmt.Fprintf(d.Out, "  ok      %s\n", what)
	}
	verify("all rows are on the shards, each once", d.checkRows(ctx))
	verify("with the index one shard is visited", expectRoute(m.with, 1, "index:idx_email"))
	verify("without it all are", expectRoute(m.without, d.Shards, "scatter"))
	for _, c := range d.clients(ctx) {
		for i, t := range d.tries() {
			verify(fmt.Sprintf("%s: statement %d", c.name, i+1), d.checkTry(ctx, c, i, t))
		}
		verify(c.name+": the old email finds nothing any more", d.checkGone(ctx, c))
	}
	for _, ix := range virtualIndexes {
		verify("CHECK VIRTUAL INDEX "+ix.name+": nothing missing", d.checkIndex(ctx, ix))
	}
	if d.HTTP != "" {
		verify("the metrics count the same shards", d.checkMetrics(ctx))
	}
	if len(d.members) > 0 {
		verify("one member is killed: the others go on, and it comes back", d.checkMembers(ctx))
	}
	if len(failures) > 0 {
		return fmt.Errorf("%d checks failed", len(failures))
	}
	fmt.Fprintln(d.Out, "All checks passed.")
	return nil
}

// checkRows counts on the shards themselves.
func (d *demo) checkRows(ctx context.Context) error {
	counts := map[string]int{"users": 0, "orders": 0}
	for _, s := range d.set.Servers {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", s.User, s.Password, s.Addr(), schema))
		if err != nil {
			return fmt.Errorf("open shard: %w", err)
		}
		defer db.Close()
		for table := range counts {
			var n int
			if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
				return fmt.Errorf("count %s: %w", table, err)
			}
			if n == 0 {
				return fmt.Errorf("shard %s has no %s", s.Addr(), table)
			}
			counts[table] += n
		}
	}
	if counts["users"] != d.Users || counts["orders"] != d.Orders {
		return fmt.Errorf("%v: expected %d users and %d orders", counts, d.Users, d.Orders)
	}
	return nil
}

func expectRoute(m measurement, shards int, access string) error {
	if len(m.visited) != shards || m.access != access {
		return fmt.Errorf("EXPLAIN ROUTE says %d shards %v by %s: expected %d by %s", len(m.visited), m.visited, m.access, shards, access)
	}
	return nil
}

// checkTry runs the statements of a try. The first client changes the email,
// so that for the next ones some answers are the changed ones.
func (d *demo) checkTry(ctx context.Context, c client, number int, t try) error {
	var rows []map[string]string
	for _, s := range t.statements {
		var err error
		if rows, err = c.run(ctx, s); err != nil {
			return err
		}
	}
	u := d.favourite()
	switch number {
	case 0:
		return expectUser(rows, u.id, u.name, u.email)
	case 1:
		if len(rows) != 1 || rows[0]["Plan"] != "route" || rows[0]["Access"] != "index:idx_email" || len(shardNames(rows[0]["Shards"])) != 1 {
			return fmt.Errorf("%v: expected a route to one shard by index:idx_email", rows)
		}
		return nil
	case 2:
		return expectUser(rows, u.id, u.name, changedEmail)
	case 3:
		return d.expectOrders(rows, u)
	default:
		for _, ix := range virtualIndexes {
			i := slices.IndexFunc(rows, func(r map[string]string) bool { return r["Name"] == ix.name })
			if i < 0 || rows[i]["Status"] != "ready" {
				return fmt.Errorf("%v: expected %s to be ready", rows, ix.name)
			}
		}
		return nil
	}
}

func expectUser(rows []map[string]string, id int, name, email string) error {
	if len(rows) != 1 || rows[0]["id"] != fmt.Sprint(id) || rows[0]["name"] != name || rows[0]["email"] != email {
		return fmt.Errorf("%v: expected user %d, %s, %s", rows, id, name, email)
	}
	return nil
}

func (d *demo) expectOrders(rows []map[string]string, u user) error {
	var got, want []string
	for _, r := range rows {
		got = append(got, strings.Join([]string{r["name"], r["tracking"], r["product"], r["total"]}, " "))
	}
	for i := 1; i <= d.Orders; i++ {
		if o := orderAt(i, d.Users); o.userID == u.id {
			want = append(want, strings.Join([]string{u.name, o.tracking, o.product, o.total}, " "))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("%q: expected %q", got, want)
	}
	return nil
}

// checkGone reads by the old email, and then puts it back for the next client.
func (d *demo) checkGone(ctx context.Context, c client) error {
	u := d.favourite()
	rows, err := c.run(ctx, byEmail(u.email))
	if err != nil {
		return err
	}
	if len(rows) != 0 {
		return fmt.Errorf("%v: expected nothing", rows)
	}
	if _, err := c.run(ctx, fmt.Sprintf("UPDATE users SET email = '%s' WHERE id = %d", u.email, u.id)); err != nil {
		return err
	}
	rows, err = c.run(ctx, byEmail(u.email))
	if err != nil {
		return err
	}
	return expectUser(rows, u.id, u.name, u.email)
}

func (d *demo) checkIndex(ctx context.Context, ix virtualIndex) error {
	rows, err := queryRows(ctx, d.db, fmt.Sprintf("CHECK VIRTUAL INDEX %s ON %s", ix.name, ix.table))
	if err != nil {
		return err
	}
	if len(rows) != d.Shards {
		return fmt.Errorf("%d rows: expected one a shard", len(rows))
	}
	for _, r := range rows {
		if r["Missing"] != "0" || r["Checked"] == "0" {
			return fmt.Errorf("shard %s: %s checked, %s missing", r["Shard"], r["Checked"], r["Missing"])
		}
	}
	return nil
}

// checkMetrics counts the shards that one query visits, with and without its
// index, by the proxy's own metrics.
func (d *demo) checkMetrics(ctx context.Context) error {
	visited := func() (int, error) {
		before, err := d.metric(ctx, "shunt_statement_shards_sum")
		if err != nil {
			return 0, err
		}
		if _, err := queryRows(ctx, d.db, byEmail(d.favourite().email)); err != nil {
			return 0, err
		}
		after, err := d.metric(ctx, "shunt_statement_shards_sum")
		return int(after - before), err
	}
	with, err := visited()
	if err != nil {
		return err
	}
	if _, err := d.db.ExecContext(ctx, "ALTER VIRTUAL INDEX idx_email ON users DISABLE"); err != nil {
		return fmt.Errorf("disable index: %w", err)
	}
	without, err := visited()
	if err != nil {
		return err
	}
	if _, err := d.db.ExecContext(ctx, "ALTER VIRTUAL INDEX idx_email ON users ENABLE"); err != nil {
		return fmt.Errorf("enable index: %w", err)
	}
	if with != 1 || without != d.Shards {
		return fmt.Errorf("%d with the index, %d without: expected 1 and %d", with, without, d.Shards)
	}
	return nil
}

// metric sums one figure of all members.
func (d *demo) metric(ctx context.Context, name string) (sum float64, err error) {
	at := []string{d.HTTP}
	if len(d.members) > 0 {
		at = at[:0]
	}
	for _, m := range d.members {
		at = append(at, m.http)
	}
	for _, addr := range at {
		value, err := metricAt(ctx, addr, name)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

// metricAt reads one figure from /metrics.
func metricAt(ctx context.Context, addr, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("make request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("get metrics: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	for line := range strings.Lines(string(body)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", name)
}
