package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// twoHomes are two members with a store on two servers, the second of which has the only virtual index. The account
// there has no right beyond docs/several.md's, so that a server which is read-only is so for it.
type twoHomes struct {
	t      *testing.T
	first  *process
	dbs    []queryer
	second *throwaway.Server
	// do writes what needs new entries; wrote counts these.
	do    func(by int) error
	wrote int
}

func startTwoHomes(t *testing.T, f *flavour, servers []*throwaway.Server, addr string) *twoHomes {
	t.Helper()
	first, second := servers[2], servers[3]
	mustExec(t, onShard(t, second, ""), "CREATE USER store@'%' IDENTIFIED BY 'pw'")
	mustExec(t, onShard(t, second, ""), "GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON shunt_store.* TO store@'%'")
	p := start(t, f, setup{
		servers: servers[:2], tables: []string{"people: {shard_key: id}"},
		extra: fmt.Sprintf("store: {servers: [{name: h1, addr: '%s', user: %s, password: '%s'}, {name: h2, addr: '%s', user: store, password: pw}]}",
			first.Addr(), first.User, first.Password, addr),
	})
	other := p.beside()
	other.run()
	h := &twoHomes{t: t, first: p, dbs: []queryer{p.db(), other.db()}, second: second}
	h.do = func(by int) error { _, err := h.write(by); return err }
	mustExec(t, h.dbs[0], "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(700), age INT)")
	for i := range 20 {
		mustExec(t, h.dbs[i%2], fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x', 1)", i, i))
	}
	mustExec(t, h.dbs[0], "CREATE VIRTUAL INDEX idx_email ON people (email) HOME h2")
	onHome(t, h.dbs[0], "idx_email", "h2")
	h.exact()
	return h
}

// write gives a row a value that is in no entry yet.
func (h *twoHomes) write(by int) (value string, err error) {
	h.wrote++
	value = fmt.Sprintf("new%d@x", h.wrote)
	_, err = h.dbs[by].ExecContext(h.t.Context(), fmt.Sprintf("UPDATE people SET email = '%s' WHERE id = %d", value, h.wrote%20))
	return value, err
}

// finds looks for rows by their values, as the shards have them, by both members: for all but those of large writes.
func (h *twoHomes) finds() {
	h.t.Helper()
	for i := range 2 {
		for _, r := range mustRows(h.t, h.first.shard(i), "SELECT id, email FROM people WHERE id < 100 OR id % 97 = 0") {
			for _, db := range h.dbs {
				want(h.t, db, "SELECT id FROM people WHERE email = '"+r["email"]+"'", "id", r["id"])
			}
		}
	}
}

// exact waits until reads by the index go to one shard.
func (h *twoHomes) exact() {
	h.t.Helper()
	email := mustRows(h.t, h.dbs[0], "SELECT email FROM people WHERE id = 7")[0]["email"]
	for _, db := range h.dbs {
		eventually(h.t, "reads are exact", func() bool { return exact(h.t, db, "email = '"+email+"'") })
	}
}

// goesOn: writes are refused by an error with this text until the index is given up, and then done; when the fault has
// ended the index is built anew, and nothing is missing.
func (h *twoHomes) goesOn(text string, end func()) {
	h.t.Helper()
	for n := range h.dbs {
		// A busy machine may take the ten seconds for the first, after which the index is given up.
		if err := h.do(n); err != nil || n == 0 {
			wantError(h.t, err, 1429, text)
		} else if at := homes(h.t, h.dbs[n])["idx_email"]; !strings.Contains(at, "building") {
			h.t.Errorf("a write is done though its index is at %s", at)
		}
		h.finds()
	}
	for n := range h.dbs {
		eventually(h.t, "writes go on", func() bool { return h.do(n) == nil })
	}
	h.finds()
	end()
	h.anew()
}

// anew waits until the index is built anew, and looks for all rows by it.
func (h *twoHomes) anew() {
	h.t.Helper()
	h.finds()
	eventually(h.t, "it is built anew", func() bool { return homes(h.t, h.dbs[0])["idx_email"] == "h2" })
	for n := range h.dbs {
		if _, err := h.write(n); err != nil {
			h.t.Error(err)
		}
	}
	h.exact()
	h.finds()
	for _, r := range mustRows(h.t, h.dbs[0], "CHECK VIRTUAL INDEX idx_email ON people") {
		if r["Missing"] != "0" {
			h.t.Errorf("%v", r)
		}
	}
}

// TestHomeReadOnly: a server of the store that takes no writes.
func TestHomeReadOnly(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4)
		h := startTwoHomes(t, f, servers, servers[3].Addr())
		root := onShard(t, h.second, "")
		setting := "read_only"
		if f.name == throwaway.MySQL {
			setting = "super_read_only"
		}
		mustExec(t, root, "SET GLOBAL "+setting+" = 1")
		h.goesOn("h2 ("+h.second.Addr()+")", func() {
			mustExec(t, root, "SET GLOBAL "+setting+" = 0")
			mustExec(t, root, "SET GLOBAL read_only = 0") // which the other has switched on
		})
	})
}

