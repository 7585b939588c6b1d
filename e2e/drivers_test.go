package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// driver is a client that runs drivers/script.txt.
type driver struct {
	name string
	// command runs it. There, "drivers/..." is the path of a file.
	command []string
	// probe succeeds where it is installed; packages are Debian's that make it so.
	probe    []string
	packages string
	// lacks are the script's operations that the driver has no call for; of one
	// flavour: "mysql:change".
	lacks []string
	// large says that it writes and reads values beyond one packet (16 MiB).
	large bool
}

func namesOf(clients []driver) (names []string) {
	for _, c := range clients {
		names = append(names, c.name)
	}
	return names
}

var drivers = []driver{
	{
		name: "mysql2", command: []string{"node", "drivers/node/mysql2.js"},
		probe: nodeProbe, packages: nodePackages, large: true,
		lacks: []string{"cursor"},
	},
	{
		name: "mariadb", command: []string{"node", "drivers/node/mariadb.js"},
		probe: nodeProbe, packages: nodePackages,
		lacks: []string{"cursor", "mysql:change"},
	},
	{
		name: "mysqli", command: []string{"php", "-d", "mysqli.allow_local_infile=1", "drivers/php/client.php", "mysqli"},
		probe: []string{"php", "-r", "exit(class_exists('mysqli') ? 0 : 1);"}, packages: "php-cli php-mysql",
		lacks: []string{"reset"},
	},
	{
		name: "pdo", command: []string{"php", "drivers/php/client.php", "pdo"},
		probe: []string{"php", "-r", "exit(extension_loaded('pdo_mysql') ? 0 : 1);"}, packages: "php-cli php-mysql",
		lacks: []string{"cursor", "ping", "reset", "change"},
	},
	{
		name: "connectorj", command: []string{"java", "-cp", connectorJ, "drivers/java/Client.java"},
		probe: []string{"sh", "-c", "javac -version && test -e " + connectorJ}, packages: "default-jdk-headless libmariadb-java",
		lacks: []string{"cursor", "reset", "change"},
	},
	{
		name: "dbd-mysql", command: []string{"perl", "drivers/perl/dbi.pl", "mysql"},
		probe: []string{"perl", "-MDBD::mysql", "-e", "1"}, packages: "libdbd-mysql-perl",
		lacks: []string{"cursor", "reset", "change", "connect tls"},
	},
	{
		name: "dbd-mariadb", command: []string{"perl", "drivers/perl/dbi.pl", "MariaDB"},
		probe: []string{"perl", "-MDBD::MariaDB", "-e", "1"}, packages: "libdbd-mariadb-perl",
		lacks: []string{"cursor", "reset", "change", "mysql:connect tls"},
	},
	{
		name: "pymysql", command: []string{python, "drivers/python/dbapi.py", "pymysql"},
		probe: []string{python, "-c", "import pymysql"}, packages: "python3-pymysql",
		lacks: []string{"cursor", "reset", "change", "connect compress"},
	},
	{
		name: "mysqlclient", command: []string{python, "drivers/python/dbapi.py", "MySQLdb"},
		probe: []string{python, "-c", "import MySQLdb"}, packages: "python3-mysqldb",
		lacks: []string{"cursor", "reset"},
	},
	{
		name: "ruby-mysql2", command: []string{"ruby", "drivers/ruby/client.rb"},
		probe: []string{"ruby", "-e", "require 'mysql2'"}, packages: "ruby ruby-mysql2",
		lacks: []string{"cursor", "reset", "change"},
	},
}

// connectorJ is where Debian has MariaDB Connector/J.
const connectorJ = "/usr/share/java/mariadb-java-client.jar"

// Packages of npm are installed by installNode.
var nodeProbe = []string{"sh", "-c", "node --version && npm --version"}

const nodePackages = "nodejs npm"

// python is Debian's, which has Debian's packages: another one may be first on PATH.
const python = "/usr/bin/python3"

// The account is the same one on both sides.
const driverUser, driverPassword = "app", "secret"

// matrix is what all clients of a flavour share: Shunt over four shards, and one
// plain server beside it.
type matrix struct {
	flavour *flavour
	shunt   *process
	plain   *throwaway.Server
	base    string // of the schemas' names
	ca      map[string]string
	file    string
}

// schema is the name of a client's own schema, on both sides.
func (m *matrix) schema(client string) string {
	return m.base + "_" + strings.ReplaceAll(client, "-", "_")
}

