package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// setup is a configuration in short.
type setup struct {
	// tables holds the placements of the test's schema, one per line:
	// "users: {shard_key: id}".
	tables []string
	// servers are the shards s0, s1, ... (default: the shared ones).
	servers []*throwaway.Server
	// addrs are the addresses that Shunt has of them (default: their own).
	addrs []string
	// user and password of the shards' account (default: each server's).
	user, password string
	// tls is each shard's value of that key, none if nil.
	tls []string
	// replicas are each shard's: s0's, s1's, ...
	replicas [][]*throwaway.Server
	// users are more of them, in YAML; SCHEMA stands for the test's schema.
	users []string
	// extra is YAML at the top level.
	extra string
	// env are variables of its environment: "GOGC=off".
	env []string
	// maintenance replaces the value of that key.
	maintenance string
	// unchecked leaves the final check out, where a shard is down.
	unchecked bool
	// program is another one than this version's.
	program string
}

// process is a shunt process that can be stopped and started on its store.
type process struct {
	t          *testing.T
	flavour    throwaway.Flavour
	schema     string
	addr, http string
	config     string
	servers    []*throwaway.Server
	log        throwaway.Output
	// program, if set, is run in shunt's place.
	program string
	env     []string
	used    atomic.Int64 // processor time of those that have ended

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts shunt, makes the test's schema through it, and has everything
// checked and removed at the test's end.
func start(t *testing.T, f *flavour, s setup) *process {
	t.Helper()
	if s.servers == nil {
		s.servers = f.servers(t)
	}
	p := &process{t: t, flavour: f.name, schema: newSchemaName(t), servers: s.servers, addr: freeAddress(t), http: freeAddress(t), env: s.env, program: s.program}
	dir := t.TempDir()
	p.config = filepath.Join(dir, "shunt.yaml")
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\nhttp: %s\ndata_dir: %s\n", p.addr, p.http, filepath.Join(dir, "data"))
	fmt.Fprintf(&b, "users:\n- {name: app, password: secret}\n- {name: empty, password: ''}\n")
	for _, u := range s.users {
		fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(u, "SCHEMA", p.schema))
	}
	b.WriteString("shards:\n")
	for i, srv := range s.servers {
		user, password := srv.User, srv.Password
		if s.user != "" {
			user, password = s.user, s.password
		}
		addr := srv.Addr()
		if s.addrs != nil {
			addr = s.addrs[i]
		}
		fmt.Fprintf(&b, "- {name: s%d, addr: '%s', user: %s, password: '%s'", i, addr, user, password)
		if s.tls != nil {
			fmt.Fprintf(&b, ", tls: %s", s.tls[i])
		}
		if s.replicas != nil {
			b.WriteString(", replicas: [")
			for _, r := range s.replicas[i] {
				fmt.Fprintf(&b, "{addr: '%s'},", r.Addr())
			}
			b.WriteString("]")
		}
		b.WriteString("}\n")
	}
	// The schema is always named: by it a Shunt knows others before the same shards.
	if !strings.Contains(s.extra, "schemas:") {
		fmt.Fprintf(&b, "schemas:\n  %s:\n    tables:\n", p.schema)
		if len(s.tables) == 0 {
			b.WriteString("      {}\n")
		}
		for _, line := range s.tables {
			fmt.Fprintf(&b, "      %s\n", line)
		}
	}
	if s.maintenance == "" {
		s.maintenance = "{delay: 100ms, scan_duty: 0.5, reconcile_every: 24h, workers: 2, audit: 0.1}"
	}
	fmt.Fprintf(&b, "maintenance: %s\n%s\n", s.maintenance, s.extra)
	// How long a stop waits for clients that have just been answered goes by it.
	if !strings.Contains(s.extra, "drain_timeout:") {
		b.WriteString("drain_timeout: 1s\n")
	}
	if !strings.Contains(s.extra, "http_token:") {
		fmt.Fprintf(&b, "http_token: %s\n", httpToken)
	}
	if err := os.WriteFile(p.config, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("shunt's log:\n%s", p.log.Tail(60))
			p.tellWaits()
		}
		p.kill()
		suite.Used(t, time.Duration(p.used.Load()))
		for _, trouble := range []string{"DATA RACE", "panic: ", "fatal error: "} {
			if log := p.log.String(); strings.Contains(log, trouble) {
				t.Errorf("shunt's log has %q:\n%s", trouble, log[strings.Index(log, trouble):min(len(log), strings.Index(log, trouble)+5000)])
			}
		}
		p.clean("DROP DATABASE IF EXISTS " + p.schema)
	})
	p.run()
	mustExec(t, p.open(""), "CREATE DATABASE "+p.schema)
	if !s.unchecked {
		// Runs before the cleanup above.
		t.Cleanup(p.check)
	}
	return p
}

