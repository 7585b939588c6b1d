package follow

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// chunks is a connection that has so many bytes at each read.
type chunks struct {
	net.Conn
	sizes []int
}

func (c *chunks) SetReadDeadline(time.Time) error { return nil }

func (c *chunks) Read([]byte) (int, error) {
	n := c.sizes[0]
	c.sizes = c.sizes[1:]
	return n, nil
}

// TestReadRarely: a connection rests behind a read that has emptied it, and not behind one that hasn't.
func TestReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		rests := 0
		p := &patient{Conn: &chunks{sizes: []int{100, 8, 100, 100, 100}}, silence: time.Hour, lull: func(d time.Duration) {
			if d != readEvery {
				t.Errorf("rests for %s", d)
			}
			rests++
		}}
		for i, want := range []int{0, 0, 1, 1, 1} { // the second read has emptied it
			if _, err := p.Read(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			if rests != want {
				t.Fatalf("read %d: rested %d times, not %d", i, rests, want)
			}
		}
	})
}

// TestLull ends as somebody waits, and doesn't begin while somebody does.
func TestLull(t *testing.T) {
	p := NewProgress(Position{})
	g := gtid{source: uuid.New(), number: 1}
	end, err := ParsePosition(g.String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	rested, waited := make(chan struct{}), make(chan error)
	go func() {
		p.lull(time.Hour)
		p.lull(time.Hour)
		close(rested)
	}()
	go func() { waited <- p.Wait(ctx, end) }()
	<-rested
	cancel()
	if err := <-waited; err == nil {
		t.Error("it waits for nothing")
	}
	go func() { waited <- p.Wait(t.Context(), end) }()
	p.lull(time.Hour)
	if err := p.advance(g, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
