package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// claim is what a Shunt holds, or is to hold, of one shard.
type claim struct {
	of   *claims
	name string
	id   catalog.ShardID
	dial shard.Config
	// conn has the locks; nil while nobody has. Before the shard's health is judged it
	// is claims.take's, then Health's.
	conn *shard.Conn
	// locks are what conn has, or is to have.
	locks *[]string
	// mine are the connections of this life that may have the locks, by number.
	mine map[uint32]ownConn
	// failed is why claims.take has no connection, and dialAgain when it tries anew.
	failed    error
	dialAgain time.Time
	// writeAgain is when a record that could not be written is tried again; zero where it
	// is written.
	writeAgain time.Time
	// teller tells the shard up to when it is served.
	teller *teller
	// lockless: the server knows no such locks. It is told once.
	lockless bool
	// met is since when take has met another's lock at each attempt.
	met time.Time
}

// ownConn is a connection of ours.
type ownConn struct {
	opened time.Time
	port   string
}

// holder is who has a lock: a connection, as its server tells of it.
type holder struct {
	shard, thread, account, host string
	listed                       bool
}

func (h *holder) Error() string {
	return fmt.Sprintf("another Shunt serves it: connection %s of %s from %s", h.thread, h.account, h.host)
}

// usedBy asks which other connection has a lock.
const usedBy = "NULLIF(IS_USED_LOCK('%s'), CONNECTION_ID())"

// within calls fn, that asks the shard, with a bound: one that hangs is as one that is down,
// and must not keep a standby from the others. more is what fn may take besides.
func (s *claim) within(ctx context.Context, more time.Duration, fn func(context.Context) error) error {
	limit := s.dial.ConnectTimeout + more
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := fn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %v", limit)
	}
	return err
}

// forget forgets all connections but one.
func (s *claim) forget(but uint32) {
	for thread := range s.mine {
		if thread != but {
			_ = s.of.store.ForgetThread(s.id, thread)
			delete(s.mine, thread)
		}
	}
}

