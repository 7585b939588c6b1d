package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// standsBy starts a process that finds another one serving, and waits until it says so.
func (p *process) standsBy() {
	p.t.Helper()
	if _, err := p.spawn(); err != nil {
		p.t.Fatal(err)
	}
	p.isStandby()
}

// isStandby waits until the process is a standby.
func (p *process) isStandby() {
	p.t.Helper()
	eventually(p.t, "it stands by", func() bool {
		if !p.running() {
			p.t.Fatalf("shunt has ended:\n%s", p.log.Tail(20))
		}
		status, body, err := p.get("/readyz")
		return err == nil && status == http.StatusServiceUnavailable && strings.Contains(body, "another Shunt serves it: connection ")
	})
	if nc, err := net.DialTimeout("tcp", p.addr, 5*time.Second); err == nil {
		nc.Close()
		p.t.Error("a standby accepts clients")
	}
	if n, _ := p.metric("shunt_standby"); n != 1 {
		p.t.Errorf("shunt_standby is %v, want 1", n)
	}
	if !strings.Contains(p.log.String(), "standby: another Shunt serves; waiting until it has stopped") {
		p.t.Errorf("the log doesn't tell:\n%s", p.log.Tail(20))
	}
}

// takesOver waits until a standby serves.
func (p *process) takesOver() {
	p.t.Helper()
	eventually(p.t, "the standby serves", func() bool {
		status, _, err := p.get("/readyz")
		return err == nil && status == http.StatusOK
	})
	if n, _ := p.metric("shunt_standby"); n != 0 {
		p.t.Errorf("shunt_standby is %v, want 0", n)
	}
}

// lockOf is the connection that holds the schema's lock on a shard, "" for none.
func (p *process) lockOf(shard int) string {
	p.t.Helper()
	db := onShard(p.t, p.servers[shard], "")
	id := mustRows(p.t, db, "SELECT IS_USED_LOCK('shunt-serves-"+p.schema+"') AS id")[0]["id"]
	return strings.TrimPrefix(id, "NULL")
}

// TestStandby: of two Shunts before the same shards, each with its own store, one waits
// until the other has stopped, or died. What the one has written the other finds by
// virtual index, and ids are handed out once, however often they take turns.
func TestStandby(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		a, c := startPeople(t, f, 40, setup{
			tables: []string{"counted: {shard_key: id}"},
			extra:  "drain_timeout: 5s",
		})
		mustExec(t, c, "CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(10))")
		id := 1000
		ids := map[string]bool{}
		// wrote writes through a process, after which rows that were moved are where its
		// index, and no other one's, has them.
		write := func(p *process) {
			t.Helper()
			db := p.db()
			for range 8 {
				mustExec(t, db, "INSERT INTO people (id, email) VALUES (?, ?)", id, fmt.Sprintf("p%d@x", id))
				mustExec(t, db, "UPDATE people SET email = ? WHERE id = ?", fmt.Sprintf("moved%d@x", id), id)
				id++
			}
			for range 5 {
				n, err := mustExec(t, db, "INSERT INTO counted (who) VALUES ('x')").LastInsertId()
				if err != nil {
					t.Fatal(err)
				}
				if key := fmt.Sprint(n); ids[key] {
					t.Errorf("id %d is handed out twice", n)
				} else {
					ids[key] = true
				}
			}
		}
		// finds reads all rows by their emails.
		finds := func(p *process) {
			t.Helper()
			db := p.db()
			for i := 1000; i < id; i++ {
				want(t, db, fmt.Sprintf("SELECT id FROM people WHERE email = 'moved%d@x'", i), "id", fmt.Sprint(i))
			}
			want(t, db, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		}
		write(a)
		a.settled(c)
		wantRoute(t, c, "SELECT id FROM people WHERE email = 'moved1001@x'", 1, "index:idx_email")

		b := a.beside()
		b.standsBy()
		write(a)
		if code := a.stop(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		b.takesOver()
		finds(b)
		b.createIndex(b.db(), "idx_email", "people (email)")
		write(b)
		finds(b)
		b.settled(b.db())

		a.standsBy()
		write(b)
		b.kill()
		a.takesOver()
		finds(a)
		write(a)
		finds(a)
		a.settled(a.db())
		finds(a)
		// Narrow again.
		eventually(t, "lookups are narrow again", func() bool {
			return len(routeOf(t, a.db(), "SELECT id FROM people WHERE email = 'moved1001@x'").shards) == 1
		})

		// B stood by nowhere, but A has served since.
		a.stop()
		b.run()
		finds(b)
		write(b)
		finds(b)
		b.stop()
		a.run()
		finds(a)
		write(a)
		if n := mustRows(t, a.db(), "SELECT COUNT(*) AS n FROM counted")[0]["n"]; n != fmt.Sprint(len(ids)) {
			t.Errorf("%s rows, %d ids", n, len(ids))
		}
		// By itself it is nobody's standby.
		a.stop()
		told := strings.Count(a.log.String(), "reads by them go to it")
		a.run()
		if n := strings.Count(a.log.String(), "reads by them go to it"); n != told {
			t.Error("it takes itself for another one")
		}
	})
}

