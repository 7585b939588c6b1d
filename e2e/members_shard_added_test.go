package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// adds is a load on several members while a shard is added: each writes copies and rows that any shard may have, and looks
// through another member whether they are there.
type adds struct {
	t       *testing.T
	members []*process
	// shards that rows of legacy are put on, by hints.
	shards  atomic.Int32
	stopped atomic.Bool
	running sync.WaitGroup
	done    atomic.Int64
	// away keeps a member's load off while it is restarted.
	away []sync.RWMutex
	dbs  []*sql.DB
}

func addLoad(t *testing.T, members []*process, seed uint64) *adds {
	l := &adds{t: t, members: members, away: make([]sync.RWMutex, len(members))}
	l.shards.Store(2)
	for _, m := range members {
		l.dbs = append(l.dbs, m.db())
	}
	for n := range 2 * len(members) {
		l.running.Go(func() { l.writes(n, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	t.Cleanup(func() { l.stopped.Store(true); l.running.Wait() })
	return l
}

// end ends the load.
func (l *adds) end() {
	l.stopped.Store(true)
	l.running.Wait()
	l.t.Logf("%d writes were found by another member", l.done.Load())
}

// without calls fn while a member has no load.
func (l *adds) without(n int, fn func()) {
	l.away[n].Lock()
	defer l.away[n].Unlock()
	fn()
}

func (l *adds) writes(n int, rnd *rand.Rand) {
	on := n % len(l.members)
	for i := 0; !l.stopped.Load(); i++ {
		// One at a time is away, and who waits for two of them would wait for ever.
		to := (on + 1 + rnd.IntN(len(l.members)-1)) % len(l.members)
		first, second := min(on, to), max(on, to)
		l.away[first].RLock()
		l.away[second].RLock()
		l.write(on, to, 1_000_000*(n+1)+i, rnd)
		l.away[second].RUnlock()
		l.away[first].RUnlock()
	}
}

// write has one member write, and another one look at once. A statement that failed may be sent again where the error says so.
func (l *adds) write(on, to, id int, rnd *rand.Rand) {
	t := l.t
	var statement, look, wanted string
	switch rnd.IntN(3) {
	case 0:
		statement = fmt.Sprintf("/* shunt: shard=s%d */ INSERT INTO legacy VALUES (%d, 1)", rnd.IntN(int(l.shards.Load())), id)
		look, wanted = fmt.Sprintf("SELECT v FROM legacy WHERE id = %d", id), "1"
	case 1:
		statement = fmt.Sprintf("INSERT INTO rates (code, rate) VALUES ('%d', 1)", id)
		look, wanted = fmt.Sprintf("SELECT r.code FROM users u JOIN rates r ON r.code = '%d' WHERE u.id = %d", id, 1+rnd.IntN(200)), fmt.Sprint(id)
	case 2:
		statement = fmt.Sprintf("UPDATE countries SET name = 'c%d' WHERE id = %d", id, 1+rnd.IntN(11999))
		look, wanted = fmt.Sprintf("SELECT name FROM countries WHERE name = 'c%d'", id), fmt.Sprintf("c%d", id)
	}
	ctx := context.WithoutCancel(t.Context())
	if _, err := rowsOf(ctx, l.dbs[on], statement); err != nil {
		if !l.stopped.Load() && !strings.Contains(err.Error(), "Deadlock") {
			t.Errorf("%s: %v", statement, err)
		}
		return
	}
	rows, err := rowsOf(ctx, l.dbs[to], look)
	switch {
	case err != nil:
		t.Errorf("%s: %v", look, err)
	case len(rows) != 1 && strings.HasPrefix(statement, "UPDATE"): // another one has changed the row since
	case len(rows) != 1 || rows[0][columnOf(rows[0])] != wanted:
		t.Errorf("behind %s: %s finds %v", statement, look, rows)
	default:
		l.done.Add(1)
	}
}

// columnOf is the name of a row's only column.
func columnOf(r row) string {
	for name := range r {
		return name
	}
	return ""
}

// TestMembersShardAdded: a shard is added to the configuration of one member after the other, as by a rolling restart. It serves
// when the last one has it, and no statement fails or misses a row meanwhile.
func TestMembersShardAdded(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		suite.Promise(t)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2], extra: "store: {shards: true}"})
		makeMixed(t, p.db())
		p.createIndex(p.db(), "by_email", "users (email)")
		members := []*process{p, p.beside(), p.beside()}
		for _, m := range members[1:] {
			m.run()
		}
		l := addLoad(t, members, seed)
		var open *sql.Conn // of which a copy that is written is in the way
		for n, m := range members {
			if n == 2 {
				open = members[0].conn()
				mustExec(t, open, "BEGIN")
				mustExec(t, open, "INSERT INTO rates (code, rate) VALUES ('open', 1)")
			}
			l.without(n, func() {
				if code := m.stop(); code != 0 {
					t.Errorf("member %d: exit status %d", n, code)
				}
				m.addShard(servers[2])
				m.run()
			})
			if n < len(members)-1 {
				eventually(t, "it says whom it waits for", func() bool {
					state, why := stateOf(t, m.db(), "s2")
					return state == "joining" && strings.Contains(why, "isn't in the configuration of member") && strings.Contains(why, port(members[2]))
				})
			}
			if n == 1 { // its server is in nobody's way before it serves
				servers[2].Kill()
				mustExec(t, m.db(), "CREATE TABLE late (id INT PRIMARY KEY)")
				mustExec(t, m.db(), "INSERT INTO late VALUES (1)")
				want(t, members[2].db(), "SELECT id FROM late", "id", "1")
				if err := servers[2].Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		eventually(t, "it says that copies are being written", func() bool {
			for _, m := range members {
				if _, why := stateOf(t, m.db(), "s2"); strings.Contains(why, "a transaction that has written a reference table is open") || strings.Contains(why, "have all members close their copies") {
					return true
				}
			}
			return false
		})
		mustExec(t, open, "COMMIT")
		for _, m := range members {
			m.joined(m.db(), "s2")
		}
		l.shards.Store(3)
		before := l.done.Load()
		eventually(t, "rows are put there", func() bool { return l.done.Load() > before+100 })
		l.end()
		for n := 1; n <= 2; n++ {
			p.sameCopies(0, n, "countries", "rates", "codes")
		}
		for _, m := range members {
			wantRoute(t, m.db(), "SELECT * FROM users WHERE email = 'u7@example.org'", 1, "index:by_email")
			want(t, m.db(), "SELECT COUNT(*) AS n FROM users", "n", "200")
		}
		// It is a shard as any then, and who lacks it doesn't serve.
		members[1].restart()
		if state, why := stateOf(t, members[1].db(), "s2"); state != "up" {
			t.Errorf("s2 is %s (%s) behind a restart", state, why)
		}
		members[2].stop()
		lines := shardLines(t, members[2])
		members[2].edit(lines[2], "")
		if err := members[2].launch(); err == nil || !strings.Contains(err.Error(), "they have shards s0, s1, s2") {
			t.Errorf("without the shard: %v", err)
		}
		members[2].edit(lines[1], lines[1]+lines[2])
		members[2].run()
		p.settled(p.db())
	})
}

// TestMembersShardAddedKilled: whoever adds a shard is killed in the middle, and so are others. The shard serves in the end, and
// writes of reference tables go on.
func TestMembersShardAddedKilled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		suite.Promise(t)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2], extra: "store: {shards: true}"})
		makeMixed(t, p.db())
		p.createIndex(p.db(), "by_email", "users (email)")
		members := []*process{p, p.beside(), p.beside()}
		for n, m := range members {
			if n == 0 {
				m.stop()
			}
			m.addShard(servers[2])
			m.run()
		}
		for range 6 {
			n := rnd.IntN(len(members))
			<-time.After(time.Duration(rnd.IntN(1500)) * time.Millisecond) // a moment of the adding
			members[n].kill()
			members[n].run()
		}
		for _, m := range members {
			m.joined(m.db(), "s2")
		}
		l := addLoad(t, members, seed)
		l.shards.Store(3)
		eventually(t, "rows are put there", func() bool { return l.done.Load() > 100 })
		l.end()
		for n := 1; n <= 2; n++ {
			p.sameCopies(0, n, "countries", "rates", "codes")
		}
		p.settled(p.db())
	})
}

