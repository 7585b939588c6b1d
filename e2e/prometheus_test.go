package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// monitor is a Prometheus that scrapes a Shunt.
type monitor struct {
	t    *testing.T
	addr string
}

var (
	ruleAge  = regexp.MustCompile(`(?m)^        for: \w+\n`) // how long an expression must hold to be an alert
	ruleSpan = regexp.MustCompile(`\[5m\]`)
)

// startMonitor starts one with the rules of deploy, which fire at once here.
func startMonitor(t *testing.T, target string) *monitor {
	t.Helper()
	rules, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("rules.yml", ruleSpan.ReplaceAllString(ruleAge.ReplaceAllString(string(rules), ""), "[2s]"))
	config := write("prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
- job_name: shunt
  authorization: {credentials: %s}
  static_configs: [{targets: ["%s"]}]
`, httpToken, target))
	m := &monitor{t, freeAddress(t)}
	cmd := exec.CommandContext(context.Background(), "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+m.addr)
	var log throwaway.Output
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus's log:\n%s", log.Tail(20))
		}
	})
	return m
}

// get reads an answer of its API; nil where it has none.
func (m *monitor) get(path string, into any) error {
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.addr+path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(into)
}

// samples counts what a query answers now.
func (m *monitor) samples(query string) int {
	var a struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := m.get("/api/v1/query?query="+url.QueryEscape(query), &a); err != nil {
		return 0
	}
	if a.Status == "error" {
		m.t.Fatalf("%s: %s", query, a.Error)
	}
	return len(a.Data.Result)
}

// fires reports whether an alert does.
func (m *monitor) fires(alert string) bool {
	return m.samples(`ALERTS{alertname="`+alert+`",alertstate="firing"}`) > 0
}

// alert waits until what was caused has made an alert fire, and until it has ended.
func (m *monitor) alert(name string, cause, end func()) {
	m.t.Helper()
	eventuallyEach(m.t, 200*time.Millisecond, name+" doesn't fire for what was before", func() bool { return !m.fires(name) })
	cause()
	eventuallyEach(m.t, 200*time.Millisecond, name+" fires", func() bool { return m.fires(name) })
	end()
	eventuallyEach(m.t, 200*time.Millisecond, name+" ends", func() bool { return !m.fires(name) })
}

// dashboardQueries are those of all panels, by title.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	var dash struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	b, err := os.ReadFile("../deploy/grafana/shunt.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &dash); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, p := range dash.Panels {
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], strings.NewReplacer("$instance", ".*", "$__rate_interval", "10s").Replace(target.Expr))
		}
	}
	if len(out) < 10 {
		t.Fatalf("the dashboard has only the panels %v", out)
	}
	return out
}

// notHere are metrics that only a Shunt with replicas, or one of several, has.
var notHere = []string{"shunt_replica_up", "shunt_store_up"}

// ruleMetrics are the metrics that alerts go by.
func ruleMetrics(t *testing.T) []string {
	t.Helper()
	rules, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, expr := range regexp.MustCompile(`(?m)^ +expr: .*$`).FindAllString(string(rules), -1) {
		names = append(names, regexp.MustCompile(`shunt_\w+`).FindAllString(expr, -1)...)
	}
	if len(names) < 10 {
		t.Fatalf("the alerts go by %q alone", names)
	}
	return names
}

// TestRules: Prometheus reads the rules, and each alert has its runbook.
func TestRules(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	runbooks, err := os.ReadFile("../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(rules, -1)
	for _, m := range alerts {
		name := string(m[1])
		if !bytes.Contains(runbooks, []byte("\n## "+name+"\n")) || !bytes.Contains(rules, []byte("docs/runbooks.md#"+strings.ToLower(name)+"\n")) {
			t.Errorf("%s has no runbook", name)
		}
	}
	if len(alerts) == 0 || bytes.Count(runbooks, []byte("\n## ")) != len(alerts) {
		t.Errorf("%d alerts, and %d runbooks", len(alerts), bytes.Count(runbooks, []byte("\n## ")))
	}
	available(t, []string{"promtool", "--version"}, "prometheus")
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", "../deploy/prometheus/rules.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMonitored: a Prometheus that scrapes a Shunt under load has data for every panel of the dashboard, and alerts
// fire, and end, with what they are about.
func TestMonitored(t *testing.T) {
	available(t, []string{"prometheus", "--version"}, "prometheus")
	t.Parallel()
	f := flavours[0]
	servers := f.own(t, 2)
	authority, err := throwaway.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}); err != nil { // for an hour
		t.Fatal(err)
	}
	encrypts := fmt.Sprintf("tls: {cert: '%s', key: '%s'}", authority.File("server.pem"), authority.File("server.key"))
	p := start(t, f, setup{
		servers: servers, tables: []string{"people: {shard_key: id}", "countries: {placement: reference}"}, unchecked: true,
		extra:       "shard_connections: 4\nshard_timeout: 1s\n" + encrypts,
		maintenance: "{delay: 100ms, scan_duty: 1, reconcile_every: 1h, workers: 2, audit: 1}",
	})
	c := p.open(p.schema)
	mustExec(t, c, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
	mustExec(t, c, "INSERT INTO people VALUES "+rowsFor(100, func(i int) string { return fmt.Sprintf("(%d, 'p%d')", i, i) }))
	mustExec(t, c, "CREATE TABLE countries (id INT PRIMARY KEY, name VARCHAR(20))")
	mustExec(t, c, "INSERT INTO countries VALUES (1, 'Peru'), (2, 'Chad')")
	mustExec(t, c, "CREATE VIRTUAL INDEX idx_email ON people (email)")
	allKnown(t, c)
	m := startMonitor(t, p.http)

	queries := dashboardQueries(t)
	n := 0
	load := func() {
		n++
		mustRows(t, c, fmt.Sprintf("SELECT * FROM people WHERE email = 'p%d'", n%100))
		mustRows(t, c, fmt.Sprintf("SELECT * FROM people WHERE id = %d", n%100))
		mustRows(t, c, "SELECT COUNT(*) FROM people")
		mustExec(t, c, fmt.Sprintf("UPDATE people SET email = 'x%d' WHERE id = %d", n, n%100))
		_ = execError(t, c, "INSERT INTO people VALUES (1, 'twice')")
	}
	for title, all := range queries {
		for _, query := range all {
			eventuallyEach(t, 50*time.Millisecond, title+" has data", func() bool {
				load()
				return m.samples(query) > 0
			})
		}
	}

	for _, name := range ruleMetrics(t) {
		if n := m.samples(name); n == 0 && !slices.Contains(notHere, name) {
			t.Errorf("an alert goes by %s, which Prometheus doesn't have", name)
		}
	}

	m.alert("ShuntReferenceTablesUnlike", func() { mustExec(t, c, "/* shunt: shard=s1 */ UPDATE countries SET name = 'Mali' WHERE id = 2") },
		func() { mustExec(t, c, "/* shunt: shard=s1 */ DELETE FROM countries") })
	m.alert("ShuntIndexUnused", func() { mustExec(t, c, "ALTER VIRTUAL INDEX idx_email ON people DISABLE") },
		func() { mustExec(t, c, "ALTER VIRTUAL INDEX idx_email ON people ENABLE") })
	// A transaction that is open on a shard holds back the scan that would clear a mark.
	tx, err := c.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	m.alert("ShuntMarkStays", func() {
		mustExec(t, tx, "BEGIN")
		mustExec(t, tx, "UPDATE people SET email = CONCAT(email, 'y') WHERE id = 7")
	}, func() { mustExec(t, tx, "COMMIT") })
	m.alert("ShuntShardDown", servers[1].Kill, func() {
		if err := servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	sleepers := make(chan error, 8)
	m.alert("ShuntConnectionsUsedUp", func() {
		for range cap(sleepers) {
			go func() {
				_, err := c.ExecContext(t.Context(), "SELECT SLEEP(4) FROM people WHERE id = 1")
				sleepers <- err
			}()
		}
	}, func() {
		for range cap(sleepers) {
			<-sleepers
		}
	})
	if !m.fires("ShuntCertificateExpires") {
		t.Error("ShuntCertificateExpires doesn't fire for a certificate of an hour")
	}
	m.alert("ShuntDown", func() { p.stop() }, func() {
		p.edit(encrypts, "")
		p.run()
	})
	eventuallyEach(t, 200*time.Millisecond, "ShuntCertificateExpires ends", func() bool { return !m.fires("ShuntCertificateExpires") })
}
