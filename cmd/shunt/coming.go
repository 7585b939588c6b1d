package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
)

// coming is what a member is to have of what is the same for all, as soon as all are to have it: so `schemas` change while
// several serve, for tables that aren't there yet.
//
//	1 each member says what it is to have (SIGHUP), if no table that there is would be placed otherwise
//	2 one that finds that all have said so keeps DDL from beginning, and looks again: at the tables, and at who is there
//	3 it puts this in place of what is the same for all, if nothing has changed since 2
//	4 each goes by that before it tells that it goes by the records of then (goByKnown); 3 waits for all, and lets DDL go on
//
// Between 3 and 4 members place tables otherwise that nobody can make.
//
// Counter-examples. Without 1 of all: one makes a table by its new configuration, another finds it on the shards, and looks for
// rows by the old one. Without 2's keeping DDL off: all have said so; a client of one that hasn't come to 4 makes the table, and
// rows go by the old configuration, which others look for by the new one. Without 3's condition: one takes back what it has said, and
// is told that all is as it was. Without 4's waiting: one makes the table as soon as it goes by the new configuration.
//
// One that starts with other schemas than those that the others serve by begins by theirs (byOthers), and then says what it is
// to have, as at SIGHUP: so all may be restarted with a changed configuration, one after the other.
//
// One that has stood still meanwhile, and was taken off the shards, comes back to what it doesn't know: it joins none until its
// configuration is the same.
//
// Shards come so, too: proxy/join.go has what 2 and 3 are then.
type coming struct {
	has    []string
	placed schema.Placements
	// shards are those that serve then, where a shard comes; placed is as it was.
	shards []string
}

func (m *member) comingOf(cfg *config.Config) *coming {
	return &coming{has: m.alike(cfg), placed: placements(cfg)}
}

// goByKnown has this process serve by what is the same for all, where that has changed.
func (m *member) goByKnown(ctx context.Context, d *schema.Directory) error {
	published := shardNames(d.Catalog().Shards) // before the records are read, which come first
	known, err := m.store.Members()
	if err != nil {
		return err
	}
	next, err := m.agreed.changed(known)
	if err != nil {
		return err
	}
	if next == nil {
		return m.mendShards(ctx, d, published)
	}
	if next.shards != nil {
		return m.goByShards(ctx, d, next)
	}
	if err := d.FollowPlaced(ctx, next.placed, m.cluster.On); err != nil {
		return err
	}
	m.agreed.came(next)
	m.log.Info("all members go by the schemas of the changed configuration")
	return nil
}

// changed is what this process is to serve by from now on, nil where that is as it was.
func (a *agreed) changed(known []string) (*coming, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(known, a.has) { // this process may have said so itself
		a.known = known
	}
	if slices.Equal(known, a.known) {
		return nil, nil //nolint:nilnil // see above
	}
	if i := slices.IndexFunc(a.said, func(c *coming) bool { return slices.Equal(c.has, known) }); i >= 0 {
		return a.said[i], nil
	}
	if a.former != nil && slices.Equal(a.former.has, known) { // who added it has taken that back
		return a.former, nil
	}
	return nil, fmt.Errorf("members serve by other schemas meanwhile: %s; take these into the configuration and send SIGHUP, or start this one anew with them", difference(known, a.has))
}

// came: this process goes by what it has said.
func (a *agreed) came(next *coming) {
	a.mu.Lock()
	defer a.mu.Unlock()
	former := a.former
	if a.former = nil; next.shards != nil {
		if next != former {
			a.former = &coming{has: a.has, shards: a.serving}
		}
		a.serving = next.shards
	}
	a.has, a.known = next.has, next.has
	a.said = a.said[slices.Index(a.said, next)+1:]
	if a.wanted == next {
		a.wanted = nil
	}
}

// want is what this process is to have when all are to.
func (a *agreed) want() *coming {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wanted
}

// come says what this process is to have, beside another that serves.
func (m *member) come(ctx context.Context, next *coming, d *schema.Directory, other string) error {
	known, err := m.known(ctx)
	if err != nil {
		return err
	}
	late := slices.Equal(known, next.has) // others have it without this one
	if !late {
		if !slices.Equal(beforeSchemas(m.agreed.now()), beforeSchemas(next.has)) {
			return fmt.Errorf("other members serve: %s; stop all others (now: %s) before it is changed", difference(known, next.has), other)
		}
		if err := m.fits(next, d); err != nil {
			return err
		}
	}
	// First here: others may have it come as soon as they read it.
	m.agreed.mu.Lock()
	m.agreed.said, m.agreed.wanted = append(m.agreed.said, next), next
	m.agreed.mu.Unlock()
	if late {
		return nil
	}
	return m.sayComing(ctx, next.has)
}