// TestStandbyReload: at SIGHUP a standby takes all of the file over, also what a Shunt that serves needs a restart
// for. A file with errors changes nothing.
func TestStandbyReload(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		a, c := startPeople(t, f, 10, setup{extra: "drain_timeout: 1s"})
		a.settled(c)
		b := a.beside()
		b.standsBy()
		text, err := os.ReadFile(b.config)
		if err != nil {
			t.Fatal(err)
		}
		reload := func(text, told string) {
			t.Helper()
			before := strings.Count(b.log.String(), told)
			if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			b.signal(syscall.SIGHUP)
			eventually(t, told, func() bool { return strings.Count(b.log.String(), told) > before })
			b.isStandby()
		}
		reload(string(text)+"\nno_such_key: 1\n", "reload: nothing was changed")
		port := fmt.Sprint(a.servers[2].Port())
		reload(strings.NewReplacer("127.0.0.1:"+port, "localhost:"+port, "drain_timeout: 1s", "drain_timeout: 5m\nlog_level: warn").Replace(string(text)), "reload: beginning anew")
		a.stop()
		b.takesOver()
		want(t, b.db(), "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		if addr := mustRows(t, b.db(), "SHOW SHARDS")[2]["Addr"]; addr != "localhost:"+port {
			t.Errorf("the standby serves with %s", addr)
		}
		if strings.Contains(b.log.String(), "msg=ready") {
			t.Error("log_level is the one that it began with")
		}
		if suite.Size(true, false) {
			return
		}
		// As long a transaction as the new file allows; what bounds the stop by the old one would
		// end the process after 31 s.
		tx, err := b.db().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, tx, "UPDATE people SET age = 1000 WHERE id = 7")
		b.signal(syscall.SIGTERM)
		for began := time.Now(); time.Since(began) < 35*time.Second; time.Sleep(time.Second) {
			if !b.running() {
				t.Fatal("the stop has cut a transaction off")
			}
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if !b.wait(time.Minute) || b.cmd.ProcessState.ExitCode() != 0 {
			t.Error("it doesn't stop")
		}
	})
}

// TestLockLost: a lock's connection is ended. The Shunt that serves takes the lock again,
// its standby goes on waiting. A shard that somebody else holds isn't used; without any,
// Shunt ends.
func TestLockLost(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.servers(t)[:2]
		a, c := startPeople(t, f, 40, setup{servers: servers, unchecked: true})
		a.settled(c)
		b := a.beside()
		b.standsBy()
		at := make([]string, 2)
		for i := range at {
			at[i] = mustRows(t, a.shard(i), "SELECT id FROM people LIMIT 1")[0]["id"]
		}
		for i := range 2 {
			was := a.lockOf(i)
			mustExec(t, onShard(t, servers[i], ""), "KILL "+was)
			eventually(t, "the lock is taken again", func() bool {
				now := a.lockOf(i)
				return now != "" && now != was
			})
			want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		}
		b.isStandby()
		b.stop()

		// Somebody waits for the lock and gets it.
		steal := func(i int) {
			t.Helper()
			thief := connOf(t, onShard(t, servers[i], ""))
			got := make(chan error, 1)
			go func() {
				_, err := rowsOf(t.Context(), thief, "SELECT GET_LOCK('shunt-serves-"+a.schema+"', 60)")
				got <- err
			}()
			db := onShard(t, servers[i], "")
			eventually(t, "the lock is waited for", func() bool {
				return len(mustRows(t, db, "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT GET_LOCK%'")) > 0
			})
			mustExec(t, db, "KILL "+a.lockOf(i))
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
		steal(1)
		eventually(t, "the shard isn't used", func() bool {
			_, err := rowsOf(t.Context(), a.db(), "SELECT id FROM people WHERE id = "+at[1])
			return err != nil && strings.Contains(err.Error(), "another Shunt serves it: connection ")
		})
		want(t, a.db(), "SELECT id FROM people WHERE id = "+at[0], "id", at[0])
		if _, body, err := a.get("/readyz"); err != nil || !strings.Contains(body, "shard s1 is down: ") {
			t.Errorf("readyz: %v %s", err, body)
		}
		mustExec(t, onShard(t, servers[1], ""), "KILL "+a.lockOf(1))
		eventually(t, "the shard is used again", func() bool {
			_, err := rowsOf(t.Context(), a.db(), "SELECT id FROM people WHERE id = "+at[1])
			return err == nil
		})
		want(t, a.db(), "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")

		steal(0)
		steal(1)
		if !a.wait(20 * time.Second) {
			t.Fatal("it goes on without any shard")
		}
		if code := a.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(a.log.String(), "stopped serving: shard s") {
			t.Errorf("exit status %d\n%s", code, a.log.Tail(20))
		}
	})
}