// clean removes from the shards what says that this process has served them, and what the
// statements drop. With hundreds of records every reading of information_schema takes longer.
func (p *process) clean(statements ...string) {
	lives, _ := os.ReadFile(filepath.Join(filepath.Dir(p.config), "data", "owner.json")) // there is none if it never served
	for _, srv := range p.servers {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/?timeout=5s&readTimeout=30s", srv.User, srv.Password, srv.Addr()))
		if err != nil {
			continue
		}
		ctx := context.Background()
		records, err := rowsOf(ctx, db, "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shunt_scratch' AND TABLE_NAME LIKE 'owner%'")
		if err == nil { // a dead shard has nothing to clean up; one that a test has left frozen doesn't answer
			for _, r := range records {
				if parts := strings.Split(r["name"], "_"); len(parts) > 2 && bytes.Contains(lives, []byte(strings.Join(parts[len(parts)-2:], "_"))) {
					_, _ = db.ExecContext(ctx, "DROP TABLE IF EXISTS shunt_scratch."+r["name"])
				}
			}
			for _, q := range statements {
				_, _ = db.ExecContext(ctx, q)
			}
		}
		db.Close()
	}
}

// beside is a second process over the same shards, with a store of its own. It isn't
// started.
func (p *process) beside() *process {
	p.t.Helper()
	q := &process{t: p.t, flavour: p.flavour, schema: p.schema, addr: freeAddress(p.t), http: freeAddress(p.t), servers: p.servers, env: p.env}
	text, err := os.ReadFile(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	dir := p.t.TempDir()
	q.config = filepath.Join(dir, "shunt.yaml")
	changed := strings.NewReplacer("listen: "+p.addr, "listen: "+q.addr, "http: "+p.http, "http: "+q.http,
		filepath.Join(filepath.Dir(p.config), "data"), filepath.Join(dir, "data")).Replace(string(text))
	if err := os.WriteFile(q.config, []byte(changed), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("the second shunt's log:\n%s", q.log.Tail(60))
		}
		q.kill()
		q.clean()
	})
	return q
}

// run starts the process and waits until it is ready.
func (p *process) run() {
	p.t.Helper()
	if err := p.launch(); err != nil {
		p.t.Fatal(err)
	}
}

// launch is run for goroutines other than the test's.
func (p *process) launch() error {
	exited, err := p.spawn()
	if err != nil {
		return err
	}
	deadline := time.After(patience)
	for {
		if status, _, err := p.get("/readyz"); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("shunt ended before it was ready: %v\n%s", p.cmd.ProcessState, p.log.Tail(40))
		case <-deadline:
			return fmt.Errorf("shunt is not ready after %s\n%s", patience, p.log.Tail(40))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// spawn starts the process; exited is closed when it has ended.
func (p *process) spawn() (exited chan struct{}, err error) {
	program := binary(p.t)
	if p.program != "" {
		program = p.program
	}
	cmd := exec.CommandContext(context.Background(), program, "serve", "--config", p.config)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(append(os.Environ(), "GOTRACEBACK=all"), p.env...)
	if p.flavour == throwaway.MariaDB { // so both ways are tested
		cmd.Env = append(cmd.Env, "SHUNT_IO_URING=off")
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start shunt: %w", err)
	}
	exited = make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit code is in ProcessState
		p.used.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
		close(exited)
	}()
	p.mu.Lock()
	p.cmd, p.exited = cmd, exited
	p.mu.Unlock()
	return exited, nil
}

// edit changes the configuration's text.
func (p *process) edit(from, to string) {
	p.t.Helper()
	text, err := os.ReadFile(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		p.t.Fatalf("the configuration has no %q", from)
	}
	if err := os.WriteFile(p.config, []byte(strings.ReplaceAll(string(text), from, to)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// reload changes the configuration's text and has it read again.
func (p *process) reload(from, to string) {
	p.t.Helper()
	p.edit(from, to)
	before := strings.Count(p.log.String(), "reload: ")
	p.signal(syscall.SIGHUP)
	eventually(p.t, "the configuration is read again", func() bool {
		return strings.Count(p.log.String(), "reload: ") > before
	})
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "reload: nothing was changed") {
			p.t.Logf("%s", line) // what comes goes by the configuration of before
		}
	}
}

// signal sends a signal to the process by its id. After SIGSTOP it waits until the process stands still: a busy machine
// lets its threads answer for a while.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	// It may just have ended.
	if err := p.cmd.Process.Signal(sig); err == nil && sig == syscall.SIGSTOP {
		throwaway.AwaitStopped(p.cmd.Process.Pid)
	}
}

// kill is kill -9, and returns when the process is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.wait(time.Minute)
}

