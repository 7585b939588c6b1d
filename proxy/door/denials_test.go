package door

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// TestDenials: delays grow, in sequence however many connections try, are bounded,
// and are over with a log-in or a quiet time.
func TestDenials(t *testing.T) {
	var d Denials
	now := time.Unix(1000, 0)
	for i, want := range []int64{0, 0, 0, 100, 200, 400, 800, 1600, 3200, 3200} {
		n, wait := d.Failed("a", "u", now)
		if n != i+1 || wait.Milliseconds() != want {
			t.Errorf("failure %d waits %v, want %d ms", n, wait, want)
		}
		now = now.Add(wait)
	}
	if _, wait := d.Failed("b", "u", now); wait != 0 {
		t.Errorf("another address waits %v", wait)
	}
	// Many at once are answered one after the other, and then turned away.
	var waits []time.Duration
	for range 4 {
		_, wait := d.Failed("a", "u", now)
		waits = append(waits, wait)
	}
	if s := fmt.Sprint(waits); s != "[3.2s 6.4s 8s 8s]" {
		t.Error(s)
	}
	if !d.Blocked("a", now) || d.Blocked("b", now) {
		t.Error("who has too many answers due isn't blocked, or another is")
	}
	if d.Blocked("a", now.Add(deniedQueue)) {
		t.Error("it is blocked for longer than its answers take")
	}
	now = now.Add(deniedFor + time.Second)
	if _, wait := d.Failed("a", "u", now); wait != 0 {
		t.Errorf("waits %v after a quiet time", wait)
	}
	for range 5 {
		d.Failed("a", "u", now)
	}
	d.Passed("a", "u")
	if n, wait := d.Failed("a", "u", now); n != 1 || wait != 0 {
		t.Errorf("%d failures after a log-in", n)
	}
}

func TestDenialsAreBounded(t *testing.T) {
	var d Denials
	now := time.Unix(1000, 0)
	for i := range 3 * deniedAddresses {
		d.Failed(fmt.Sprint(i), "u", now)
	}
	if len(d.byHost) > deniedAddresses {
		t.Errorf("%d addresses are kept", len(d.byHost))
	}
	if n, _ := d.Failed(fmt.Sprint(3*deniedAddresses-1), "u", now); n != 2 {
		t.Error("the newest has been forgotten")
	}
	if !d.swept.Equal(now) {
		t.Error("nothing was swept")
	}
	now = now.Add(deniedFor + time.Second)
	d.Failed("new", "u", now)
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
		if got := HostOf(x.addr); got != x.want {
			t.Errorf("%v: %s, want %s", x.addr, got, x.want)
		}
	}
}

// TestDeniedAmongOthers: who logs in between as somebody else goes on waiting.
func TestDeniedAmongOthers(t *testing.T) {
	var d Denials
	now := time.Unix(1000, 0)
	for i := range 6 {
		now = now.Add(10 * time.Second)
		_, wait := d.Failed("a", "admin", now)
		if (wait > 0) != (i >= deniedFree) {
			t.Errorf("failure %d waits %v", i, wait)
		}
		d.Passed("a", "own")
	}
	for range 20 {
		d.Failed("a", "admin", now)
	}
	if !d.Blocked("a", now) {
		t.Error("the address was to be blocked")
	}
	if d.Passed("a", "own"); d.Blocked("a", now) {
		t.Error("somebody has logged in: others may come")
	}
	d.Passed("a", "admin")
	if _, wait := d.Failed("a", "admin", now); wait > 0 {
		t.Error("the user himself has logged in: he waits no more")
	}
}