// startMatrix starts both sides, with a schema for each client.
func startMatrix(t *testing.T, f *flavour, clients ...string) *matrix {
	t.Helper()
	m := &matrix{flavour: f, base: newSchemaName(t), ca: map[string]string{}}
	servers, authority, cas := startTLS(t, f, 1, "--local-infile=1")
	m.plain = servers[0]
	plain := onShard(t, m.plain, "")
	mustExec(t, plain, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", driverUser, driverPassword))
	mustExec(t, plain, fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%'", driverUser))
	m.ca["shunt"], m.ca["plain"] = authority.File("ca.pem"), cas[0]

	m.file = filepath.Join(t.TempDir(), "load.csv")
	if err := os.WriteFile(m.file, []byte("501,lö@x,load,1\n502,\\N,load,2\n503,p@x,load,x\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	var tables strings.Builder
	// Alembic changes its table's primary key, which would be the shard key.
	placements := "{tables: {kinds: {placement: reference}, settings: {placement: single, shard: s2}, orders: {shard_key: user_id}, alembic_version: {placement: single, shard: s0}}}"
	fmt.Fprintf(&tables, "tls: {cert: '%s', key: '%s'}\nschemas:\n", authority.File("server.pem"), authority.File("server.key"))
	for _, c := range clients {
		of := placements
		if c == "single" {
			of = "{default: {placement: single, shard: s0}}"
		}
		fmt.Fprintf(&tables, "  %s: %s\n", m.schema(c), of)
	}
	m.shunt = start(t, f, setup{extra: tables.String()})
	db := m.shunt.open("")
	for _, srv := range m.shunt.servers {
		mustExec(t, onShard(t, srv, ""), "SET GLOBAL local_infile = 1")
	}
	for _, c := range clients {
		mustExec(t, db, "CREATE DATABASE "+m.schema(c))
		mustExec(t, plain, "CREATE DATABASE "+m.schema(c))
	}
	t.Cleanup(func() {
		for _, srv := range m.shunt.servers {
			db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", srv.User, srv.Password, srv.Addr()))
			if err != nil {
				continue
			}
			for _, c := range clients {
				_, _ = db.ExecContext(context.Background(), "DROP DATABASE IF EXISTS "+m.schema(c)) // the servers go anyway
			}
			db.Close()
		}
	})
	return m
}

// step is one line of the script.
type step struct {
	text  string // OPERATION<TAB>ARGUMENT...
	fails bool
}

// readSteps is the script for one kind of server.
func (m *matrix) readSteps(t *testing.T, d driver) []step {
	t.Helper()
	text, err := os.ReadFile("drivers/script.txt")
	if err != nil {
		t.Fatal(err)
	}
	large := 2_000_000
	if d.large {
		large = 17 << 20
	}
	replace := strings.NewReplacer("$SCHEMA", m.schema(d.name), "$FILE", m.file, "$LARGE", strconv.Itoa(large))
	var steps []step
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "@") {
			only, rest, _ := strings.Cut(line[1:], "\t")
			if only != string(m.flavour.name) {
				continue
			}
			line = rest
		}
		operation, arguments, more := strings.Cut(line, "\t")
		operation, fails := strings.CutSuffix(operation, "!")
		if more {
			operation += "\t" + arguments
		}
		steps = append(steps, step{replace.Replace(operation), fails})
	}
	return steps
}

// environment is how a client learns where to connect.
func (m *matrix) environment(side, client string) []string {
	host, port, _ := net.SplitHostPort(m.shunt.addr)
	if side == "plain" {
		port = strconv.Itoa(m.plain.Port())
	}
	return append(os.Environ(),
		"DRIVER_HOST="+host, "DRIVER_PORT="+port, "DRIVER_USER="+driverUser, "DRIVER_PASSWORD="+driverPassword,
		"DRIVER_SCHEMA="+m.schema(client), "DRIVER_CA="+m.ca[side], "DRIVER_FLAVOUR="+string(m.flavour.name),
		"LC_ALL=C.UTF-8", "TZ=UTC")
}

// run runs a client's program on one side.
func (m *matrix) run(t *testing.T, side, client string, command []string, more ...string) (out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(m.environment(side, client), more...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err = cmd.Run(); err == nil && os.Getenv("DRIVER_TIMES") != "" {
		t.Logf("%s:\n%s", side, stderr.String())
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return stdout.String(), err
}

// available skips where a client isn't installed, and fails in CI.
func available(t *testing.T, probe []string, packages string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), probe[0], probe[1:]...).CombinedOutput()
	if err == nil {
		return
	}
	message := fmt.Sprintf("not installed: apt-get install --no-install-recommends %s (%s: %v %.300s)", packages, strings.Join(probe, " "), err, out)
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// ownWords are what Shunt adds on purpose: which shard a failed statement over
// several failed on.
var ownWords = regexp.MustCompile(` \(on shard s\d; nothing was changed on any\)`)

// keyFlags finds the flags of result columns in a transcript.
var (
	keyFlags      = regexp.MustCompile(`\bflags (\d+)`)
	namedKeyFlags = regexp.MustCompile(`,"(?:primary|unique|multiple)_key"|_is_auto_increment=1?`)
)

// withoutKeyFlags: a column of a join has the flags PRI_KEY, UNIQUE_KEY,
// MULTIPLE_KEY, AUTO_INCREMENT and PART_KEY unless the server happens to sort in a
// temporary table, which depends on its statistics.
func withoutKeyFlags(text string) string {
	text = namedKeyFlags.ReplaceAllString(text, "")
	return keyFlags.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "flags "))
		return fmt.Sprintf("flags %d", n&^(2|4|8|512|16384))
	})
}

