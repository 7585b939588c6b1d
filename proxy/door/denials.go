package door

import (
	"net"
	"sync"
	"time"
)

const (
	// deniedFree is how many log-ins from one address may fail before the next
	// ones wait: somebody who mistypes his password shall not.
	deniedFree = 3
	// deniedFirst is what the first of those waits; each further one waits twice
	// as long, up to deniedMost.
	deniedFirst = 100 * time.Millisecond
	deniedMost  = 3200 * time.Millisecond
	// deniedQueue: answers to one address are given one after the other. Who has
	// more of them due than fit into this time is turned away at the door, or many
	// connections at once would try as fast as one without delays.
	deniedQueue = 8 * time.Second
	// deniedFor is when an address that has been quiet is as any other again.
	deniedFor = 10 * time.Minute
	// deniedAddresses bounds the table. Who has as many addresses isn't held up by
	// delays either way.
	deniedAddresses = 10_000
)

// Denials counts failed log-ins by the address that they came from.
type Denials struct {
	mu     sync.Mutex
	byHost map[string]*denied
	swept  time.Time
}

type denied struct {
	failures int
	// user is whose log-ins failed, "" for several.
	user string
	last time.Time
	// due is when the last answer is given that was put off.
	due time.Time
}

// HostOf is what counts as one address: for IPv6 the /64 that one machine has
// for itself.
func HostOf(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return "" // this machine
	}
	if tcp.IP.To4() == nil && len(tcp.IP) == net.IPv6len {
		return tcp.IP.Mask(net.CIDRMask(64, 128)).String()
	}
	return tcp.IP.String()
}

// Failed counts a failed log-in, and says how long its answer is to wait.
func (d *Denials) Failed(host, user string, now time.Time) (failures int, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.byHost[host]
	if x == nil || now.Sub(x.last) > deniedFor {
		if x == nil && len(d.byHost) >= deniedAddresses {
			d.makeRoomLocked(now)
		}
		x = &denied{user: user}
		if d.byHost == nil {
			d.byHost = map[string]*denied{}
		}
		d.byHost[host] = x
	}
	x.failures++
	x.last = now
	if x.user != user {
		x.user = ""
	}
	if x.failures <= deniedFree {
		return x.failures, 0
	}
	wait = min(deniedFirst<<min(x.failures-deniedFree-1, 10), deniedMost)
	if x.due.Before(now) {
		x.due = now
	}
	// Those that were let in at once don't keep the others out for longer.
	if x.due = x.due.Add(wait); x.due.Sub(now) > 2*deniedQueue {
		x.due = now.Add(2 * deniedQueue)
	}
	return x.failures, min(x.due.Sub(now), deniedQueue)
}

// makeRoomLocked forgets whoever has been quiet for long, or else anybody.
func (d *Denials) makeRoomLocked(now time.Time) {
	if now.Sub(d.swept) > time.Minute { // or a full table would be walked at each
		d.swept = now
		for host, x := range d.byHost {
			if now.Sub(x.last) > deniedFor {
				delete(d.byHost, host)
			}
		}
	}
	for host := range d.byHost {
		if len(d.byHost) < deniedAddresses {
			break
		}
		delete(d.byHost, host)
	}
}

// Blocked reports an address that has more answers due than it is given time.
func (d *Denials) Blocked(host string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.byHost[host]
	return x != nil && x.due.Sub(now) > deniedQueue
}

// Passed forgets an address from which the user has logged in whose log-ins failed.
// Another's opens the door to the address again and no more: who has a password of
// his own would try one of somebody else as fast as he likes, logging in between.
func (d *Denials) Passed(host, user string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch x := d.byHost[host]; {
	case x == nil:
	case x.user == user:
		delete(d.byHost, host)
	default:
		x.due = time.Time{}
	}
}
