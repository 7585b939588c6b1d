package shard

import (
	"time"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// Where several connections' answers are awaited, one that is late is no reason to
// let the others lie, nor what has been read of them.

// Watch bounds by w how long reads wait before w.Late is called, nil for no bound,
// as it must be when the connection is put back.
func (c *Conn) Watch(w *wire.Patience) {
	if w == nil {
		c.r.SetPatience(nil, nil)
		return
	}
	c.r.SetPatience(w, (*deadliner)(c))
}

// Arrive waits until the answer that is due has begun, or has failed, which the
// reading of it will tell. late: that was too long for who watches, who has been
// told.
func (c *Conn) Arrive() (late bool) { return c.r.Arrive() }

// Arrived reports, at the price of a system call, whether Arrive would not wait.
func (c *Conn) Arrived() bool { return c.r.Buffered() > 0 || !wire.Quiet(c.nc) }

// deadliner is a connection that Patience wakes.
type deadliner Conn

// SetReadDeadline implements wire.Deadliner. An Interrupt stays in force.
func (d *deadliner) SetReadDeadline(t time.Time) error {
	err := d.nc.SetReadDeadline(t)
	if d.interrupted.Load() {
		(*Conn)(d).Interrupt()
	}
	return err
}
