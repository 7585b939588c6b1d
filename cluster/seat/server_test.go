package seat

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// eachOwnServer runs a test with a server of its own of each kind.
func eachOwnServer(t *testing.T, args func(throwaway.Flavour) []string, run func(t *testing.T, srv *throwaway.Server)) {
	t.Parallel()
	for _, s := range servers {
		t.Run(string(s.flavour), func(t *testing.T) {
			t.Parallel()
			set, err := launch(t.Context(), s.flavour, args(s.flavour)...)
			if errors.Is(err, throwaway.ErrNotFound) {
				t.Skip(err)
			}
			check(t, err)
			t.Cleanup(set.Stop)
			run(t, set.Servers[0])
		})
	}
}

// fenced has a member's connections noted, which are in some state, and fences it.
func fenced(t *testing.T, s *Seat, conns ...*sql.Conn) (join uint64, threads []cluster.Thread) {
	t.Helper()
	join = must[uint64](t)(s.Join(t.Context(), cluster.Identity{ID: 1}, 0))
	for _, c := range conns {
		if _, here, err := s.Note(t.Context(), join, number(t, c)); err != nil || !here {
			t.Fatal(here, err)
		}
	}
	return join, must[[]cluster.Thread](t)(s.Threads(t.Context(), join))
}

func (s *Seat) gone(t *testing.T, threads []cluster.Thread) bool {
	t.Helper()
	return len(must[[]cluster.Thread](t)(s.Running(t.Context(), threads...))) == 0
}

// TestFence: once the threads of a fenced member are gone, nothing of it is committed any
// more: one that is idle, one in a transaction, one in a statement.
func TestFence(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, c Config, direct *sql.DB) {
		s := openSeat(t, c)
		rows := quote(c.Schema) + ".r"
		do(t, direct, "CREATE TABLE "+rows+" (a INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO "+rows+" VALUES (0)")
		idle, open, busy := link(t, direct), link(t, direct), link(t, direct)
		do(t, open, "BEGIN", "INSERT INTO "+rows+" VALUES (1)")
		join, threads := fenced(t, s, idle, open, busy)
		sent := make(chan error, 1)
		go func() {
			_, err := busy.ExecContext(context.WithoutCancel(t.Context()), "INSERT INTO "+rows+" SELECT 2 + SLEEP(600)")
			sent <- err
		}()
		until(t, "the statement runs", func() bool {
			return ask[int](t, direct, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(600)' AND ID <> CONNECTION_ID()") > 0
		})
		must[bool](t)(s.SetFenced(t.Context(), join))
		check(t, s.Kill(t.Context(), threads...))
		until(t, "the threads are gone", func() bool { return s.gone(t, threads) })
		// What a statement that sleeps does when it is ended is the server's affair.
		then := ask[string](t, direct, "SELECT GROUP_CONCAT(a ORDER BY a) FROM "+rows)
		check(t, s.Remove(t.Context(), join))
		if <-sent == nil {
			t.Error("the statement was answered")
		}
		for _, conn := range []*sql.Conn{idle, open} {
			if _, err := conn.ExecContext(t.Context(), "COMMIT"); err == nil {
				t.Error("a connection is in use")
			}
		}
		if now := ask[string](t, direct, "SELECT GROUP_CONCAT(a ORDER BY a) FROM "+rows); now != then || now != "0" && now != "0,3" {
			t.Errorf("rows %s when the threads were gone, %s later", then, now)
		}
	})
}

// TestBytes: while somebody's statement holds bytes that are no text, threads are noted, ended
// and seen to be gone.
func TestBytes(t *testing.T) {
	eachOwnServer(t, func(throwaway.Flavour) []string { return nil }, func(t *testing.T, srv *throwaway.Server) {
		c := configOf(srv)
		direct := plain(t, c)
		busy := link(t, direct)
		of := number(t, busy)
		var sent sync.WaitGroup
		sent.Go(func() { // until it is killed
			_, _ = busy.ExecContext(context.WithoutCancel(t.Context()), "DO _binary'\xAA\x1C\xE9\x02', GET_LOCK('busy', 0), SLEEP(600)")
		})
		t.Cleanup(func() {
			_, err := direct.ExecContext(context.WithoutCancel(t.Context()), "KILL "+strconv.Itoa(int(of)))
			check(t, err)
			sent.Wait()
		})
		until(t, "the statement runs", func() bool { return ask[int](t, direct, "SELECT COALESCE(IS_USED_LOCK('busy'), 0)") == int(of) })
		s := openSeat(t, c)
		join, threads := fenced(t, s, link(t, direct))
		must[bool](t)(s.SetFenced(t.Context(), join))
		check(t, s.Kill(t.Context(), threads...))
		until(t, "the thread is gone", func() bool { return s.gone(t, threads) })
		check(t, s.Remove(t.Context(), join))
	})
}

