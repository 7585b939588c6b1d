package e2e

import (
	"bytes"
	"context"
	"fmt"
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

// clientPrograms are the clients that come with a kind of server.
type clientPrograms struct {
	m    *matrix
	root string // where they lie, "" for this machine's own
	dir  string // for files, as they see it
}

// mariaDBNames are the clients' names there.
var mariaDBNames = map[string]string{
	"mysql": "mariadb", "mysqldump": "mariadb-dump", "mysqlshow": "mariadb-show", "mysqladmin": "mariadb-admin",
	"mysqlimport": "mariadb-import", "mysqlcheck": "mariadb-check", "mysqlslap": "mariadb-slap",
}

// clientPrograms finds them, or skips the test.
func (m *matrix) clientPrograms(t *testing.T) *clientPrograms {
	t.Helper()
	c := &clientPrograms{m: m}
	if m.flavour.name == throwaway.MariaDB {
		available(t, []string{"mariadb-slap", "--version"}, "mariadb-client")
		c.dir = t.TempDir()
		return c
	}
	src, err := throwaway.Find(t.Context(), m.flavour.name)
	if err != nil {
		t.Fatal(err)
	}
	if c.root = src.Root; c.root == "" {
		// Another server's clients may have the same names.
		available(t, []string{"sh", "-c", "mysqldump --version | grep -v MariaDB && mysqlslap --version"}, "mysql-client")
		c.dir = t.TempDir()
		return c
	}
	dir, err := os.MkdirTemp(filepath.Join(c.root, "tmp"), "shunt-cli-") //nolint:usetesting // within the root of the client programs
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c.dir = strings.TrimPrefix(dir, c.root)
	return c
}

// file makes a file that the clients can read.
func (c *clientPrograms) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(c.root+path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a client on one side, and returns all that it prints.
func (c *clientPrograms) run(t *testing.T, side, program, input string, args ...string) (out string, code int) {
	t.Helper()
	if c.m.flavour.name == throwaway.MariaDB {
		program = mariaDBNames[program]
	}
	port := c.m.plain.Port()
	if side == "shunt" {
		fmt.Sscanf(c.m.shunt.addr, "127.0.0.1:%d", &port)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	options := []string{"--no-defaults", "--host=127.0.0.1", fmt.Sprintf("--port=%d", port), "--user=" + driverUser}
	if c.m.flavour.name == throwaway.MariaDB {
		options = append(options, "--skip-ssl") // which from 11.4 on they ask for with a password
	}
	args = append(options, args...)
	cmd := exec.CommandContext(ctx, program, args...)
	if c.root != "" {
		cmd = exec.CommandContext(ctx, "/usr/bin/"+program, args...)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: c.root}
	}
	// The password in the arguments would be warned of.
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+driverPassword, "LC_ALL=C.UTF-8", "TZ=UTC")
	cmd.Stdin = strings.NewReader(input)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", program, err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// must is run for a client that must not fail.
func (c *clientPrograms) must(t *testing.T, side, program, input string, args ...string) string {
	t.Helper()
	out, code := c.run(t, side, program, input, args...)
	if code != 0 {
		t.Fatalf("%s: %s %q: exit code %d: %s", side, program, args, code, out[max(0, len(out)-2000):])
	}
	return out
}

// TestCommandLine: what the command-line clients print is the same from Shunt
// and from a plain server.
func TestCommandLine(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		m := startMatrix(t, f, "cli", "dump", "restored")
		t.Run("script", func(t *testing.T) { m.clientPrograms(t).script(t) })
		t.Run("dump", func(t *testing.T) { m.clientPrograms(t).dumps(t) })
	})
}

// ofOneConnection are the words of `status` and -v that no two connections share.
var ofOneConnection = regexp.MustCompile(`(?mi)^(connection id|uptime|threads|ssl|tcp port):.*$|\d+\.\d+ sec|\(\d+ min [^)]*\)`)

// script runs drivers/cli/script.txt.
func (c *clientPrograms) script(t *testing.T) {
	text, err := os.ReadFile("drivers/cli/script.txt")
	if err != nil {
		t.Fatal(err)
	}
	commands := "--named-commands"
	if c.m.flavour.name == throwaway.MySQL {
		commands += " --commands"
	}
	replace := strings.NewReplacer("$SCHEMA", c.m.schema("cli"), "$COMMANDS", commands,
		"$SOURCE", c.file(t, "source.sql", "SELECT 'sourced' AS text;\n-- a comment\nINSERT INTO items (email) VALUES ('from file');\nDELETE FROM items WHERE email = 'from file';\n"),
		"$CSV", c.file(t, "items.csv", "501,lö@x,1\n502,\\N,2\n503,p@x,3\n"))
	ran := 0
	for block := range strings.SplitSeq("\n"+string(text), "\n$") {
		command, input, _ := strings.Cut(block, "\n")
		if ran++; ran == 1 {
			continue // what is before the first one
		}
		if only, rest, ok := strings.Cut(command, " "); ok && strings.HasPrefix(only, "@") {
			if command = rest; only != "@"+string(c.m.flavour.name) {
				continue
			}
		}
		command, fails := strings.CutPrefix(command, "!")
		words := splitWords(replace.Replace(command))
		answers := map[string]string{}
		began := time.Now()
		for _, side := range []string{"plain", "shunt"} {
			out, code := c.run(t, side, words[0], replace.Replace(input)+"\n", words[1:]...)
			answers[side] = ownWords.ReplaceAllString(ofOneConnection.ReplaceAllString(out, ""), "")
			if side == "plain" && (code != 0) != fails {
				t.Errorf("the plain server's answer to %q is not what the script says: exit code %d: %.2000s", command, code, out)
			}
		}
		t.Logf("%s: %s", command, time.Since(began).Round(time.Millisecond))
		if answers["plain"] != answers["shunt"] {
			t.Errorf("%s\n%s\n shunt: %.3000s\n plain: %.3000s", command, input, answers["shunt"], answers["plain"])
		}
	}
	if status := c.must(t, "shunt", "mysqladmin", "", "status"); !regexp.MustCompile(`^Uptime: \d+  Threads: \d+\n$`).MatchString(status) {
		t.Errorf("mysqladmin status: %q", status)
	}
	if ran < 35 {
		t.Errorf("only %d commands were run", ran)
	}
}

