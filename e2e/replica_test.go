package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// replicated are shards with replicas, as real servers replicate.
type replicated struct {
	primaries []*throwaway.Server
	replicas  [][]*throwaway.Server
}

// replicatedServers starts so many shards with so many replicas each.
func replicatedServers(t *testing.T, f *flavour, shards, each int) replicated {
	t.Helper()
	servers := f.own(t, shards*(1+each), throwaway.ReplicationArgs(f.name)...)
	r := replicated{primaries: servers[:shards]}
	rest := servers[shards:]
	for i := range shards {
		mine := rest[i*each : (i+1)*each]
		for _, s := range mine {
			db := onShard(t, s, "")
			for _, sql := range s.Replicates(servers[i]) {
				mustExec(t, db, sql)
			}
		}
		r.replicas = append(r.replicas, mine)
	}
	return r
}

// replica is a replica's row in SHOW SHARDS.
func (p *process) replica(s *throwaway.Server) row {
	p.t.Helper()
	for _, r := range mustRows(p.t, p.open(""), "SHOW SHARDS") {
		if r["Addr"] == s.Addr() {
			return r
		}
	}
	p.t.Fatalf("SHOW SHARDS has no %s", s.Addr())
	return nil
}

func (p *process) waitReplica(s *throwaway.Server, state string) {
	p.t.Helper()
	var last row
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%v", last)
		}
	}()
	eventually(p.t, "replica "+s.Addr()+" is "+state, func() bool {
		last = p.replica(s)
		return last["State"] == state
	})
}

// ports are the servers that answered a query of @@port.
func ports(t *testing.T, q queryer, query string, args ...any) []string {
	t.Helper()
	var out []string
	for _, r := range mustRows(t, q, query, args...) {
		if !slices.Contains(out, r["@@port"]) {
			out = append(out, r["@@port"])
		}
	}
	slices.Sort(out)
	return out
}

func portsOf(servers ...*throwaway.Server) []string {
	var out []string
	for _, s := range servers {
		out = append(out, fmt.Sprint(s.Port()))
	}
	slices.Sort(out)
	return out
}

func wantPorts(t *testing.T, got []string, servers ...*throwaway.Server) {
	t.Helper()
	if want := portsOf(servers...); !slices.Equal(got, want) {
		t.Errorf("answered by %v, want %v", got, want)
	}
}

// startReplicated starts shunt over two shards with replicas, and 40 users.
func startReplicated(t *testing.T, f *flavour, servers replicated, extra string) (*process, *sql.DB) {
	t.Helper()
	p := start(t, f, setup{
		servers: servers.primaries, replicas: servers.replicas,
		tables: []string{"users: {shard_key: id}", "settings: {placement: single, shard: s1}", "countries: {placement: reference}", "copies: {shard_key: id}"},
		users:  []string{"{name: report, password: secret, read_from: replica}"}, extra: extra,
	})
	db := p.db()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(rowsOf(context.Background(), db, "SHOW SHARDS"))
		}
	})
	mustExec(t, db, "CREATE TABLE users (id INT PRIMARY KEY, email VARCHAR(50), n INT)")
	mustExec(t, db, "CREATE TABLE copies (id INT PRIMARY KEY, email VARCHAR(50), n INT)")
	mustExec(t, db, "CREATE TABLE settings (k VARCHAR(20) PRIMARY KEY, v INT)")
	mustExec(t, db, "CREATE TABLE countries (code CHAR(2) PRIMARY KEY)")
	var values []string
	for i := range 40 {
		values = append(values, fmt.Sprintf("(%d, 'u%d@x', %d)", i, i, i%7))
	}
	mustExec(t, db, "INSERT INTO users VALUES "+strings.Join(values, ","))
	mustExec(t, db, "INSERT INTO settings VALUES ('a', 1)")
	mustExec(t, db, "INSERT INTO countries VALUES ('DE'), ('US')")
	p.createIndex(db, "idx_email", "users (email)")
	for i, list := range servers.replicas {
		n := len(mustRows(t, p.shard(i), "SELECT 1 FROM users"))
		for _, r := range list {
			at := onShard(t, r, "")
			eventually(t, "replica "+r.Addr()+" has the rows", func() bool {
				rows, err := rowsOf(t.Context(), at, "SELECT 1 FROM "+p.schema+".users, "+p.schema+".countries WHERE code = 'US'")
				return err == nil && len(rows) == n
			})
			p.waitReplica(r, "up")
		}
	}
	return p, db
}

