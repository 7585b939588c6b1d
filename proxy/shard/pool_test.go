package shard

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

func newPool(t *testing.T, cfg Config, o Options) *Pool {
	t.Helper()
	p := New(cfg, o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("closing the pool: %v", err)
		}
	})
	return p
}

func get(t *testing.T, p *Pool, foundRows bool) *Conn {
	t.Helper()
	c, err := p.Get(within(t), foundRows)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPoolReuses(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{})
	if p.State() != "up" || p.Version() != "" {
		t.Errorf("new: %s, version %q", p.State(), p.Version())
	}
	a, b := get(t, p, false), get(t, p, false)
	if s := p.Stats(); s != (Stats{InUse: 2}) {
		t.Errorf("%+v", s)
	}
	p.Put(a)
	p.Put(b)
	if s := p.Stats(); s != (Stats{Idle: 2}) {
		t.Errorf("%+v", s)
	}
	if c := get(t, p, false); c != b {
		t.Error("not the one returned last")
	} else {
		p.Put(c)
	}
	c := get(t, p, true)
	if c == a || c == b || !c.FoundRows {
		t.Error("a connection without FOUND_ROWS was given where it was asked for")
	}
	p.Put(c)
	if p.Version() != "8.4.0-fake" {
		t.Errorf("version %q", p.Version())
	}
}

// TestPoolItsOwn: what a session has set stays on its connection while Shunt uses one for itself between its statements.
func TestPoolItsOwn(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{})
	user := NewHolder("u")
	session := func(state string) *Conn {
		t.Helper()
		c, err := p.GetFor(within(t), user, false, state)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := session("set")
	a.State = "set"
	p.Put(a)
	own := get(t, p, false)
	if own == a {
		t.Error("Shunt got the session's connection")
	}
	p.Put(own)
	if c := session("set"); c != a {
		t.Error("the session got another connection than its own")
	} else {
		p.Put(c)
	}
	p.Put(get(t, p, false))
	if c := session("set more"); c != a {
		t.Error("a session that has set more got Shunt's own connection")
	} else {
		c.State = "set more"
		p.Put(c)
	}
	own = get(t, p, false)
	own.State = "of a gather"
	p.Put(own)
	if c := get(t, p, false); c != own {
		t.Error("Shunt got another one than its own")
	} else {
		p.Put(c)
	}
	if s := p.Stats(); s != (Stats{Idle: 2}) {
		t.Errorf("%+v", s)
	}
}

