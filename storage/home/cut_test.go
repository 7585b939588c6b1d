package home

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// cutter is the way to a server that ends a connection at a given command: before the server hears
// it, or before the client hears the answer.
type cutter struct {
	listener net.Listener
	server   string
	conns    sync.WaitGroup

	mu    sync.Mutex
	armed bool
	left  int
	after bool
	open  map[net.Conn]bool
}

func newCutter(t *testing.T, server string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	c := &cutter{listener: l, server: server, open: map[net.Conn]bool{}}
	c.conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.conns.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.mu.Lock()
		for conn := range c.open {
			conn.Close()
		}
		c.mu.Unlock()
		c.conns.Wait()
	})
	return c
}

// arm has the command after the next n cut.
func (c *cutter) arm(n int, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left, c.after = true, n, after
}

// disarm says whether the command came.
func (c *cutter) disarm() (fired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fired, c.armed = !c.armed, false
	return fired
}

func (c *cutter) command() (cut, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		return false, false
	}
	c.left--
	cut = c.left < 0
	c.armed = !cut
	return cut, c.after
}

func (c *cutter) serve(client net.Conn) {
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		client.Close()
		return
	}
	c.mu.Lock()
	c.open[client], c.open[server] = true, true
	c.mu.Unlock()
	var mu sync.Mutex
	deaf := false
	c.conns.Go(func() {
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			mu.Lock()
			stop := deaf
			mu.Unlock()
			if err != nil || stop {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	defer server.Close()
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		packet := append(head, make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)...)
		if _, err := io.ReadFull(client, packet[4:]); err != nil {
			return
		}
		if head[3] == 0 {
			switch cut, after := c.command(); {
			case cut && !after:
				client.Close()
				return
			case cut:
				mu.Lock()
				deaf = true
				mu.Unlock()
			}
		}
		if _, err := server.Write(packet); err != nil {
			return
		}
	}
}

// cutCall is one call that a connection's end may come in the middle of.
type cutCall struct {
	name  string
	setup func(t *testing.T, p *place)
	call  func(t *testing.T, h *Home) error
	// repeats: who calls again after an error gets what one call would have done.
	repeats bool
}

// TestCut ends the connection before and after each command of each call. What there is then is
// what was there before the call, or what is there after it, and the next call works.
func TestCut(t *testing.T) {
	eachServer(t, func(t *testing.T, p *place) {
		c := newCutter(t, p.server.Addr())
		config := p.config
		config.Addr = c.listener.Addr().String()
		h := openHome(t, config)
		for _, call := range cutCalls {
			p.empty(t)
			call.setup(t, p)
			before := p.tables(t)
			if err := call.call(t, h); err != nil {
				t.Fatalf("%s: %v", call.name, err)
			}
			done := p.tables(t)
			if before == done {
				t.Fatalf("%s does nothing", call.name)
			}
			commands := 0
			for _, after := range []bool{false, true} {
				for n := 0; ; n++ {
					p.empty(t)
					call.setup(t, p)
					must[uint64](t)(h.Life(t.Context())) // there is a connection
					c.arm(n, after)
					err := call.call(t, h)
					if !c.disarm() {
						commands = n
						break
					}
					got := p.tables(t)
					what := fmt.Sprintf("%s, cut at command %d (behind it: %v)", call.name, n, after)
					if _, named := errors.AsType[*OutError](err); err != nil && !named {
						t.Errorf("%s: the error doesn't name the home: %v", what, err)
					}
					switch {
					case err == nil && got != done:
						t.Fatalf("%s: it said that all is done, but\n%s\nwant\n%s", what, got, done)
					case got != before && got != done:
						t.Fatalf("%s: half is done:\n%s\nbefore\n%s\ndone\n%s", what, got, before, done)
					}
					if !call.repeats {
						continue
					}
					if err := call.call(t, h); err != nil {
						t.Fatalf("%s, and again: %v", what, err)
					}
					if got := p.tables(t); got != done {
						t.Fatalf("%s, and again:\n%s\nwant\n%s", what, got, done)
					}
				}
			}
			if commands == 0 {
				t.Fatalf("%s was never cut", call.name)
			}
		}
	})
}