func (m *member) sayComing(ctx context.Context, has []string) error {
	return m.store.SetComing(m.cluster.Self(), has, func(other string) bool { return m.cluster.Gone(ctx, other) })
}

// takeBack says that nothing is coming.
func (m *member) takeBack(ctx context.Context) error {
	had := m.agreed.now()
	if !m.awaits() { // a shard comes by the configuration of the start
		return nil
	}
	m.agreed.mu.Lock()
	m.agreed.wanted = nil
	m.agreed.mu.Unlock()
	if err := m.sayComing(ctx, nil); err != nil {
		return err
	}
	// It may have come before that.
	if err := m.cluster.Follow(ctx); err != nil {
		return err
	}
	if !slices.Equal(m.agreed.now(), had) {
		return errors.New("all members have gone by the changed schemas meanwhile: send SIGHUP again to change them back")
	}
	return nil
}

// beforeSchemas are the lines of alike that aren't of schemas.
func beforeSchemas(lines []string) []string {
	return lines[:slices.IndexFunc(append(slices.Clone(lines), schemaLine), func(l string) bool { return strings.HasPrefix(l, schemaLine) })]
}

// fits refuses what would place the rows of tables otherwise that there are.
func (m *member) fits(next *coming, d *schema.Directory) error {
	is := d.Catalog()
	would, err := d.Placed(next.placed)
	if err != nil {
		return err
	}
	then := tablesOf(would)
	var names []string
	for name, t := range tablesOf(is) {
		if !hasRecord(t) {
			continue // views, and tables of the configuration that aren't there
		}
		if u := then[name]; u == nil || !hasRecord(u) || placementRecord(is, t) != placementRecord(would, u) || t.UniqueByShard != u.UniqueByShard {
			names = append(names, fmt.Sprintf("%s.%s", name.Schema, name.Name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("the configuration places the rows of %s otherwise, which takes that one member serves alone: stop all others, send SIGHUP, and start them with the same configuration", strings.Join(names[:min(len(names), 3)], ", "))
}

// awaits reports that schemas are coming.
func (m *member) awaits() bool {
	if m == nil {
		return false
	}
	next := m.agreed.want()
	return next != nil && next.shards == nil
}

// together has what is coming be the same for all, or says who hasn't said yet that it is to have it.
func (m *member) together(ctx context.Context, p *proxy.Proxy, d *schema.Directory) (lacking string, err error) {
	if err := m.cluster.Follow(ctx); err != nil {
		return "", err
	}
	next := m.agreed.want()
	if next == nil || next.shards != nil { // adding has it come
		return "", nil
	}
	if _, lacking, err = m.withoutComing(ctx, next.has); err != nil || lacking != "" {
		return lacking, err
	}
	err = p.WithoutDDL(ctx, func() error {
		if err := m.cluster.Follow(ctx); err != nil || m.agreed.want() != next { // another one was faster
			return err
		}
		members, without, err := m.withoutComing(ctx, next.has)
		if lacking = without; err != nil || without != "" {
			return err
		}
		since, _ := m.store.Version()
		if err := d.Follow(ctx, m.cluster.On); err != nil { // tables may have been made meanwhile
			return err
		}
		if err := m.fits(next, d); err != nil {
			return err
		}
		if err := m.cluster.TurnKept(); err != nil {
			return err
		}
		if ok, err := m.store.Come(since, next.has, members); err != nil || !ok {
			return err // it is tried again
		}
		return m.adopted(ctx, 0)
	})
	return lacking, err
}

// withoutComing has all members, and names those that haven't said that they are to have this.
func (m *member) withoutComing(ctx context.Context, has []string) (members []string, lacking string, err error) {
	rows, err := m.cluster.Members(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("see who else has the shards: %w", err)
	}
	if err := m.store.Refresh(ctx); err != nil {
		return nil, "", err
	}
	said, err := m.store.Coming()
	if err != nil {
		return nil, "", err
	}
	without, all := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		all[r.Member] = true
		if !slices.Equal(said[r.Member], has) {
			without[r.Member+" at "+r.Addr] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), strings.Join(slices.Sorted(maps.Keys(without)), ", "), nil
}