// TestHomeFull: a server of the store whose disk is full: that of its tables, and that of its binary log.
func TestHomeFull(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		for name, small := range map[string]func(*testing.T, *throwaway.Server) (full, free func()){"log": smallLog, "data": smallDisk} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				servers := f.own(t, 4)
				full, free := small(t, servers[3])
				h := startTwoHomes(t, f, servers, servers[3].Addr())
				// What the server has set aside is used up first.
				h.do = func(by int) error {
					var rows []string
					for range 200 {
						h.wrote++
						rows = append(rows, fmt.Sprintf("(%d, '%s%d', 1)", 100+h.wrote, strings.Repeat("x", 600), h.wrote))
					}
					_, err := h.dbs[by].ExecContext(t.Context(), "INSERT INTO people VALUES "+strings.Join(rows, ", "))
					return err
				}
				full()
				var err error
				for n, began := 0, time.Now(); err == nil && time.Since(began) < patience; n++ {
					err = h.do(n % 2)
				}
				wantError(t, err, 1429, "h2 ("+h.second.Addr()+")")
				h.goesOn("h2 ("+h.second.Addr()+")", free)
			})
		}
	})
}

// TestHomeSlow: a server of the store that is far away, and then too far.
func TestHomeSlow(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4)
		way := valveTo(t, servers[3])
		h := startTwoHomes(t, f, servers, way.Addr())
		way.Delay(200 * time.Millisecond)
		for n := range h.dbs {
			value, err := h.write(n)
			if err != nil {
				t.Fatal(err)
			}
			if !exact(t, h.dbs[1-n], "email = '"+value+"'") {
				t.Error("reads by a server that is slow are wide")
			}
			want(t, h.dbs[1-n], "SELECT id FROM people WHERE email = '"+value+"'", "id", strconv.Itoa(h.wrote%20))
		}
		way.Delay(8 * time.Second)
		began := time.Now()
		want(t, h.dbs[0], "SELECT id FROM people WHERE email = 'p3@x'", "id", "3")
		if took := time.Since(began); took > 5*time.Second+slack {
			t.Errorf("the first read takes %s", took)
		}
		began = time.Now()
		want(t, h.dbs[0], "SELECT id FROM people WHERE email = 'p4@x'", "id", "4")
		if took := time.Since(began); took > 7*time.Second { // no answer of that server can have come
			t.Errorf("a later read takes %s", took)
		}
		h.goesOn("h2 ("+way.Addr()+")", func() { way.Delay(0) })
	})
}

// TestHomeWentBack: a server of the store comes back with an older copy of its data directory.
func TestHomeWentBack(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4)
		h := startTwoHomes(t, f, servers, servers[3].Addr())
		dir := filepath.Dir(h.second.Socket())
		h.second.Shutdown()
		if err := os.CopyFS(dir+".copy", os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := h.second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		count := func() int {
			n, err := strconv.Atoi(mustRows(t, onShard(t, h.second, "shunt_store"), "SELECT n FROM seen")[0]["n"])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		began := count()
		for n := range h.dbs {
			eventually(t, "entries can be made again", func() bool {
				_, err := h.write(n)
				return err == nil
			})
		}
		eventually(t, "both have counted", func() bool { return count() >= began+2 })
		h.second.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir+".copy", dir); err != nil {
			t.Fatal(err)
		}
		if err := h.second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.finds()
		eventually(t, "it is told", func() bool { return strings.Contains(h.first.log.String(), "isn't used: ") })
		for n := range h.dbs {
			eventually(t, "writes go on", func() bool {
				_, err := h.write(n)
				return err == nil
			})
		}
		h.anew()
	})
}

// TestHomeVolatile: a server of the store that may lose what it has acknowledged is told by check, at the start and
// when it becomes so.
func TestHomeVolatile(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		store := onShard(t, servers[1], "")
		mustExec(t, store, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
		p := start(t, f, setup{servers: servers[:1], extra: storeOn([]string{"h1"}, servers[1])})
		const told = "innodb_flush_log_at_trx_commit is 2, expected 1"
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || strings.Contains(out, told) {
			t.Errorf("status %d\n%s", code, out)
		}
		mustExec(t, store, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
		eventually(t, "the log tells", func() bool { return strings.Contains(p.log.String(), told) })
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || !strings.Contains(out, "note: store: server h1: "+told) {
			t.Errorf("status %d\n%s", code, out)
		}
	})
}

