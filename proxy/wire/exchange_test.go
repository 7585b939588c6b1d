package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// socketPair is both ends of a TCP connection.
func socketPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func newExchange(t *testing.T, nc net.Conn) (*Exchange, *Reader, *Writer) {
	t.Helper()
	r, w := NewReader(nc), NewWriter(nc)
	e := NewExchange(nc, r, w)
	if e == nil {
		t.Skip("no exchanges here")
	}
	return e, r, w
}

// answerEach answers each command with its own bytes, after it has come whole.
func answerEach(nc net.Conn) {
	r, w := NewReader(nc), NewWriter(nc)
	for {
		r.SetSequence(0)
		p, err := r.ReadPacket(1 << 30)
		if err != nil {
			return
		}
		w.SetSequence(1)
		if w.WritePacket(bytes.Clone(p)) != nil || w.Flush() != nil {
			return
		}
	}
}

func TestExchange(t *testing.T) {
	near, far := socketPair(t)
	go answerEach(far)
	e, r, w := newExchange(t, near)
	for i := range 2000 {
		// Some are larger than the buffer, and than what the socket takes at once.
		size := i % 300
		if i%100 == 99 {
			size = BufferSize * (i / 100 * 16)
		}
		want := bytes.Repeat([]byte{byte(i)}, size+1)
		if err := w.WriteCommand(want[0], want[1:]); err != nil {
			t.Fatal(err)
		}
		if err := e.Do(); err != nil {
			t.Fatal(err)
		}
		if w.Buffered() != 0 {
			t.Fatalf("%d bytes were not sent", w.Buffered())
		}
		r.SetSequence(1)
		got, err := r.ReadPacket(1 << 30)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("answer %d has %d bytes, want %d", i, len(got), len(want))
		}
		r.Release()
	}
}

func TestExchangeWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(near, far *net.TCPConn)
		want error
	}{
		"closed":      {func(_, far *net.TCPConn) { far.CloseWrite() }, io.EOF},
		"interrupted": {func(near, _ *net.TCPConn) { _ = near.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := socketPair(t)
			e, _, w := newExchange(t, near)
			if err := w.WriteCommand(3, []byte("SELECT 1")); err != nil {
				t.Fatal(err)
			}
			go func() {
				// It has the command, so the exchange waits or is about to.
				_, _ = io.ReadFull(far, make([]byte, 13))
				c.do(near, far)
			}()
			if err := e.Do(); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if w.Sent() != 13 {
				t.Errorf("%d bytes sent, want 13", w.Sent())
			}
		})
	}
}

// A connection that was interrupted before has sent nothing.
func TestExchangeUnsent(t *testing.T) {
	near, _ := socketPair(t)
	e, _, w := newExchange(t, near)
	_ = near.SetDeadline(time.Unix(1, 0))
	if err := w.WriteCommand(3, []byte("SELECT 1")); err != nil {
		t.Fatal(err)
	}
	if err := e.Do(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if w.Sent() != 0 || w.Err() == nil {
		t.Errorf("%d bytes sent, error %v", w.Sent(), w.Err())
	}
}

// A server that closes an idle connection, and may say why before, is noticed though
// it did so before the wait began: its end resets what is sent to it.
func TestExchangeWithClosedPeer(t *testing.T) {
	for range 200 {
		near, far := socketPair(t)
		e, r, w := newExchange(t, near)
		_ = near.SetDeadline(time.Now().Add(10 * time.Second)) // or the test would hang
		if _, err := far.Write([]byte("\x01\x00\x00\x00\xff")); err != nil {
			t.Fatal(err)
		}
		far.Close()
		if err := w.WriteCommand(3, []byte("SELECT 1")); err != nil {
			t.Fatal(err)
		}
		if err := e.Do(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("waited for a connection that is closed")
		} else if err == nil && r.Buffered() != 5 {
			t.Fatalf("%d bytes and no error", r.Buffered())
		}
		near.Close()
	}
}