// TestFenceOfACommit: a COMMIT that waits for a replica may ignore KILL. As long as it may
// come yet, its thread isn't gone.
func TestFenceOfACommit(t *testing.T) {
	eachOwnServer(t, throwaway.ReplicationArgs, func(t *testing.T, srv *throwaway.Server) {
		c := configOf(srv)
		s, direct := openSeat(t, c), plain(t, c)
		rows := quote(c.Schema) + ".r"
		do(t, direct, "CREATE TABLE "+rows+" (a INT PRIMARY KEY) ENGINE=InnoDB")
		committing := link(t, direct)
		join, threads := fenced(t, s, committing)
		must[bool](t)(s.SetFenced(t.Context(), join))
		prefix := "rpl_semi_sync_master_"
		if ask[string](t, direct, "SELECT VERSION()")[0] != '1' {
			do(t, direct, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
			prefix = "rpl_semi_sync_source_"
		} else {
			do(t, direct, "SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1")
		}
		do(t, committing, "BEGIN", "INSERT INTO "+rows+" VALUES (1)")
		do(t, direct, "SET GLOBAL "+prefix+"timeout = 3600000", "SET GLOBAL "+prefix+"enabled = 1")
		sent := make(chan error, 1)
		go func() {
			_, err := committing.ExecContext(context.WithoutCancel(t.Context()), "COMMIT")
			sent <- err
		}()
		until(t, "the commit waits", func() bool {
			return ask[int](t, direct, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND STATE LIKE '%emi-sync%'", threads[0].ID) > 0
		})
		check(t, s.Kill(t.Context(), threads...))
		ignored := !s.gone(t, threads)
		t.Logf("KILL was ignored: %v", ignored)
		do(t, direct, "SET GLOBAL "+prefix+"enabled = 0")
		until(t, "the thread is gone", func() bool { return s.gone(t, threads) })
		then := ask[int](t, direct, "SELECT COUNT(*) FROM "+rows)
		<-sent
		if now := ask[int](t, direct, "SELECT COUNT(*) FROM "+rows); now != then {
			t.Errorf("%d rows when the thread was gone, %d later", then, now)
		}
	})
}

// TestRestart: epochs and rows outlive the server's process. A thread's number is another
// client's then, who is left alone.
func TestRestart(t *testing.T) {
	eachOwnServer(t, func(throwaway.Flavour) []string { return nil }, func(t *testing.T, srv *throwaway.Server) {
		c := configOf(srv)
		s := openSeat(t, c)
		direct := plain(t, c)
		join, threads := fenced(t, s, link(t, direct))
		var e storage.Epoch
		for range 10 {
			e = must[storage.Epoch](t)(s.Advance(t.Context()))
		}
		check(t, s.Tell(t.Context(), join, cluster.Told{Epoch: 5}))
		srv.Kill()
		check(t, srv.Start(t.Context()))
		s = openSeat(t, c)
		if b := must[cluster.Beat](t)(s.Beat(t.Context(), join)); b.Epoch != e || !b.Here {
			t.Errorf("after a restart: %+v, want %d", b, e)
		}
		if l := must[storage.Epoch](t)(s.Least(t.Context())); l != 5 {
			t.Errorf("the least is %d", l)
		}
		direct = plain(t, c)
		var heir *sql.Conn
		for id := uint32(0); uint64(id) != threads[0].ID; id = number(t, heir) {
			if heir = link(t, direct); uint64(number(t, heir)) > threads[0].ID {
				t.Skipf("number %d was passed over", threads[0].ID)
			}
		}
		if !s.gone(t, threads) {
			t.Error("another client's thread is taken for the fenced member's")
		}
		check(t, s.Kill(t.Context(), threads...))
		if got := number(t, heir); uint64(got) != threads[0].ID {
			t.Errorf("number %d", got)
		}
	})
}

// TestNoAnswer: a server that hangs is an error, and serves again.
func TestNoAnswer(t *testing.T) {
	eachOwnServer(t, func(throwaway.Flavour) []string { return nil }, func(t *testing.T, srv *throwaway.Server) {
		c := configOf(srv)
		c.Answer, c.Dial = time.Second, time.Second
		s := openSeat(t, c)
		join := must[uint64](t)(s.Join(t.Context(), cluster.Identity{ID: 1}, 0))
		srv.Pause()
		if _, err := s.Beat(t.Context(), join); err == nil {
			t.Error("answered")
		}
		srv.Resume()
		until(t, "it answers", func() bool {
			b, err := s.Beat(t.Context(), join)
			return err == nil && b.Here
		})
	})
}

// TestQuiet: a member that stands still is quiet, one that is gone isn't linked any more, and one
// whose connection breaks is so again by the next heartbeat.
func TestQuiet(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, c Config, direct *sql.DB) {
		s, watch := openSeat(t, c), openSeat(t, c)
		join := must[uint64](t)(s.Join(t.Context(), cluster.Identity{ID: 1}, 0))
		linked := func() bool {
			_, rows, err := watch.Rows(t.Context())
			check(t, err)
			return rows[0].Linked
		}
		until(t, "it is quiet", func() bool {
			return must[map[uint64]time.Duration](t)(watch.Quiet(t.Context()))[join] >= time.Second
		})
		must[cluster.Beat](t)(s.Beat(t.Context(), join))
		if q := must[map[uint64]time.Duration](t)(watch.Quiet(t.Context()))[join]; q >= time.Second || !linked() {
			t.Errorf("it has just beaten, and is quiet for %v", q)
		}
		do(t, direct, "KILL "+strconv.Itoa(ask[int](t, direct, "SELECT IS_USED_LOCK(CONCAT('"+linkLock+"', ?))", join)))
		until(t, "it beats again", func() bool { // it may meet what is left of the broken one
			_, err := s.Beat(t.Context(), join)
			return err == nil && linked()
		})
		check(t, s.Close())
		until(t, "it is gone", func() bool { return !linked() })
		if q := must[map[uint64]time.Duration](t)(watch.Quiet(t.Context())); len(q) != 0 {
			t.Errorf("gone, and quiet for %v", q)
		}
	})
}