// stop is SIGTERM; it returns the exit code, -1 if the process had to be killed.
func (p *process) stop() int {
	p.signal(syscall.SIGTERM)
	if !p.wait(time.Minute) {
		p.kill()
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// wait reports whether the process ended within the limit.
func (p *process) wait(limit time.Duration) bool {
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	if exited == nil {
		return true
	}
	select {
	case <-exited:
		return true
	case <-time.After(limit):
		return false
	}
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
		return false
	default:
		return p.cmd != nil
	}
}

// db connects to Shunt with the test's schema selected.
func (p *process) db(change ...func(*mysql.Config)) *sql.DB { return p.open(p.schema, change...) }

func (p *process) open(schema string, change ...func(*mysql.Config)) *sql.DB {
	p.t.Helper()
	return open(p.t, p.addr, "app", "secret", schema, change...)
}

// conn is one connection with the test's schema selected.
func (p *process) conn(change ...func(*mysql.Config)) *sql.Conn {
	p.t.Helper()
	return connOf(p.t, p.db(change...))
}

// shard connects to the i-th shard itself, with the test's schema selected.
func (p *process) shard(i int) *sql.DB { return onShard(p.t, p.servers[i], p.schema) }

// onShards counts what a query selects, on each shard itself.
func (p *process) onShards(query string) []int {
	p.t.Helper()
	counts := make([]int, len(p.servers))
	for i := range p.servers {
		counts[i] = len(mustRows(p.t, p.shard(i), query))
	}
	return counts
}

// httpToken is that of processes that have no other one.
const httpToken = "the token of tests"

var httpClient = &http.Client{Timeout: patience}

// get asks the HTTP port.
func (p *process) get(path string) (status int, body string, err error) {
	// The test's own context is over in a cleanup.
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.http+path, nil)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+httpToken)
	resp, err := httpClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// tellWaits logs what a failed test's Shunt and its servers wait for.
func (p *process) tellWaits() {
	if _, goroutines, err := p.get("/debug/pprof/goroutine?debug=1"); err == nil { // else it is dead
		p.t.Logf("shunt's goroutines:\n%.30000s", goroutines)
	}
	for _, srv := range p.servers {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/?timeout=5s&readTimeout=5s", srv.User, srv.Password, srv.Addr()))
		if err != nil {
			continue
		}
		rows, err := rowsOf(context.Background(), db, "SELECT id AS id, time AS seconds, state AS state, LEFT(info, 200) AS info FROM information_schema.processlist WHERE command <> 'Sleep' AND id <> CONNECTION_ID()")
		if err == nil {
			p.t.Logf("%s does %v", srv.Addr(), rows)
		}
		_ = db.Close() // nothing is asked of it any more
	}
}

// metric sums a metric over all its labels that contain the given texts.
func (p *process) metric(name string, labels ...string) (sum float64, found bool) {
	p.t.Helper()
	_, body, err := p.get("/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
lines:
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ') // a label may have spaces
		if at < 0 {
			continue
		}
		series, value := line[:at], line[at+1:]
		if id, _, _ := strings.Cut(series, "{"); id != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue lines
			}
		}
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			sum, found = sum+f, true
		}
	}
	return sum, found
}

// waitIndex waits until a virtual index is ready. On shared servers a build waits for what other
// tests' Shunts were doing there by the same account when this one began.
func (p *process) waitIndex(q queryer, name string) {
	p.t.Helper()
	eventually(p.t, "index "+name+" is ready", func() bool {
		for _, r := range mustRows(p.t, q, "SHOW VIRTUAL INDEXES") {
			if r["Schema"] == p.schema && r["Name"] == name {
				if r["Status"] == "failed" {
					p.t.Fatalf("index %s failed: %s", name, r["Error"])
				}
				return r["Status"] == "ready"
			}
		}
		return false
	})
}

