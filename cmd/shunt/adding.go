package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	// changing is held while what is the same for all changes: no shard comes then.
	changing sync.Mutex

	mu     sync.Mutex // of who goes by the records
	proxy  *proxy.Proxy
	closed bool // its copies, for another one
	// noting is shared.Notes.Since for which this process notes what it writes, said the one for which it has said that.
	noting, said uint64
}

const (
	// holdTime bounds how long the others may need to close their copies: meanwhile writes of all that have closed theirs wait.
	holdTime = 3 * time.Second
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
func (a *adding) during(ctx context.Context, fn func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	hold, err := a.m.store.Holder()
	if err != nil {
		return err
	}
	held := hold.By != "" && hold.By != a.m.cluster.Self() && a.proxy != nil
	if held && !a.closed {
		if err := a.proxy.HoldCopies(ctx); err != nil {
			return fmt.Errorf("close the copies for a shard that is being added: %w", err)
		}
		a.closed = true
	}
	if err := a.note(); err != nil {
		return err
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

// note has this process note what it writes, where another one wants that, and says that it does; and what it has written, once its
// copies are closed. REQUIRES: mu
func (a *adding) note() error {
	notes, err := a.m.store.Notes()
	if err != nil || notes.Since == 0 || notes.By == a.m.cluster.Self() || a.proxy == nil {
		return err
	}
	say := shared.Written{Since: notes.Since}
	switch {
	case a.noting != notes.Since:
		a.proxy.NoteCopies()
	case !a.closed || a.said == notes.Since:
		return nil
	}
	if a.closed {
		w := a.proxy.WrittenCopies()
		say.Whole, say.Tables, say.Any = true, slices.Collect(maps.Keys(w.Tables)), w.Any
	}
	if err := a.m.store.SetWritten(a.m.cluster.Self(), say); err != nil {
		return fmt.Errorf("say what is written while a shard is added: %w", err)
	}
	if a.noting = notes.Since; a.closed {
		a.said = notes.Since
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
	if err := m.serveShards(ctx, d, next.shards); err != nil {
		return err
	}
	m.agreed.came(next)
	m.log.Info("all members go by the same shards", "serving", strings.Join(next.shards, shardSeparator))
	return nil
}

func (m *member) serveShards(ctx context.Context, d *schema.Directory, serving []string) error {
	serves := func(s catalog.Shard) bool { return slices.Contains(serving, s.Name) }
	ready := func() error {
		m.adding.bar(serving)
		return nil
	}
	return d.FollowServing(ctx, serves, ready, m.cluster.On)
}

// mendShards has those shards serve that are to, where others were published: a shard's coming may have failed behind that.
//
// Counter-example: a shard is published, and then another one's schema can't be read. Who adds it takes it back; nothing has
// changed here then, and rows are written to it, and read of its copies, by this process alone.
func (m *member) mendShards(ctx context.Context, d *schema.Directory, published []string) error {
	serving := m.agreed.shards()
	if len(published) == 0 || len(published) == len(serving) && !slices.ContainsFunc(serving, func(s string) bool { return !slices.Contains(published, s) }) {
		return nil
	}
	return m.serveShards(ctx, d, serving)
}

// underWay reports that a shard is being added.
func (a *adding) underWay() bool {
	hold, err := a.m.store.Holder()
	return err != nil || hold.By != ""
}

// run ends the holds of who has died.
func (a *adding) run(ctx context.Context) {
	for {
		select {
		case <-time.After(holdEvery):
		case <-ctx.Done():
			return
		}
		hold, err := a.m.store.Holder()
		self := hold.By == a.m.cluster.Self()
		if err != nil || hold.By == "" || self && a.holds.Load() || !self && !a.m.cluster.Gone(ctx, hold.By) {
			continue
		}
		if over, err := a.end(ctx, hold); err != nil {
			a.m.log.Warn("a member that has died while it added a shard has writes of reference tables wait", "member", hold.By, "error", err)
		} else if over {
			a.m.log.Info("writes of reference tables go on: a member has died while it added a shard", "member", hold.By)
		}
	}
}

// end ends a hold: behind what was changed under it, if all go by that and nothing more is written.
func (a *adding) end(ctx context.Context, hold shared.Hold) (over bool, err error) {
	var since uint64
	if hold.Changed {
		if since, err = a.m.allGoBy(ctx); err != nil {
			return false, err
		}
	}
	return a.m.store.EndHold(hold.By, since)
}

// joint is Apart of several members.
type joint struct {
	apart
	m *member
}

var _ proxy.Apart = joint{}

// Leaves implements proxy.Apart.
func (j joint) Leaves(before, after *catalog.Catalog) error {
	err := j.apart.Leaves(before, after)
	if err == nil {
		j.m.agreed.serve(after.Shards)
	}
	return err
}

// Joined implements proxy.Apart.
func (j joint) Joined(name string, before, after *catalog.Catalog) error {
	err := j.apart.Joined(name, before, after)
	if err == nil {
		j.m.agreed.serve(after.Shards)
	}
	return err
}

// over is ErrServes where a shard has been added for good, nil where it is to be added. It goes by the records.
//
// Counter-example: a member has taken a shard in, and is fenced; then that is taken back. By its catalog the shard serves, and
// it would never have the shard added again.
func (j joint) over(ctx context.Context, sh catalog.Shard) error {
	if err := j.m.store.Refresh(ctx); err != nil {
		return err
	}
	aside, err := j.m.store.Apart()
	switch {
	case err != nil:
		return err
	case aside[sh.Name] != "":
		return nil
	case j.m.adding.underWay(): // it may be taken back
		return fmt.Errorf("%w: another member is adding the shard", proxy.ErrWaits)
	}
	return proxy.ErrServes
}

// Begin implements proxy.Apart.
func (j joint) Begin(ctx context.Context, sh catalog.Shard) (held context.Context, end func(), err error) {
	if err := j.over(ctx, sh); err != nil {
		return nil, nil, err
	}
	next, err := j.say(ctx, sh)
	if err != nil {
		return nil, nil, err
	}
	if err := j.lacks(ctx, next); err != nil {
		return nil, nil, err
	}
	held, end, err = j.m.cluster.Hold(ctx, "adding shards")
	if err != nil {
		return nil, nil, err
	}
	if err := j.over(ctx, sh); err != nil {
		end()
		return nil, nil, err
	}
	return held, end, nil
}

// lacks names the members that haven't got what is coming in their configuration.
func (j joint) lacks(ctx context.Context, next *coming) error {
	_, lacking, err := j.m.withoutComing(ctx, next.has)
	if err == nil && lacking != "" {
		err = fmt.Errorf("%w: the shard isn't in the configuration of member %s, or stands in another place there: add it, and restart that member", proxy.ErrWaits, lacking)
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
		for _, name := range slices.Sorted(slices.Values(j.m.adding.order)) {
			if !slices.Contains(a.serving, name) {
				next.shards = append(next.shards, name)
				break
			}
		}
		for _, name := range j.m.adding.order {
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

// Note implements proxy.Apart.
func (j joint) Note(ctx context.Context) error {
	_, err := j.m.store.Note(j.m.cluster.Self())
	if err == nil {
		err = j.everyone(ctx)
	}
	if err != nil {
		return fmt.Errorf("have all members note what they write: %w", err)
	}
	return nil
}

// everyone waits until all go by the records, for as long as writes may have to wait.
func (j joint) everyone(ctx context.Context) error {
	brief, cancel := context.WithTimeoutCause(ctx, holdTime, errors.New("they have had their time"))
	defer cancel()
	return j.m.everyone(brief)
}

// written is what all others have written since Note. REQUIRES: their copies are closed.
func (j joint) written(ctx context.Context) (w proxy.Written, err error) {
	rows, err := j.m.cluster.Members(ctx)
	if err != nil {
		return w, fmt.Errorf("see who else has the shards: %w", err)
	}
	if err := j.m.store.Refresh(ctx); err != nil {
		return w, err
	}
	notes, err := j.m.store.Notes()
	if err != nil {
		return w, err
	}
	said, err := j.m.store.Written()
	if err != nil {
		return w, err
	}
	self := j.m.cluster.Self()
	var others []string
	for _, r := range rows {
		if r.Member != self {
			others = append(others, r.Member)
		}
	}
	if w = writtenBy(others, notes.Since, said); notes.By != self { // another one has ended the hold
		w.Any = true
	}
	return w, nil
}

// writtenBy is what all have written since a version that have noted since then; any table, where one that is there hasn't, or one
// that has isn't there to say.
//
// Counter-example: who has died is left out. It had written a table behind the comparison.
func writtenBy(there []string, since uint64, said map[string]shared.Written) proxy.Written {
	w := proxy.Written{Tables: map[catalog.TableName]bool{}}
	for _, member := range there {
		w.Any = w.Any || said[member].Since != since
	}
	for _, of := range said {
		if of.Since != since {
			continue
		}
		w.Any = w.Any || of.Any || !of.Whole
		for _, t := range of.Tables {
			w.Tables[t] = true
		}
	}
	return w
}

// Hold implements proxy.Apart.
func (j joint) Hold(ctx context.Context, name string) (proxy.Adding, error) {
	a, self := &j.m.adding, j.m.cluster.Self()
	if !a.changing.TryLock() {
		return nil, fmt.Errorf("%w: the configuration is being changed", proxy.ErrWaits)
	}
	a.holds.Store(true)
	x := &addingTogether{joint: j, ctx: ctx, name: name}
	if err := j.m.store.Hold(self); err != nil {
		if errors.Is(err, shared.ErrHeld) {
			a.holds.Store(false) // run ends what is left of an earlier one
			a.changing.Unlock()
		} else {
			x.End()
		}
		return nil, err
	}
	if err := j.everyone(ctx); err != nil {
		x.End()
		return nil, fmt.Errorf("have all members close their copies: %w", err)
	}
	brief, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	var err error
	if x.others, err = j.written(brief); err != nil {
		x.End()
		return nil, err
	}
	return x, nil
}

// addingTogether is proxy.Adding.
type addingTogether struct {
	joint
	ctx  context.Context // of the adding
	name string
	// others is what they have written since Note.
	others proxy.Written
	to     *shared.Serving // what was changed, or may have been
}

// Written implements proxy.Adding.
func (x *addingTogether) Written() proxy.Written { return x.others }

// Joined implements proxy.Adding.
func (x *addingTogether) Joined(before, after *catalog.Catalog) error {
	ctx, cancel := context.WithTimeout(x.ctx, holdTime)
	defer cancel()
	next := x.m.agreed.want()
	if next == nil || !slices.Contains(next.shards, x.name) {
		return fmt.Errorf("shard %s isn't coming any more", x.name)
	}
	members, lacking, err := x.m.withoutComing(ctx, next.has)
	if err != nil {
		return err
	}
	if lacking != "" {
		return fmt.Errorf("members lack shard %s: %s", x.name, lacking)
	}
	to := &shared.Serving{Shard: x.name, Has: next.has, Had: x.m.agreed.now()}
	if before == nil { // it has rows, and so values of AUTO_INCREMENT
		if err := x.m.store.DoubtSequences(); err != nil {
			return err
		}
		before = after
	}
	to.Keyed = keyedAnew(before, after)
	x.to = to
	return x.m.store.SetServing(x.m.cluster.Self(), to, members)
}

// Back implements proxy.Adding.
func (x *addingTogether) Back() error {
	if x.to == nil {
		return nil
	}
	all, err := x.m.store.Apart()
	if err != nil || all[x.name] != "" { // it never served
		return err
	}
	return x.m.store.SetServing(x.m.cluster.Self(), x.to.Back(ours), nil)
}

// End implements proxy.Adding.
func (x *addingTogether) End() {
	a := &x.m.adding
	defer a.changing.Unlock()
	defer a.holds.Store(false) // run ends what is left
	for again := true; again; again = x.ctx.Err() == nil {
		brief, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), holdTime)
		over, err := a.end(brief, shared.Hold{By: x.m.cluster.Self(), Changed: x.to != nil})
		cancel()
		if over {
			return
		}
		if err != nil {
			x.m.log.Warn("writes of reference tables wait until all members go by the same shards", "error", err)
			select {
			case <-time.After(holdEvery):
			case <-x.ctx.Done():
			}
		}
	}
}