// splitWords splits at spaces that are not between double quotes.
func splitWords(s string) []string {
	quoted := false
	words := strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `"`, "")
	}
	return words
}

// dumps dumps a sharded schema in several ways, restores each through Shunt and
// into a plain server, and compares all rows and definitions.
func (c *clientPrograms) dumps(t *testing.T) {
	text, err := os.ReadFile("drivers/cli/dump.sql")
	if err != nil {
		t.Fatal(err)
	}
	schema, restored := c.m.schema("dump"), c.m.schema("restored")
	for _, side := range []string{"plain", "shunt"} {
		c.must(t, side, "mysql", string(text), "--default-character-set=utf8mb4", schema)
	}
	want := c.contents(t, "plain", "dump")
	if got := c.contents(t, "shunt", "dump"); got != want {
		t.Errorf("the dump of the schema differs:\n%s", firstDifference(got, want))
	}
	check := func(side, how string) {
		t.Helper()
		if got := c.contents(t, side, "restored"); got != want {
			t.Errorf("restored %s, of %s:\n%s", side, how, firstDifference(got, want))
		}
	}
	restore := func(side, how, dump string) {
		t.Helper()
		c.must(t, side, "mysql", fmt.Sprintf("DROP DATABASE %s; CREATE DATABASE %[1]s", restored))
		c.must(t, side, "mysql", dump, restored)
		check(side, how)
		if side == "shunt" {
			indexes := mustRows(t, c.m.shunt.open(""), "SHOW VIRTUAL INDEXES FROM "+restored+".users")
			if len(indexes) != 1 || indexes[0]["Name"] != "by_email" {
				t.Errorf("restored of %s, the virtual indexes are %v", how, indexes)
			}
		}
	}
	for _, options := range []string{
		"--single-transaction --routines --events --triggers",
		"--hex-blob --complete-insert --routines --events", // under LOCK TABLES
		"--single-transaction --skip-opt --create-options --quote-names --set-charset --routines --events",
	} {
		dump := c.must(t, "shunt", "mysqldump", "", append(strings.Fields(options), schema)...)
		restore("shunt", options, dump)
		restore("plain", options, dump)
	}
	// And a plain server's dump through Shunt, without the ids of transactions.
	options := []string{"--routines", "--events", schema}
	if c.m.flavour.name == throwaway.MySQL {
		options = append([]string{"--set-gtid-purged=OFF"}, options...)
	}
	restore("shunt", "a plain server's dump", c.must(t, "plain", "mysqldump", "", options...))

	// What was restored is spread as its tables' configuration says.
	held := 0
	for _, srv := range c.m.shunt.servers {
		if n := mustRows(t, onShard(t, srv, restored), "SELECT COUNT(*) AS n FROM users")[0]["n"]; n != "0" {
			held++
		}
	}
	if held < 2 {
		t.Errorf("the restored users are on %d shards", held)
	}
}

// ofOneDump is what differs between two dumps of the same schema: who made a
// program and when, and how many numbers an INSERT has taken.
var ofOneDump = regexp.MustCompile("DEFINER=`[^`]*`@`[^`]*`|AUTO_INCREMENT=\\d+ |STARTS '[^']*'")

// contents is the dump of a schema with many rows.
func (c *clientPrograms) contents(t *testing.T, side, client string) string {
	t.Helper()
	out := c.dump(t, side, client)
	if strings.Count(out, "INSERT INTO") < 400 {
		t.Errorf("%s: the dump of %s has too few rows", side, client)
	}
	return out
}

// dump is a schema's dump in an order of its own.
func (c *clientPrograms) dump(t *testing.T, side, client string) string {
	t.Helper()
	options := strings.Fields("--single-transaction --routines --events --triggers --order-by-primary --skip-extended-insert --skip-comments --skip-dump-date")
	if c.m.flavour.name == throwaway.MySQL {
		options = append(options, "--set-gtid-purged=OFF")
	}
	out := c.must(t, side, "mysqldump", "", append(options, c.m.schema(client))...)
	// MariaDB writes the schema where it doesn't know a view's definer.
	out = strings.ReplaceAll(strings.ReplaceAll(out, "`"+c.m.schema(client)+"`.", ""), c.m.schema(client), "SCHEMA")
	return ofOneDump.ReplaceAllString(out, "")
}

// firstDifference shows the lines that only one of two texts has.
func firstDifference(got, want string) string {
	var b bytes.Buffer
	has, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, x := range []struct {
		mark   string
		of, in []string
	}{{"+", has, wants}, {"-", wants, has}} {
		n := 0
		for _, line := range x.of {
			if !slices.Contains(x.in, line) && n < 15 {
				n++
				fmt.Fprintf(&b, "%s %.300s\n", x.mark, line)
			}
		}
	}
	return b.String()
}
