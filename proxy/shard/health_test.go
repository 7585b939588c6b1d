package shard

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// judged is a fake shard behind a valve, with a Health that runs.
type judged struct {
	*fakeShard
	valve *throwaway.Valve
	h     *Health
	cfg   Config
	log   throwaway.Output
}

func startJudged(t *testing.T, timeout time.Duration, answer func(*wire.Conn, byte, []byte) error) *judged {
	t.Helper()
	j := &judged{fakeShard: startFake(t, answer)}
	var err error
	if j.valve, err = throwaway.NewValve(j.addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.valve.Close)
	j.cfg = j.config()
	j.cfg.Addr = j.valve.Addr()
	j.h = NewHealth(j.cfg, HealthOptions{Timeout: timeout, Logger: slog.New(slog.NewTextHandler(&j.log, nil))})
	j.cfg.Health = j.h
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { j.h.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return j
}

// A server that falls silent fails what waits for it within the timeout, and
// what comes later at once; a long statement of one that answers pings goes on.
func TestHealthCutsOffTheSilent(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	release := make(chan struct{})
	j := startJudged(t, timeout, func(c *wire.Conn, cmd byte, p []byte) error {
		if string(p) == "SLOW" {
			<-release
		}
		return ok(c, cmd, p)
	})
	p := newPool(t, j.cfg, Options{Max: 4})
	other := newPool(t, j.cfg, Options{Max: 4})
	slow, held, idle := get(t, p, false), get(t, p, false), get(t, p, false)
	p.Put(idle)
	done := make(chan error, 1)
	go func() {
		_, err := slow.Exec(within(t), "SLOW")
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a long statement of a server that lives was ended: %v", err)
	case <-time.After(3 * timeout):
	}
	if p.State() != "up" || !p.Lively() || j.h.Deaths() != 0 {
		t.Fatalf("%s, lively %v, %d deaths", p.State(), p.Lively(), j.h.Deaths())
	}

	j.valve.Shut()
	began := time.Now()
	var failed []error
	failed = append(failed, func() error { _, err := held.Exec(within(t), "x"); return err }(), <-done)
	_, err := other.Get(within(t), false) // dials
	failed = append(failed, err)
	if took := time.Since(began); took > timeout+5*time.Second {
		t.Errorf("failed after %v, timeout %v", took, timeout)
	}
	began = time.Now()
	_, err = p.Get(within(t), false)
	failed = append(failed, err)
	if took := time.Since(began); took > timeout {
		t.Errorf("a dead server was waited for: %v", took)
	}
	for i, err := range failed {
		if !errors.Is(err, ErrShard) || !strings.Contains(err.Error(), "s1") || !strings.Contains(err.Error(), "no answer to a health check within 1s") {
			t.Errorf("%d: %v", i, err)
		}
	}
	if p.State() != "down" || p.LastError() == nil || p.Lively() {
		t.Errorf("%s %v", p.State(), p.LastError())
	}
	until(t, "idle connections are closed", func() bool { return p.Stats().Idle == 0 })
	if !slow.Broken || !held.Broken {
		t.Error("a cut connection is not broken")
	}
	p.Put(slow)
	p.Put(held)

	close(release)
	j.valve.Open()
	began = time.Now()
	until(t, "alive again", func() bool { return p.State() == "up" })
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("alive again after %v", took)
	}
	c := get(t, p, false)
	if _, err := c.Exec(within(t), "x"); err != nil {
		t.Error(err)
	}
	p.Put(c)
	log := j.log.String()
	if strings.Count(log, "shard is down") != 1 || strings.Count(log, "shard is up") != 1 {
		t.Errorf("each change is to be logged once:\n%s", log)
	}
}

// A server that died is known as soon as a connection breaks.
func TestHealthOfTheKilled(t *testing.T) {
	t.Parallel()
	j := startJudged(t, 20*time.Second, ok)
	p := newPool(t, j.cfg, Options{})
	p.Put(get(t, p, false))
	j.valve.Close() // refuses from now on, and has closed all
	began := time.Now()
	until(t, "nothing is served", func() bool { // that the pool's connection was closed may take a moment to be seen
		c, err := p.Get(within(t), false)
		if err == nil {
			_, err = c.Exec(within(t), "x")
			p.Put(c)
		}
		return errors.Is(err, ErrShard)
	})
	until(t, "dead", func() bool { return j.h.Err() != nil })
	if took := time.Since(began); took > 10*time.Second { // the time without a sign of life is 20
		t.Errorf("judged after %v", took)
	}
}

