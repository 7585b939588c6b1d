package virtual

import (
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestLag: no fast read is later than Lag tells, while a log tells nothing, and behind a restart.
func TestLag(t *testing.T) {
	t.Parallel()
	w := newWorld(1, catalog.CountRows)
	w.quiet = true
	read := func(e *Engine) int64 { // as a fast read does, of what isn't kept
		n, _ := w.read(1, e.Columns()[0], catalog.VirtualHot{})
		return n
	}
	rows := 0
	missing := func(t *testing.T, e *Engine, since time.Time) {
		t.Helper()
		// Long behind the row, so that its time is no lag of the row's.
		becomes(t, "it is consolidated", func() bool { return e.Rows()[0].Consolidated.After(since.Add(50 * time.Millisecond)) })
		n, late := read(e), time.Since(since)
		if lag := e.Rows()[0].Lag; n != int64(rows-1) || lag >= 0 && lag < late {
			t.Errorf("a read has %d of %d rows, the last of which came %v ago; lag is %v", n, rows, late, lag)
		}
	}
	comes := func(t *testing.T, e *Engine, since time.Time) {
		t.Helper()
		w.hold(false)
		becomes(t, "the lag is known again", func() bool { lag := e.Rows()[0].Lag; return lag >= 0 && lag < time.Since(since) })
		if n := read(e); n != int64(rows) {
			t.Errorf("a read has %d of %d rows", n, rows)
		}
	}
	write := func() time.Time {
		rows++
		w.commit(0, rows, &simRow{1, 1})
		return time.Now()
	}
	o := Options{KeepFor: time.Hour, KeepMost: 10, Every: time.Millisecond, At: 1e9}
	t.Run("log", func(t *testing.T) {
		e, _ := startEngine(t, w, o)
		comes(t, e, write())
		w.hold(true)
		since := write()
		missing(t, e, since)
		comes(t, e, since)
		w.hold(true)
	})
	since := write()
	t.Run("restart", func(t *testing.T) {
		e, _ := startEngine(t, w, o)
		missing(t, e, since)
		comes(t, e, since)
	})
}

// hold has no log tell anything, or all.
func (w *world) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	close(w.more)
	w.more = make(chan struct{})
}
