package replica

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "9f10ab23-71ca-11e1-9e33-c80aa9429562"
)

func mysqlAt(t *testing.T, set string) position {
	t.Helper()
	s, err := parseSet(set)
	if err != nil {
		t.Fatal(err)
	}
	return position{set: s, file: "binlog.000001", offset: 1}
}

func mariaAt(t *testing.T, text string) position {
	t.Helper()
	d, err := parseDomains(text)
	if err != nil {
		t.Fatal(err)
	}
	return position{domains: d}
}

func TestReached(t *testing.T) {
	t.Parallel()
	file := func(name string, n uint64) position { return position{file: name, offset: n} }
	for _, c := range []struct {
		name             string
		replica, primary position
		want             bool
	}{
		{"all", mysqlAt(t, uuidA+":1-10"), mysqlAt(t, uuidA+":1-10"), true},
		{"one missing", mysqlAt(t, uuidA+":1-9"), mysqlAt(t, uuidA+":1-10"), false},
		{"one missing in the midst", mysqlAt(t, uuidA+":1-3:5-10"), mysqlAt(t, uuidA+":1-10"), false},
		{"more than the primary has", mysqlAt(t, uuidA+":1-10,"+uuidB+":1-3"), mysqlAt(t, uuidA+":1-10"), true},
		{"another server's", mysqlAt(t, uuidB+":1-99"), mysqlAt(t, uuidA+":1"), false},
		{"two servers', over lines", mysqlAt(t, uuidA+":1-10,\n"+uuidB+":1-3"), mysqlAt(t, uuidB+":1-3,\n"+uuidA+":7"), true},
		{"a tag that is missing", mysqlAt(t, uuidA+":1-10"), mysqlAt(t, uuidA+":1-10:blue:1"), false},
		{"a tag", mysqlAt(t, uuidA+":1-10:blue:1-2"), mysqlAt(t, uuidA+":1-10:blue:1"), true},
		{"nothing written yet", mysqlAt(t, ""), mysqlAt(t, ""), true},
		{"MariaDB", mariaAt(t, "0-1-10"), mariaAt(t, "0-1-10"), true},
		{"MariaDB behind", mariaAt(t, "0-1-9"), mariaAt(t, "0-1-10"), false},
		{"MariaDB, a domain missing", mariaAt(t, "0-1-10"), mariaAt(t, "0-1-9,1-1-1"), false},
		{"MariaDB, domains", mariaAt(t, "1-1-1,0-2-10"), mariaAt(t, "0-1-10,1-1-1"), true},
		{"files", file("binlog.000002", 100), file("binlog.000002", 100), true},
		{"files, offset", file("binlog.000002", 99), file("binlog.000002", 100), false},
		{"files, the next", file("binlog.000003", 4), file("binlog.000002", 100), true},
		{"files, more digits", file("binlog.999999", 100), file("binlog.1000000", 4), false},
		{"nothing known", position{}, file("binlog.000001", 4), false},
		{"gtid_mode only there", file("binlog.000001", 1), mysqlAt(t, uuidA+":1-10"), true},
	} {
		if got := c.replica.reached(c.primary); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A bound is never later than the first commit that the replica lacks, however
// much of the past was thinned out.
func TestUntilIsNeverTooLate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		src := &source{}
		begin := time.Unix(1_000_000, 0)
		now := begin
		var commits []time.Time // commit i made the offset i+1
		asked := 0
		for range 600 {
			now = now.Add(time.Duration(rnd.IntN(100)) * time.Millisecond)
			if rnd.IntN(3) > 0 {
				commits = append(commits, now)
				continue
			}
			at := now
			for range rnd.IntN(3) { // commits between the note of the time and the answer
				now = now.Add(time.Millisecond)
				commits = append(commits, now)
			}
			src.told(at, &server{pos: position{file: "b.1", offset: uint64(len(commits))}}, nil)
			asked++
			applied := rnd.IntN(len(commits) + 1)
			until := src.until(position{file: "b.1", offset: uint64(applied)})
			if applied < len(commits) && until.After(commits[applied]) {
				t.Fatalf("seed %d: has %d of %d commits, the next at %v, and is said to have all until %v", seed, applied, len(commits), commits[applied].Sub(begin), until.Sub(begin))
			}
			if applied == len(commits) && !until.Equal(at) {
				t.Fatalf("seed %d: has all, and is said to have all until %v, not %v", seed, until.Sub(begin), at.Sub(begin))
			}
		}
		if len(src.points) > maxPoints {
			t.Fatalf("%d points are kept", len(src.points))
		}
	}
}

