package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// Replica is a server that replicates from a shard's primary.
type Replica struct {
	// Pool has connections that refuse to write (shard.Config.ReadOnly).
	Pool *shard.Pool

	cfg    shard.Config
	health *shard.Health
	source *source
	set    *Set
	state  atomic.Pointer[state]
	// columns of its tables, to be those of the source.
	columns *columns
	// reads counts statements.
	reads  atomic.Uint64
	cancel context.CancelFunc
}

// state is what is known of a replica.
type state struct {
	// until: it has all that was committed on the primary before this time; zero:
	// nothing is known.
	until time.Time
	// err is why it isn't to be read from, however far it is; nil for nothing.
	err error
}

// States of a replica, as Status names them.
const (
	Up      = "up"      // may be read from
	Down    = "down"    // doesn't answer
	Stopped = "stopped" // its replication doesn't run
	Refused = "refused" // is no fit copy of its primary
	Lagging = "lagging" // too far behind
)

// Status is what SHOW SHARDS tells of a replica.
type Status struct {
	State string
	// Behind is by how much it is behind at most; negative: not known.
	Behind time.Duration
	Err    error
}

// Addr is the replica's address, which names it.
func (r *Replica) Addr() string { return r.cfg.Addr }

// Reads counts the statements that were sent to it.
func (r *Replica) Reads() uint64 { return r.reads.Load() }

// Read counts a statement.
func (r *Replica) Read() { r.reads.Add(1) }

// Alive reports whether a new connection can be made: what was lost was that one
// connection alone.
func (r *Replica) Alive(ctx context.Context) bool {
	c, err := r.Pool.GetNew(ctx, nil, false)
	if err != nil {
		return false
	}
	defer r.Pool.Put(c)
	return c.Ping(ctx) == nil
}

// usable reports whether the replica has all that its primary had at the time
// since, and is behind by limit at most.
func (r *Replica) usable(now, since time.Time, limit time.Duration) bool {
	st := r.state.Load()
	return st.err == nil && !st.until.IsZero() && now.Sub(st.until) <= limit && !st.until.Before(since) && r.Pool.Lively()
}

// Status says how the replica is. since is Pick's.
func (r *Replica) Status(since time.Time) Status {
	st, now, limit := r.state.Load(), time.Now(), r.set.Limit()
	out := Status{State: Up, Behind: -1, Err: st.err}
	if !st.until.IsZero() {
		out.Behind = now.Sub(st.until)
	}
	var stop *stoppedError
	switch dead := r.health.Err(); {
	case dead != nil:
		out.State, out.Err = Down, dead
	case errors.As(st.err, &stop):
		out.State = Stopped
	case errors.Is(st.err, shard.ErrShard):
		out.State = Down
	case st.err != nil:
		out.State = Refused
	case st.until.IsZero():
		out.State, out.Err = Lagging, errors.New("it has not reached any position that its primary is known to have had")
	case out.Behind > limit:
		out.State, out.Err = Lagging, fmt.Errorf("it may be %v behind: more than max_replica_lag (%v)", out.Behind.Round(10*time.Millisecond), limit)
	case st.until.Before(since):
		out.State, out.Err = Lagging, errors.New("it may not have the last change of the schema yet")
	}
	return out
}

// run judges until ctx ends.
func (r *Replica) run(ctx context.Context) {
	a := asking{cfg: r.cfg}
	defer a.close()
	for {
		r.judge(r.look(ctx, &a))
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.set.every()):
		}
	}
}

// look asks the replica how far it is.
func (r *Replica) look(ctx context.Context, a *asking) (until time.Time, err error) {
	primary, err := r.source.known()
	if err != nil {
		return until, err
	}
	if err := r.set.ambiguous(r.source, primary); err != nil {
		return until, err
	}
	var pos position
	err = a.once(ctx, func(ctx context.Context, c *shard.Conn) (err error) {
		pos, err = askReplica(ctx, c, primary)
		return err
	})
	if err != nil {
		return until, err
	}
	return r.source.until(pos), r.columns.differ(r.source.columns)
}

// judge takes over what a look found. What was reached once stays reached, unless
// the server turns out to be another.
func (r *Replica) judge(until time.Time, err error) {
	was := r.state.Load()
	if err != nil {
		until = was.until
	}
	r.state.Store(&state{until, err})
	log := r.set.o.Logger.With("shard", r.source.name, "addr", r.cfg.Addr)
	switch {
	case errors.Is(err, errUnasked):
	case errors.Is(err, errTables) && was.err == nil, err == nil && errors.Is(was.err, errTables):
		log.Debug("replica's tables", "error", err) // as after each ALTER TABLE; SHOW SHARDS tells what lasts
	case err != nil && (was.err == nil || was.err.Error() != err.Error()) && !errors.Is(err, context.Canceled):
		log.Warn("replica is not read from", "error", err)
	case err == nil && was.err != nil:
		log.Info("replica may be read from")
	}
}
