package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

func startRing(t *testing.T) *Ring { return startRingOf(t, ringEntries, 8*ringEntries) }

func startRingOf(t *testing.T, entries, completions uint32) *Ring {
	t.Helper()
	r, err := newRing(entries, completions)
	if err != nil {
		t.Skip(err)
	}
	r.Use(true)
	t.Cleanup(r.Close)
	return r
}

// ringPair is both ends of a connection: one over the ring, and its peer.
func ringPair(t *testing.T, r *Ring, network string) (near, far net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near = r.Adopt(c, network == "unix")
	if near == c {
		t.Fatal("not adopted")
	}
	t.Cleanup(func() { near.Close(); s.Close() })
	return near, s
}

// It is a net.Conn as any other.
func TestRingConn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			r := startRing(t)
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				near, far := ringPair(t, r, network)
				far = r.Adopt(far, false)
				return near, far, func() { near.Close(); far.Close() }, nil
			})
		})
	}
}

// Commands and answers of all sizes, by many at once, arrive whole and in order, though
// the ring is used now and not then.
func TestRingPackets(t *testing.T) {
	r := startRing(t)
	var wg sync.WaitGroup
	done := make(chan struct{})
	defer close(done)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				r.Use(i%4 > 0)
			}
		}
	}()
	for i := range 50 {
		near, far := ringPair(t, r, []string{"tcp", "unix"}[i%2])
		wg.Go(func() { answerEach(far) })
		wg.Go(func() {
			defer near.Close()
			random := rand.New(rand.NewPCG(uint64(i), 1))
			in, out := NewReader(near), NewWriter(near)
			exchange := NewExchange(near, in, out)
			for range 200 {
				size := random.IntN(1000)
				if random.IntN(20) == 0 {
					size = random.IntN(40 * BufferSize)
				}
				want := bytes.Repeat([]byte{byte(size)}, size+1)
				if err := out.WriteCommand(want[0], want[1:]); err != nil {
					t.Error(err)
					return
				}
				send := out.Flush
				if random.IntN(2) == 0 {
					send = exchange.Do
				}
				if err := send(); err != nil {
					t.Error(err)
					return
				}
				in.SetSequence(1)
				got, err := in.ReadPacket(1 << 30)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("answer of %d bytes, want %d: %v", len(got), len(want), err)
					return
				}
				in.Release()
			}
		})
	}
	wg.Wait()
}

// What was sent last arrives though the connection is closed at once, at a peer that
// reads slowly too.
func TestRingCloseBehindAnswer(t *testing.T) {
	r := startRing(t)
	for _, ahead := range []int{0, 8 << 20} {
		near, far := ringPair(t, r, "tcp")
		go func() {
			w := NewWriter(near)
			_ = w.WritePacket(make([]byte, ahead))
			_ = w.WritePacket([]byte("last"))
			_ = w.Flush()
			near.Close()
		}()
		all, err := io.ReadAll(far)
		if err != nil || !bytes.HasSuffix(all, []byte("last")) {
			t.Errorf("%d bytes of %d, %v", len(all), ahead, err)
		}
	}
}

// A read that was woken finds later what has come meanwhile.
func TestRingReadAfterDeadline(t *testing.T) {
	near, far := ringPair(t, startRing(t), "tcp")
	for range 100 {
		if err := near.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 8)
		if n, err := near.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if _, err := far.Write([]byte("ab")); err != nil {
			t.Fatal(err)
		}
		if err := near.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(near, p[:2]); err != nil || string(p[:2]) != "ab" {
			t.Fatalf("%q, %v", p[:2], err)
		}
	}
}

// What is told of a peer is what a socket's would be.
func TestRingPeer(t *testing.T) {
	near, far := ringPair(t, startRing(t), "tcp")
	if !Quiet(near) || Gone(near) || pending(near) {
		t.Error("at first")
	}
	_, _ = far.Write([]byte("abc"))
	until(t, func() bool { return pending(near) && !Quiet(near) })
	p := make([]byte, 1)
	if _, err := near.Read(p); err != nil || !pending(near) {
		t.Error("in the middle", err)
	}
	if _, err := io.ReadFull(near, make([]byte, 2)); err != nil || !Quiet(near) {
		t.Error("at the end", err)
	}
	far.Close()
	until(t, func() bool { return Gone(near) })
	if _, err := near.Read(p); !errors.Is(err, io.EOF) || !Gone(near) {
		t.Error("behind the end", err)
	}
}

// More is done at once than there is room to tell of.
func TestRingOverflow(t *testing.T) {
	r := startRingOf(t, 4, 4)
	var wg sync.WaitGroup
	var far []net.Conn
	for range 64 {
		near, f := ringPair(t, r, "unix")
		far = append(far, f)
		wg.Go(func() {
			if n, err := near.Read(make([]byte, 1)); n != 1 {
				t.Error(n, err)
			}
		})
		until(t, func() bool {
			c := near.(*ringConn)
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.in.waiting
		})
	}
	r.mu.Lock() // which the poller wants before it looks
	for _, f := range far {
		if _, err := f.Write([]byte("a")); err != nil {
			t.Error(err)
		}
	}
	until(t, func() bool { return atomic.LoadUint32(r.flags)&sqCQOverflow != 0 })
	r.mu.Unlock()
	wg.Wait()
}

// What was handed over and isn't taken by the deadline ends the connection, though nobody waits for it.
func TestRingSendsInTime(t *testing.T) {
	near, _ := ringPair(t, startRing(t), "unix")
	c := near.(*ringConn)
	fill := make([]byte, BufferSize)
	for err := error(nil); err == nil; { // until the peer, who reads nothing, has no room
		if uncontrolled := c.control.Control(func(fd uintptr) { _, err = syscall.Write(int(fd), fill) }); uncontrolled != nil {
			t.Fatal(uncontrolled)
		}
		if err != nil && !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
	}
	if err := c.sendBuffer(bufferPool.Get().(*[BufferSize]byte), BufferSize); err != nil {
		t.Fatal(err)
	}
	if err := near.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
