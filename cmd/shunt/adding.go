package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage/shared"
)

// adding has shards be added while several members serve: proxy/join.go has the steps. It is the member's.
type adding struct {
	m     *member
	pools map[catalog.ShardID]*shard.Pool
	// order has the names of all shards as the configuration has them.
	order []string
	// holds: this process has the others' copies closed, or is about to.
	holds atomic.Bool
	// joined is what the last Joined has changed; who adds a shard.
	joined *shared.Serving

	mu     sync.Mutex // of who goes by the records
	proxy  *proxy.Proxy
	closed bool // its copies, for another one
}

const (
	// holdTime bounds how long the others may need to close their copies.
	holdTime = 5 * time.Second
	// holdEvery is how often it is looked whether who has held still lives.
	holdEvery = time.Second
)

// serve is called before anybody is served. Behind it copies are closed that are to be.
func (a *adding) serve(ctx context.Context, p *proxy.Proxy) error {
	a.mu.Lock()
	a.proxy = p
	a.mu.Unlock()
	return a.during(ctx, func() error { return nil })
}

// during calls fn, which goes by the records, behind the closing of this process's copies if another one holds them, and before
// they are opened again if not.
//
// Rule read once: who holds is read before fn reads what the shards are. Counter-example: fn goes by the shards of before; then
// the shard serves, all but this one go by that, and the hold is over: it reads that, and opens its copies.
func (a *adding) during(ctx context.Context, fn func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	by, err := a.m.store.Holder()
	if err != nil {
		return err
	}
	held := by != "" && by != a.m.cluster.Self() && a.proxy != nil
	if held && !a.closed {
		if err := a.proxy.HoldCopies(ctx); err != nil {
			return fmt.Errorf("close the copies for a shard that is being added: %w", err)
		}
		a.closed = true
	}
	if err := fn(); err != nil {
		return err
	}
	if !held && a.closed {
		a.proxy.ReleaseCopies()
		a.closed = false
	}
	return nil
}

// bar has the pools of the shards that serve hand out connections, and no others.
func (a *adding) bar(serving []string) {
	for _, p := range a.pools {
		switch serves := slices.Contains(serving, p.Name()); {
		case serves && p.Barred():
			p.Bar(nil)
		case !serves && !p.Barred():
			p.Bar(errors.New("the shard is being added"))
		}
	}
}

// goByShards has other shards serve.
func (m *member) goByShards(ctx context.Context, d *schema.Directory, next *coming) error {
	serves := func(s catalog.Shard) bool { return slices.Contains(next.shards, s.Name) }
	ready := func() error {
		m.adding.bar(next.shards)
		return nil
	}
	if err := d.FollowServing(ctx, serves, ready, m.cluster.On); err != nil {
		return err
	}
	m.agreed.came(next)
	m.log.Info("all members go by the same shards", "serving", strings.Join(next.shards, shardSeparator))
	return nil
}

// run ends the holds of who has died.
func (a *adding) run(ctx context.Context) {
	for {
		select {
		case <-time.After(holdEvery):
		case <-ctx.Done():
			return
		}
		by, err := a.m.store.Holder()
		self := by == a.m.cluster.Self()
		if err != nil || by == "" || self && a.holds.Load() || !self && !a.m.cluster.Gone(ctx, by) {
			continue
		}
		if over, err := a.end(ctx, by); err != nil {
			a.m.log.Warn("a member that has died while it added a shard has writes of reference tables wait", "member", by, "error", err)
		} else if over {
			a.m.log.Info("writes of reference tables go on: a member has died while it added a shard", "member", by)
		}
	}
}

// end ends a hold behind what was written by then, if nothing more is.
func (a *adding) end(ctx context.Context, by string) (over bool, err error) {
	if err := a.m.everyone(ctx); err != nil {
		return false, err
	}
	since, _ := a.m.store.Version()
	return a.m.store.EndHold(by, since)
}

// joint is Apart of several members.
type joint struct {
	apart
	m *member
	d *schema.Directory
}

var _ proxy.Apart = joint{}

// serves reports that a shard has been added.
func (j joint) serves(sh catalog.Shard) bool { return slices.Contains(j.d.Catalog().Shards, sh) }

