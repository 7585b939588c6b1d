package shard

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// fakeShard is a server that answers what a test wants.
type fakeShard struct {
	addr string
	// answer is called for each command that isn't COM_QUIT, COM_PING or what Dial says.
	answer func(c *wire.Conn, cmd byte, payload []byte) error
	// answerRaw is sent instead, where answer is nil, and the connection ends.
	answerRaw []byte
	// limit is max_connections, where set.
	limit int

	mu    sync.Mutex
	l     net.Listener
	conns map[*wire.Conn]struct{}
	dials int
	pings int // that were answered
	wg    sync.WaitGroup
}

func ok(c *wire.Conn, _ byte, _ []byte) error {
	return c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT})
}

func startFake(t *testing.T, answer func(*wire.Conn, byte, []byte) error) *fakeShard {
	t.Helper()
	f := &fakeShard{addr: "127.0.0.1:0", answer: answer, conns: map[*wire.Conn]struct{}{}}
	f.start(t)
	t.Cleanup(f.stop)
	return f
}

func (f *fakeShard) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	f.l, f.addr = l, l.Addr().String()
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.dials++
			id := uint32(f.dials)
			f.mu.Unlock()
			f.wg.Go(func() { f.serve(nc, id) })
		}
	})
}

func (f *fakeShard) serve(nc net.Conn, id uint32) {
	if f.limit > 0 && f.open() >= f.limit {
		_ = wire.Reject(nc, mysqlerr.New(mysqlerr.TooManyConnections, "Too many connections"))
		return
	}
	c, err := wire.Accept(context.Background(), nc, wire.Options{
		ServerVersion: "8.4.0-fake", ConnectionID: id,
		Users: func(string) (wire.Credential, bool) { return wire.Credential{}, true },
	})
	if err != nil {
		return
	}
	f.mu.Lock()
	f.conns[c] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.conns, c)
		f.mu.Unlock()
		_ = c.Close()
	}()
	if ok(c, 0, nil) != nil {
		return
	}
	for {
		cmd, p, err := c.ReadCommand()
		if err != nil || cmd == mysql.COM_QUIT {
			return
		}
		if cmd == mysql.COM_PING {
			err = f.pong(c)
		} else if string(p) == setAutocommit {
			if err = ok(c, cmd, p); err == nil {
				err = c.Flush()
			}
		} else if f.answer == nil {
			_, _ = nc.Write(f.answerRaw)
			return
		} else {
			err = f.answer(c, cmd, p)
		}
		if err != nil {
			return
		}
	}
}

func (f *fakeShard) pong(c *wire.Conn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT}); err != nil {
		return err
	}
	f.pings++
	return c.Flush()
}

// dropAll closes every connection, as a server that dies does, and returns how
// many pings were answered before.
func (f *fakeShard) dropAll() (pings int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
	return f.pings
}

func (f *fakeShard) pinged() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pings
}

func (f *fakeShard) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

func (f *fakeShard) dialed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

func (f *fakeShard) stop() {
	_ = f.l.Close()
	f.dropAll()
	f.wg.Wait()
}

func (f *fakeShard) config() Config {
	return Config{Name: "s1", Addr: f.addr, User: "root", ConnectTimeout: 10 * time.Second}
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// testClient is a wire.Conn and the other end of its connection.
type testClient struct {
	*wire.Conn
	far net.Conn
}

func newClient(t testing.TB) *testClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return &testClient{Conn: wire.NewConn(near), far: far}
}

const sentinel = "\x7Fthe end"

// collect runs fn, which writes packets to the client, and returns what
// arrives, with sequence numbers checked.
func (c *testClient) collect(t *testing.T, fn func()) [][]byte {
	t.Helper()
	got := make(chan [][]byte, 1)
	seq := c.Writer().Sequence()
	go func() {
		var packets [][]byte
		r := wire.NewReader(c.far)
		r.SetSequence(seq)
		for {
			p, err := r.ReadPacket(1 << 30)
			if err != nil {
				t.Errorf("the client reads: %v", err)
				break
			}
			if string(p) == sentinel {
				break
			}
			packets = append(packets, append([]byte(nil), p...))
		}
		got <- packets
	}()
	fn()
	if c.WritePacket([]byte(sentinel)) != nil || c.Flush() != nil {
		t.Fatal(c.Err())
	}
	return <-got
}