// TestStandbyShardDown: a shard is down when the second Shunt starts. Whoever has the
// others serves, and takes that one when it is back.
func TestStandbyShardDown(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.servers(t)[:2]
		valves, addrs := make([]*throwaway.Valve, 2), make([]string, 2)
		for i := range valves {
			v := valveTo(t, servers[i])
			valves[i], addrs[i] = v, v.Addr()
		}
		a, c := startPeople(t, f, 40, setup{servers: servers, addrs: addrs, extra: "shard_timeout: 2s", unchecked: true})
		a.settled(c)
		// B has ways of its own to the servers.
		b := a.beside()
		text, err := os.ReadFile(b.config)
		if err != nil {
			t.Fatal(err)
		}
		ways := make([]*throwaway.Valve, 2)
		for i := range ways {
			ways[i] = valveTo(t, servers[i])
			text = []byte(strings.ReplaceAll(string(text), addrs[i], ways[i].Addr()))
		}
		if err := os.WriteFile(b.config, text, 0o600); err != nil {
			t.Fatal(err)
		}

		// A serves, B reaches only one of the shards: it waits.
		ways[0].Shut()
		b.standsBy()
		b.stop()

		// Both reach one: A has lost s0, B never had s1. B goes when it finds out.
		valves[0].Shut()
		eventually(t, "the server has ended the silent connection", func() bool { return a.lockOf(0) == "" })
		ways[0].Open()
		ways[1].Shut()
		b.run()
		mine := mustRows(t, a.shard(0), "SELECT id FROM people LIMIT 1")[0]["id"]
		eventually(t, "B reads from s0", func() bool {
			_, err := rowsOf(t.Context(), b.db(), "SELECT id FROM people WHERE id = "+mine)
			return err == nil
		})
		mustExec(t, b.db(), "UPDATE people SET email = 'moved@x' WHERE id = "+mine)
		ways[1].Open()
		if !b.wait(20 * time.Second) {
			t.Fatal("B goes on beside A")
		}
		if !strings.Contains(b.log.String(), "stopped serving: shard s1: another Shunt serves it") {
			t.Errorf("B doesn't say why it ended:\n%s", b.log.Tail(20))
		}
		valves[0].Open()
		eventually(t, "A has s0 again", func() bool {
			_, err := rowsOf(t.Context(), a.db(), "SELECT id FROM people WHERE id = "+mine)
			return err == nil
		})
		want(t, a.db(), "SELECT id FROM people WHERE email = 'moved@x'", "id", mine)
	})
}

