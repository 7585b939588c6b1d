package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissFollowed is TestNeverMiss where shards' binary logs are followed: one has images of rows that
// lack columns, one compressed transactions, one no names of columns.
func TestNeverMissFollowed(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4, f.binlogs()...)
		mustExec(t, onShard(t, servers[0], ""), "SET GLOBAL binlog_row_image = 'MINIMAL'")
		mustExec(t, onShard(t, servers[1], ""), f.compressed("ON"))
		mustExec(t, onShard(t, servers[2], ""), "SET GLOBAL binlog_row_metadata = 'MINIMAL'")
		neverMiss(t, f, servers, "{follow: binlog, "+contestMaintenance[1:])
	})
}

// compressed switches the compression of what a server writes to its log.
func (f *flavour) compressed(on string) string {
	if f.name == throwaway.MariaDB {
		return "SET GLOBAL log_bin_compress = " + on + ", GLOBAL log_bin_compress_min_len = 10"
	}
	return "SET GLOBAL binlog_transaction_compression = " + on
}

// TestNeverMissFollowedOutages is TestNeverMissOutages where logs are followed, and more happens to these: a log is
// purged while Shunt is away, a shard fails over to a replica that lacks its last second, sessions and servers switch the
// images of rows, the format and the compression at random, and the table is altered. Neither audits nor
// reconciliations mend what is missed.
func TestNeverMissFollowedOutages(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		duration := contestTime(t, time.Minute, 30*time.Second)
		seed := uint64(envInt(t, "SHUNT_E2E_SEED", int(time.Now().UnixNano())))
		t.Logf("seed %d, %s", seed, duration)
		six := f.own(t, 6, append(f.binlogs(), "--relay-log=relay")...)
		servers, replicas := six[:3:3], six[3:]
		for k, s := range servers {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER 'nm'@'%' IDENTIFIED BY 'pw'")
			mustExec(t, db, "GRANT ALL ON *.* TO 'nm'@'%'")
			for _, sql := range replicas[k].Replicates(s) {
				mustExec(t, onShard(t, replicas[k], ""), sql)
			}
		}
		n := &contest{t: t, account: "nm", outages: true, tolerated: []uint16{
			1429, 1430, 1180, 1040, 1053, 1077, 1079, 1927, // see TestNeverMissOutages
			1146, 1412, 1932, 1033, // see TestNeverMissDDL
		}}
		l := &logFaults{
			outageMaker: &outageMaker{contest: n, rnd: rand.New(rand.NewPCG(seed, 6000))}, flavour: f, began: time.Now(), duration: duration,
			hand: &hand{hands: &hands{contest: n, replicas: replicas}},
		}
		addrs := make([]string, len(servers))
		for k, s := range servers {
			l.valves = append(l.valves, valveTo(t, s))
			addrs[k] = l.valves[k].Addr()
		}
		n.p = start(t, f, setup{
			servers: servers, addrs: addrs, user: "nm", password: "pw", extra: "shard_timeout: 2s",
			tables:      []string{"people: {shard_key: tenant}", "people2: {shard_key: tenant}", "templates: {shard_key: tenant}"},
			maintenance: "{follow: binlog, delay: 50ms, scan_duty: 0.5, workers: 2, audit: 0}",
		})
		n.prepare()
		for k, s := range servers { // who looks at a shard finds the one in use
			l.hand.around = append(l.hand.around, valveTo(t, s))
			n.shards[k] = open(t, l.hand.around[k].Addr(), s.User, s.Password, "")
		}
		n.ended = func() {
			for k := range servers {
				n.endedOn(k, l.valves[k])
			}
		}
		c := &changer{contest: n, rnd: rand.New(rand.NewPCG(seed, 5000))}
		if f.name == throwaway.MariaDB {
			c.algorithm = ", ALGORITHM=COPY" // see TestNeverMissDDL
		}
		switches := rand.New(rand.NewPCG(seed, 7000))
		n.run(seed, duration, time.Second, l.disturb, func(ctx context.Context) {
			for ctx.Err() == nil {
				l.alter.Lock()
				c.change()
				l.alter.Unlock()
				time.Sleep(time.Duration(c.rnd.IntN(3000)) * time.Millisecond)
			}
		}, func(ctx context.Context) {
			for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				l.switchSession(ctx, switches)
			}
		})
		t.Logf("%d reads, %d writes, %d transactions, %d kills, %d changes, %d switches, outages %v",
			n.reads.Load(), n.writes.Load(), n.transactions.Load(), n.kills.Load(), c.done, l.switched, l.done)
		n.allServe()
		for name := range onPeople {
			n.p.waitIndex(n.db, name)
		}
		quiet := time.Now()
		n.verify()
		t.Logf("exact %s after the last write", time.Since(quiet).Round(100*time.Millisecond))
	})
}