// What a primary said before it was another server doesn't count.
func TestAnotherPrimary(t *testing.T) {
	t.Parallel()
	src := &source{}
	at := time.Unix(1000, 0)
	src.told(at, &server{uuid: uuidA, pos: position{file: "b.1", offset: 1}}, nil)
	src.told(at.Add(time.Second), nil, errors.New("down"))
	if until := src.until(position{file: "b.1", offset: 1}); !until.Equal(at) {
		t.Errorf("until %v after a failure", until)
	}
	src.told(at.Add(time.Minute), &server{uuid: uuidB, pos: position{file: "b.9", offset: 9}}, nil)
	if until := src.until(position{file: "b.1", offset: 1}); !until.IsZero() {
		t.Errorf("until %v by another server's position", until)
	}
}

func TestReplicates(t *testing.T) {
	t.Parallel()
	primary := &server{uuid: uuidA, id: "1"}
	good := map[string]string{
		"Source_UUID": uuidA, "Source_Server_Id": "1", "Replica_IO_Running": "Yes", "Replica_SQL_Running": "Yes",
		"Relay_Source_Log_File": "binlog.000007", "Exec_Source_Log_Pos": "1234", "Replicate_Ignore_DB": "mysql,sys", "Replicate_Wild_Ignore_Table": "mysql.rds_%",
	}
	with := func(pairs ...string) map[string]string {
		r := maps.Clone(good)
		for i := 0; i < len(pairs); i += 2 {
			r[pairs[i]] = pairs[i+1]
		}
		return r
	}
	for _, c := range []struct {
		name    string
		mariaDB bool
		rows    []map[string]string
		want    string // part of the error; "" for none
		stopped bool
	}{
		{"well", false, []map[string]string{good}, "", false},
		{"a source that can't be reached", false, []map[string]string{with("Replica_IO_Running", "Connecting")}, "", false},
		{"several sources", false, []map[string]string{with("Source_UUID", uuidB), good}, "", false},
		{"MariaDB", true, []map[string]string{with("Source_UUID", "")}, "", false},
		{"none", false, nil, "it is no replica", false},
		{"another source", false, []map[string]string{with("Source_UUID", uuidB, "Source_Server_Id", "2")}, "from another server", false},
		{"another source on MariaDB", true, []map[string]string{with("Source_Server_Id", "2")}, "from another server", false},
		{"IO stopped", false, []map[string]string{with("Replica_IO_Running", "No", "Last_IO_Error", "Got fatal error 1236")}, "Got fatal error 1236", true},
		{"SQL stopped", false, []map[string]string{with("Replica_SQL_Running", "No")}, "not running (No)", true},
		{"not begun", false, []map[string]string{with("Replica_IO_Running", "No", "Source_UUID", "", "Source_Server_Id", "0")}, "not running (No)", true},
		{"a schema left out", false, []map[string]string{with("Replicate_Ignore_DB", "mysql,shop")}, "Replicate_Ignore_DB", false},
		{"one schema only", false, []map[string]string{with("Replicate_Do_DB", "shop")}, "rows may be missing", false},
		{"a renamed schema", false, []map[string]string{with("Replicate_Rewrite_DB", "(a,b)")}, "Replicate_Rewrite_DB", false},
		{"a table left out", false, []map[string]string{with("Replicate_Wild_Ignore_Table", "shop.log%")}, "shop.log%", false},
		{"a server left out", false, []map[string]string{with("Replicate_Ignore_Server_Ids", "3")}, "Ignore_Server_Ids", false},
		{"a domain left out", true, []map[string]string{with("Replicate_Ignore_Domain_Ids", "1")}, "Ignore_Domain_Ids", false},
	} {
		pos, err := (&server{mariaDB: c.mariaDB}).replicates(c.rows, primary)
		var stop *stoppedError
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case errors.As(err, &stop) != c.stopped:
			t.Errorf("%s: stopped is %v", c.name, !c.stopped)
		case err == nil && (pos.file != "binlog.000007" || pos.offset != 1234):
			t.Errorf("%s: position %+v", c.name, pos)
		}
	}
}