// TestStandbyShardHangs: a shard hangs while a standby waits, and then the one that serves
// dies. The standby serves the others, and that shard when it goes on.
func TestStandbyShardHangs(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.servers(t)[:2]
		valve := valveTo(t, servers[1])
		a, c := startPeople(t, f, 20, setup{servers: servers, addrs: []string{servers[0].Addr(), valve.Addr()}, extra: "shard_timeout: 2s", unchecked: true})
		a.settled(c)
		b := a.beside()
		b.standsBy()
		mine := mustRows(t, a.shard(0), "SELECT id FROM people LIMIT 1")[0]["id"]
		valve.Shut()
		a.kill()
		eventually(t, "the standby serves the other shard", func() bool {
			_, err := rowsOf(t.Context(), b.db(), "SELECT id FROM people WHERE id = "+mine)
			return err == nil
		})
		valve.Open()
		eventually(t, "it serves both", func() bool {
			rows, err := rowsOf(t.Context(), b.db(), "SELECT id FROM people")
			return err == nil && len(rows) == 20
		})
	})
}

// TestStandbyDataDir: a standby whose data_dir can't be written says so, and serves as soon
// as it can be.
func TestStandbyDataDir(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		a, c := startPeople(t, f, 20, setup{servers: f.servers(t)[:2], unchecked: true})
		a.settled(c)
		b := a.beside()
		b.standsBy()
		inTheWay := filepath.Join(filepath.Dir(b.config), "data", "owner.json.new")
		if err := os.Mkdir(inTheWay, 0o700); err != nil {
			t.Fatal(err)
		}
		a.stop()
		eventually(t, "it says why it doesn't serve", func() bool {
			_, body, err := b.get("/readyz")
			return err == nil && strings.HasPrefix(body, "no shard can be used yet: shard s0") && strings.Contains(body, "owner.json")
		})
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		b.takesOver()
		want(t, b.db(), "SELECT id FROM people WHERE id = 7", "id", "7")
	})
}

// TestSideBySide: Shunts of different schemas have nothing to do with each other. Two
// stores that are copies of each other do.
func TestSideBySide(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.servers(t)[:2]
		a, _ := startPeople(t, f, 20, setup{servers: servers})
		b, _ := startPeople(t, f, 20, setup{servers: servers})
		for _, p := range []*process{a, b} {
			want(t, p.db(), "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
			if p.lockOf(0) == "" || p.lockOf(1) == "" {
				t.Error("no lock")
			}
		}
		// One that comes at SIGHUP is claimed too, unless another has it.
		a.reload("schemas:\n", "schemas:\n  "+b.schema+": {}\n")
		if !strings.Contains(a.log.String(), "another Shunt serves it: connection ") {
			t.Errorf("another one's schema is taken:\n%s", a.log.Tail(10))
		}
		a.reload("  "+b.schema+": {}\n", "  "+a.schema+"_more: {}\n")
		for i, srv := range servers {
			if got := mustRows(t, onShard(t, srv, ""), "SELECT IS_USED_LOCK('shunt-serves-"+a.schema+"_more') AS id")[0]["id"]; got != a.lockOf(i) {
				t.Errorf("the new schema's lock is held by %s", got)
			}
		}
		want(t, a.db(), "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		// A copy of the store is as of when it was made.
		a.settled(a.db())
		a.stop()
		copied := a.beside()
		if err := os.CopyFS(filepath.Join(filepath.Dir(copied.config), "data"), os.DirFS(filepath.Join(filepath.Dir(a.config), "data"))); err != nil {
			t.Fatal(err)
		}
		a.run()
		mustExec(t, a.db(), "INSERT INTO people (id, email) VALUES (501, 'later@x')")
		a.stop()
		copied.run()
		want(t, copied.db(), "SELECT id FROM people WHERE email = 'later@x'", "id", "501")
		copied.stop()

		// Another order of the shards has rows elsewhere.
		other := a.beside()
		text, err := os.ReadFile(other.config)
		if err != nil {
			t.Fatal(err)
		}
		swapped := strings.NewReplacer(servers[0].Addr(), servers[1].Addr(), servers[1].Addr(), servers[0].Addr()).Replace(string(text))
		if err := os.WriteFile(other.config, []byte(swapped), 0o600); err != nil {
			t.Fatal(err)
		}
		a.run()
		if out, code := shunt(t, "serve", "--config", other.config); code != 1 || !strings.Contains(out, "placed rows otherwise") {
			t.Errorf("another order of the shards: status %d\n%s", code, out)
		}
	})
}

// dataDir is where the process keeps its store.
func (p *process) dataDir() string { return filepath.Join(filepath.Dir(p.config), "data") }