// A server that has no room is waited for like the pool's own limit, and is not
// down.
func TestPoolOfFullServer(t *testing.T) {
	t.Parallel()
	f := &fakeShard{addr: "127.0.0.1:0", answer: ok, conns: map[*wire.Conn]struct{}{}, limit: 2}
	f.start(t)
	t.Cleanup(f.stop)
	p := newPool(t, f.config(), Options{})
	a, b := get(t, p, false), get(t, p, false)
	const more = 20
	got := make(chan *Conn, more)
	for range more {
		go func() {
			c, err := p.Get(within(t), false)
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
	}
	until(t, "all wait", func() bool { return p.Stats().Waiting == more })
	if p.State() != "up" {
		t.Errorf("the full server is %s: %v", p.State(), p.LastError())
	}
	p.Put(a)
	p.Put(b)
	for range more {
		if c := <-got; c != nil {
			p.Put(c)
		}
	}
	if s := p.Stats(); s.InUse != 0 || s.Waiting != 0 || s.Idle > 2 {
		t.Errorf("%+v", s)
	}
}

func TestPoolClosesWhatIsNotClean(t *testing.T) {
	t.Parallel()
	f := startFake(t, func(c *wire.Conn, cmd byte, p []byte) error {
		status := mysql.SERVER_STATUS_AUTOCOMMIT
		if string(p) == "BEGIN" {
			status |= mysql.SERVER_STATUS_IN_TRANS
		}
		return c.WriteOK(wire.OK{Status: status})
	})
	var lost []*Conn
	p := newPool(t, f.config(), Options{OnEnd: func(c *Conn, busy bool) {
		if busy {
			lost = append(lost, c)
		}
	}})
	for name, spoil := range map[string]func(c *Conn){
		"broken":         func(c *Conn) { c.Broken = true },
		"busy":           func(c *Conn) { _ = c.Send(mysql.COM_QUERY, []byte("x")) },
		"in transaction": func(c *Conn) { _, _ = c.Exec(within(t), "BEGIN") },
	} {
		c := get(t, p, false)
		spoil(c)
		lost = nil
		p.Put(c)
		if s := p.Stats(); s != (Stats{}) {
			t.Errorf("%s: %+v", name, s)
		}
		if (len(lost) > 0) != (name == "busy") {
			t.Errorf("%s: OnEnd called %d times", name, len(lost))
		}
	}
	until(t, "the server sees them closed", func() bool { return f.open() == 0 })
}

func TestPoolFindsDeadConnections(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{})
	var mu sync.Mutex
	now := time.Now()
	p.o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	a, b := get(t, p, false), get(t, p, false)
	p.Put(a)
	p.Put(b)
	f.dropAll()
	until(t, "the ends arrive", func() bool { return wire.Gone(a.nc) && wire.Gone(b.nc) })
	mu.Lock()
	now = now.Add(time.Second)
	mu.Unlock()
	c := get(t, p, false)
	if c == a || c == b {
		t.Error("got a connection that the server had closed")
	}
	p.Put(c)
	if s := p.Stats(); s != (Stats{Idle: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestPoolLimits(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{Max: 2, WaitTimeout: 30 * time.Millisecond})
	a, b := get(t, p, false), get(t, p, true)
	if _, err := p.Get(within(t), false); !errors.Is(err, ErrPoolExhausted) || !strings.Contains(err.Error(), "shard s1 (127.0.0.1:") {
		t.Errorf("a third: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Get(ctx, false); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if s := p.Stats(); s != (Stats{InUse: 2}) {
		t.Errorf("%+v", s)
	}
	// An idle connection of the other kind gives up its place.
	p.Put(a)
	c := get(t, p, true)
	if s := p.Stats(); s != (Stats{InUse: 2}) || !c.FoundRows {
		t.Errorf("%+v", s)
	}
	p.Put(b)
	p.Put(c)
}

// Each of those who wait is served, in their order, by a connection of their
// kind.
func TestPoolQueue(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{Max: 1})
	held := get(t, p, false)
	const n = 20
	served := make(chan int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c, err := p.Get(within(t), i%3 == 0)
			if err != nil {
				t.Error(err)
				return
			}
			if c.FoundRows != (i%3 == 0) {
				t.Error("of the wrong kind")
			}
			served <- i
			p.Put(c)
		})
		until(t, "it waits", func() bool { return p.Stats().Waiting == i+1 })
	}
	p.Put(held)
	wg.Wait()
	for i := range n {
		if got := <-served; got != i {
			t.Fatalf("served %d as number %d", got, i)
		}
	}
	if s := p.Stats(); s != (Stats{Idle: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestPoolUnderLoad(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	var made, ended, lost int
	var mu sync.Mutex
	p := newPool(t, f.config(), Options{
		Max: 4, IdleMax: 2,
		OnConnect: func(context.Context, *Conn) error { mu.Lock(); made++; mu.Unlock(); return nil },
		OnEnd: func(_ *Conn, busy bool) {
			mu.Lock()
			defer mu.Unlock()
			ended++
			if busy {
				lost++
			}
		},
	})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				c, err := p.Get(within(t), (g+i)%5 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Exec(within(t), "x"); err != nil {
					t.Error(err)
				}
				switch (g * i) % 11 {
				case 3:
					p.Discard(c)
				case 5:
					_ = c.Send(mysql.COM_QUERY, []byte("y"))
					p.Put(c)
				default:
					p.Put(c)
				}
			}
		})
	}
	wg.Wait()
	if s := p.Stats(); s.InUse != 0 || s.Waiting != 0 || s.Idle > 2 {
		t.Errorf("%+v", s)
	}
	if left := p.Stats().Idle; made != f.dialed() || made-ended != left || lost == 0 {
		t.Errorf("OnConnect %d of %d times, OnEnd %d times, %d of them lost", made, f.dialed(), ended, lost)
	}
	until(t, "the server has the idle ones only", func() bool { return f.open() == p.Stats().Idle })
}