// createIndex makes a virtual index and waits for it.
func (p *process) createIndex(q queryer, name, on string) {
	p.t.Helper()
	mustExec(p.t, q, fmt.Sprintf("CREATE VIRTUAL INDEX %s ON %s", name, on))
	p.waitIndex(q, name)
}

// executing waits until Shunt has a client's statement, by its beginning: what is to meet it there, as a
// KILL, does nothing if it comes first.
func (p *process) executing(id, statement string) {
	p.t.Helper()
	db := p.db()
	eventually(p.t, statement+" is executed", func() bool {
		return slices.ContainsFunc(mustRows(p.t, db, "SHOW PROCESSLIST"), func(r row) bool { return r["Id"] == id && strings.HasPrefix(r["Info"], statement) })
	})
}

// waitingFor is whether a statement that begins so waits for a table on some shard.
func (p *process) waitingFor(statement string) func() bool {
	return func() bool {
		for i := range p.servers {
			if len(mustRows(p.t, p.shard(i), "SELECT id FROM information_schema.processlist WHERE db = '"+p.schema+"' AND state LIKE 'Waiting for table metadata lock%' AND info LIKE '"+statement+"%'")) > 0 {
				return true
			}
		}
		return false
	}
}

// shardsUp waits until all shards are.
func (p *process) shardsUp() {
	p.t.Helper()
	eventually(p.t, "all shards are up", func() bool {
		return !slices.ContainsFunc(mustRows(p.t, p.db(), "SHOW SHARDS"), func(r row) bool { return r["State"] != "up" })
	})
}

// settled waits until no maintenance job is waiting or running for the schema. Scans for what is stale rest for many times
// as long as they took, which on a busy machine are seconds.
func (p *process) settled(q queryer) {
	p.t.Helper()
	eventually(p.t, "maintenance jobs are done", func() bool {
		for _, r := range mustRows(p.t, q, "SHOW MAINTENANCE JOBS") {
			if r["Schema"] == p.schema {
				return false
			}
		}
		return true
	})
}

// check is the checker that runs after every test: each key of each row has
// its entry.
func (p *process) check() {
	if !p.running() {
		if err := p.launch(); err != nil {
			p.t.Errorf("start shunt for the final check: %v", err)
			return
		}
	}
	// The test's own context is over in a cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	db, err := sql.Open("mysql", fmt.Sprintf("app:secret@tcp(%s)/", p.addr))
	if err != nil {
		p.t.Error(err)
		return
	}
	defer db.Close()
	indexes, err := rowsOf(ctx, db, "SHOW VIRTUAL INDEXES")
	if err != nil {
		p.t.Errorf("final check: %v", err)
		return
	}
	for _, ix := range indexes {
		if ix["Schema"] != p.schema {
			continue
		}
		query := fmt.Sprintf("CHECK VIRTUAL INDEX `%s` ON `%s`.`%s`", ix["Name"], ix["Schema"], ix["Table"])
		rows, err := rowsOf(ctx, db, query)
		for err != nil && strings.Contains(err.Error(), "is being built") && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			rows, err = rowsOf(ctx, db, query)
		}
		if err != nil {
			p.t.Errorf("final check: %s: %v", query, err)
		}
		for _, r := range rows {
			if r["Missing"] != "0" {
				p.t.Errorf("final check: index %s on shard %s: %s of %s keys have no entry", r["Index"], r["Shard"], r["Missing"], r["Checked"])
			}
		}
	}
}

// stats are a process's memory in bytes, open files, and goroutines. Its memory is what no
// file backs: the kernel takes the rest away and brings it back as it likes.
type stats struct {
	memory     int64
	files      int
	goroutines int
}

func (p *process) stats() stats {
	p.t.Helper()
	p.mu.Lock()
	pid := p.cmd.Process.Pid
	p.mu.Unlock()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		p.t.Fatal(err)
	}
	var s stats
	for line := range strings.Lines(string(status)) {
		if kb, found := strings.CutPrefix(line, "RssAnon:"); found {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			s.memory = n << 10
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		p.t.Fatal(err)
	}
	s.files = len(files)
	_, body, err := p.get("/debug/pprof/goroutine?debug=1")
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Sscanf(body, "goroutine profile: total %d", &s.goroutines); err != nil {
		p.t.Fatalf("goroutine profile: %v: %.100q", err, body)
	}
	return s
}

// shunt runs a command of the binary to its end.
func shunt(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), args...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := throwaway.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