// Those who wait in the queue of a pool fail when the server is judged dead.
func TestHealthEmptiesTheQueue(t *testing.T) {
	t.Parallel()
	j := startJudged(t, time.Second, ok)
	p := newPool(t, j.cfg, Options{Max: 1, WaitTimeout: time.Minute})
	c := get(t, p, false)
	waiting := make(chan error)
	go func() {
		_, err := p.Get(within(t), false)
		waiting <- err
	}()
	until(t, "waits", func() bool { return p.Stats().Waiting == 1 })
	j.valve.Shut()
	if err := <-waiting; !errors.Is(err, ErrShard) {
		t.Errorf("%v", err)
	}
	until(t, "cut off", func() bool { return !c.Alive() })
	p.Put(c)
	if s := p.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
	j.valve.Open()
	until(t, "alive again", func() bool { return j.h.Err() == nil })
	p.Put(get(t, p, false))
}

// One broken connection is no dead server.
func TestHealthPingsAnew(t *testing.T) {
	t.Parallel()
	j := startJudged(t, 2*time.Second, ok)
	p := newPool(t, j.cfg, Options{})
	until(t, "pinged", func() bool { return j.pinged() > 0 })
	for range 3 {
		before := j.dropAll()
		j.h.Suspect()
		until(t, "pinged anew", func() bool { return j.pinged() > before })
	}
	p.Put(get(t, p, false))
	if j.h.Deaths() != 0 {
		t.Errorf("%d deaths: %s", j.h.Deaths(), j.log.String())
	}
}

// Connections that are killed while they are made or claimed are no dead server.
func TestHealthOfKilledConnections(t *testing.T) {
	t.Parallel()
	var kills atomic.Int32 // how many of the next commands end their connection
	f := startFake(t, func(c *wire.Conn, cmd byte, p []byte) error {
		if kills.Add(-1) >= 0 {
			return errors.New("killed")
		}
		return ok(c, cmd, p)
	})
	h := NewHealth(f.config(), HealthOptions{Timeout: 2 * time.Second, Unreached: errors.New("not yet"), Claim: func(ctx context.Context, c *Conn) error {
		_, _ = c.Exec(ctx, "try") // one that goes on behind a failure tells of it all the same
		_, err := c.Exec(ctx, "claim")
		return err
	}})
	var conn *Conn
	until(t, "claimed", func() bool { return h.look(within(t), &conn) == nil })
	h.judge(nil)
	looks := func(when string) {
		t.Helper()
		kills.Store(1)
		if err := h.look(within(t), &conn); err != nil {
			t.Errorf("killed %s: %v", when, err)
		}
		if kills.Load() > 0 {
			t.Errorf("%s: no connection was killed", when)
		}
	}
	looks("while it is claimed")
	f.dropAll()
	looks("while it is made")
	kills.Store(100)
	if err := h.look(within(t), &conn); err == nil {
		t.Error("a server that ends all connections is taken for alive")
	}
	if conn != nil {
		t.Error("a connection is left")
	}
}

