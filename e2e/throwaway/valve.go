package throwaway

import (
	"io"
	"net"
	"sync"
)

// Valve is a TCP proxy in front of a server. Shut, it is a network that drops
// every packet: connections stay, new ones are accepted, and nothing arrives in
// either direction until it is opened again.
type Valve struct {
	l  net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	target string
	open   *sync.Cond
	shut   bool
	ended  bool
	conns  map[net.Conn]struct{}
	// forgotten are some of conns.
	forgotten map[*net.TCPConn]bool
	// passed counts bytes, both ways. When left more have gone through, act is called.
	passed, left int64
	act          func(net.Conn)
}

// NewValve listens on a free port of 127.0.0.1 for connections to target.
func NewValve(target string) (*Valve, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, err
	}
	v := &Valve{l: l, target: target, conns: map[net.Conn]struct{}{}, forgotten: map[*net.TCPConn]bool{}}
	v.open = sync.NewCond(&v.mu)
	v.wg.Go(v.accept)
	return v, nil
}

// Addr is where to connect to instead of to the target.
func (v *Valve) Addr() string { return v.l.Addr().String() }

// Shut drops what comes from now on.
func (v *Valve) Shut() { v.set(true) }

// Open lets everything through again, what was held back first.
func (v *Valve) Open() { v.set(false) }

func (v *Valve) set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
	v.open.Broadcast()
}

// Forget makes the connections that are there answer with a reset when something
// is sent over them, as a firewall does that has forgotten them: until then
// nothing shows.
func (v *Valve) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for c := range v.conns {
		if tc, ok := c.(*net.TCPConn); ok {
			v.forgotten[tc] = true
		}
	}
}

// Passed is how many bytes have come through, both ways.
func (v *Valve) Passed() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.passed
}

// After has act called, once, when n more bytes have gone through, with the
// connection whose next byte waits for act to return; nil calls it off.
func (v *Valve) After(n int64, act func(net.Conn)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left, v.act = n, act
}

// due counts n bytes that are to go through. Where an act comes between them, first
// is how many go before it.
func (v *Valve) due(n int) (first int, act func(net.Conn)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.passed += int64(n)
	if v.act == nil {
		return n, nil
	}
	first = int(min(v.left, int64(n)))
	if v.left -= int64(n); v.left <= 0 {
		act, v.act = v.act, nil
	}
	return first, act
}

// Cut ends the connections that are there, in the midst of whatever passes.
func (v *Valve) Cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for c := range v.conns {
		c.Close()
	}
}

// Lead has new connections go to another server, as an address does that was
// given to a replica. Those that are there stay.
func (v *Valve) Lead(target string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.target = target
}

// refuses ends a forgotten connection.
func (v *Valve) refuses(c net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	tc, ok := c.(*net.TCPConn)
	if !ok || !v.forgotten[tc] {
		return false
	}
	_ = tc.SetLinger(0) // Close sends a reset
	return true
}

// Close ends all connections.
func (v *Valve) Close() {
	v.mu.Lock()
	v.ended = true
	for c := range v.conns {
		c.Close()
	}
	v.open.Broadcast()
	v.mu.Unlock()
	v.l.Close()
	v.wg.Wait()
}

// pass waits until the valve is open; false when it has ended.
func (v *Valve) pass() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.shut && !v.ended {
		v.open.Wait()
	}
	return !v.ended
}

func (v *Valve) add(c net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		c.Close()
		return false
	}
	v.conns[c] = struct{}{}
	return true
}

func (v *Valve) remove(c net.Conn) {
	c.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.conns, c)
	if tc, ok := c.(*net.TCPConn); ok {
		delete(v.forgotten, tc)
	}
}

func (v *Valve) accept() {
	for {
		c, err := v.l.Accept()
		if err != nil {
			return
		}
		v.wg.Go(func() { v.serve(c) })
	}
}

func (v *Valve) serve(client net.Conn) {
	if !v.add(client) {
		return
	}
	defer v.remove(client)
	if !v.pass() {
		return
	}
	v.mu.Lock()
	target := v.target
	v.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil || !v.add(server) {
		return
	}
	defer v.remove(server)
	var both sync.WaitGroup
	both.Go(func() { v.copy(server, client) })
	v.copy(client, server)
	both.Wait()
}

// copy ends both connections when one ends, once the valve lets that through.
func (v *Valve) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !v.pass() {
			return
		}
		if v.refuses(from) {
			n, err = 0, io.EOF
		}
		sent, act := v.due(n)
		if act != nil {
			_, _ = to.Write(buf[:sent]) // what comes behind fails as well
			if act(from); !v.pass() {
				return
			}
		} else {
			sent = 0
		}
		if n > sent {
			if _, writeErr := to.Write(buf[sent:n]); writeErr != nil {
				err = io.EOF
			}
		}
		if err != nil {
			to.Close()
			from.Close()
			return
		}
	}
}
