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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// monitor is a Prometheus that scrapes Shunts.
type monitor struct {
	t    *testing.T
	addr string
}

var (
	ruleAge  = regexp.MustCompile(`(?m)^        for: \w+\n`) // how long an expression must hold to be an alert
	ruleSpan = regexp.MustCompile(`\[\w+\]`)                 // what it looks back on
)

// startMonitor starts one with the rules of deploy, which fire at once here, and look back on a short span.
func startMonitor(t *testing.T, span string, targets ...string) *monitor {
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
	write("rules.yml", ruleSpan.ReplaceAllString(ruleAge.ReplaceAllString(string(rules), ""), "["+span+"]"))
	config := write("prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
- job_name: shunt
  authorization: {credentials: %s}
  static_configs: [{targets: ["%s"]}]
`, httpToken, strings.Join(targets, `", "`)))
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
	// What is counted before the first scrape is no increase.
	eventuallyEach(t, 200*time.Millisecond, "all are scraped", func() bool { return m.samples("up == 1") == len(targets) })
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

// TestRules: Prometheus reads the rules, and each alert has its runbook, and is caused by a test.
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
	tests, err := os.ReadFile("prometheus_test.go")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(rules, -1)
	for _, m := range alerts {
		name := string(m[1])
		if !bytes.Contains(runbooks, []byte("\n## "+name+"\n")) || !bytes.Contains(rules, []byte("docs/runbooks.md#"+strings.ToLower(name)+"\n")) {
			t.Errorf("%s has no runbook", name)
		}
		if !bytes.Contains(tests, []byte(`"`+name+`"`)) {
			t.Errorf("%s is caused by no test", name)
		}
	}
	if len(alerts) == 0 || bytes.Count(runbooks, []byte("\n## ")) != len(alerts) {
		t.Errorf("%d alerts, and %d runbooks", len(alerts), bytes.Count(runbooks, []byte("\n## ")))
	}
	available(t, []string{"promtool", "--version"}, "prometheus")
	for _, args := range [][]string{{"check", "rules", "../deploy/prometheus/rules.yml"}, {"test", "rules", "testdata/rules.yml"}} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	// Configurations find the rules beside them, as in the container.
	configs := []string{string(contents(t, "../deploy/compose/prometheus.yml"))}
	for _, b := range blocksOf(t, "docs/runbooks.md") {
		if b.kind == "yaml" {
			configs = append(configs, b.text)
		}
	}
	if len(configs) != 2 {
		t.Errorf("%d configurations", len(configs))
	}
	for _, text := range configs {
		dir := t.TempDir()
		for name, text := range map[string]string{"rules.yml": string(rules), "prometheus.yml": text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestMonitored: a Prometheus that scrapes Shunts under load has data for every panel of the dashboard, and alerts
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
	replicated := replicatedServers(t, f, 1, 1)
	mustExec(t, onShard(t, replicated.primaries[0], ""), "SET GLOBAL binlog_row_metadata = FULL, GLOBAL binlog_format = ROW")
	several := start(t, f, setup{
		servers: replicated.primaries, replicas: replicated.replicas, tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}",
		maintenance: "{delay: 100ms, scan_duty: 1, reconcile_every: 1h, workers: 2, follow: binlog}",
	})
	mustExec(t, several.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
	several.createIndex(several.db(), "idx_email", "people (email)")
	m := startMonitor(t, "2s", p.http, several.http)

	queries := dashboardQueries(t)
	n := 0
	load := func() {
		n++
		mustRows(t, c, fmt.Sprintf("SELECT * FROM people WHERE email = 'p%d'", n%100))
		mustRows(t, c, fmt.Sprintf("SELECT * FROM people WHERE id = %d", n%100))
		mustRows(t, c, "SELECT COUNT(*) FROM people")
		mustExec(t, c, fmt.Sprintf("UPDATE people SET email = 'x%d' WHERE id = %d", n, n%100))
		_ = execError(t, c, "INSERT INTO people VALUES (1, 'twice')")
		mustExec(t, several.db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'p')", n))
	}
	for title, all := range queries {
		for _, query := range all {
			eventuallyEach(t, 50*time.Millisecond, title+" has data", func() bool {
				load()
				return m.samples(query) > 0
			})
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

// TestMonitoredFailures: so do the alerts about what fails. One Shunt has the index in a folder of its own on a small disk,
// the other has it on a server, and a replica.
func TestMonitoredFailures(t *testing.T) {
	suite.Long(t)
	available(t, []string{"prometheus", "--version"}, "prometheus")
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		shard, home := servers[1], servers[2]
		full, free := smallLog(t, shard)
		for _, s := range servers[:2] {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER watched@'%' IDENTIFIED BY '"+shardPassword+"'")
			mustExec(t, db, "GRANT ALL ON *.* TO watched@'%' WITH GRANT OPTION")
			mustExec(t, db, "REVOKE SELECT ON *.* FROM watched@'%'")
			mustExec(t, db, "GRANT SELECT ON `%`.* TO watched@'%'")
		}
		p, _ := startPeople(t, f, 40, setup{
			servers: servers[:2], user: "watched", password: shardPassword,
			extra:       "shard_timeout: 1s\ncommit_timeout: 3s\nmin_free_disk: 900MiB\n",
			maintenance: "{delay: 100ms, scan_duty: 1, reconcile_every: 1h, workers: 2, audit: 1}",
		})
		data := smallData(p, "1200m")
		c := p.conn()
		p.settled(c)

		replicated := replicatedServers(t, f, 1, 1)
		replica := replicated.replicas[0][0]
		several := start(t, f, setup{
			servers: replicated.primaries, replicas: replicated.replicas, tables: []string{"people: {shard_key: id}"},
			extra: fmt.Sprintf("shard_timeout: 1s\nstore: {servers: [{name: h1, addr: '%s', user: %s, password: '%s'}]}", home.Addr(), home.User, home.Password),
		})
		several.waitReplica(replica, "up")
		m := startMonitor(t, "10s", p.http, several.http)

		shardOf := func(id int) string {
			return routeOf(t, c, fmt.Sprintf("SELECT * FROM people WHERE id = %d", id)).shards[0]
		}
		there, behind := 0, 1000 // a row on s0, and the number of none on s1
		for shardOf(there) != "s0" {
			there++
		}
		for shardOf(behind) != "s1" {
			behind++
		}
		byEmail := fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", there)
		m.alert("ShuntMiss", func() {
			mustExec(t, onShard(t, shard, p.schema), fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'p%d@x')", behind, there))
			want(t, c, byEmail, "id", fmt.Sprint(there))
		}, func() {
			eventually(t, "the index is built anew", func() bool { return len(mustRows(t, c, byEmail)) == 2 })
			p.waitIndex(c, "idx_email")
		})

		var fill *os.File
		fillTo := func(left uint64) {
			var err error
			if fill, err = os.Create(filepath.Join(data, "fill")); err != nil {
				t.Fatal(err)
			}
			defer fill.Close()
			for has := left; has >= left; {
				var disk syscall.Statfs_t
				if err := syscall.Statfs(data, &disk); err != nil {
					t.Fatal(err)
				}
				has = disk.Bavail * uint64(disk.Bsize)
				if _, err := fill.Write(make([]byte, 1<<20)); err != nil {
					t.Fatal(err)
				}
			}
		}
		empty := func() {
			if err := os.Remove(fill.Name()); err != nil {
				t.Fatal(err)
			}
		}
		m.alert("ShuntStoreDiskLow", func() { fillTo(980e6) }, empty)
		m.alert("ShuntStoreUnwritable", func() { fillTo(920e6) }, func() {
			wantError(t, execError(t, c, "INSERT INTO people (id, email) VALUES (2000, 'new@x')"), 1021, "")
			empty()
		})

		var writers sync.WaitGroup
		m.alert("ShuntShardStalled", func() {
			full()
			for range 4 {
				w := p.conn()
				writers.Go(func() {
					for i, err := 0, error(nil); err == nil; i++ {
						_, err = w.ExecContext(t.Context(), fmt.Sprintf("UPDATE people SET city = REPEAT('%c', 20) WHERE id = %d", 'a'+i%20, behind))
					}
				})
			}
		}, func() {
			writers.Wait()
			free()
		})

		const ddl = "ALTER TABLE people ADD added INT"
		altered := make(chan error, 1)
		m.alert("ShuntUnfinishedDDL", func() {
			hold := connOf(t, onShard(t, shard, p.schema))
			mustExec(t, hold, "BEGIN")
			mustRows(t, hold, "SELECT id FROM people")
			db := p.db()
			go func() {
				_, err := db.ExecContext(t.Context(), ddl)
				altered <- err
			}()
			eventually(t, "it waits on s1", func() bool {
				return len(mustRows(t, hold, "SELECT id AS id FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'")) > 0
			})
			shard.Kill()
			if err := <-altered; err == nil {
				t.Error("the statement is done without a shard")
			}
		}, func() {
			if err := shard.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the same statement finishes it", func() bool {
				_, err := p.db().ExecContext(t.Context(), ddl)
				return err == nil
			})
		})

		m.alert("ShuntJobFails", func() {
			mustExec(t, p.db(), "CREATE VIRTUAL INDEX idx_city ON people (city)")
			p.waitIndex(p.db(), "idx_city")
			mustExec(t, onShard(t, shard, ""), "REVOKE SELECT ON `%`.* FROM watched@'%'")
			for _, name := range []string{"idx_email", "idx_city"} {
				mustExec(t, p.db(), "REBUILD VIRTUAL INDEX "+name+" ON people")
			}
		}, func() {
			mustExec(t, onShard(t, shard, ""), "GRANT SELECT ON `%`.* TO watched@'%'")
			p.waitIndex(p.db(), "idx_email")
			p.waitIndex(p.db(), "idx_city")
		})

		m.alert("ShuntStoreServerDown", home.Pause, home.Resume)
		m.alert("ShuntReplicaDown", replica.Kill, func() {
			if err := replica.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	})
}