func (s *claim) lose(err error) {
	s.failed = err
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// look says who has a lock of the shard, nil for nobody. It connects if need be.
func (s *claim) look(ctx context.Context) (*holder, error) {
	if s.conn == nil {
		began := time.Now()
		if began.Before(s.dialAgain) {
			return nil, s.failed
		}
		conn, err := shard.Dial(ctx, s.dial, false)
		// A frozen server would count each attempt that was given up, and block the host.
		s.dialAgain = time.Now().Add(time.Second + 2*time.Since(began))
		if err != nil {
			return nil, err
		}
		s.conn = conn
		if err := s.prepare(ctx, conn); err != nil {
			return nil, err
		}
		// Told now rather than when it is to take over.
		if err := s.of.records.fits(ctx, s.name, conn); err != nil {
			return nil, err
		}
	}
	return s.held(ctx, s.conn)
}

// prepare readies a connection for the locks. The next life ends it by its number, and
// the server when it has fallen silent.
func (s *claim) prepare(ctx context.Context, conn *shard.Conn) error {
	_, port, _ := net.SplitHostPort(conn.LocalAddr.String())
	s.mine[conn.ThreadID] = ownConn{time.Now(), port}
	_ = s.of.store.NoteThread(s.id, threadOf(conn))
	// The last one needs a right, and replicas have no use for records.
	_, err := conn.ExecAll(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", int(s.of.lease/time.Second)), "SET SESSION lock_wait_timeout = 3", "SET SESSION sql_log_bin = 0")
	return err
}

// ofEach makes one SELECT of a function of each lock's name.
func ofEach(locks []string, form string) string {
	var b strings.Builder
	for i, l := range locks {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, form, l)
	}
	return "SELECT " + b.String()
}

// held says who has a lock, nil for nobody. A connection that an earlier life has left is
// ended.
func (s *claim) held(ctx context.Context, conn *shard.Conn) (*holder, error) {
	var began time.Time
	for answers := 1; ; answers++ {
		res, err := conn.Query(ctx, ofEach(*s.locks, usedBy))
		if s.hasNoLocks(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var other string
		for _, cell := range res.Rows[0] {
			if cell != nil {
				other = string(cell)
			}
		}
		if other == "" {
			return nil, nil
		}
		if began.IsZero() {
			began = time.Now()
		}
		h, err := s.holder(ctx, conn, other)
		if err != nil {
			return nil, err
		}
		ours, err := s.leftover(ctx, conn, h)
		if err != nil {
			return nil, err
		}
		// MariaDB lists a connection no more as soon as it ends, some time before it gives up
		// its locks. Counter-example: the other Shunt has died while the network held
		// everything back; whose lock there still was for a moment ended this one. An answer
		// that was held back itself tells nothing of how long that has lasted.
		if !ours && h.listed || answers >= leftoverAnswers && time.Since(began) > leftoverTime {
			return h, nil
		}
		if ours {
			if _, err := conn.Exec(ctx, "KILL "+other); err != nil && conn.Broken {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// locklessCodes are the errors of servers and middle boxes that know no locks by name: some
// clusters refuse what they don't replicate.
var locklessCodes = []uint16{mysqlerr.ParseError, mysqlerr.UnknownError, mysqlerr.TableAccessDenied, mysqlerr.SpecificAccessDenied, mysqlerr.NotSupportedYet, mysqlerr.SPDoesNotExist, mysqlerr.ProcAccessDenied}

// hasNoLocks reports that a server has no locks by name: it is gone on without.
func (s *claim) hasNoLocks(err error) bool {
	refused, ok := errors.AsType[*shard.ServerError](err)
	if !ok || !slices.Contains(locklessCodes, refused.Code) {
		return false
	}
	if !s.lockless {
		s.lockless = true
		s.of.log.Warn("the server takes no locks by name: a second Shunt before the same shards would not be noticed", "shard", s.name, "error", err)
	}
	return true
}

// leftover reports that a lock is a connection's of an earlier life of this store, or of
// an earlier one of this life: the server has not seen yet that it is closed, as when
// the network was cut or the host has died. A server that has been restarted since gives
// the number to somebody else.
func (s *claim) leftover(ctx context.Context, conn *shard.Conn, h *holder) (bool, error) {
	thread, err := strconv.ParseUint(h.thread, 10, 32)
	if err != nil {
		return false, nil //nolint:nilerr // no number of ours
	}
	one, ours := s.mine[uint32(thread)]
	if _, port, err := net.SplitHostPort(h.host); ours && err == nil && port == one.port {
		return true, nil
	}
	for _, old := range s.of.store.OldThreads(s.id) {
		if uint64(old.ID) == thread {
			one, ours = ownConn{opened: old.Opened}, true
		}
	}
	if !ours {
		return false, nil
	}
	age := time.Since(one.opened) // first: the server may take its time
	up, known := indexer.ServerUptime(ctx, maintenanceConn{conn})
	if conn.Broken {
		return false, errors.New("the connection was lost while its server was asked how long it has run")
	}
	// Numbers grow: one over this connection's is of before the server's start. A number of a
	// connection that was opened within UptimeError before that start counts as ours, though it
	// may be another Shunt's by now: that one takes its locks again, and the records tell both.
	// Counter-example without: Shunt came back with its server, through a proxy, and ended when
	// the proxy cut it.
	return known && 0 <= age && age <= up+indexer.UptimeError && thread < uint64(conn.ThreadID), nil
}

func (s *claim) holder(ctx context.Context, conn *shard.Conn, thread string) (*holder, error) {
	h := &holder{shard: s.name, thread: thread, account: "an unknown account", host: "an unknown host"}
	list, err := conn.Processes(ctx, false)
	if err != nil && conn.Broken {
		return nil, err
	}
	for _, x := range list {
		if fmt.Sprint(x.ID) == thread {
			h.account, h.host, h.listed = x.User, x.Host, true
		}
	}
	return h, nil
}

// lock takes all locks of the shard, or none: other is who has one.
func (s *claim) lock(ctx context.Context, conn *shard.Conn) (other *holder, err error) {
	for range 5 { // who had one may just have ended
		res, err := conn.Query(ctx, ofEach(*s.locks, "GET_LOCK('%s', 0)"))
		if s.hasNoLocks(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(res.Rows[0], func(cell []byte) bool { return string(cell) != "1" }) {
			return nil, nil
		}
		other, err = s.held(ctx, conn)
		s.release(ctx, conn)
		if err != nil || other != nil {
			return other, err
		}
	}
	return nil, errors.New("its locks change hands")
}

func (s *claim) release(ctx context.Context, conn *shard.Conn) {
	if !s.lockless {
		_, _ = conn.Query(ctx, ofEach(*s.locks, "RELEASE_LOCK('%s')")) // else they go with the connection
	}
}

func (s *claim) unlock(ctx context.Context) {
	if s.conn == nil {
		return
	}
	_ = s.within(ctx, 0, func(ctx context.Context) error { s.release(ctx, s.conn); return nil })
	if s.conn.Broken {
		s.lose(errors.New("the connection was lost"))
	}
}

// take is the Claim of the shard's Health.
func (s *claim) take(ctx context.Context, conn *shard.Conn) error {
	locks := s.of.locks.Load()
	if conn == s.conn && locks == s.locks {
		if s.teller.missing.Swap(false) {
			return s.write(ctx, conn) // somebody has dropped it
		}
		if !s.writeAgain.IsZero() && time.Now().After(s.writeAgain) {
			return s.write(ctx, conn)
		}
		return nil
	}
	s.conn, s.locks = nil, locks
	// A connection of before may still have the locks.
	other, err := s.held(ctx, conn)
	if err == nil {
		if err = s.prepare(ctx, conn); err == nil && other == nil {
			other, err = s.lock(ctx, conn)
		}
	}
	if err == nil && other == nil {
		err = s.record(ctx, conn)
	}
	switch {
	case err != nil:
		if errors.Is(err, errSeveral) || errors.Is(err, errUnseen) {
			s.of.end(fmt.Errorf("stopped serving: %w", err))
		}
		s.met = time.Time{}
		return err
	case other != nil:
		// Asked again meanwhile. Counter-example: the other Shunt has died while the network held everything
		// back; the server hears of this one's connection before it hears of the end of that one's.
		if s.met.IsZero() {
			s.met = time.Now()
		}
		if time.Since(s.met) > leftoverTime {
			s.of.lost(s, other)
		}
		return other
	}
	s.conn, s.met = conn, time.Time{}
	s.forget(conn.ThreadID)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.held[s], s.of.had[s] = s.locks, true
	return nil
}

// record reads who had the shard last, and writes that it is this life. REQUIRES: the
// locks are held.
func (s *claim) record(ctx context.Context, conn *shard.Conn) error {
	if err := s.of.records.judge(ctx, s.name, conn); err != nil {
		return err
	}
	return s.write(ctx, conn)
}

func (s *claim) write(ctx context.Context, conn *shard.Conn) error {
	refused, err := s.of.records.write(ctx, s.name, conn)
	s.writeAgain = time.Time{}
	if refused {
		s.writeAgain = time.Now().Add(recordAgain)
	}
	if err != nil {
		return err
	}
	return s.teller.take(ctx, conn)
}

// free is an error where somebody has one of the locks. A shard that doesn't answer is
// claimed when it does.
func (s *claim) free(ctx context.Context, dial shard.Config, locks []string) error {
	conn, err := shard.Dial(ctx, dial, false)
	if err != nil {
		return nil // see above
	}
	defer conn.Close()
	res, err := conn.Query(ctx, ofEach(locks, usedBy))
	if err != nil {
		return nil // its health will tell
	}
	for _, cell := range res.Rows[0] {
		if cell != nil {
			if other, err := s.holder(ctx, conn, string(cell)); err == nil {
				return other
			}
		}
	}
	return nil
}
