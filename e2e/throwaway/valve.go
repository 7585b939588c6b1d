package throwaway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// Valve is a TCP proxy in front of a server. Shut, it is a network that drops
// every packet: connections stay, new ones are accepted, and nothing arrives in
// either direction, or in one, until it is opened again.
type Valve struct {
	l  net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	target string
	open   *sync.Cond
	shut   [2]bool // by direction
	delay  time.Duration
	// numbers is added to the server's numbers of connections, as clients are told them.
	numbers uint32
	ended   bool
	conns   map[net.Conn]struct{}
	// clients are the connections' other ends, by the port from which the server is connected to.
	clients map[string]net.Conn
	// forgotten are some of conns.
	forgotten map[*net.TCPConn]bool
	// passed counts bytes, both ways. When left more have gone through, act is called.
	passed, left int64
	act          func(net.Conn)
}

// direction of what passes.
type direction int

const (
	toServer direction = iota
	toClient
)

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
	v := &Valve{l: l, target: target, conns: map[net.Conn]struct{}{}, clients: map[string]net.Conn{}, forgotten: map[*net.TCPConn]bool{}}
	v.open = sync.NewCond(&v.mu)
	v.wg.Go(v.accept)
	return v, nil
}

// Addr is where to connect to instead of to the target.
func (v *Valve) Addr() string { return v.l.Addr().String() }

// Shut drops what comes from now on.
func (v *Valve) Shut() { v.set(true, true) }

// ShutRequests drops what clients send, ShutAnswers what the server does; the other way all is as before.
func (v *Valve) ShutRequests() { v.set(true, false) }

// ShutAnswers is ShutRequests' opposite.
func (v *Valve) ShutAnswers() { v.set(false, true) }

// Open lets everything through again, what was held back first.
func (v *Valve) Open() { v.set(false, false) }

func (v *Valve) set(requests, answers bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = [2]bool{toServer: requests, toClient: answers}
	v.open.Broadcast()
}

// Delay holds up what comes from now on for so long, each way; 0: no more.
func (v *Valve) Delay(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.delay = d
}

// Renumber has clients be told other numbers of their connections, as a proxy tells them which speaks MySQL.
func (v *Valve) Renumber(add uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.numbers = add
}

// greet passes a server's greeting on: behind its header are a byte, a version, a zero byte and the number.
func (v *Valve) greet(client, server net.Conn) error {
	v.mu.Lock()
	add := v.numbers
	v.mu.Unlock()
	if add == 0 {
		return nil
	}
	packet := make([]byte, 4)
	if _, err := io.ReadFull(server, packet); err != nil {
		return err
	}
	body := make([]byte, int(packet[0])|int(packet[1])<<8|int(packet[2])<<16)
	if _, err := io.ReadFull(server, body); err != nil {
		return err
	}
	if at := 1 + bytes.IndexByte(body[1:], 0) + 1; body[0] == 10 && at+4 <= len(body) {
		binary.LittleEndian.PutUint32(body[at:], binary.LittleEndian.Uint32(body[at:])+add)
	}
	_, err := client.Write(append(packet, body...))
	return err
}

// late holds up what has just come. Of what comes meanwhile all is late, as on a way that is long.
func (v *Valve) late() {
	v.mu.Lock()
	d := v.delay
	v.mu.Unlock()
	time.Sleep(d)
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

// Live reports whether the connection that the server has from a port has a client still: neither has the valve
// cut it, nor has the client closed it, be it that the valve hasn't come to tell the server. Of one whose
// client has just sent something it reports false as well, until that has passed.
func (v *Valve) Live(port string) bool {
	v.mu.Lock()
	client, ok := v.clients[port].(syscall.Conn)
	v.mu.Unlock()
	if !ok {
		return false
	}
	raw, err := client.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		// Behind what waits to be passed on the end may be waiting, too.
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && open
}

// reached notes a client's connection to the server.
func (v *Valve) reached(server, client net.Conn) (port string, ok bool) {
	if !v.add(server) {
		return "", false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_, port, err := net.SplitHostPort(server.LocalAddr().String())
	v.clients[port] = client
	return port, err == nil
}

// parted forgets what reached has noted, which may be another one's by then.
func (v *Valve) parted(port string, client net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clients[port] == client {
		delete(v.clients, port)
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
func (v *Valve) pass(d direction) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.shut[d] && !v.ended {
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
	if !v.pass(toServer) {
		return
	}
	v.mu.Lock()
	target := v.target
	v.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	port, ok := v.reached(server, client)
	defer v.parted(port, client)
	defer v.remove(server)
	if !ok || v.greet(client, server) != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { v.copy(server, client, toServer) })
	v.copy(client, server, toClient)
	both.Wait()
}

// copy ends both connections when one ends, once the valve lets that through.
func (v *Valve) copy(to, from net.Conn, d direction) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		v.late()
		if !v.pass(d) {
			return
		}
		if v.refuses(from) {
			n, err = 0, io.EOF
		}
		sent, act := v.due(n)
		if act != nil {
			_, _ = to.Write(buf[:sent]) // what comes behind fails as well
			if act(from); !v.pass(d) {
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
