package throwaway

import (
	"io"
	"net"
	"runtime"
	"testing"
)

// TestValveLive: connections that were cut, or that their clients have closed, are told from others.
func TestValveLive(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	v, err := NewValve(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	// connect returns both ends of a connection that something has passed.
	connect := func() (client, at net.Conn, port string) {
		t.Helper()
		client, err := net.Dial("tcp", v.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		if at, err = server.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { at.Close() })
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(at, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if _, port, err = net.SplitHostPort(at.RemoteAddr().String()); err != nil {
			t.Fatal(err)
		}
		return client, at, port
	}
	_, cut, before := connect()
	if !v.Live(before) {
		t.Error("one that is there is not")
	}
	v.Cut()
	if v.Live(before) {
		t.Error("one that was cut is live")
	}
	if _, err := cut.Read(make([]byte, 1)); err == nil {
		t.Error("it is not cut")
	}
	closed, _, port := connect()
	_, _, other := connect()
	v.Shut() // nothing is passed on
	if _, err := closed.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for v.Live(port) { // a busy kernel tells of the end a moment later
		runtime.Gosched()
	}
	if !v.Live(other) || v.Live(before) {
		t.Errorf("another one: %t, the one that was cut: %t", v.Live(other), v.Live(before))
	}
}
