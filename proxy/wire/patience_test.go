package wire

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// encrypted is both ends of a connection under TLS.
func encrypted(t *testing.T) (near, far net.Conn) {
	t.Helper()
	server, client := testTLS(t)
	a, b := socketPair(t)
	s := tls.Server(b, server)
	failed := make(chan error, 1)
	go func() { failed <- s.Handshake() }()
	c := tls.Client(a, client)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return c, s
}

// looked calls Look until stop is closed.
func looked(w *Patience, stop chan struct{}, every time.Duration) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				w.Look()
				time.Sleep(every)
			}
		}
	}()
	return done
}

// TestPatience: a read that waits is interrupted for Late, wherever in a packet it
// is, and goes on.
func TestPatience(t *testing.T) {
	for name, pair := range map[string]func(t *testing.T) (near, far net.Conn){
		"socket": func(t *testing.T) (net.Conn, net.Conn) { return socketPair(t) },
		"TLS":    encrypted,
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			late := make(chan struct{})
			w := &Patience{Late: func() { late <- struct{}{} }}
			r := NewReader(near)
			r.SetPatience(w, near)
			stop := make(chan struct{})
			done := looked(w, stop, time.Millisecond)
			defer func() { close(stop); <-done }()
			got := make(chan string, 1)
			read := func() {
				r.SetSequence(0)
				p, err := r.ReadPacket(100)
				if err != nil {
					p = []byte(err.Error())
				}
				got <- string(p)
			}
			say := func(s string) {
				if _, err := io.WriteString(far, s); err != nil {
					t.Error(err)
				}
			}
			for range 3 {
				go read()
				<-late
				say("\x05\x00\x00\x00he")
				<-late
				say("llo")
				if s := <-got; s != "hello" {
					t.Fatalf("read %q", s)
				}
				arrived := make(chan bool, 1)
				go func() { arrived <- r.Arrive() }()
				<-late
				if !<-arrived {
					t.Fatal("something has arrived that wasn't sent")
				}
				say("\x02\x00\x00\x00hi")
				if r.Arrive() {
					<-late
				}
				if r.Arrive() {
					t.Error("late with bytes at hand")
				}
				if read(); <-got != "hi" {
					t.Fatal("not what was sent")
				}
			}
		})
	}
}

// TestPatienceRaces: what is read is what was sent, whenever Look is called.
func TestPatienceRaces(t *testing.T) {
	near, far := socketPair(t)
	var calls atomic.Int64
	w := &Patience{Late: func() { calls.Add(1) }}
	r := NewReader(near)
	r.SetPatience(w, near)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	done := looked(w, stop, 0)
	const packets = 3000
	wg.Go(func() {
		out := NewWriter(far)
		for i := range packets {
			out.SetSequence(0)
			if out.WritePacket([]byte{byte(i), byte(i >> 8)}) != nil || out.Flush() != nil {
				t.Error("write failed")
				return
			}
		}
	})
	for i := range packets {
		if i%2 == 0 {
			for r.Arrive() {
			}
		}
		r.SetSequence(0)
		p, err := r.ReadPacket(100)
		if err != nil || len(p) != 2 || int(p[0])|int(p[1])<<8 != i {
			t.Fatalf("packet %d: %v %v", i, p, err)
		}
	}
	close(stop)
	<-done
	wg.Wait()
	t.Logf("late %d times", calls.Load())
}

// TestArriveFails: an error is kept for the next read, and one deadline isn't taken
// for another.
func TestArriveFails(t *testing.T) {
	near, far := socketPair(t)
	r := NewReader(near)
	w := &Patience{Late: func() { t.Error("late") }}
	r.SetPatience(w, near)
	if err := near.SetReadDeadline(longAgo); err != nil {
		t.Fatal(err)
	}
	if r.Arrive() {
		t.Error("late, without having been looked at")
	}
	if r.Arrive() {
		t.Error("late the second time")
	}
	if _, err := r.ReadPacket(10); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := near.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	far.Close()
	if r.Arrive() {
		t.Error("late at the end")
	}
	if _, err := r.ReadPacket(10); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// TestExchangePatience: a command whose answer doesn't come is sent all the same.
func TestExchangePatience(t *testing.T) {
	near, far := socketPair(t)
	e, r, out := newExchange(t, near)
	w := &Patience{Late: func() {}}
	r.SetPatience(w, near)
	stop := make(chan struct{})
	done := looked(w, stop, time.Millisecond)
	if err := out.WritePacket([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if err := e.Do(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-done
	p := make([]byte, 12)
	if _, err := io.ReadFull(far, p); err != nil || string(p[4:]) != "question" {
		t.Fatalf("%q %v", p, err)
	}
	if _, err := io.WriteString(far, "\x02\x00\x00\x00hi"); err != nil {
		t.Fatal(err)
	}
	r.SetSequence(0)
	if p, err := r.ReadPacket(10); err != nil || string(p) != "hi" {
		t.Errorf("%q %v", p, err)
	}
	// Between one command and the next nothing is under way.
	w.Look()
	if w.Look() {
		t.Error("a read is under way")
	}
}

// TestExchangeRaces: each command is sent and answered, whenever Look is called.
func TestExchangeRaces(t *testing.T) {
	near, far := socketPair(t)
	go answerEach(far)
	e, r, out := newExchange(t, near)
	w := &Patience{Late: func() {}}
	r.SetPatience(w, near)
	stop := make(chan struct{})
	done := looked(w, stop, 0)
	defer func() {
		close(stop)
		<-done
	}()
	for i := range 5000 {
		if err := out.WriteCommand(byte(i), []byte{byte(i >> 8)}); err != nil {
			t.Fatal(err)
		}
		if err := e.Do(); err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
		r.SetSequence(1)
		p, err := r.ReadPacket(100)
		if err != nil || len(p) != 2 || int(p[0])|int(p[1])<<8 != i {
			t.Fatalf("answer %d: %v %v", i, p, err)
		}
	}
}