// logFaults does to shards what their logs don't survive, or are written otherwise behind.
type logFaults struct {
	*outageMaker
	*flavour
	hand     *hand
	began    time.Time
	duration time.Duration
	// alter is held while the table or an index is altered.
	alter    sync.Mutex
	over     int // shards that have failed over
	switched int
}

func (l *logFaults) disturb() {
	shards := len(l.p.servers)
	if l.over < shards && time.Since(l.began) > l.duration*time.Duration(l.over+1)/time.Duration(shards+1) {
		l.failOver(l.over)
		l.over++
		return
	}
	switch l.rnd.IntN(4) {
	case 0:
		l.purge()
	case 1:
		l.switchServer()
	default:
		l.outageMaker.disturb()
	}
}

// failOver has a shard's server die, in the midst of the load, and its replica take over that lacks its last second.
func (l *logFaults) failOver(k int) {
	l.alter.Lock() // what one shard forgets of a change of all is for people to mend
	defer l.alter.Unlock()
	l.hand.caughtUp(k)
	l.hand.onReplica(k, "STOP REPLICA")
	time.Sleep(time.Second)
	l.forgotten.Store(true)
	l.p.servers[k].Kill()
	l.hand.onReplica(k, "RESET REPLICA ALL")
	replica := l.hand.replicas[k]
	l.p.servers[k] = replica
	l.hand.around[k].Lead(replica.Addr())
	l.hand.around[k].Cut()
	lost := l.relearn(k, func() {
		l.valves[k].Lead(replica.Addr())
		l.valves[k].Cut()
	})
	l.done = append(l.done, fmt.Sprintf("s%d failed over, and lost %d rows", k, lost))
}

// purge removes the log of some shards while Shunt is away, or has it begin anew where no replica reads it.
func (l *logFaults) purge() {
	what := "purged:"
	l.killed(func() {
		for k := range l.p.servers {
			if l.rnd.IntN(2) == 0 {
				continue
			}
			what += fmt.Sprintf(" s%d", k)
			if k >= l.over {
				l.hand.caughtUp(k)
			} else if l.rnd.IntN(2) == 0 {
				mustExec(l.t, l.shards[k], resetLogs(l.name))
				what += " (begun anew)"
				continue
			}
			status := "SHOW BINARY LOG STATUS"
			if l.name == throwaway.MariaDB {
				status = "SHOW MASTER STATUS"
			}
			mustExec(l.t, l.shards[k], "FLUSH BINARY LOGS")
			mustExec(l.t, l.shards[k], "PURGE BINARY LOGS TO '"+mustRows(l.t, l.shards[k], status)[0]["File"]+"'")
		}
	})
	l.done = append(l.done, what)
}

// switchServer switches what new sessions of a shard write to its log.
func (l *logFaults) switchServer() {
	k := l.rnd.IntN(len(l.p.servers))
	settings := []string{
		"SET GLOBAL binlog_row_image = 'MINIMAL'", "SET GLOBAL binlog_row_image = 'NOBLOB'", "SET GLOBAL binlog_row_image = 'FULL'",
		"SET GLOBAL binlog_row_metadata = 'MINIMAL'", "SET GLOBAL binlog_row_metadata = 'FULL'",
		"SET GLOBAL binlog_format = 'STATEMENT'", "SET GLOBAL binlog_format = 'MIXED'", "SET GLOBAL binlog_format = 'ROW'",
		l.compressed("ON"), l.compressed("OFF"),
	}
	set := settings[l.rnd.IntN(len(settings))]
	mustExec(l.t, l.shards[k], set)
	if l.rnd.IntN(2) == 0 {
		l.valves[k].Cut()
		l.ended()
	}
	l.done = append(l.done, fmt.Sprintf("s%d: %s", k, set))
}

// switchSession switches what a client's session writes to the shards' logs.
func (l *logFaults) switchSession(ctx context.Context, rnd *rand.Rand) {
	settings := []string{"binlog_row_image = 'MINIMAL'", "binlog_row_image = 'NOBLOB'", "binlog_row_image = 'FULL'", "binlog_format = 'STATEMENT'", "binlog_format = 'ROW'"}
	if l.name == throwaway.MySQL {
		settings = append(settings, "binlog_transaction_compression = ON", "binlog_transaction_compression = OFF")
	}
	by := l.pick(rnd)
	set := "SET SESSION " + settings[rnd.IntN(len(settings))]
	if _, err := by.db.ExecContext(ctx, set); err != nil {
		l.readFailed(ctx, by, set, err)
		return
	}
	l.switched++
}