// Reads of a session that wants it go to replicas, and what must not be read there
// doesn't.
func TestReadsFromReplicas(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := replicatedServers(t, f, 2, 1)
		p, db := startReplicated(t, f, servers, "max_replica_lag: 3s")
		primaries, replicas := servers.primaries, []*throwaway.Server{servers.replicas[0][0], servers.replicas[1][0]}
		// The machine may be so busy that a replica is not seen to be near for a while.
		near := func(t *testing.T) { p.waitReplica(replicas[0], "up"); p.waitReplica(replicas[1], "up") }
		replicaOf := func(id int) *throwaway.Server {
			for i := range primaries {
				if len(mustRows(t, p.shard(i), fmt.Sprintf("SELECT 1 FROM users WHERE id = %d", id))) == 1 {
					return replicas[i]
				}
			}
			t.Fatalf("no shard has user %d", id)
			return nil
		}
		const all = "SELECT id, @@port FROM users"

		t.Run("which", func(t *testing.T) {
			c := p.conn()
			want(t, c, "SELECT @@shunt_read_from AS f", "f", "primary")
			wantPorts(t, ports(t, c, all), primaries...)
			mustExec(t, c, "SET shunt_read_from = 'replica'")
			want(t, c, "SELECT @@shunt_read_from AS f", "f", "replica")
			want(t, c, "SELECT id, @@shunt_read_from FROM users WHERE id = 3", "id @@shunt_read_from", "3 replica")
			near(t)
			wantPorts(t, ports(t, c, all), replicas...)
			wantPorts(t, ports(t, c, "SELECT id, @@port FROM users WHERE id = 3"), replicaOf(3))
			wantPorts(t, ports(t, c, "SELECT id, @@port FROM users WHERE id = ?", 4), replicaOf(4))
			wantPorts(t, ports(t, c, "SELECT id, @@port FROM users WHERE email = ?", "u3@x"), replicaOf(3))
			wantPorts(t, ports(t, c, "SELECT v, @@port FROM settings"), replicas[1])
			wantPorts(t, ports(t, c, "SELECT id, @@port FROM users ORDER BY email LIMIT 30"), replicas...)
			if got := ports(t, c, "SELECT code, @@port FROM countries"); len(got) != 1 || !slices.Contains(portsOf(replicas...), got[0]) {
				t.Errorf("a reference table is answered by %v", got)
			}
			want(t, c, "SELECT COUNT(*) AS n FROM users", "n", "40")
			if n, _ := p.metric("shunt_replica_statements_total", fmt.Sprintf("replica=%q", replicas[0].Addr())); n < 3 {
				t.Errorf("%v statements are counted", n)
			}
			if n, _ := p.metric("shunt_replica_reads_total", `from="replica"`); n < 8 {
				t.Errorf("%v reads are counted", n)
			}
			// No index says which replicas are read.
			r := routeOf(t, c, "SELECT * FROM users WHERE email = 'u3@x'")
			if len(r.shards) != 2 || r.access != "scatter" || !strings.Contains(r.reason, "read from its replica 127.0.0.1:") {
				t.Errorf("%+v", r)
			}
			mustExec(t, c, "SET shunt_read_from = DEFAULT")
			wantPorts(t, ports(t, c, all), primaries...)
			wantRoute(t, c, "SELECT * FROM users WHERE email = 'u3@x'", 1, "index:idx_email")
			_, err := c.ExecContext(t.Context(), "SET shunt_read_from = 'moon'")
			wantError(t, err, 1231, "expected primary, replica or DEFAULT")
		})

		t.Run("user", func(t *testing.T) {
			c := connOf(t, open(t, p.addr, "report", "secret", p.schema))
			want(t, c, "SELECT @@shunt_read_from AS f", "f", "replica")
			near(t)
			wantPorts(t, ports(t, c, all), replicas...)
			mustExec(t, c, "SET SESSION shunt_read_from = primary")
			wantPorts(t, ports(t, c, all), primaries...)
		})

		t.Run("primary only", func(t *testing.T) {
			c := p.conn()
			mustExec(t, c, "SET shunt_read_from = 'replica'")
			fromPrimaries := func(what string) {
				t.Helper()
				near(t)
				if got, want := ports(t, c, all), portsOf(primaries...); !slices.Equal(got, want) {
					t.Errorf("%s: answered by %v, want %v", what, got, want)
				}
			}
			near(t)
			wantPorts(t, ports(t, c, all+" FOR UPDATE"), primaries...)
			wantPorts(t, ports(t, c, "SELECT id, @@port FROM users WHERE id = 3 LOCK IN SHARE MODE"), primaries[slices.Index(replicas, replicaOf(3))])
			wantPorts(t, ports(t, c, "/* shunt: shard=s0 */ SELECT id, @@port FROM users"), primaries[0])
			wantPorts(t, ports(t, c, "SELECT id, @@port, LAST_INSERT_ID() FROM users"), primaries...)
			mustExec(t, c, "BEGIN")
			fromPrimaries("in a transaction")
			mustExec(t, c, "COMMIT")
			mustExec(t, c, "START TRANSACTION READ ONLY")
			fromPrimaries("in a transaction that only reads")
			mustExec(t, c, "ROLLBACK")
			mustExec(t, c, "SET autocommit = 0")
			fromPrimaries("without autocommit")
			mustExec(t, c, "SET autocommit = 1")
			want(t, c, "SELECT GET_LOCK('e2e_replica', 1) AS l", "l", "1")
			fromPrimaries("with a lock by name")
			want(t, c, "SELECT RELEASE_LOCK('e2e_replica') AS l", "l", "1")
			near(t)
			wantPorts(t, ports(t, c, all), replicas...)
			mustExec(t, c, "CREATE TEMPORARY TABLE mine (n INT)")
			fromPrimaries("with a temporary table")
			mustExec(t, c, "DROP TEMPORARY TABLE mine")
			// What another kind of plan reads, and the locks' own questions.
			want(t, c, "SELECT COUNT(*) AS n FROM users u WHERE u.n > (SELECT AVG(n) FROM users)", "n", "22")
			mustRows(t, c, "SHOW TABLES")
			mustRows(t, c, "SELECT table_name FROM information_schema.tables LIMIT 1")
		})

		t.Run("session", func(t *testing.T) {
			c := p.conn()
			mustExec(t, c, "SET shunt_read_from = 'replica'")
			mustExec(t, c, "SET @x = 5, SESSION sql_mode = 'PIPES_AS_CONCAT', time_zone = '+05:00'")
			near(t)
			rows := mustRows(t, c, "SELECT id || '!' AS s, @x AS x, @@time_zone AS z, @@port FROM users WHERE id = @x")
			if len(rows) != 1 || rows[0]["s"] != "5!" || rows[0]["x"] != "5" || rows[0]["z"] != "+05:00" || rows[0]["@@port"] != fmt.Sprint(replicaOf(5).Port()) {
				t.Errorf("%v", rows)
			}
			// A table that was just made is there, whoever has it already.
			for i := range 3 {
				mustExec(t, db, fmt.Sprintf("CREATE TABLE new%d (id INT PRIMARY KEY)", i))
				want(t, c, fmt.Sprintf("SELECT COUNT(*) AS n FROM new%d", i), "n", "0")
			}
			// Another session finds the server's own settings in the connections.
			other := p.conn()
			mustExec(t, other, "SET shunt_read_from = 'replica'")
			near(t)
			for range 3 {
				want(t, other, "SELECT @x AS x, 1 || 0 AS y FROM users WHERE id = 5", "x y", "NULL 1")
			}
		})

		t.Run("kill", func(t *testing.T) {
			c, by := p.conn(), p.conn()
			mustExec(t, c, "SET shunt_read_from = 'replica'")
			id := mustRows(t, c, "SELECT CONNECTION_ID() AS id")[0]["id"]
			near(t)
			ended := make(chan error, 1)
			began := time.Now()
			go func() {
				_, err := rowsOf(t.Context(), c, "SELECT SLEEP(60), @@port FROM users WHERE id = 3")
				ended <- err
			}()
			at := onShard(t, replicaOf(3), "")
			eventually(t, "the replica works on it", func() bool {
				return len(mustRows(t, at, "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(60)%'")) > 0
			})
			mustExec(t, by, "KILL QUERY "+id)
			// MySQL's SLEEP() that is interrupted ends with 1.
			if err := <-ended; err != nil {
				wantError(t, err, 1317, "")
			}
			if took := time.Since(began); took > 50*time.Second {
				t.Errorf("KILL QUERY took %v", took)
			}
			want(t, c, "SELECT id FROM users WHERE id = 3", "id", "3")
		})

		t.Run("check", func(t *testing.T) {
			out, code := shunt(t, "check", "--config", p.config)
			if code != 0 || !strings.Contains(out, "s0/"+replicas[0].Addr()) || !strings.Contains(out, "note: it takes writes from anybody") {
				t.Errorf("exit %d: %s", code, out)
			}
			primary := onShard(t, primaries[0], "")
			mustExec(t, primary, "SET GLOBAL read_only = 1")
			out, code = shunt(t, "check", "--config", p.config)
			mustExec(t, primary, "SET GLOBAL read_only = 0")
			if code != 0 || strings.Count(out, "note: read_only is on") != 1 {
				t.Errorf("a primary that takes no writes: exit %d: %s", code, out)
			}
			changed := func(from, to string) string {
				text, err := os.ReadFile(p.config)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(text), from) {
					t.Fatalf("no %q in the configuration", from)
				}
				name := filepath.Join(t.TempDir(), "shunt.yaml")
				if err := os.WriteFile(name, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
					t.Fatal(err)
				}
				out, code := shunt(t, "check", "--config", name)
				if code == 0 {
					t.Errorf("%s instead of %s is valid: %s", to, from, out)
				}
				return out
			}
			// The other shard's replica.
			if out := changed(replicas[0].Addr(), "localhost:"+fmt.Sprint(replicas[1].Port())); !strings.Contains(out, "replicates from another server") {
				t.Errorf("%s", out)
			}
			// An account without the right to see replication.
			for _, srv := range []*throwaway.Server{primaries[0], primaries[1]} {
				mustExec(t, onShard(t, srv, ""), "CREATE USER reader@'%' IDENTIFIED BY 'pw'")
				mustExec(t, onShard(t, srv, ""), "GRANT SELECT ON *.* TO reader@'%'")
			}
			at := onShard(t, replicas[0], "")
			eventually(t, "the account is there", func() bool {
				return len(mustRows(t, at, "SELECT 1 FROM information_schema.user_privileges WHERE grantee LIKE '%reader%' AND privilege_type = 'SELECT'")) > 0
			})
			if out := changed("{addr: '"+replicas[0].Addr()+"'}", "{addr: '"+replicas[0].Addr()+"', user: reader, password: pw}"); !strings.Contains(out, "Shunt's account needs it to see how far replication is: GRANT REPLICA") {
				t.Errorf("%s", out)
			}
		})

		t.Run("reload", func(t *testing.T) {
			c := p.conn()
			mustExec(t, c, "SET @mine = 1")
			user := connOf(t, open(t, p.addr, "report", "secret", p.schema))
			near(t)
			wantPorts(t, ports(t, user, all), replicas...)
			p.reload("read_from: replica", "read_from: primary")
			wantPorts(t, ports(t, user, all), primaries...)
			p.reload("password: secret, read_from: primary", "password: secret, read_from: replica")
			p.reload("{addr: '"+replicas[0].Addr()+"'},", "")
			// An empty list is refused, which changes nothing.
			near(t)
			wantPorts(t, ports(t, user, all), replicas...)
			p.reload(", replicas: []", "")
			eventually(t, "s0 has no replica any more", func() bool {
				return slices.Equal(ports(t, user, all), portsOf(primaries[0], replicas[1]))
			})
			if rows := mustRows(t, c, "SHOW SHARDS"); len(rows) != 3 {
				t.Errorf("%v", rows)
			}
			p.reload("user: root, password: '"+shardPassword+"'}", "user: root, password: '"+shardPassword+"', replicas: [{addr: '"+replicas[0].Addr()+"'}]}")
			near(t)
			wantPorts(t, ports(t, user, all), replicas...)
			want(t, c, "SELECT @mine AS m", "m", "1")
			if log := p.log.String(); strings.Contains(log, "need a restart") {
				t.Error("a change of replicas needs a restart")
			}
		})
	})
}