// TestDrivers: each client's transcript of one script is the same from Shunt and
// from a plain server.
func TestDrivers(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		m := startMatrix(t, f, namesOf(drivers)...)
		t.Run("clients", func(t *testing.T) {
			for _, d := range drivers {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					available(t, d.probe, d.packages)
					if d.packages == nodePackages {
						if err := installNode(); err != nil {
							t.Fatal(err)
						}
					}
					m.compareTranscripts(t, d)
				})
			}
		})
	})
}

func (m *matrix) compareTranscripts(t *testing.T, d driver) {
	steps := m.readSteps(t, d)
	var script strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&script, "%d\t%s\n", i, s.text)
	}
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	answers := map[string][]string{}
	for _, side := range []string{"plain", "shunt"} {
		began := time.Now()
		out, err := m.run(t, side, d.name, d.command, "DRIVER_SCRIPT="+path)
		t.Logf("%s: %s", side, time.Since(began).Round(time.Millisecond))
		answers[side] = strings.Split("\n"+out, "\n> ")[1:]
		if err != nil || len(answers[side]) != len(steps) {
			t.Fatalf("%s: %d answers of %d: %v\n%s", side, len(answers[side]), len(steps), err, out[max(0, len(out)-2000):])
		}
	}
	different, lacks := 0, map[string]bool{}
	for i, s := range steps {
		number, plain, _ := strings.Cut(answers["plain"][i], "\n")
		_, shunt, _ := strings.Cut(answers["shunt"][i], "\n")
		shunt = ownWords.ReplaceAllString(shunt, "")
		operation := strings.Replace(s.text, "\t", " ", 1)
		if strings.TrimSpace(plain) == "not offered" {
			if word, _, _ := strings.Cut(operation, " "); word != "connect" {
				operation = word
			}
			lacks[operation] = true
		} else if failed := strings.Contains("\n"+plain, "\nerror "); failed != s.fails || number != strconv.Itoa(i) {
			t.Errorf("the plain server's answer to %q is not what the script says: %.2000s", s.text, answers["plain"][i])
		}
		if strings.Contains(s.text, " JOIN ") {
			plain, shunt = withoutKeyFlags(plain), withoutKeyFlags(shunt)
		}
		if plain != shunt {
			if different++; different <= 30 {
				t.Errorf("%.500s\n shunt: %.3000s\n plain: %.3000s", s.text, shunt, plain)
			}
		}
	}
	if different > 30 {
		t.Errorf("and %d more differences", different-30)
	}
	for _, operation := range d.lacks {
		if only, rest, ok := strings.Cut(operation, ":"); ok {
			if only != string(m.flavour.name) {
				continue
			}
			operation = rest
		}
		if !lacks[operation] {
			t.Errorf("the driver does have %q", operation)
		}
		delete(lacks, operation)
	}
	if len(lacks) > 0 {
		t.Errorf("left out, but not named as lacking: %v", lacks)
	}
}

// installNode fills drivers/node/node_modules from its lock file, once.
var installNode = sync.OnceValue(func() error {
	lock, err := os.ReadFile("drivers/node/package-lock.json")
	if err != nil {
		return err
	}
	// What was installed is remembered, to ask npm only when the lock file changes.
	const mark = "drivers/node/node_modules/.installed"
	if had, err := os.ReadFile(mark); err == nil && bytes.Equal(had, lock) {
		return nil
	}
	out, err := exec.CommandContext(context.Background(), "npm", "--prefix", "drivers/node", "ci", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput()
	if err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return os.WriteFile(mark, lock, 0o600)
})
