package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// maxPoints bounds what is kept of a primary's past.
const maxPoints = 64

// point: at that time the primary had nothing committed that pos doesn't hold.
type point struct {
	at  time.Time
	pos position
}

// source is a primary, whose position is asked for again and again.
type source struct {
	name    string
	cfg     shard.Config
	columns *columns

	mu     sync.Mutex
	server *server // nil before it has answered
	points []point // the oldest first
	err    error   // why it didn't answer last
}

// errUnasked: it has just been begun with.
var errUnasked = errors.New("it has not been asked yet how far it is")

// known is what the primary has told of itself, or why it hasn't.
func (s *source) known() (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		if s.err != nil {
			return nil, s.err
		}
		return nil, errUnasked
	}
	return s.server, nil
}

// told takes over what the primary answered to a question that was asked at a time.
func (s *source) told(at time.Time, server *server, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err != nil {
		return
	}
	if was := s.server; was != nil && (was.uuid != server.uuid || was.id != server.id) {
		s.points = nil // another server: its positions say nothing of this one's
	}
	s.server = server
	n := len(s.points)
	if n > 0 && !server.pos.reached(s.points[n-1].pos) {
		s.points, n = nil, 0 // its binary log was begun anew
	}
	if n > 0 && s.points[n-1].pos.equal(server.pos) {
		s.points[n-1].at = at // nothing was committed since
		return
	}
	s.points = append(s.points, point{at, server.pos})
	if len(s.points) > maxPoints {
		kept := s.points[:0]
		for i, p := range s.points {
			if i >= maxPoints/2 || i%2 == 0 {
				kept = append(kept, p)
			}
		}
		s.points = kept
	}
}

// until is the latest time of which it is known that all that was committed before
// it is within pos; zero for none.
func (s *source) until(pos position) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, point := range slices.Backward(s.points) {
		if pos.reached(point.pos) {
			return point.at
		}
	}
	return time.Time{}
}

// asking keeps a connection to a server and asks it one question again and again.
type asking struct {
	cfg  shard.Config
	conn *shard.Conn
}

// answerTimeout bounds one answer: a server that is slower is as good as silent.
const answerTimeout = 5 * time.Second

func (a *asking) once(ctx context.Context, question func(context.Context, *shard.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if a.conn == nil {
		conn, err := shard.Dial(ctx, a.cfg, false)
		if err != nil {
			return err
		}
		a.conn = conn
	}
	err := question(ctx, a.conn)
	if a.conn.Broken {
		a.close()
	}
	return err
}

func (a *asking) close() {
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
}