// putBack overwrites the files of a process's data_dir with a backup's, as cp -a does: they
// stay the files that they were.
func (p *process) putBack(backup string, but ...string) {
	p.t.Helper()
	entries, err := os.ReadDir(backup)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains(but, e.Name()) {
			continue
		}
		if out, err := exec.Command("cp", "-a", filepath.Join(backup, e.Name()), p.dataDir()+"/").CombinedOutput(); err != nil {
			p.t.Fatalf("%v: %s", err, out)
		}
	}
}

// TestCopies: a data_dir that is set back is as of that moment, however its files came to be so,
// and is not taken for the original; nor is the original, however it ended, taken for a copy.
func TestCopies(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		a, _ := startPeople(t, f, 20, setup{servers: f.servers(t)[:2], unchecked: true})
		const (
			older  = "data_dir is older than the shard's record"
			behind = "a copy of data_dir has served the shard since"
			wide   = "reads by them go to it"
			torn   = "data_dir is a copy, made while Shunt served"
		)
		next := 501
		add := func() {
			t.Helper()
			for range 8 {
				mustExec(t, a.db(), fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'p%[1]d@x')", next))
				next++
			}
		}
		found := func(p *process) {
			t.Helper()
			for id := 501; id < next; id++ {
				want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", id), "id", strconv.Itoa(id))
			}
		}
		copied := func() string {
			t.Helper()
			dir := filepath.Join(t.TempDir(), "data")
			if out, err := exec.Command("cp", "-a", a.dataDir(), dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return dir
		}
		// serials are the last ones that the shards were told.
		serials := func() (all []string) {
			t.Helper()
			for _, srv := range a.servers {
				db := onShard(t, srv, "")
				// Other processes' lives are there, too.
				owner := mustRows(t, db, "SELECT TABLE_NAME AS t FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shunt_scratch' AND TABLE_NAME LIKE 'owner\\_"+lockKey(a.schema)+"\\_%'")[0]["t"]
				_, life, _ := strings.Cut(strings.TrimPrefix(owner, "owner_"), "_")
				all = append(all, mustRows(t, db, "SELECT MAX(serial) AS n FROM shunt_scratch.owner_serial_"+life)[0]["n"])
			}
			return all
		}
		// quiet waits until nothing is written to any more: the next write is the first again.
		quiet := func() {
			t.Helper()
			a.settled(a.db())
			eventually(t, "no write-intents are set", func() bool {
				n, ok := a.metric("shunt_store_write_intents")
				return ok && n == 0
			})
		}
		// begins starts it, and sees whether it says that it is a copy.
		begins := func(what string, said ...string) {
			t.Helper()
			before := len(a.log.String())
			a.run()
			text := a.log.String()[before:]
			for _, one := range []string{torn, older, behind, wide} {
				if strings.Contains(text, one) != slices.Contains(said, one) {
					t.Errorf("%s: that %q is said: %t, want %t:\n%s", what, one, strings.Contains(text, one), slices.Contains(said, one), a.log.Tail(20))
				}
			}
			found(a)
			a.settled(a.db())
			found(a)
		}
		snapshot := "identity" // a snapshot of the disk has the same file

		b := a.beside()
		quiet()
		if out, err := exec.Command("cp", "-a", a.dataDir()+"/.", b.dataDir()).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		add()
		b.standsBy()
		found(a)
		a.kill()
		b.takesOver()
		found(b)
		b.stop()
		begins("beside another one", behind, wide)

		a.stop()
		begins("stopped")
		add()
		a.kill()
		begins("killed")

		// Back in its place: at once, and behind a second.
		add()
		backup := copied()
		add()
		a.kill()
		a.putBack(backup)
		begins("put back", torn)
		add()
		backup = copied()
		told := serials()
		add()
		eventually(t, "the shards are told", func() bool {
			now := serials()
			return now[0] != told[0] && now[1] != told[1]
		})
		a.kill()
		a.putBack(backup, snapshot)
		begins("a snapshot that was written to and put back", older, wide)

		// At the first write it is told before the row is there.
		quiet()
		backup = copied()
		add()
		a.kill()
		a.putBack(backup, snapshot)
		begins("a snapshot of a quiet time", older, wide)

		// When it stops.
		add()
		backup = copied()
		add()
		a.stop()
		a.putBack(backup, snapshot)
		begins("a snapshot of before the stop", older, wide)

		a.stop()
		backup = copied()
		a.run()
		add()
		a.stop()
		a.putBack(backup)
		begins("a copy of a store at rest", behind, wide)
		a.stop()
		backup = copied()
		if err := os.RemoveAll(a.dataDir()); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(backup, a.dataDir()); err != nil {
			t.Fatal(err)
		}
		begins("a move")
	})
}