// TestWhichServer: tables of another cluster, shard, version or server aren't used.
func TestWhichServer(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, c Config, direct *sql.DB) {
		s := openSeat(t, c)
		opens := func(change func(*Config), want error) {
			t.Helper()
			other := c
			change(&other)
			x, err := Open(t.Context(), other)
			if !errors.Is(err, want) {
				t.Errorf("%+v: %v, want %v", other, err, want)
			}
			if err == nil {
				x.Close()
			}
		}
		opens(func(*Config) {}, nil)
		opens(func(c *Config) { c.Cluster = "d" }, ErrOtherShard)
		opens(func(c *Config) { c.Shard = "s1" }, ErrOtherShard)
		do(t, direct, "UPDATE "+quote(c.Schema)+".self SET format = 99") // a newer version has added something
		opens(func(*Config) {}, nil)
		do(t, direct, "UPDATE "+quote(c.Schema)+".self SET needs = 98")
		opens(func(*Config) {}, storage.ErrFormat)
		do(t, direct, "UPDATE "+quote(c.Schema)+".self SET format = 0, needs = 0") // interrupted
		opens(func(*Config) {}, nil)
		join, _ := fenced(t, s)
		for range 5 {
			must[storage.Epoch](t)(s.Advance(t.Context()))
		}
		do(t, direct, "UPDATE "+quote(c.Schema)+".self SET server = 'the one before'")
		opens(func(*Config) {}, ErrOtherServer)
		s.db.SetMaxIdleConns(0) // a new connection is made
		if _, err := s.Least(t.Context()); !errors.Is(err, ErrOtherServer) {
			t.Error(err)
		}
		whatever := must[*Seat](t)(OpenAny(t.Context(), c))
		defer whatever.Close()
		if life := must[uint64](t)(whatever.Life(t.Context())); life != 1 {
			t.Errorf("life %d", life)
		}
		if err := Renew(t.Context(), c, 1, 77); !errors.Is(err, ErrOtherServer) {
			t.Errorf("a life that another server has had: %v", err)
		}
		renewed := func(life uint64, above storage.Epoch, want cluster.Beat) {
			t.Helper()
			check(t, Renew(t.Context(), c, life, above))
			if b := must[cluster.Beat](t)(s.Beat(t.Context(), join)); b != want {
				t.Errorf("%+v, want %+v", b, want)
			}
		}
		renewed(2, 77, cluster.Beat{Epoch: 78, Life: 2})
		opens(func(*Config) {}, nil)
		renewed(4, 3, cluster.Beat{Epoch: 79, Life: 4})
		join = must[uint64](t)(s.Join(t.Context(), cluster.Identity{ID: 7}, 1))
		renewed(4, 90, cluster.Beat{Epoch: 79, Life: 4, Here: true}) // it is done already
	})
}

