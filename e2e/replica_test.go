package e2e

import (
	"fmt"
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
	src, err := throwaway.Find(t.Context(), f.name)
	if err != nil {
		t.Fatal(err)
	}
	set, err := throwaway.Start(t.Context(), src, throwaway.Options{
		Servers: shards * (1 + each), Password: shardPassword, Args: append(slices.Clone(serverArgs), throwaway.ReplicationArgs(f.name)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Stop)
	r := replicated{primaries: set.Servers[:shards]}
	rest := set.Servers[shards:]
	for i := range shards {
		mine := rest[i*each : (i+1)*each]
		for _, s := range mine {
			db := onShard(t, s, "")
			for _, sql := range s.Replicates(set.Servers[i]) {
				mustExec(t, db, sql)
			}
		}
		r.replicas = append(r.replicas, mine)
	}
	return r
}

// state is a replica's row in SHOW SHARDS.
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
	eventually(p.t, 30*time.Second, "replica "+s.Addr()+" is "+state, func() bool {
		last = p.replica(s)
		return last["State"] == state
	})
}

func (p *process) waitReplicas(r replicated) {
	p.t.Helper()
	for _, list := range r.replicas {
		for _, s := range list {
			p.waitReplica(s, "up")
		}
	}
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

// Reads of a session that wants it go to replicas, and what must not be read there
// doesn't.
func TestReadsFromReplicas(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := replicatedServers(t, f, 2, 1)
		p := start(t, f, setup{
			servers: servers.primaries, replicas: servers.replicas, tables: []string{"users: {shard_key: id}", "settings: {placement: single, shard: s1}", "countries: {placement: reference}"},
			users: []string{"{name: report, password: secret, read_from: replica}"}, extra: "max_replica_lag: 2s",
		})
		db := p.db()
		mustExec(t, db, "CREATE TABLE users (id INT PRIMARY KEY, email VARCHAR(50), n INT)")
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
		time.Sleep(500 * time.Millisecond)
		p.waitReplicas(servers)

		c := p.conn()
		primaries, replicas := servers.primaries, []*throwaway.Server{servers.replicas[0][0], servers.replicas[1][0]}
		wantPorts(t, ports(t, c, "SELECT id, @@port FROM users"), primaries...)
		mustExec(t, c, "SET shunt_read_from = 'replica'")
		want(t, c, "SELECT @@shunt_read_from AS f", "f", "replica")
		wantPorts(t, ports(t, c, "SELECT id, @@port FROM users"), replicas...)
		wantPorts(t, ports(t, c, "SELECT id, @@port FROM users WHERE email = ?", "u3@x"), replicas[slices.IndexFunc(replicas, func(s *throwaway.Server) bool {
			return len(mustRows(t, onShard(t, s, p.schema), "SELECT 1 FROM users WHERE email = 'u3@x'")) == 1
		})])
		wantPorts(t, ports(t, c, "SELECT v, @@port FROM settings"), replicas[1])
		want(t, c, "SELECT COUNT(*) AS n FROM users", "n", "40")
	})
}
