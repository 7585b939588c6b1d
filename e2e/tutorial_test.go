package e2e

import (
	"bytes"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

var rewriteTutorials = flag.Bool("tutorials", false, "write the answers in docs/tutorial.md and docs/adopt.md anew")

// block is one of a document's, with its kind behind the fence.
type block struct{ kind, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z ]*)\n(.*?)^```$")

// tutorial is a document whose commands are run, one block after the other.
type tutorial struct {
	t          *testing.T
	path, text string
}

func readTutorial(t *testing.T, path string) *tutorial {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &tutorial{t, path, string(b)}
}

// run hands each block to its kind's function, which returns what it prints; one without a kind has to be
// that.
func (d *tutorial) run(kinds map[string]func(text string) string) {
	d.t.Helper()
	printed, seen := "", map[string]bool{}
	wrong := false
	text := fence.ReplaceAllStringFunc(d.text, func(all string) string {
		m := fence.FindStringSubmatch(all)
		b := block{m[1], m[2]}
		if b.kind == "" {
			if b.text != printed {
				wrong = true
				if !*rewriteTutorials {
					d.t.Errorf("%s says\n%sand it is\n%s", d.path, b.text, printed)
				}
			}
			return "```\n" + printed + "```"
		}
		run := kinds[b.kind]
		if run == nil {
			d.t.Fatalf("%s: nobody runs %q", d.path, b.kind)
		}
		seen[b.kind] = true
		printed = run(b.text)
		return all
	})
	for kind := range kinds {
		if !seen[kind] {
			d.t.Errorf("%s has no block of kind %q", d.path, kind)
		}
	}
	if wrong && *rewriteTutorials {
		if err := os.WriteFile(d.path, []byte(text), 0o644); err != nil {
			d.t.Fatal(err)
		}
	}
}

// tableOf executes statements, and returns the last one's answer as MySQL's client prints it.
func tableOf(t *testing.T, q queryer, statements string) string {
	t.Helper()
	var rows [][]string
	for s := range strings.SplitSeq(strings.TrimSpace(statements), ";\n") {
		if rows = cellsOf(t, q, strings.TrimSuffix(s, ";")); t.Failed() {
			return ""
		}
	}
	if len(rows) == 0 {
		return ""
	}
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], len(c))
		}
	}
	var b strings.Builder
	for n, r := range rows {
		for i, c := range r {
			fmt.Fprintf(&b, "| %-*s ", width[i], c)
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// cellsOf are an answer's names and rows.
func cellsOf(t *testing.T, q queryer, statement string) (cells [][]string) {
	t.Helper()
	rows, err := q.QueryContext(t.Context(), statement)
	if err != nil {
		t.Errorf("%s: %v", statement, err)
		return nil
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || len(names) == 0 {
		return nil
	}
	cells = append(cells, names)
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Error(err)
		}
		line := make([]string, len(names))
		for i, v := range values {
			if line[i] = v.String; !v.Valid {
				line[i] = "NULL"
			}
		}
		cells = append(cells, line)
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
	return cells
}

// mysqlOf is the kind of server that the tutorials are about.
func mysqlOf(t *testing.T) *flavour {
	t.Helper()
	i := slices.IndexFunc(flavours, func(f *flavour) bool { return f.name == throwaway.MySQL })
	if i < 0 {
		t.Skip("it is about MySQL")
	}
	return flavours[i]
}

// shuntsAccount makes what a shard has for the tutorials: the account of deploy's compose/shunt.sql.
func shuntsAccount(t *testing.T, s *throwaway.Server) {
	t.Helper()
	text, err := os.ReadFile("../deploy/compose/shunt.sql")
	if err != nil {
		t.Fatal(err)
	}
	db := onShard(t, s, "")
	for statement := range strings.SplitSeq(regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(string(text), ""), ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" {
			mustExec(t, db, statement)
		}
	}
}

// answering executes statements once all indexes are ready, and tells the last one's answer.
func answering(t *testing.T, q queryer) func(statements string) string {
	return func(statements string) string {
		eventually(t, "the indexes are ready", func() bool {
			return !slices.ContainsFunc(mustRows(t, q, "SHOW VIRTUAL INDEXES"), func(r row) bool { return r["Status"] != "ready" || r["Unknown_shards"] != "" })
		})
		return tableOf(t, q, statements)
	}
}

// TestTutorial: the commands of docs/tutorial.md do what it says, with the files of deploy's compose.yaml: servers that
// have executed compose/shunt.sql, and two Shunts by compose/shunt.yaml.
func TestTutorial(t *testing.T) {
	t.Parallel()
	f := mysqlOf(t)
	servers := f.own(t, 3)
	config, err := os.ReadFile("../deploy/compose/shunt.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(config)
	for i, s := range servers {
		mustExec(t, onShard(t, s, ""), "CREATE DATABASE shop")
		shuntsAccount(t, s)
		of := fmt.Sprintf("s%d:3306", i)
		if !strings.Contains(text, of) {
			t.Fatalf("%s is no shard of\n%s", of, text)
		}
		text = strings.ReplaceAll(text, of, s.Addr())
	}
	began := time.Now()
	var both []*process
	for range 2 {
		p := &process{t: t, flavour: f.name, schema: "shop", servers: servers, addr: freeAddress(t), http: freeAddress(t)}
		dir := t.TempDir()
		p.config = filepath.Join(dir, "shunt.yaml")
		own := strings.NewReplacer("0.0.0.0:4000", p.addr, "0.0.0.0:4080", p.http).Replace(text) + "data_dir: " + filepath.Join(dir, "data") + "\ndrain_timeout: 1s\n"
		if err := os.WriteFile(p.config, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		both = append(both, p)
		p.run()
		t.Cleanup(func() {
			if p.running() {
				p.stop()
			}
		})
	}
	conns := []*sql.Conn{both[0].conn(), both[1].conn()}
	first, second := answering(t, conns[0]), answering(t, conns[1])
	took := time.Duration(0)
	readTutorial(t, "../docs/tutorial.md").run(map[string]func(string) string{
		"sql": func(s string) string {
			answer := first(s)
			if took == 0 && answer != "" {
				took = time.Since(began)
			}
			return answer
		},
		"sql second": second,
		"sh": func(s string) string {
			switch s = strings.TrimSpace(s); s {
			case "docker compose -f deploy/compose.yaml up --build --detach --wait", "docker compose -f deploy/compose.yaml down --volumes":
			case "mysql -h 127.0.0.1 -P 4000 -u app -psecret shop":
			case "docker compose -f deploy/compose.yaml stop shunt1":
				both[0].stop()
			default:
				t.Errorf("what does %q do here?", s)
			}
			return ""
		},
	})
	if took > time.Minute {
		t.Errorf("the first answer came after %v", took)
	}
}

// TestAdoptTutorial: so do those of docs/adopt.md, run by a shell with the client programs of MySQL.
func TestAdoptTutorial(t *testing.T) {
	t.Parallel()
	f := mysqlOf(t)
	src, err := throwaway.Find(t.Context(), f.name)
	if err != nil {
		t.Fatal(err)
	}
	if src.Root == "" {
		t.Skip("no client programs")
	}
	servers := append(f.own(t, 2), f.own(t, 1, "--performance-schema=ON")...)
	for _, s := range servers[:2] {
		shuntsAccount(t, s)
	}
	old := onShard(t, servers[2], "")
	for _, s := range []string{"CREATE DATABASE shop", "CREATE USER advisor@'%' IDENTIFIED BY 'secret'", "GRANT SELECT, SHOW VIEW, TRIGGER ON shop.* TO advisor@'%'", "GRANT SELECT ON performance_schema.* TO advisor@'%'", "CREATE USER app@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON shop.* TO app@'%'"} {
		mustExec(t, old, s)
	}
	dir := t.TempDir()
	script := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("shunt", fmt.Sprintf("exec %s \"$@\"", binary(t)))
	for _, client := range []string{"mysql", "mysqldump"} {
		script(client, fmt.Sprintf("exec chroot %s /usr/bin/%s \"$@\"", src.Root, client))
	}
	p := &process{t: t, flavour: f.name, schema: "shop", servers: servers[:2], addr: freeAddress(t), http: freeAddress(t), config: filepath.Join(dir, "shunt.yaml"), env: []string{"APP_PASSWORD=secret", "SHARD_PASSWORD=shunt"}}
	addresses := []string{"-h 127.0.0.1 -P 4000", fmt.Sprintf("-h 127.0.0.1 -P %s", p.addr[strings.LastIndex(p.addr, ":")+1:]), "-h 10.0.0.9 -P 3306", fmt.Sprintf("-h 127.0.0.1 -P %d", servers[2].Port())}
	for i, host := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.9"} {
		addresses = append(addresses, host+":3306", servers[i].Addr())
	}
	placed := strings.NewReplacer(addresses...)
	var exports []string
	readTutorial(t, "../docs/adopt.md").run(map[string]func(string) string{
		"yaml": func(s string) string { // what the applications' own tests run with
			if !slices.ContainsFunc([]app{wordPress, mediaWiki}, func(a app) bool { return s == a.schemas("'"+a.name+"'") }) {
				t.Errorf("no application is tested with\n%s", s)
			}
			return ""
		},
		"sql old": func(s string) string { return tableOf(t, onShard(t, servers[2], "shop"), s) },
		"sql": func(s string) string {
			c := p.conn()
			eventually(t, "the configured index is made", func() bool { return len(mustRows(t, c, "SHOW VIRTUAL INDEXES")) == 1 })
			return answering(t, c)(s)
		},
		"sh": func(s string) string {
			if s == "shunt serve --config shunt.yaml &\n" {
				text, err := os.ReadFile(p.config)
				if err == nil {
					err = os.WriteFile(p.config, fmt.Appendf(text, "listen: %s\nhttp: %s\ndata_dir: %s\ndrain_timeout: 1s\n", p.addr, p.http, filepath.Join(dir, "data")), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				p.run()
				t.Cleanup(func() { p.stop() })
				return ""
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(exports, "")+placed.Replace(s))
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			var told bytes.Buffer
			cmd.Stderr = &told
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v\n%s%s", s, err, out, told.Bytes())
			}
			for line := range strings.Lines(s) {
				if strings.HasPrefix(line, "export ") {
					exports = append(exports, line)
				}
			}
			return string(out)
		},
	})
}
