package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Who runs what stands in documents. What is in no list here is run by no test.
var (
	ofStatements = []string{"README.md", "docs/virtual-indexes.md", "docs/covering-indexes.md", "docs/virtual-columns.md", "docs/several.md"} // TestDocumentedStatements
	ofAccounts   = []string{"docs/install.md", "docs/several.md", "docs/adopting.md"}                                                         // TestDocumentedAccounts
	tutorials    = []string{"docs/tutorial.md", "docs/adopt.md"}                                                                              // TestTutorial, TestAdoptTutorial
)

// notRun are the lines of documents that TestDocumentedShell doesn't run, each with its reason.
var notRun = map[string]string{
	"make build": "TestMain does the same",
	"make demo":  "CI runs it with --check",
	"make test":  "this runs in it",
	"shunt demo": "it goes on until Ctrl-C; TestDemo runs it with --check",
	"shunt demo --shards 8 --users 1000 --orders 3000":          "so does this",
	"shunt demo --members 3":                                    "so does this",
	"shunt demo --check":                                        "CI runs it",
	"shunt replaced --config shunt.yaml s1":                     "it wants a replica that was promoted: TestMembersReplaced",
	"source <(shunt completion zsh)":                            "it is for zsh",
	"apt install ./shunt_1.2.3_amd64.deb":                       "TestPackagesRelease does, in a root file system of its own",
	"systemctl enable --now shunt":                              "no test starts services; TestPackagesRelease has systemd read the unit",
	"systemctl reload shunt":                                    "no test starts services; TestPackagesRelease has systemd read the unit",
	"helm install shunt deploy/helm/shunt --values values.yaml": "TestPackagesChart has what is installed, and no cluster",
	"docker run --name shunt -p 4000:4000 -v /etc/shunt:/etc/shunt:ro -v shunt-data:/var/lib/shunt --env-file /etc/shunt/environment --stop-timeout 70 shunt": "TestPackagesImage runs the same command without Docker",
}

// documents are all that users read of commands.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	found, err := filepath.Glob("../docs/*.md")
	if err != nil || len(found) < 15 {
		t.Fatal(found, err)
	}
	for _, path := range append(found, "../README.md") {
		paths = append(paths, strings.TrimPrefix(path, "../"))
	}
	return paths
}

// blocksOf are a document's blocks.
func blocksOf(t *testing.T, document string) (blocks []block) {
	t.Helper()
	text := string(contents(t, "../"+document))
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}
	if marks := strings.Count(text, "```"); marks != 2*len(blocks) { // one that is indented, say
		t.Errorf("%s: %d blocks, and %d marks", document, len(blocks), marks)
	}
	return blocks
}

// TestDocumentedBlocks: each block of each document is of a kind that a test reads, or says by its kind that it is nothing to type.
func TestDocumentedBlocks(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t) {
		if slices.Contains(tutorials, document) {
			continue // which fail for a block that they don't run
		}
		for _, b := range blocksOf(t, document) {
			switch b.kind {
			case "sh": // TestDocumentedShell runs all of them
				continue
			case "yaml": // TestDocumentedCommands loads all of them, and promtool what is Prometheus'
				continue
			case "sql":
				if slices.Contains(ofStatements, document) || slices.Contains(ofAccounts, document) {
					continue
				}
			case "text", "json":
				continue
			}
			t.Errorf("%s: no test runs this block of kind %q:\n%s", document, b.kind, b.text)
		}
	}
}