// lockKey stands for a schema's lock in names of tables.
func lockKey(schema string) string {
	sum := sha256.Sum256([]byte("shunt-serves-" + schema))
	return hex.EncodeToString(sum[:8])
}

// TestStandbyAtOnce: of two that start at the same moment one serves, each time.
func TestStandbyAtOnce(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		a := start(t, f, setup{servers: f.servers(t)[:3]})
		b := a.beside()
		a.stop()
		for range 5 {
			for _, p := range []*process{a, b} {
				if _, err := p.spawn(); err != nil {
					t.Fatal(err)
				}
			}
			serves := func(p *process) bool {
				status, _, err := p.get("/readyz")
				return err == nil && status == http.StatusOK
			}
			eventually(t, "one serves", func() bool { return serves(a) || serves(b) })
			first, second := a, b
			if serves(b) {
				first, second = b, a
			}
			second.isStandby()
			if !serves(first) {
				t.Error("the first doesn't serve any more")
			}
			for _, p := range []*process{second, first} {
				if code := p.stop(); code != 0 {
					t.Errorf("exit status %d", code)
				}
			}
		}
	})
}

// TestFrozen: the Shunt that serves stands still, so that the servers end what holds its
// locks. Another one takes over, and the first ends when it goes on.
func TestFrozen(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		a, c := startPeople(t, f, 20, setup{servers: f.servers(t)[:2], unchecked: true})
		a.settled(c)
		b := a.beside()
		b.standsBy()
		a.signal(syscall.SIGSTOP)
		eventually(t, "the standby serves", func() bool {
			status, _, err := b.get("/readyz")
			return err == nil && status == http.StatusOK
		})
		mustExec(t, b.db(), "UPDATE people SET email = 'moved@x' WHERE id = 3")
		a.signal(syscall.SIGCONT)
		if !a.wait(20 * time.Second) {
			t.Fatal("it goes on beside the other one")
		}
		if code := a.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(a.log.String(), "stopped serving: shard s") {
			t.Errorf("exit status %d\n%s", code, a.log.Tail(20))
		}
		a.standsBy()
		b.stop()
		a.takesOver()
		want(t, a.db(), "SELECT id FROM people WHERE email = 'moved@x'", "id", "3")
	})
}

// TestUnrecorded: where the shards' account may not write who serves, that is told, and
// all else is as it was. With the right, it is written at the next start.
func TestUnrecorded(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		grant := func(what, on string) {
			t.Helper()
			for _, s := range servers {
				mustExec(t, onShard(t, s, ""), "GRANT "+what+" ON "+on+" TO 'narrow'@'%'")
			}
		}
		for _, s := range servers {
			mustExec(t, onShard(t, s, ""), "CREATE USER 'narrow'@'%' IDENTIFIED BY 'pw'")
		}
		grant("ALL", "`e2e%`.*")
		process := "PROCESS, CONNECTION_ADMIN"
		if f.name == throwaway.MariaDB {
			process = "PROCESS, CONNECTION ADMIN"
		}
		grant(process, "*.*")
		p, c := startPeople(t, f, 20, setup{servers: servers, user: "narrow", password: "pw"})
		p.settled(c)
		told := func(what string, n int) {
			t.Helper()
			if got := strings.Count(p.log.String(), what); got != n {
				t.Errorf("%q is told %d times, want %d:\n%s", what, got, n, p.log.Tail(20))
			}
		}
		told("can't be written down", 2)
		p.stop()
		p.run()
		told("can't be written down", 4)
		grant("CREATE, CREATE TEMPORARY TABLES, DROP, INSERT, SELECT", "shunt_scratch.*")
		for range 2 {
			p.stop()
			p.run()
			told("can't be written down", 4)
			for _, s := range servers {
				if n := len(mustRows(t, onShard(t, s, ""), "SHOW TABLES FROM shunt_scratch LIKE 'owner%'")); n != 2 { // who, and up to when
					t.Errorf("%d tables, want 2", n)
				}
			}
		}
		told("reads by them go to it", 0)
		want(t, p.db(), "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
	})
}
