package proxy

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// TestDenials: delays grow, in sequence however many connections try, are bounded,
// and are over with a log-in or a quiet time.
func TestDenials(t *testing.T) {
	var d denials
	now := time.Unix(1000, 0)
	for i, want := range []int64{0, 0, 0, 100, 200, 400, 800, 1600, 3200, 3200} {
		n, wait := d.failed("a", "u", now)
		if n != i+1 || wait.Milliseconds() != want {
			t.Errorf("failure %d waits %v, want %d ms", n, wait, want)
		}
		now = now.Add(wait)
	}
	if _, wait := d.failed("b", "u", now); wait != 0 {
		t.Errorf("another address waits %v", wait)
	}
	// Many at once are answered one after the other, and then turned away.
	var waits []time.Duration
	for range 4 {
		_, wait := d.failed("a", "u", now)
		waits = append(waits, wait)
	}
	if s := fmt.Sprint(waits); s != "[3.2s 6.4s 8s 8s]" {
		t.Error(s)
	}
	if !d.blocked("a", now) || d.blocked("b", now) {
		t.Error("who has too many answers due isn't blocked, or another is")
	}
	if d.blocked("a", now.Add(deniedQueue)) {
		t.Error("it is blocked for longer than its answers take")
	}
	now = now.Add(deniedFor + time.Second)
	if _, wait := d.failed("a", "u", now); wait != 0 {
		t.Errorf("waits %v after a quiet time", wait)
	}
	for range 5 {
		d.failed("a", "u", now)
	}
	d.passed("a", "u")
	if n, wait := d.failed("a", "u", now); n != 1 || wait != 0 {
		t.Errorf("%d failures after a log-in", n)
	}
}

func TestDenialsAreBounded(t *testing.T) {
	var d denials
	now := time.Unix(1000, 0)
	for i := range 3 * deniedAddresses {
		d.failed(fmt.Sprint(i), "u", now)
	}
	if len(d.byHost) > deniedAddresses {
		t.Errorf("%d addresses are kept", len(d.byHost))
	}
	if n, _ := d.failed(fmt.Sprint(3*deniedAddresses-1), "u", now); n != 2 {
		t.Error("the newest has been forgotten")
	}
	if !d.swept.Equal(now) {
		t.Error("nothing was swept")
	}
	now = now.Add(deniedFor + time.Second)
	d.failed("new", "u", now)
	if len(d.byHost) != 1 {
		t.Errorf("%d quiet addresses are kept", len(d.byHost)-1)
	}
}

func TestHostOf(t *testing.T) {
	for _, x := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 5}, "10.0.0.1"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3:4:5:6")}, "2001:db8:1:2::"},
		{&net.UnixAddr{Name: "x"}, ""},
	} {
		if got := hostOf(x.addr); got != x.want {
			t.Errorf("%v: %s, want %s", x.addr, got, x.want)
		}
	}
}

// TestDeniedAmongOthers: who logs in between as somebody else goes on waiting.
func TestDeniedAmongOthers(t *testing.T) {
	var d denials
	now := time.Unix(1000, 0)
	for i := range 6 {
		now = now.Add(10 * time.Second)
		_, wait := d.failed("a", "admin", now)
		if (wait > 0) != (i >= deniedFree) {
			t.Errorf("failure %d waits %v", i, wait)
		}
		d.passed("a", "own")
	}
	for range 20 {
		d.failed("a", "admin", now)
	}
	if !d.blocked("a", now) {
		t.Error("the address was to be blocked")
	}
	if d.passed("a", "own"); d.blocked("a", now) {
		t.Error("somebody has logged in: others may come")
	}
	d.passed("a", "admin")
	if _, wait := d.failed("a", "admin", now); wait > 0 {
		t.Error("the user himself has logged in: he waits no more")
	}
}
