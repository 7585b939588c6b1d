package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
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

// site is one installation of an application, over Shunt or over one server.
type site struct {
	side string
	// db is where the application's tables are, user and password are its account.
	dbAddr, schema, user, password string
	// url is the web server's, dir a directory of the site's own.
	url, dir string
	client   *http.Client
	env      []string
	log      throwaway.Output
	// installed is an installer that isn't part of the website, nil: none.
	installed func()
}

// app is an application that is installed once over Shunt and once over one server, and
// then used by one script, step by step on both.
type app struct {
	name string
	// placements are the tables' that the documentation advises.
	placements string
	// root is the web server's, below SHUNT_E2E_APPS.
	root string
	// prepare makes a site ready to be served; install and use are done by steps.
	prepare func(t *testing.T, s *site, root string) (docroot string)
	steps   func(u *visit)
	// advised are the placements, or shard keys, that are right for its tables, growing those that have many rows one day.
	advised map[string][]string
	growing []string
	// unlike are columns that differ by nature, as TABLE.COLUMN.
	unlike []string
	// tied are parts of requests for lists whose queries leave the order of some rows open: by an ORDER BY
	// with ties, or none. Of their answers only what is before the list is compared.
	tied []string
}

// schemas is the configuration by which Shunt serves it.
func (a app) schemas(schema string) string {
	return fmt.Sprintf("schemas:\n  %s:\n    default: {placement: hash}\n    tables:\n%s", schema, a.placements)
}

// visit is the script's way to both sites.
type visit struct {
	t     *testing.T
	tied  []string
	sites []*site
	// held are values that answers told, by site and name: tokens, numbers of rows.
	held map[*site]map[string]string
	// steps counts what was asked, unlike what differed.
	steps, unlike int
	// now is the applications' clock, which goes on by some seconds with each step: both
	// write the same times, and no two rows that a page sorts have the same one by chance.
	now   time.Time
	clock string
}

const (
	fakeTime  = "/usr/lib/*/faketime/libfaketime.so.1"
	stepTakes = 9 * time.Second
)

// tick moves the applications' clock on.
func (u *visit) tick() {
	u.t.Helper()
	u.now = u.now.Add(stepTakes)
	if err := os.WriteFile(u.clock, []byte("@"+u.now.UTC().Format("2006-01-02 15:04:05")+" i0.000001\n"), 0o644); err != nil {
		u.t.Fatal(err)
	}
}

// TestApps: WordPress and MediaWiki answer the same pages over Shunt as over one server, and
// leave the same rows. `make test-apps` gets them.
func TestApps(t *testing.T) {
	apps := os.Getenv("SHUNT_E2E_APPS")
	if apps == "" {
		t.Skip("SHUNT_E2E_APPS names no applications: make test-apps")
	}
	for _, a := range []app{wordPress, mediaWiki} {
		t.Run(a.name, func(t *testing.T) {
			for _, f := range flavours {
				t.Run(string(f.name), func(t *testing.T) { compareApp(t, f, a, apps) })
			}
		})
	}
}