// TestBlind: without the right to see others' threads, none of these is taken for gone.
func TestBlind(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, c Config, direct *sql.DB) {
		s := openSeat(t, c)
		_, threads := fenced(t, s, link(t, direct))
		user := c.Schema
		do(t, direct, "CREATE USER "+user+" IDENTIFIED BY 'p'", "GRANT ALL ON "+quote(c.Schema)+".* TO "+user)
		poor := c
		poor.User, poor.Password = user, "p"
		p := openSeat(t, poor)
		if _, err := p.Running(t.Context(), threads...); !errors.Is(err, ErrBlind) {
			t.Error(err)
		}
		if err := p.Kill(t.Context(), threads...); !errors.Is(err, ErrBlind) {
			t.Error(err)
		}
		_, own := fenced(t, p, link(t, plain(t, poor)))
		if p.gone(t, own) {
			t.Error("its own user's is gone")
		}
		do(t, direct, "GRANT PROCESS ON *.* TO "+user)
		rich := openSeat(t, poor)
		if rich.gone(t, threads) {
			t.Error("taken for gone")
		}
		if err := rich.Kill(t.Context(), threads...); err == nil {
			t.Error("it mustn't end another user's threads, and doesn't say so")
		}
	})
}

// TestMembers: two members run over a server; one dies, with a transaction open.
func TestMembers(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, c Config, direct *sql.DB) {
		board := &clustertest.Board{}
		member := func(id uint64) *cluster.Shared {
			return cluster.NewShared(cluster.Options{
				Seats: map[catalog.ShardID]cluster.Seat{0: openSeat(t, c)}, Board: board, Identity: cluster.Identity{ID: id},
				Every: 1, Patience: 1, Logger: slog.New(slog.DiscardHandler),
			})
		}
		one, two := member(1), member(2)
		check(t, two.Beat(t.Context(), 0))
		dead := link(t, direct)
		thread := number(t, dead)
		r := two.Register(0)
		if join, err := two.NoteThread(t.Context(), 0, storage.Thread{ID: thread}); err != nil || join != r.Join {
			t.Fatal(join, err)
		}
		check(t, two.TakeTurn(t.Context()))
		do(t, dead, "BEGIN")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			one.Run(ctx)
			close(done)
		}()
		until(t, "joined", func() bool { return one.Epoch(0) > 0 })
		e := must[storage.Epoch](t)(one.Advance(ctx, 0))
		check(t, one.Wait(ctx, 0, e))
		if listed(t, direct, thread) {
			t.Error("waited for, and it is there")
		}
		check(t, one.TakeTurn(ctx))
		one.GiveTurn()
		stop()
		<-done
		check(t, one.Quit(t.Context()))
	})
}

// TestHeartbeats: what 20 members of one shard send while nothing changes (cluster's TestCalm has how
// often). Of 64 shards each has as much.
func TestHeartbeats(t *testing.T) {
	eachOwnServer(t, func(throwaway.Flavour) []string { return nil }, func(t *testing.T, srv *throwaway.Server) {
		const count = 20
		c := configOf(srv)
		board := &clustertest.Board{}
		members := make([]*cluster.Shared, count)
		for i := range members {
			members[i] = cluster.NewShared(cluster.Options{
				Seats: map[catalog.ShardID]cluster.Seat{0: openSeat(t, c)}, Board: board, Identity: cluster.Identity{ID: uint64(i + 1)},
				Logger: slog.New(slog.DiscardHandler),
			})
			check(t, members[i].Beat(t.Context(), 0))
		}
		direct := plain(t, c)
		status := func(names string) (sum int) {
			rows := must[*sql.Rows](t)(direct.QueryContext(t.Context(), "SHOW GLOBAL STATUS WHERE Variable_name IN ("+names+")"))
			defer rows.Close()
			for rows.Next() {
				var n int
				check(t, rows.Scan(new(string), &n))
				sum += n
			}
			check(t, rows.Err())
			return sum
		}
		for range 3 { // all know of all
			for _, m := range members {
				check(t, errors.Join(m.Beat(t.Context(), 0), m.Sweep(t.Context(), 0)))
			}
		}
		const writes, all = "'Com_insert', 'Com_update', 'Com_delete', 'Com_commit'", "'Questions'"
		changed, asked := status(writes), status(all)
		// What each does in a second.
		const seconds = 10
		turn := func() (used float64) {
			before := must[time.Duration](t)(srv.ProcessorTime())
			for n := range seconds {
				for i, m := range members {
					check(t, m.Beat(t.Context(), 0))
					if (n+i)%4 == 0 {
						check(t, m.Sweep(t.Context(), 0))
					}
				}
			}
			return 100 * (must[time.Duration](t)(srv.ProcessorTime()) - before).Seconds() / seconds
		}
		used := turn()
		if n := status(writes) - changed; n > 0 {
			t.Errorf("%d statements write though nothing changes", n)
		}
		if n := status(all) - asked; n > seconds*count*3/2+20 {
			t.Errorf("%d statements of %d members in %d s", n, count, seconds)
		}
		if os.Getenv("SHUNT_HEARTBEATS") == "" {
			return // who else uses the caches adds to what it costs
		}
		for range 10 {
			used = min(used, turn())
		}
		if t.Logf("%.2f %% of a processor", used); used > 0.5 {
			t.Error("that is too much")
		}
	})
}