func TestPoolDownAndUp(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{})
	var mu sync.Mutex
	now := time.Now()
	p.o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	later := func() { mu.Lock(); now = now.Add(retryAfter); mu.Unlock() }
	p.Put(get(t, p, false))
	f.stop()
	later()
	want := "shard s1 (" + f.addr + "): connect: connection refused"
	for range 3 {
		_, err := p.Get(within(t), false)
		if err == nil || err.Error() != want || !errors.Is(err, ErrShard) {
			t.Fatalf("error %v, want %s", err, want)
		}
	}
	if p.State() != "down" || p.LastError() == nil {
		t.Errorf("state %s, %v", p.State(), p.LastError())
	}
	f.start(t)
	if _, err := p.Get(within(t), false); err == nil || f.dialed() != 1 {
		t.Error("tried again at once")
	}
	later()
	if err := p.Ping(within(t)); err != nil {
		t.Fatal(err)
	}
	if p.State() != "up" || p.LastError() != nil {
		t.Errorf("state %s, %v", p.State(), p.LastError())
	}
	if s := p.Stats(); s != (Stats{Idle: 1}) {
		t.Errorf("%+v", s)
	}
}

// TestPoolDownLapses: of a server that lives a connect that failed doesn't tell for ever, if
// no other is tried. A refusal does, which Health takes for a sign of life.
func TestPoolDownLapses(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	cfg := f.config()
	cfg.Health = NewHealth(cfg, HealthOptions{})
	p := newPool(t, cfg, Options{})
	now := time.Now()
	p.o.Now = func() time.Time { return now }
	f.stop()
	if _, err := p.Get(within(t), false); err == nil || p.State() != "down" || p.LastError() == nil {
		t.Errorf("error %v, state %s, %v", err, p.State(), p.LastError())
	}
	now = now.Add(downFor + 1)
	if p.State() != "up" || p.LastError() != nil {
		t.Errorf("later: state %s, %v", p.State(), p.LastError())
	}
	if _, err := p.Get(within(t), false); err == nil || p.State() != "down" {
		t.Errorf("again: error %v, state %s", err, p.State())
	}
	p.lastErr = &ServerError{Code: 1045, Message: "Access denied"}
	if now = now.Add(downFor + 1); p.State() != "down" || p.LastError() == nil {
		t.Errorf("refused: state %s, %v", p.State(), p.LastError())
	}
}

func TestPoolImpatienceIsNotDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it takes connections and says nothing
	p := newPool(t, Config{Name: "s1", Addr: l.Addr().String()}, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Get(ctx, false); !errors.Is(err, context.DeadlineExceeded) || p.State() != "up" {
		t.Errorf("error %v, state %s", err, p.State())
	}
	p.cfg.ConnectTimeout = 20 * time.Millisecond
	if _, err := p.Get(within(t), false); err == nil || !strings.HasSuffix(err.Error(), "connect: no answer within 20ms") || p.State() != "down" {
		t.Errorf("error %v, state %s", err, p.State())
	}
}

func TestPoolClose(t *testing.T) {
	t.Parallel()
	f := startFake(t, func(*wire.Conn, byte, []byte) error { return nil }) // never answers
	p := New(f.config(), Options{Max: 1})
	c := get(t, p, false)
	waiting := make(chan error)
	go func() {
		_, err := p.Get(within(t), false)
		waiting <- err
	}()
	until(t, "one waits", func() bool { return p.Stats().Waiting == 1 })
	stuck := make(chan error)
	go func() {
		_, err := c.Exec(context.Background(), "x")
		p.Put(c)
		stuck <- err
	}()
	until(t, "the connection is in use", func() bool { return f.open() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := <-waiting; !errors.Is(err, ErrPoolClosed) {
		t.Errorf("waiting: %v", err)
	}
	if err := <-stuck; !errors.Is(err, ErrShard) {
		t.Errorf("stuck: %v", err)
	}
	if err := p.Close(within(t)); err != nil {
		t.Errorf("close again: %v", err)
	}
	if _, err := p.Get(within(t), false); !errors.Is(err, ErrPoolClosed) {
		t.Errorf("get: %v", err)
	}
}
