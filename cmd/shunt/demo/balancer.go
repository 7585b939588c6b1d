package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// balancer hands each connection to the next member that is ready, as haproxy does by
// `option httpchk GET /readyz`.
type balancer struct {
	listener net.Listener
	members  []*member
	turn     atomic.Uint64
	// conns are those that are open, both ways.
	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// lookEvery is the time between two looks whether a member is ready.
const lookEvery = 200 * time.Millisecond

func newBalancer(addr string, members []*member) (*balancer, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return &balancer{listener: l, members: members, conns: map[net.Conn]bool{}}, nil
}

// run balances until ctx ends, and returns when all connections are closed.
func (b *balancer) run(ctx context.Context) {
	for _, m := range b.members {
		b.wg.Go(func() { m.look(ctx) })
	}
	stop := context.AfterFunc(ctx, func() {
		b.listener.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for c := range b.conns {
			c.Close()
		}
	})
	defer stop()
	for {
		client, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // out of files, say
			select {
			case <-ctx.Done():
			case <-time.After(lookEvery):
			}
			continue
		}
		b.wg.Go(func() { b.serve(ctx, client) })
	}
	b.wg.Wait()
}

// serve copies both ways until one of them ends.
func (b *balancer) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	to := b.dial(ctx)
	if to == nil {
		return
	}
	defer to.Close()
	if !b.keep(ctx, client, to) {
		return
	}
	defer b.forget(client, to)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, to)
		client.Close()
	})
	_, _ = io.Copy(to, client)
	to.Close()
	back.Wait()
}

func (b *balancer) keep(ctx context.Context, conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range conns {
		b.conns[c] = true
	}
	return ctx.Err() == nil
}

func (b *balancer) forget(conns ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range conns {
		delete(b.conns, c)
	}
}

// dial connects to the member whose turn it is; nil: none is there.
func (b *balancer) dial(ctx context.Context) net.Conn {
	first := int(b.turn.Add(1))
	for i := range b.members {
		m := b.members[(first+i)%len(b.members)]
		if !m.ready.Load() {
			continue
		}
		d := net.Dialer{Timeout: time.Second}
		conn, err := d.DialContext(ctx, "tcp", m.addr)
		if err == nil {
			return conn
		}
		m.ready.Store(false)
	}
	return nil
}

// look keeps whether the member is ready.
func (m *member) look(ctx context.Context) {
	for {
		ready := m.answers(ctx)
		m.ready.Store(ready)
		if ready {
			m.served.Store(true)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return
		}
	}
}

// answers reports that /readyz is 200.
func (m *member) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