// TestMembersShardAddedCompares: while writes wait for a shard that is added, only tables are compared that a member has written
// meanwhile.
func TestMembersShardAddedCompares(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2], extra: "store: {shards: true}"})
		makeMixed(t, p.db())
		members := []*process{p, p.beside()}
		members[1].run()
		source := onShard(t, servers[0], "")
		mustExec(t, source, "SET GLOBAL log_output = 'TABLE'")
		mustExec(t, source, "SET GLOBAL general_log = ON")
		for _, m := range members {
			m.stop()
			m.addShard(servers[2])
			m.run()
		}
		var stopped atomic.Bool
		var writing sync.WaitGroup
		for n, sql := range []string{"UPDATE countries SET share = share + 1 WHERE id = 7", "INSERT INTO codes VALUES (2, 'b')"} {
			db := members[n].db()
			writing.Go(func() {
				for !stopped.Load() {
					if _, err := rowsOf(t.Context(), db, sql); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for _, m := range members {
			m.joined(m.db(), "s2")
		}
		stopped.Store(true)
		writing.Wait()
		mustExec(t, source, "SET GLOBAL general_log = OFF")
		const of = "CONVERT(argument USING utf8mb4) AS text FROM mysql.general_log WHERE command_type = 'Query' AND "
		last := mustRows(t, source, "SELECT thread_id AS id, "+of+"argument = 'SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE'")
		if len(last) == 0 {
			t.Fatal("nothing was compared at last")
		}
		compared := map[string]bool{}
		for _, r := range mustRows(t, source, "SELECT "+of+"argument LIKE '%BIT_XOR%' AND thread_id = "+last[len(last)-1]["id"]+
			" AND event_time >= (SELECT MAX(event_time) FROM mysql.general_log WHERE argument = 'SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE')") {
			for _, table := range []string{"countries", "rates", "codes"} {
				if strings.Contains(r["text"], "`"+table+"`") {
					compared[table] = true
				}
			}
		}
		if !compared["countries"] || !compared["codes"] || compared["rates"] {
			t.Errorf("while writes waited these were compared: %v", compared)
		}
		p.sameCopies(0, 2, "countries", "rates", "codes")
	})
}

// TestMembersShardsAdded: two shards are added at once, whatever their names' order. They come one after the other.
func TestMembersShardsAdded(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4)
		p := start(t, f, setup{tables: mixed, servers: servers[:2:2], extra: "store: {shards: true}"})
		makeMixed(t, p.db())
		p.createIndex(p.db(), "by_email", "users (email)")
		members := []*process{p, p.beside()}
		members[1].run()
		for _, m := range members {
			m.stop()
			m.addShard(servers[2])
			m.addShard(servers[3])
			lines := shardLines(t, m)
			m.edit(lines[2]+lines[3], lines[3]+lines[2])
			m.run()
		}
		for _, m := range members {
			m.joined(m.db(), "s2")
			m.joined(m.db(), "s3")
			wantRoute(t, m.db(), "SELECT * FROM users WHERE email = 'u7@example.org'", 1, "index:by_email")
		}
		for n, shard := range []string{"s2", "s3"} {
			mustExec(t, members[n].db(), fmt.Sprintf("/* shunt: shard=%s */ INSERT INTO legacy VALUES (%d, 1)", shard, 1000+n))
			want(t, members[1-n].db(), fmt.Sprintf("SELECT v FROM legacy WHERE id = %d", 1000+n), "v", "1")
			p.sameCopies(0, 2+n, "countries", "rates", "codes")
		}
		p.settled(p.db())
	})
}