// TestDocumentedShell: what documents say to type does what it says, as far as its exit status tells.
func TestDocumentedShell(t *testing.T) {
	t.Parallel()
	available(t, []string{"jq", "--version"}, "jq")
	f := mysqlOf(t)
	servers := append(f.own(t, 2), f.own(t, 1, "--performance-schema=ON")...)
	p := start(t, f, setup{servers: servers[:2], tables: []string{"users: {shard_key: id}", "orders: {shard_key: user_id}"}})
	c := p.conn()
	mustExec(t, c, "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(50), age INT)")
	mustExec(t, c, "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL)")
	mustExec(t, c, "INSERT INTO users VALUES (5, 'eve@x', 40)")
	p.createIndex(c, "by_email", "users(email)")
	old := onShard(t, servers[2], "")
	for _, s := range []string{
		"CREATE DATABASE shop", "CREATE TABLE shop.users (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email))", "CREATE USER app@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON shop.* TO app@'%'",
		"CREATE USER advisor@'%' IDENTIFIED BY 'secret'", "GRANT SELECT, SHOW VIEW, TRIGGER ON shop.* TO advisor@'%'", "GRANT SELECT ON performance_schema.* TO advisor@'%'",
	} {
		mustExec(t, old, s)
	}
	app := open(t, servers[2].Addr(), "app", "secret", "shop")
	for i := range 5 {
		mustRows(t, app, fmt.Sprintf("SELECT id FROM users WHERE email = 'user%d'", i))
	}

	// home is where the shell is and what it calls its home; the machine's folders lie below it.
	dir, home := filepath.Dir(p.config), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // some are run
			t.Fatal(err)
		}
	}
	bin := filepath.Join(home, "bin")
	write(filepath.Join(bin, "shunt"), fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", binary(t)))
	write(filepath.Join(bin, "pidof"), fmt.Sprintf("#!/bin/sh\ncat %s\n", filepath.Join(home, "pid")))
	write(filepath.Join(bin, "pwgen"), "#!/bin/sh\necho Tae4ohyahpohD1eecaeph7oo\n") // which few machines have
	write(filepath.Join(home, "slow.log"), "/usr/sbin/mysqld, Version: 9.7.4 (MySQL). started with:\n# Time: 2026-11-27T22:35:00.100000Z\n# User@Host: app[app] @ localhost []  Id:     8\n# Query_time: 1.500000  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1\nuse shop;\nSET timestamp=1795000000;\nSELECT id FROM users WHERE email = 'x';\n")
	write(filepath.Join(home, "environment"), "APP_PASSWORD='secret'\n")
	write(filepath.Join(dir, "secret.txt"), "a password of some length\n")
	for _, folder := range []string{"backup", "man1", ".config/fish/completions"} {
		if err := os.MkdirAll(filepath.Join(home, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	account := fmt.Sprintf("'advisor:secret@tcp(%s)/shop'", servers[2].Addr())
	ofShop := strings.NewReplacer("shop.users", p.schema+".users", "--schema shop", "--schema "+p.schema, "127.0.0.1:4000", p.addr, `"SELECT ..."`, `"SELECT 1"`, "[DIR]", "DIR",
		"'advisor:secret@tcp(10.0.0.9:3306)/shop'", account, `"user:password@tcp(10.0.0.9:3306)/shop"`, account,
		"/etc/shunt/shunt.yaml", "shunt.yaml", "/etc/shunt/environment", home+"/environment", "/backup/", home+"/backup/", "/usr/local/share/man/man1", home+"/man1", "/var/log/mysql/", home+"/",
		"--every 5s", "--every 100ms", "shunt top", "shunt top --every 100ms")
	left := map[string]bool{}
	for line := range notRun {
		left[line] = true
	}
	done := map[string]bool{}
	for _, document := range documents(t) {
		if slices.Contains(tutorials, document) {
			continue
		}
		for _, b := range blocksOf(t, document) {
			if b.kind != "sh" {
				continue
			}
			for line := range strings.Lines(b.text) {
				line, _, _ = strings.Cut(line, "  #")
				if line = strings.TrimSpace(line); notRun[line] != "" {
					delete(left, line)
					continue
				}
				if line == "" || done[line] {
					continue
				}
				done[line] = true
				cwd := dir
				switch {
				case strings.HasPrefix(line, "shunt serve "):
					p.stop()
					p.run()
					continue
				case strings.HasPrefix(line, "shunt store restore "): // of one that is stopped, without its data
					p.stop()
					if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
						t.Fatal(err)
					}
				case strings.Contains(line, "--write shunt.yaml"): // a file that is there stays
					cwd = t.TempDir()
				}
				write(filepath.Join(home, "pid"), strconv.Itoa(p.cmd.Process.Pid))
				cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", ofShop.Replace(line))
				cmd.Dir, cmd.Env = cwd, append(os.Environ(), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", document, line, err, out)
				}
				if !p.running() {
					p.run()
				}
			}
		}
	}
	for line := range left {
		t.Errorf("no document has %q", line)
	}
	if len(done) < 30 {
		t.Errorf("%d lines", len(done))
	}
}