// Begin implements proxy.Apart.
func (j joint) Begin(ctx context.Context, sh catalog.Shard) (held context.Context, end func(), err error) {
	if j.serves(sh) {
		return nil, nil, proxy.ErrServes
	}
	next, err := j.say(ctx, sh)
	if err != nil {
		return nil, nil, err
	}
	if err := j.lacks(ctx, next); err != nil {
		return nil, nil, err
	}
	held, end, err = j.m.cluster.Hold(ctx, "adding shards")
	if err == nil && j.serves(sh) {
		end()
		err = proxy.ErrServes
	}
	return held, end, err
}

// lacks names the members that haven't got what is coming in their configuration.
func (j joint) lacks(ctx context.Context, next *coming) error {
	_, lacking, err := j.m.withoutComing(ctx, next.has)
	if err == nil && lacking != "" {
		err = fmt.Errorf("%w: it isn't in the configuration of member %s: add it there, too, and restart that one", proxy.ErrWaits, lacking)
	}
	return err
}

// say says that a shard is coming to this process, unless something else is.
func (j joint) say(ctx context.Context, sh catalog.Shard) (*coming, error) {
	a := &j.m.agreed
	a.mu.Lock()
	next := a.wanted
	if next == nil {
		// The first one first, or members would say that others are coming.
		next = &coming{shards: slices.Clone(a.serving)}
		var names []string
		for _, name := range j.m.adding.order {
			if len(next.shards) == len(a.serving) && !slices.Contains(a.serving, name) {
				next.shards = append(next.shards, name)
			}
			if slices.Contains(next.shards, name) {
				names = append(names, name)
			}
		}
		next.has = append([]string{shardLine + strings.Join(names, shardSeparator)}, a.has[1:]...)
		a.said, a.wanted = append(a.said, next), next
	}
	a.mu.Unlock()
	if !slices.Contains(next.shards, sh.Name) {
		return nil, fmt.Errorf("%w: another shard, or a change of schemas, is coming first", proxy.ErrWaits)
	}
	if said, err := j.m.store.Coming(); err != nil || slices.Equal(said[j.m.cluster.Self()], next.has) {
		return next, err
	}
	return next, j.m.sayComing(ctx, next.has)
}

// Hold implements proxy.Apart.
func (j joint) Hold(ctx context.Context) (release func(), err error) {
	a := &j.m.adding
	a.holds.Store(true)
	release = func() {
		defer a.holds.Store(false) // run ends what is left
		for again := true; again; again = ctx.Err() == nil {
			brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTime)
			over, err := a.end(brief, j.m.cluster.Self())
			cancel()
			if over {
				return
			}
			if err != nil {
				j.m.log.Warn("writes of reference tables wait until all members go by the same shards", "error", err)
			}
		}
	}
	if err := j.m.store.Hold(j.m.cluster.Self()); err != nil {
		a.holds.Store(false)
		return nil, err
	}
	brief, cancel := context.WithTimeoutCause(ctx, holdTime, errors.New("they have had their time"))
	defer cancel()
	if err := j.m.everyone(brief); err != nil {
		release()
		return nil, fmt.Errorf("have all members close their copies: %w", err)
	}
	return release, nil
}

// Joined implements proxy.Apart.
func (j joint) Joined(name string, before, after *catalog.Catalog) error {
	ctx, cancel := context.WithTimeout(context.Background(), holdTime)
	defer cancel()
	next := j.m.agreed.want()
	if next == nil || !slices.Contains(next.shards, name) {
		return fmt.Errorf("shard %s isn't coming any more", name)
	}
	members, lacking, err := j.m.withoutComing(ctx, next.has)
	if err != nil || lacking != "" {
		return errors.Join(err, fmt.Errorf("members lack shard %s: %s", name, lacking))
	}
	to := shared.Serving{Shard: name, Has: next.has, Had: j.m.agreed.now()}
	if before == nil { // it has rows, and so values of AUTO_INCREMENT
		if err := j.m.store.DoubtSequences(); err != nil {
			return err
		}
		before = after
	}
	to.Keyed = keyedAnew(before, after)
	if err := j.m.store.SetServing(j.m.cluster.Self(), &to, members); err != nil {
		return err
	}
	j.m.adding.joined = &to
	return nil
}

// Take implements proxy.Apart: behind Joined it takes that back.
func (j joint) Take(name string) error {
	all, err := j.m.store.Apart()
	if err != nil {
		return err
	}
	if joined := j.m.adding.joined; all[name] == "" && joined != nil && joined.Shard == name {
		return j.m.store.SetServing(j.m.cluster.Self(), joined.Back(ours), nil)
	}
	return j.apart.Take(name)
}