func compareApp(t *testing.T, f *flavour, a app, apps string) {
	schema := newSchemaName(t)
	plain := f.own(t, 1, "--performance-schema=ON")[0]
	root := onShard(t, plain, "")
	for _, q := range []string{
		"CREATE DATABASE " + schema, "CREATE USER app@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON *.* TO app@'%'",
		"SET GLOBAL log_output = 'FILE'", "SET GLOBAL general_log_file = 'general.log'", "SET GLOBAL general_log = ON",
	} {
		mustExec(t, root, q)
	}
	p := start(t, f, setup{extra: a.schemas(schema)})
	mustExec(t, p.open(""), "CREATE DATABASE "+schema)
	t.Cleanup(func() { p.clean("DROP DATABASE IF EXISTS " + schema) })
	u := &visit{t: t, tied: a.tied, held: map[*site]map[string]string{}, now: time.Now().Add(-stepTakes), clock: filepath.Join(t.TempDir(), "clock")}
	u.tick()
	clock, err := filepath.Glob(fakeTime)
	if err != nil || len(clock) == 0 {
		t.Fatalf("libfaketime is missing: %v", err)
	}
	for _, s := range []*site{
		{side: "plain", dbAddr: plain.Addr()},
		{side: "shunt", dbAddr: p.addr},
	} {
		s.user, s.password, s.schema, s.dir = "app", "secret", schema, t.TempDir()
		s.env = append(os.Environ(), "TZ=UTC", "LD_PRELOAD="+clock[0], "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_TIMESTAMP_FILE="+u.clock)
		s.serve(t, a, apps)
		u.sites = append(u.sites, s)
		u.held[s] = map[string]string{"url": s.url}
	}
	a.steps(u)
	t.Logf("%d steps, %d of them with another answer", u.steps, u.unlike)
	refused, _ := p.metric("shunt_refused_total")
	if sent, _ := p.metric("shunt_statements_total"); refused > 0.003*sent {
		t.Errorf("%.0f of %.0f statements were refused", refused, sent)
	} else {
		t.Logf("%.0f of %.0f statements were refused", refused, sent)
	}
	mustExec(t, root, "SET GLOBAL general_log = OFF")
	compareTables(t, f, schema, u.sites, a.unlike)
	t.Run("advise", func(t *testing.T) { adviseOn(t, plain, schema, nil) })
	if plain.Socket() != "" { // its files can be read
		t.Run("advise by the general log", func(t *testing.T) {
			grow(t, plain, schema, a.growing)
			adviseOn(t, plain, schema, a.advised, "--general-log", filepath.Join(filepath.Dir(plain.Socket()), "general.log"))
		})
	}
	if t.Failed() {
		for _, s := range u.sites {
			t.Logf("%s:\n%s", s.side, s.log.Tail(30))
			if text, err := os.ReadFile(filepath.Join(s.dir, "errors.log")); err == nil {
				t.Logf("%s: what failed:\n%.20000s", s.side, text)
			}
		}
	}
}

// grow has a server believe that tables have the rows of a site that is in use: small ones are advised to be on every shard.
// Columns of nearly as many values as there are rows get more with these, and so do all of tables that have hardly any rows. It starts again: MariaDB doesn't read them before.
func grow(t *testing.T, server *throwaway.Server, schema string, tables []string) {
	t.Helper()
	root := onShard(t, server, "")
	mustExec(t, root, "SET GLOBAL innodb_stats_auto_recalc = OFF")
	for _, table := range tables {
		of := fmt.Sprintf(" WHERE database_name = '%s' AND table_name = '%s'", schema, table)
		mustRows(t, root, "ANALYZE TABLE "+schema+"."+table)
		mustExec(t, root, "UPDATE mysql.innodb_index_stats SET stat_value = GREATEST(stat_value, 10) * 100000"+of+
			" AND stat_name LIKE 'n_diff%' AND (SELECT n_rows < 20 OR 2 * stat_value > n_rows FROM mysql.innodb_table_stats"+of+")")
		mustExec(t, root, "UPDATE mysql.innodb_table_stats SET n_rows = GREATEST(n_rows, 20) * 100000"+of)
	}
	server.Shutdown()
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// adviseOn has shunt advise look at what an application has done on one server: all of it is read, and what is known to be
// right is advised. Each of these has alternatives.
func adviseOn(t *testing.T, server *throwaway.Server, schema string, right map[string][]string, flags ...string) {
	t.Helper()
	out, code := advised(t, append([]string{fmt.Sprintf("%s:%s@tcp(%s)/%s", server.User, server.Password, server.Addr(), schema), "--json"}, flags...)...)
	var r adviseReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Errorf("shunt advise: status %d, %v:\n%s", code, err, out)
		return
	}
	t.Logf("of %d executions: %v", r.Executions, r.Shares)
	for _, x := range r.Tables {
		t.Logf("%s: %s %s", x.Table, x.Placement, x.ShardKey)
		if want := right[x.Table]; want != nil && !slices.Contains(want, cmp.Or(x.ShardKey, x.Placement)) {
			t.Errorf("%s: %s %s, want %v", x.Table, x.Placement, x.ShardKey, want)
		}
	}
	for _, x := range r.Indexes {
		t.Logf("index on %s (%s): %.2f by %s", x.Table, strings.Join(x.Columns, ", "), x.FanOut, x.Basis)
	}
	for _, x := range r.Statements {
		if x.Route == "unread" && !strings.Contains(x.Reason, "cut short") {
			t.Errorf("%s is not read: %s", x.Digest, x.Reason)
		} else if x.Route == "refused" || x.Route == "unread" {
			t.Logf("%s: %s: %s", x.Route, x.Digest, x.Reason)
		}
	}
}