// TestMembersBehindProxy: a proxy that has connections of its own to a server is refused, be it before a shard or
// before a server of the store.
func TestMembersBehindProxy(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers[:1], extra: storeOn([]string{"h1"}, servers[1])})
		p.stop()
		for _, s := range servers {
			way := valveTo(t, s)
			way.Renumber(1000)
			p.edit(s.Addr(), way.Addr())
			const told = "as behind a proxy that speaks MySQL"
			p.refuses(told)
			if out, code := shunt(t, "check", "--config", p.config); code != 1 || !strings.Contains(out, told) {
				t.Errorf("check: status %d\n%s", code, out)
			}
			p.edit(way.Addr(), s.Addr())
		}
		p.run()
	})
}

// TestMemberStandsStill: a member stands still for a minute. The others go on without it, and remove what it would
// need; what it has been asked before it answers rightly, or not at all.
func TestMemberStandsStill(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		db, still := p.db(), q.db()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		for i := range 20 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
		}
		p.createIndex(db, "idx_email", "people(email)")
		for i := range 20 { // it knows of all
			want(t, still, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", strconv.Itoa(i))
		}
		conns := make([]*sql.Conn, 40)
		for i := range conns {
			conns[i] = q.conn()
		}
		began := time.Now()
		q.signal(syscall.SIGSTOP)
		var asked sync.WaitGroup
		for i, c := range conns {
			asked.Go(func() {
				id := i / 2
				if i%2 == 1 {
					_, _ = c.ExecContext(t.Context(), fmt.Sprintf("UPDATE people SET email = 'late%d@x' WHERE id = %d", id, id)) // or not
					return
				}
				rows, err := rowsOf(t.Context(), c, fmt.Sprintf("SELECT id FROM people WHERE email IN ('new%d@x', 'late%d@x')", id, id))
				if err == nil && (len(rows) != 1 || rows[0]["id"] != strconv.Itoa(id)) {
					t.Errorf("new%d@x: %v", id, rows)
				}
			})
		}
		for i := range 20 {
			mustExec(t, db, fmt.Sprintf("UPDATE people SET email = 'new%d@x' WHERE id = %d", i, i))
		}
		mustExec(t, db, "CREATE TABLE more (id BIGINT PRIMARY KEY)")
		p.createIndex(db, "idx_id", "people(email, id)")
		p.settled(db)
		for rest := time.Minute - time.Since(began); rest > 0; rest = time.Minute - time.Since(began) {
			time.Sleep(rest)
		}
		q.signal(syscall.SIGCONT)
		asked.Wait()
		eventually(t, "it serves", func() bool {
			_, err := still.ExecContext(t.Context(), "UPDATE people SET email = 'again@x' WHERE id = 3")
			return err == nil
		})
		want(t, db, "SELECT id FROM people WHERE email = 'again@x'", "id", "3")
		for _, r := range mustRows(t, db, "SELECT id, email FROM people") {
			for _, by := range []queryer{db, still} {
				want(t, by, "SELECT id FROM people WHERE email = '"+r["email"]+"'", "id", r["id"])
			}
		}
	})
}

// TestMemberCopied: a data_dir that was copied serves beside its original.
func TestMemberCopied(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		q := p.beside()
		if err := os.CopyFS(q.dataDir(), os.DirFS(p.dataDir())); err != nil {
			t.Fatal(err)
		}
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), boss BIGINT)")
		for i := range 20 {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x', %d)", i, i, 19-i))
		}
		p.createIndex(p.db(), "idx_email", "people(email)")
		// What one has gathered, of which the other's start removes nothing.
		gathers := "SELECT COUNT(*) AS n FROM people a JOIN people b ON a.boss = b.id WHERE a.email > b.email"
		n := mustRows(t, p.db(), gathers)[0]["n"]
		stop := make(chan struct{})
		var gather sync.WaitGroup
		gather.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if rows, err := rowsOf(t.Context(), p.db(), gathers); err != nil || rows[0]["n"] != n {
					t.Errorf("%v %v", rows, err)
					return
				}
			}
		})
		q.run()
		for i := range 20 {
			mustExec(t, q.db(), fmt.Sprintf("UPDATE people SET email = 'q%d@x' WHERE id = %d", i, i))
			want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'q%d@x'", i), "id", strconv.Itoa(i))
		}
		mustRows(t, q.db(), gathers)
		close(stop)
		gather.Wait()
		if rows := mustRows(t, p.db(), "SHOW MEMBERS"); len(rows) != 2 {
			t.Errorf("members %v", rows)
		}
	})
}
