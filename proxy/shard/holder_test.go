package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// getAll takes connections for a holder until it would wait.
func getAll(t *testing.T, p *Pool, h *Holder) (all []*Conn) {
	t.Helper()
	for {
		g, w, err := p.take(h, false, "")
		if err != nil {
			t.Fatal(err)
		}
		if w != nil {
			p.mu.Lock()
			p.shares.dequeue(w)
			p.mu.Unlock()
			return all
		}
		c := g.conn
		if c == nil {
			if c, err = p.dial(within(t), h, false, g); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, c)
	}
}

func putAll(p *Pool, conns ...[]*Conn) {
	for _, all := range conns {
		for _, c := range all {
			p.Put(c)
		}
	}
}

// TestShares: who asks for all of a pool leaves something to whoever comes next, and a
// pool without others' demand is nobody's alone.
func TestShares(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	for _, x := range []struct {
		max  int
		want string // what each of those who come one after the other gets
	}{
		{1, "1 0"}, {2, "2 0"}, {4, "3 1 0"}, {10, "8 2 0"}, {100, "80 16 3 1 0"},
	} {
		p := newPool(t, f.config(), Options{Max: x.max})
		var got []string
		var conns [][]*Conn
		for range strings.FieldsSeq(x.want) {
			all := getAll(t, p, NewHolder("x"))
			got = append(got, fmt.Sprint(len(all)))
			conns = append(conns, all)
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%d connections: %v, want %s", x.max, got, x.want)
		}
		putAll(p, conns...)
		if s := p.Stats(); s.InUse != 0 || p.shares.used != 0 || s.Idle != x.max {
			t.Errorf("%d connections: %+v, %d held", x.max, s, p.shares.used)
		}
	}
}

func TestBoundHolder(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{Max: 10})
	few, all := NewHolder("few"), NewHolder("all")
	few.Bound(3)
	all.Unbound()
	a, b := getAll(t, p, few), getAll(t, p, all)
	if len(a) != 3 || len(b) != 7 {
		t.Errorf("%d and %d connections, want 3 and 7", len(a), len(b))
	}
	putAll(p, a, b)
	all.Bound(0)
	if a = getAll(t, p, all); len(a) != 8 {
		t.Errorf("%d connections after a reload, want 8", len(a))
	}
	own := getAll(t, p, nil)
	if len(own) != 2 {
		t.Errorf("%d connections for Shunt itself, want 2", len(own))
	}
	putAll(p, a, own)
}

// TestShareQueue: a connection that comes back goes to who has the least, and those who
// wait for their own alone don't hold up others.
func TestShareQueue(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{Max: 10})
	hog, other := NewHolder("hog"), NewHolder("other")
	held := getAll(t, p, hog)
	got := make(chan string, 20)
	var wg sync.WaitGroup
	ask := func(h *Holder, waiting int) {
		wg.Go(func() {
			c, err := p.GetFor(within(t), h, false, "")
			if err != nil {
				t.Error(err)
				return
			}
			got <- h.Name
			p.Put(c)
		})
		until(t, "it waits", func() bool { return p.Stats().Waiting == waiting })
	}
	ask(hog, 1)
	ask(hog, 2)
	two := getAll(t, p, other) // which are left, and are had at once
	if len(held) != 8 || len(two) != 2 {
		t.Fatalf("%d and %d connections, want 8 and 2", len(held), len(two))
	}
	ask(other, 3)
	putAll(p, held[:2]) // 6 and 2
	if first := <-got; first != "other" {
		t.Errorf("%s is served first", first)
	}
	until(t, "the bound user still waits", func() bool { return p.Stats().Waiting == 2 })
	putAll(p, held[2:], two)
	wg.Wait()
	if s := p.Stats(); s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// TestShareTold: the error, the log and the figures name the user and the shard.