// A server that has no room for a connection lives.
func TestHealthOfTheFull(t *testing.T) {
	t.Parallel()
	f := &fakeShard{addr: "127.0.0.1:0", answer: ok, conns: map[*wire.Conn]struct{}{}, limit: 1}
	f.start(t)
	t.Cleanup(f.stop)
	c, err := Dial(within(t), f.config(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := NewHealth(f.config(), HealthOptions{Timeout: time.Second})
	var conn *Conn
	if err := h.check(within(t), &conn); err != nil || conn != nil {
		t.Errorf("%v", err)
	}
}

// A server that may not be used counts as dead, also before it was first reached.
func TestHealthClaims(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	var taken atomic.Bool
	var mu sync.Mutex
	by := map[*Conn]int{}
	h := NewHealth(f.config(), HealthOptions{Timeout: 2 * time.Second, Unreached: errors.New("nobody there"), Claim: func(_ context.Context, c *Conn) error {
		mu.Lock()
		defer mu.Unlock()
		by[c]++
		if taken.Load() {
			return errors.New("another one has it")
		}
		return nil
	}})
	if err := h.Err(); err == nil || !strings.Contains(err.Error(), "nobody there") {
		t.Errorf("alive before it was claimed: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	until(t, "claimed", func() bool { return h.Err() == nil })
	cfg := f.config()
	cfg.Health = h
	c, err := Dial(within(t), cfg, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	taken.Store(true)
	until(t, "dead", func() bool { return h.Err() != nil && strings.Contains(h.Err().Error(), "another one has it") })
	if c.Alive() {
		t.Error("a connection to a server that another one has goes on")
	}
	taken.Store(false)
	until(t, "alive again", func() bool { return h.Err() == nil })
	mu.Lock()
	before := len(by)
	mu.Unlock()
	f.dropAll()
	h.Suspect()
	until(t, "claimed anew", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(by) > before
	})
	if h.Deaths() != 2 {
		t.Errorf("%d deaths, want 2", h.Deaths())
	}
}

// One that refuses the connection may be claimed by somebody else by now.
func TestHealthUnclaimed(t *testing.T) {
	t.Parallel()
	h := NewHealth(startFake(t, ok).config(), HealthOptions{Timeout: time.Minute, Conn: &Conn{}, Claim: func(context.Context, *Conn) error { return nil }})
	var none *Conn
	if err := h.claim(within(t), &none); err != nil {
		t.Error(err)
	}
	h.claimed, h.refused = time.Now().Add(-2*time.Minute), errors.New("too many connections")
	if err := h.claim(within(t), &none); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("a server without a claim: %v", err)
	}
}

// TestCutSaysWhy: what a connection fails with that isn't cut off for a dead server's sake.
func TestCutSaysWhy(t *testing.T) {
	t.Parallel()
	cfg := startFake(t, ok).config()
	cfg.Health = NewHealth(cfg, HealthOptions{Timeout: time.Minute})
	c, err := Dial(within(t), cfg, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cfg.Health.Cut(errors.New("it was fenced"))
	if err := c.Send(mysql.COM_QUERY, []byte("x")); !errors.Is(err, ErrShard) || !strings.HasSuffix(err.Error(), ": it was fenced") {
		t.Error(err)
	}
}

// TestOnly: where an address leads to another server, connections to the old one are cut off, and those that are made
// meanwhile aren't.
func TestOnly(t *testing.T) {
	t.Parallel()
	cfg := startFake(t, ok).config()
	cfg.Health = NewHealth(cfg, HealthOptions{Timeout: time.Minute})
	var conns [3]*Conn
	for i := range conns {
		c, err := Dial(within(t), cfg, false)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		conns[i] = c
	}
	old, made, only := conns[0], conns[1], conns[2]
	old.Accept()
	only.Accept()
	cfg.Health.Only(only)
	for c, cut := range map[*Conn]bool{old: true, made: false, only: false} {
		if _, err := c.Exec(within(t), "SELECT 1"); (err != nil) != cut {
			t.Errorf("cut off: %v (%v), want %v", err != nil, err, cut)
		}
	}
}

// What lifts a deadline does not bring a cut connection back.
func TestCutStaysCut(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	c, err := Dial(within(t), f.config(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.cutOff()
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(mysql.COM_QUERY, []byte("x")); err == nil {
		t.Error("sent over a connection that was cut off")
	}
	if c.Alive() {
		t.Error("alive")
	}
}

// Open connections are told by their numbers and ports: those that were dialed by it, and the one
// that it pings.
func TestHealthOpened(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	first, err := Dial(within(t), f.config(), false)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHealth(f.config(), HealthOptions{Timeout: 400 * time.Millisecond, Conn: first, Claim: func(context.Context, *Conn) error { return nil }})
	cfg := f.config()
	cfg.Health = h
	c, err := Dial(within(t), cfg, false)
	if err != nil {
		t.Fatal(err)
	}
	opened := func(c *Conn, more int) bool {
		return h.Opened(uint64(c.ThreadID), c.LocalAddr.(*net.TCPAddr).Port+more)
	}
	for _, c := range []*Conn{first, c} {
		if !opened(c, 0) || opened(c, 1) || h.Opened(uint64(c.ThreadID)+1<<32, c.LocalAddr.(*net.TCPAddr).Port) {
			t.Errorf("thread %d of %s isn't told from others", c.ThreadID, c.LocalAddr)
		}
	}
	_ = c.Close()
	if opened(c, 0) {
		t.Error("a connection that was closed counts as open")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	f.dropAll()
	until(t, "another one is pinged", func() bool { return !opened(first, 0) })
}