func TestDiffer(t *testing.T) {
	t.Parallel()
	like := func(change ...string) *server {
		s := &server{settings: []string{"ANSI", "SYSTEM", "UTC", "0", "1024", "4", "en_US", "0"}}
		for i := 0; i < len(change); i += 2 {
			for j, name := range settings {
				if strings.HasSuffix(name, "."+change[i]) {
					s.settings[j] = change[i+1]
				}
			}
		}
		return s
	}
	for _, name := range []string{"sql_mode", "time_zone", "system_time_zone", "lower_case_table_names", "group_concat_max_len"} {
		if err := like(name, "other").differ(like()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	if err := like().differ(like()); err != nil {
		t.Error(err)
	}
	// The machines' zones don't matter where none is SYSTEM.
	if err := like("time_zone", "+00:00", "system_time_zone", "CET").differ(like("time_zone", "+00:00")); err != nil {
		t.Error(err)
	}
	if err := (&server{mariaDB: true, settings: like().settings}).differ(like()); err == nil {
		t.Error("MariaDB replicates from MySQL")
	}
}

// replicaAt is one of which something is known, in a set of its own.
func replicaAt(set *Set, addr string, until time.Time, err error) *Replica {
	cfg := shard.Config{Name: "s0", Addr: addr}
	r := &Replica{cfg: cfg, set: set, source: &source{name: "s0"}, health: shard.NewHealth(cfg, shard.HealthOptions{})}
	r.Pool = shard.New(cfg, shard.Options{})
	r.state.Store(&state{until, err})
	return r
}

func TestPick(t *testing.T) {
	t.Parallel()
	set := New(Options{})
	set.limit.Store(int64(time.Second))
	now := time.Now()
	since := now.Add(-time.Minute)
	fresh := replicaAt(set, "fresh", now.Add(time.Hour), nil) // the test may take its time
	also := replicaAt(set, "also", now.Add(time.Hour), nil)
	late := replicaAt(set, "late", now.Add(-2*time.Second), nil)
	broken := replicaAt(set, "broken", now.Add(time.Hour), errors.New("stopped"))
	unknown := replicaAt(set, "unknown", time.Time{}, nil)
	pick := func(since time.Time, avoid *Replica, list ...*Replica) map[string]int {
		set.now.Store(&map[catalog.ShardID][]*Replica{7: list})
		got := map[string]int{}
		for range 100 {
			if r := set.Pick(7, since, func(r *Replica) bool { return r == avoid }); r != nil {
				got[r.Addr()]++
			}
		}
		return got
	}
	if got := pick(since, nil, fresh, also, late, broken, unknown); len(got) != 2 || got["fresh"] < 20 || got["also"] < 20 {
		t.Errorf("%v, want both of those in order about as often", got)
	}
	for _, c := range []struct {
		name string
		got  map[string]int
		want string
	}{
		{"one to be avoided", pick(since, fresh, fresh, also), "map[also:100]"},
		{"none", pick(since, nil, late, broken, unknown), "map[]"},
		{"none has the schema yet", pick(now.Add(2*time.Hour), nil, fresh, also), "map[]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if r := set.Pick(8, since, nil); r != nil {
		t.Errorf("%s for a shard without replicas", r.Addr())
	}
	var none *Set
	if r := none.Pick(7, since, nil); r != nil {
		t.Errorf("%s of no set", r.Addr())
	}
	for r, want := range map[*Replica]string{fresh: Up, late: Lagging, broken: Refused, unknown: Lagging} {
		if st := r.Status(since); st.State != want {
			t.Errorf("%s is %s, want %s", r.Addr(), st.State, want)
		}
	}
}

// Two primaries of MariaDB with one server_id can't be told apart by a replica.
func TestAmbiguous(t *testing.T) {
	t.Parallel()
	set := New(Options{})
	a, b, c := &source{name: "s0"}, &source{name: "s1"}, &source{name: "s2"}
	set.sources = map[catalog.ShardID]*source{0: a, 1: b, 2: c}
	at := time.Unix(1000, 0)
	tell := func(s *source, mariaDB bool, id string) *server {
		v := &server{mariaDB: mariaDB, uuid: "u" + s.name, id: id}
		s.told(at, v, nil)
		return v
	}
	one := tell(a, true, "1")
	if err := set.ambiguous(a, one); err != nil {
		t.Errorf("before the others have answered: %v", err)
	}
	tell(b, true, "2")
	if err := set.ambiguous(a, one); err != nil {
		t.Error(err)
	}
	tell(c, true, "1")
	if err := set.ambiguous(a, one); err == nil || !strings.Contains(err.Error(), "shards s0 and s2 both have server_id 1") {
		t.Errorf("%v", err)
	}
	// MySQL's have a UUID.
	if err := set.ambiguous(a, tell(a, false, "1")); err != nil {
		t.Error(err)
	}
}
