package proxy

import (
	"fmt"
	"runtime/debug"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// What sessions keep for their clients between statements is bounded by bytes, for each
// and for all together: prepared statements, pieces of their parameters, user variables.
const (
	// heldPrepared is what a prepared statement takes for each byte of its text, with its
	// plan, and heldEach what anything takes besides.
	heldPrepared = 4
	heldEach     = 2 << 10
	// heldVariable is what a user variable takes beside its statement: its mark is kept by
	// each connection to a shard.
	heldVariable = 4 << 10
	// heldShare is the part of a memory limit that all may have.
	heldShare = 4
)

// hold counts bytes that the session is about to keep, unless there would be too many; n
// below 0 gives some back.
func (s *session) hold(n int64) error {
	if n > 0 {
		if err := s.mayHold(n); err != nil {
			return err
		}
	}
	s.letGoOf(-n)
	return nil
}

// letGoOf gives bytes back.
func (s *session) letGoOf(n int64) {
	s.held -= n
	s.proxy.held.Add(-n)
}

// mayHold is hold's error.
func (s *session) mayHold(n int64) error {
	if n <= 0 {
		return nil
	}
	l := s.proxy.limits.Load()
	if s.held+n > l.SessionBytes {
		return tooMuchHeld("session_max_bytes", l.SessionBytes, fmt.Sprintf("This session keeps %d bytes of prepared statements, their parameters and user variables, and %d more are asked for: close statements or set variables to NULL, or raise session_max_bytes", s.held, n))
	}
	if all := min(l.SessionsBytes, debug.SetMemoryLimit(-1)/heldShare); s.proxy.held.Load()+n > all {
		return tooMuchHeld("sessions_max_bytes", all, fmt.Sprintf("All sessions together keep %d bytes of prepared statements, their parameters and user variables, and %d more are asked for: try again later, or raise sessions_max_bytes, which is at most a quarter of the memory limit", s.proxy.held.Load(), n))
	}
	return nil
}

// tooMuchHeld is ER_CAPACITY_EXCEEDED.
func tooMuchHeld(key string, most int64, what string) error {
	return mysqlerr.Newf(mysqlerr.CapacityExceeded, "Memory capacity of %d bytes for '%s' exceeded. %s", most, key, what)
}

// keep makes settings the session's, if their user variables have room.
func (s *session) keep(next settings) error {
	if err := s.hold(next.bytes() - s.settings.bytes()); err != nil {
		return err
	}
	s.settings = next
	return nil
}

// bytes are what the settings take.
func (s *settings) bytes() (n int64) {
	for i := range s.users {
		n += int64(len(s.users[i].statement)) + heldVariable
	}
	for i := range s.vars {
		n += int64(len(s.vars[i].statement)) + heldEach
	}
	return n
}

// bytes are what a statement takes that is kept with its plan.
func preparedBytes(text string) int64 { return heldPrepared*int64(len(text)) + heldEach }