// serve starts PHP's own web server for the site.
func (s *site) serve(t *testing.T, a app, apps string) {
	t.Helper()
	address := freeAddress(t)
	s.url = "http://" + address
	s.env = append(s.env, "APP_URL="+s.url, "APP_DB_HOST="+s.dbAddr, "APP_DB_NAME="+s.schema, "APP_DB_USER="+s.user, "APP_DB_PASSWORD="+s.password, "APP_DIR="+s.dir)
	docroot := a.prepare(t, s, filepath.Join(apps, a.root))
	cmd := exec.CommandContext(context.Background(), "php", "-d", "display_errors=0", "-d", "error_log=/dev/stderr", "-d", "log_errors=1", "-d", "max_execution_time=120",
		"-d", "opcache.enable_cli=1", "-d", "opcache.validate_timestamps=0", "-S", address, "-t", docroot)
	cmd.Env = s.env
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start php: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	eventually(t, "php listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.client = &http.Client{Jar: jar, Timeout: 3 * time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{}, DisableKeepAlives: true}}
}

// php runs a program of the application's to its end.
func (s *site) php(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "php", args...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: php %s: %v\n%s", s.side, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// expand puts what earlier answers told in the place of {name}.
func (u *visit) expand(s *site, text string) string {
	for name, value := range u.held[s] {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// hold keeps what the pattern's group finds in an answer, under a name.
func (u *visit) hold(name, pattern string, answers map[*site]string) {
	u.t.Helper()
	re := regexp.MustCompile(pattern)
	for s, text := range answers {
		m := re.FindStringSubmatch(text)
		if m == nil {
			u.t.Fatalf("%s: no %s (%s) in %.2000s", s.side, name, pattern, text)
		}
		u.held[s][name] = m[1]
	}
}

// get asks both sites for a page and compares what they answer.
func (u *visit) get(path string) map[*site]string {
	u.t.Helper()
	return u.ask("GET "+path, func(s *site) (*http.Request, error) {
		return http.NewRequestWithContext(u.t.Context(), http.MethodGet, s.url+escaped(u.expand(s, path)), nil)
	})
}

// post sends a form's values, name=value, to both sites and compares what they answer.
func (u *visit) post(path string, values ...string) map[*site]string {
	u.t.Helper()
	return u.ask("POST "+path+" "+strings.Join(values, "&"), func(s *site) (*http.Request, error) {
		form := url.Values{}
		for _, v := range values {
			name, value, _ := strings.Cut(v, "=")
			form.Add(name, u.expand(s, value))
		}
		r, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, s.url+escaped(u.expand(s, path)), strings.NewReader(form.Encode()))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return r, err
	})
}

// xml sends a body to both sites, as XML-RPC has it.
func (u *visit) xml(path, body string) map[*site]string {
	u.t.Helper()
	return u.ask("POST "+path+" "+body, func(s *site) (*http.Request, error) {
		r, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, s.url+path, strings.NewReader(u.expand(s, body)))
		if err == nil {
			r.Header.Set("Content-Type", "text/xml")
		}
		return r, err
	})
}

func (u *visit) ask(what string, request func(s *site) (*http.Request, error)) map[*site]string {
	u.t.Helper()
	u.steps++
	u.tick()
	answers := map[*site]string{}
	var told []string
	for _, s := range u.sites {
		r, err := request(s)
		if err != nil {
			u.t.Fatal(err)
		}
		resp, err := s.client.Do(r)
		if err != nil {
			u.t.Fatalf("%s: %s: %v", s.side, what, err)
		}
		body, err := io.ReadAll(resp.Body)
		err = errors.Join(err, resp.Body.Close())
		if err != nil {
			u.t.Fatalf("%s: %s: %v", s.side, what, err)
		}
		answers[s] = string(body)
		told = append(told, fmt.Sprintf("%d %s\n", resp.StatusCode, resp.Header.Get("Location"))+string(body))
		if resp.StatusCode >= 500 && s.side == "plain" {
			u.t.Errorf("plain: %s: %s\n%.3000s\n%s", what, resp.Status, body, s.log.Tail(20))
		}
	}
	if slices.ContainsFunc(u.tied, func(part string) bool { return strings.Contains(what, part) }) {
		for i := range told {
			told[i], _, _ = strings.Cut(told[i], "[{") // JSON
			told[i], _, _ = strings.Cut(told[i], "<ol")
			told[i], _, _ = strings.Cut(told[i], "<ul class='mw-logevent-loglines'")
			told[i], _, _ = strings.Cut(told[i], "<ul class='mw-search-results'")
		}
	}
	if plain, shunt := u.sites[0].alike(told[0]), u.sites[1].alike(told[1]); plain != shunt {
		u.unlike++
		if u.unlike <= 20 {
			u.t.Errorf("step %d, %.300s:\n%s\nshunt's log of PHP: %s", u.steps, what, parting(shunt, plain), u.sites[1].log.Tail(3))
		}
	}
	return answers
}

// mayDiffer is what differs between any two installations: addresses and random words.
var mayDiffer = regexp.MustCompile(`127\.0\.0\.1(%3A|:|%253A)\d+|127-0-0-1[-:]\d+|\b[0-9a-f]{8,}\b(\+\\{1,2})?|\b[0-9a-zA-Z]{31}\b` +
	`|<kbd>\w{8}</kbd>|[nN]once(\\\\?"|'):\s*(\\\\?"|')[^"'\\]*|data-pw="[^"]*"|mailto:[^"]*">[^<]*|\b\d\.gravatar|overdue by \d+ \w+|in [\d.E-]+ seconds` +
	`|"wgBackendResponseTime":\d+|"wgRequestId":"[^"]*"|"(cpu|wall)time":"[\d.]+"|<!--\s*(Saved in|NewPP|Cached|CPU|Real|Transclusion)[^>]*-->`)

// WordPress exports posts, and each one's comments, by queries without ORDER BY.
var (
	exportedPosts    = regexp.MustCompile(`(?s)\s*<item>.*?</item>`)
	exportedComments = regexp.MustCompile(`(?s)\s*<wp:comment>.*?</wp:comment>`)
)

// alike is an answer without what differs between any two installations.
func (s *site) alike(text string) string {
	text = mayDiffer.ReplaceAllString(strings.NewReplacer("\r\n", "\n", s.dir, "~").Replace(text), "~")
	if strings.Contains(text, "<wp:wxr_version>") {
		text = exportedPosts.ReplaceAllStringFunc(text, func(post string) string { return inOrder(exportedComments, post) })
		text = inOrder(exportedPosts, text)
	}
	return text
}

// inOrder sorts a text's parts, and leaves what is between them.
func inOrder(part *regexp.Regexp, text string) string {
	parts := part.FindAllString(text, -1)
	slices.Sort(parts)
	return part.ReplaceAllStringFunc(text, func(string) (next string) {
		next, parts = parts[0], parts[1:]
		return next
	})
}

// parting shows where two texts begin to differ.
func parting(got, want string) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	from := max(0, n-150)
	return fmt.Sprintf(" got ...%.450s\nwant ...%.450s", got[from:], want[from:])
}

// escaped is a path as a browser would send it.
func escaped(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c == ' ':
			b.WriteByte('+')
		case c > 127:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// compareTables compares the rows of all tables on both sides.
func compareTables(t *testing.T, f *flavour, schema string, sites []*site, unlike []string) {
	t.Helper()
	plain := open(t, sites[0].dbAddr, sites[0].user, sites[0].password, schema)
	shunt := open(t, sites[1].dbAddr, sites[1].user, sites[1].password, schema)
	tables := flat(mustRows(t, plain, "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+schema+"'"), "name")
	if got := flat(mustRows(t, shunt, "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+schema+"'"), "name"); !slices.Equal(got, tables) {
		t.Errorf("tables: got %q\nwant %q", got, tables)
	}
	all := 0
	for _, table := range tables {
		var columns []string
		for _, c := range mustRows(t, plain, "SHOW COLUMNS FROM `"+table+"`") {
			if !slices.Contains(unlike, table+"."+c["Field"]) {
				columns = append(columns, c["Field"])
			}
		}
		if slices.Contains(unlike, table) || len(columns) == 0 {
			continue
		}
		query := "SELECT `" + strings.Join(columns, "`, `") + "` FROM `" + table + "`"
		lines := func(q queryer, s *site) []string {
			rows := flat(mustRows(t, q, query), columns...)
			for i, line := range rows {
				rows[i] = s.alike(line)
			}
			slices.Sort(rows)
			return rows
		}
		want, got := lines(plain, sites[0]), lines(shunt, sites[1])
		all += len(want)
		if !slices.Equal(want, got) {
			t.Errorf("table %s: %d rows, one server has %d\n%s", table, len(got), len(want), firstDifference(strings.Join(got, "\n"), strings.Join(want, "\n")))
		}
	}
	t.Logf("%s: %d rows in %d tables compared", f.name, all, len(tables))
}