// empty makes the tables as Open does.
func (p *place) empty(t *testing.T) {
	t.Helper()
	for table := range strings.FieldsSeq("heads shards marks entries garbage records turns jobs numbers") {
		_, err := p.exec(t.Context(), "DELETE FROM "+table)
		check(t, err)
	}
	for _, q := range []string{"UPDATE home SET life = 1", "UPDATE head SET version = 0, id = ''"} {
		_, err := p.exec(t.Context(), q)
		check(t, err)
	}
}

// rebuilding is an index with a readable and a building generation, on two shards.
func rebuilding(t *testing.T, p *place) {
	t.Helper()
	p.ready(t, 7)
	must[uint32](t)(p.StartBuild(t.Context(), 7))
	check(t, p.Add(t.Context(), []storage.Entry{entry(7, "a", 1, 3), entry(7, "b", 2, 3)}))
	check(t, p.Mark(t.Context(), []storage.Mark{{Index: 7, Shard: 1, Epoch: 3}}))
	must[map[catalog.IndexID]storage.Gate](t)(p.OpenGate(t.Context(), []catalog.IndexID{7}, 1, 5))
}

var cutCalls = []cutCall{
	{"Add", rebuilding, func(t *testing.T, h *Home) error {
		return h.Add(t.Context(), []storage.Entry{entry(7, "c", 1, 3), entry(7, "a", 1, 4)})
	}, true},
	{"Add of several pieces", rebuilding, func(t *testing.T, h *Home) error {
		h.piece = 2
		defer func() { h.piece = pieceKeys }()
		return h.Add(t.Context(), []storage.Entry{entry(7, "c", 1, 3), entry(7, "d", 1, 4), entry(7, "e", 1, 4)})
	}, true},
	{"Mark", rebuilding, func(t *testing.T, h *Home) error {
		return h.Mark(t.Context(), []storage.Mark{{Index: 7, Shard: 2, Known: [][]byte{{1}}, Epoch: 3}, {Index: 7, Shard: 1, Epoch: 9}})
	}, true},
	{"OpenGate", rebuilding, func(t *testing.T, h *Home) error {
		_, err := h.OpenGate(t.Context(), []catalog.IndexID{7}, 2, 9)
		return err
	}, true},
	{"Retire", rebuilding, func(t *testing.T, h *Home) error {
		_, _, err := h.Retire(t.Context(), storage.Retirement{Index: 7, Shard: 1, Gate: behind(5, 1), Keys: kept("a", "b"), Before: 4, Marks: true, After: 6})
		return err
	}, true},
	{"CreateIndex", rebuilding, func(t *testing.T, h *Home) error {
		_, err := h.CreateIndex(t.Context(), 8)
		return err
	}, false},
	{"StartBuild", rebuilding, func(t *testing.T, h *Home) error {
		_, err := h.StartBuild(t.Context(), 7)
		return err
	}, false},
	{"FinishBuild", rebuilding, func(t *testing.T, h *Home) error {
		return h.FinishBuild(t.Context(), 7, 2, map[catalog.ShardID]storage.Epoch{1: 8, 2: 9})
	}, false},
	{"DropIndex", rebuilding, func(t *testing.T, h *Home) error { return h.DropIndex(t.Context(), 7) }, false},
	{"DeleteGarbage", func(t *testing.T, p *place) {
		rebuilding(t, p)
		check(t, p.FinishBuild(t.Context(), 7, 2, nil))
	}, func(t *testing.T, h *Home) error {
		_, err := h.DeleteGarbage(t.Context(), 10)
		return err
	}, true},
	{"NewLife", rebuilding, func(t *testing.T, h *Home) error {
		return h.NewLife(t.Context(), 2, map[catalog.ShardID]storage.Epoch{1: 8, 2: 9})
	}, true},
	{"Write", func(t *testing.T, p *place) {
		must[uint64](t)(p.Write(t.Context(), 0, Record{Kind: "index", Name: "a", Body: []byte("1")}))
	}, func(t *testing.T, h *Home) error {
		_, err := h.Write(t.Context(), 1, Record{Kind: "index", Name: "a"}, Record{Kind: "index", Name: "b", Body: []byte("2")})
		return err
	}, false},
	{"TakeTurn", nothing, func(t *testing.T, h *Home) error {
		_, err := h.TakeTurn(t.Context(), "ddl", "one")
		return err
	}, true},
	{"GiveTurn", taken, func(t *testing.T, h *Home) error { return h.GiveTurn(t.Context(), "ddl", "one") }, true},
	{"TakeOver", taken, func(t *testing.T, h *Home) error {
		_, err := h.TakeOver(t.Context(), "ddl", "one", "two")
		return err
	}, true},
	{"Enqueue", nothing, func(t *testing.T, h *Home) error {
		_, err := h.Enqueue(t.Context(), maintain(1))
		return err
	}, true},
	{"Enqueue, merged", waits, func(t *testing.T, h *Home) error {
		j := maintain(1)
		j.Indexes = []catalog.IndexID{9}
		_, err := h.Enqueue(t.Context(), j)
		return err
	}, true},
	{"Enqueue of too many keys", func(t *testing.T, p *place) {
		must[uint64](t)(p.Enqueue(t.Context(), verify(0, 600)))
	}, func(t *testing.T, h *Home) error {
		_, err := h.Enqueue(t.Context(), verify(600, 600))
		return err
	}, true},
	{"Claim", waits, func(t *testing.T, h *Home) error {
		_, err := h.Claim(t.Context(), "w", time.Hour, nil)
		return err
	}, true},
	{"SaveCheckpoint", claimed, func(t *testing.T, h *Home) error {
		return h.SaveCheckpoint(t.Context(), claimedJob, "w", []byte("1"), 0.5)
	}, true},
	{"Finish", claimed, func(t *testing.T, h *Home) error { return h.Finish(t.Context(), claimedJob, "w") }, false},
	{"Fail", claimed, func(t *testing.T, h *Home) error {
		return h.Fail(t.Context(), claimedJob, "w", io.EOF, time.Time{})
	}, false},
	{"TakeNumbers", begun, func(t *testing.T, h *Home) error {
		_, err := h.TakeNumbers(t.Context(), tableA, func(next uint64) uint64 { return next + 3 })
		return err
	}, false},
	{"StartSequence", begun, func(t *testing.T, h *Home) error { return h.StartSequence(t.Context(), tableA, from(20)) }, true},
	{"RestartSequence", begun, func(t *testing.T, h *Home) error { return h.RestartSequence(t.Context(), tableA) }, true},
	{"DoubtSequences", begun, func(t *testing.T, h *Home) error { return h.DoubtSequences(t.Context()) }, false},
	{"RenameSequence", func(t *testing.T, p *place) {
		begun(t, p)
		check(t, p.StartSequence(t.Context(), tableB, from(20)))
	}, func(t *testing.T, h *Home) error { return h.RenameSequence(t.Context(), tableA, tableB) }, false},
}

func begun(t *testing.T, p *place) {
	t.Helper()
	check(t, p.StartSequence(t.Context(), tableA, from(7)))
}

func waits(t *testing.T, p *place) {
	t.Helper()
	must[uint64](t)(p.Enqueue(t.Context(), maintain(1)))
}

func claimed(t *testing.T, p *place) {
	t.Helper()
	waits(t, p)
	j := must[*storage.Job](t)(p.Claim(t.Context(), "w", time.Hour, nil))
	_, err := p.direct.ExecContext(t.Context(), "UPDATE jobs SET id = ? WHERE id = ?", claimedJob, j.ID)
	check(t, err)
}

// claimedJob is the number of the job that claimed leaves.
const claimedJob = 1_000_000

func nothing(*testing.T, *place) {}

func taken(t *testing.T, p *place) {
	t.Helper()
	must[bool](t)(p.TakeTurn(t.Context(), "ddl", "one"))
}