func TestShareTold(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	var mu sync.Mutex
	var log bytes.Buffer
	now := time.Now()
	p := newPool(t, f.config(), Options{Max: 4, WaitTimeout: 20 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&locked{&mu, &log}, nil))})
	p.o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	hog := NewHolder("hog")
	held := getAll(t, p, hog)
	for range 3 {
		_, err := p.GetFor(within(t), hog, false, "")
		share, ok := errors.AsType[*ShareError](err)
		if !ok || !errors.Is(err, ErrPoolExhausted) || share.User != "hog" || share.Held != 3 || share.Max != 4 || !strings.Contains(err.Error(), "shard s1 (127.0.0.1:") {
			t.Fatalf("got %v", err)
		}
	}
	if n := strings.Count(log.String(), "user=hog shard=s1 held=3 of=4"); n != 1 {
		t.Errorf("told %d times at once: %s", n, log.String())
	}
	mu.Lock()
	now = now.Add(toldEach)
	mu.Unlock()
	if _, err := p.GetFor(within(t), hog, false, ""); err == nil {
		t.Error("no error")
	}
	if n := strings.Count(log.String(), "user=hog"); n != 2 {
		t.Errorf("told %d times in two minutes: %s", n, log.String())
	}
	if got := p.Holders(); len(got) != 1 || got[0] != (Held{Name: "hog", InUse: 3, Refused: 4}) {
		t.Errorf("%+v", got)
	}
	// What all hold together is another matter.
	more := getAll(t, p, NewHolder("more"))
	if _, err := p.Get(within(t), false); !errors.Is(err, ErrPoolExhausted) || strings.Contains(err.Error(), "user") {
		t.Errorf("got %v", err)
	}
	putAll(p, held, more)
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// TestShareOfFullServer: what the server has room for is what is shared.
func TestShareOfFullServer(t *testing.T) {
	t.Parallel()
	f := &fakeShard{addr: "127.0.0.1:0", answer: ok, conns: map[*wire.Conn]struct{}{}, limit: 10}
	f.start(t)
	t.Cleanup(f.stop)
	p := newPool(t, f.config(), Options{Max: 100, WaitTimeout: 20 * time.Millisecond})
	hog := NewHolder("hog")
	var held []*Conn
	for {
		c, err := p.GetFor(within(t), hog, false, "")
		if err != nil {
			break
		}
		held = append(held, c)
	}
	if len(held) != 10 {
		t.Fatalf("%d connections, want all", len(held))
	}
	putAll(p, held)
	if held = getAll(t, p, hog); len(held) != 8 {
		t.Errorf("%d connections once it is known how many there are, want 8", len(held))
	}
	putAll(p, held)
}

func TestPins(t *testing.T) {
	t.Parallel()
	f := startFake(t, ok)
	p := newPool(t, f.config(), Options{Max: 20})
	a, b := NewHolder("a"), NewHolder("b")
	count := func(h *Holder) (n int) {
		for p.Pin(h) == nil {
			n++
		}
		return n
	}
	if x, y := count(a), count(b); x != 8 || y != 2 || p.Pinned() != 10 {
		t.Errorf("%d and %d, %d in all, want 8 and 2", x, y, p.Pinned())
	}
	p.Unpin(a)
	if n := count(nil); n != 1 {
		t.Errorf("%d for Shunt itself, want 1", n)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	p := NewPlaces("gathers", 16, slog.New(slog.DiscardHandler))
	hog, other := NewHolder("hog"), NewHolder("other")
	enter := func(h *Holder) func() {
		leave, err := p.Enter(within(t), h)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	var leaves []func()
	for range 12 {
		leaves = append(leaves, enter(hog))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := p.Enter(ctx, hog); !errors.Is(err, gone) {
		t.Errorf("a thirteenth place: %v", err)
	}
	leaves = append(leaves, enter(other))
	entered := make(chan struct{})
	go func() {
		enter(hog)()
		close(entered)
	}()
	until(t, "it waits", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.shares.hungry) == 1 })
	for _, leave := range leaves {
		leave()
	}
	<-entered
	if p.shares.used != 0 || len(p.shares.hungry) != 0 {
		t.Errorf("%d used, %d wait", p.shares.used, len(p.shares.hungry))
	}
}
