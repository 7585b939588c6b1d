package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/proxy/schema"
)

// alike is what has to be the same for all members, by lines that are shown where it isn't: the
// shards that serve, how rows are placed, and how keys are written.
func alike(cfg *config.Config) []string {
	var names []string
	for _, sh := range cfg.Shards {
		names = append(names, sh.Name)
	}
	lines := []string{shardLine + strings.Join(names, shardSeparator), fmt.Sprint(keyLine, keys.Encoding)}
	placed := placements(cfg)
	for _, s := range slices.Sorted(maps.Keys(placed)) {
		lines = append(lines, schemaLine+s+": "+placedAs(placed[s].Default))
		for _, t := range slices.Sorted(maps.Keys(placed[s].Tables)) {
			lines = append(lines, tableLine+s+"."+t+": "+placedAs(placed[s].Tables[t]))
		}
	}
	return lines
}

// withShards is a configuration with some of its shards.
func withShards(cfg *config.Config, names []string) *config.Config {
	c := *cfg
	c.Shards = slices.DeleteFunc(slices.Clone(cfg.Shards), func(sh config.Shard) bool { return !slices.Contains(names, sh.Name) })
	return &c
}

// shardNames are their names.
func shardNames(shards []catalog.Shard) (names []string) {
	for _, sh := range shards {
		names = append(names, sh.Name)
	}
	return names
}

const (
	// shardLine begins the line of the shards, the first one.
	shardLine      = "shards "
	shardSeparator = ", "
	// keyLine begins the line of the keys' encoding.
	keyLine = "keys of encoding "
	// schemaLine begins a schema's, which its tables' follow.
	schemaLine = "schema "
	tableLine  = "table "
)

// byOthers is a configuration with the schemas that others serve by; false where more is otherwise.
func byOthers(cfg *config.Config, serving, known []string) (theirs *config.Config, ok bool) {
	c := *cfg
	c.Schemas = nil
	for _, line := range known {
		if line, is := strings.CutPrefix(line, schemaLine); is {
			name, as, _ := strings.Cut(line, ": ")
			c.Schemas = append(c.Schemas, config.Schema{Name: name, Default: placedBy(as)})
		} else if n := len(c.Schemas); n > 0 {
			s := &c.Schemas[n-1]
			name, as, _ := strings.Cut(strings.TrimPrefix(line, tableLine+s.Name+"."), ": ")
			t := placedBy(as)
			t.Name = name
			s.Tables = append(s.Tables, t)
		}
	}
	return &c, slices.Equal(alike(withShards(&c, serving)), known)
}

// otherKeys is an error where entries that are in the store have keys of another encoding: none of
// this process's lookups would find them.
func otherKeys(known, has []string) error {
	for _, line := range known {
		if strings.HasPrefix(line, keyLine) && !slices.Contains(has, line) {
			return fmt.Errorf("the virtual indexes in the store have %s, which this version of Shunt doesn't write: serve with the version that made them", line)
		}
	}
	return nil
}

func placedAs(p schema.TablePlacement) string {
	text := p.Placement.String()
	switch {
	case p.Placement == catalog.Single:
		text += " on " + p.Shard
	case p.ShardKey != "":
		text += " of " + p.ShardKey
	}
	if p.UniqueByShard {
		text += ", check_unique: false"
	}
	return text
}

// placedBy is what placedAs tells.
func placedBy(text string) (t config.Table) {
	text, t.UniqueByShard = strings.CutSuffix(text, ", check_unique: false")
	word, of, _ := strings.Cut(text, " ")
	for _, p := range []catalog.Placement{catalog.Hash, catalog.Reference, catalog.Single, catalog.Anywhere} {
		if p.String() == word {
			t.Placement = p
		}
	}
	if t.Placement == catalog.Single {
		t.Shard = strings.TrimPrefix(of, "on ")
	} else {
		t.ShardKey = strings.TrimPrefix(of, "of ")
	}
	return t
}

// difference says what is otherwise there than here.
func difference(there, here []string) string {
	if there == nil {
		return "others have not said yet what they have"
	}
	var parts []string
	for _, line := range there {
		if !slices.Contains(here, line) {
			parts = append(parts, line)
		}
	}
	var own []string
	for _, line := range here {
		if !slices.Contains(there, line) {
			own = append(own, line)
		}
	}
	const most = 3
	if len(parts) > most {
		parts = append(parts[:most], "...")
	}
	if len(own) > most {
		own = append(own[:most], "...")
	}
	return "they have " + cmp.Or(strings.Join(parts, "; "), "nothing else") + ", and this configuration has " + cmp.Or(strings.Join(own, "; "), "nothing else")
}

// startsBeside is how long a start with something else than was known waits for others that have come
// at the same time: they are about to say that they have the same.
const startsBeside = 5 * time.Second

// sameAsOthers refuses a start with other shards or placements than those of the members that serve.
//
// Counter-examples: one has s3 as well, and puts rows of a table there that is placed anywhere.
// Another one, which was started without s3, reads the others. Or: to one a table goes by its column
// id, to another by city, which is no matter as long as it is empty; one writes a row, and the other
// looks for it elsewhere.
//
//	1 join
//	2 read what is known to be the same for all. It is the same here: unless somebody has said to
//	  have something else, serve
//	3 say what this process has
//	4 look who is there; one that hasn't said to have the same: refuse
//	5 put this in place of what was known, unless that has been changed: then 2
//
// A shard that is being added counts once it serves: see adding.
//
// So a change takes that all members are stopped, and they may start at once. Of two that have
// something else at least one sees the other: what each writes (1, 3) is written before it reads (2,
// 4). Counter-example without 3: two that begin an empty store at once refuse each other.
//
// What somebody has said who is gone is in nobody's way.
func (m *member) sameAsOthers(ctx context.Context, cfg *config.Config, l layout) error {
	serving := shardNames(l.serving)
	has, said := alike(withShards(cfg, serving)), false
	for until := time.Now().Add(startsBeside); ; {
		known, err := m.known(ctx)
		if err != nil {
			return err
		}
		same := slices.Equal(known, has)
		var other string
		if same {
			other, err = m.saysOtherwise(ctx, has)
		} else {
			if !said {
				err = m.say(ctx, has)
			}
			if said = err == nil; said {
				other, err = m.without(ctx, has, false)
			}
		}
		if err != nil {
			return err
		}
		if other == "" {
			if same {
				m.agreed.serveBy(has, serving)
				return nil
			}
			if err := otherKeys(known, has); err != nil {
				return err
			}
			if set, err := m.store.SetMembers(known, has); err != nil || set {
				m.agreed.serveBy(has, serving)
				return err
			}
			continue
		}
		if added, err := m.added(cfg, l, known); err != nil {
			return err
		} else if added {
			return &anew{cfg: cfg, why: "the members have added a shard meanwhile"}
		}
		if time.Now().After(until) {
			if theirs, ok := byOthers(cfg, serving, known); ok {
				m.log.Warn("other members serve by other schemas: this one begins by theirs, and takes its own over as at SIGHUP", "difference", difference(known, has))
				return &anew{cfg: theirs, wanted: cfg, why: "other members serve by other schemas: " + difference(known, has)}
			}
			return otherwise(known, has, other)
		}
		// It may be one that has died, all of them together.
		if err := m.sweep(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// added reports that shards serve by now that were being added when the layout was made.
func (m *member) added(cfg *config.Config, l layout, known []string) (bool, error) {
	if len(known) == 0 {
		return false, nil
	}
	line, _ := strings.CutPrefix(known[0], shardLine)
	serving := strings.Split(line, shardSeparator)
	aside, err := m.store.Apart()
	return err == nil && slices.Equal(alike(withShards(cfg, serving)), known) && slices.ContainsFunc(l.joining, func(sh catalog.Shard) bool {
		return aside[sh.Name] == "" && slices.Contains(serving, sh.Name)
	}), err
}

// sweep is on the shards, and has members that are gone taken off them.
func (m *member) sweep(ctx context.Context) error {
	err := m.beat(ctx)
	for id := range m.seats {
		if err == nil {
			err = m.cluster.Sweep(ctx, id)
		}
	}
	return err
}

func otherwise(known, has []string, other string) error {
	return fmt.Errorf("other members serve: %s; stop all members (now: %s), and start them with the same shards and schemas", difference(known, has), other)
}

// agreed is what this process serves by of what is the same for all.
type agreed struct {
	mu sync.Mutex
	// has is as alike has it, known what was the same for all when this process began to serve by that, serving the shards.
	has, known, serving []string
	// former is what it had before a shard was added, until something else comes.
	former *coming
	// wanted is what it is to have when all are to, said what it has said of that since it has what it has: see coming.
	wanted *coming
	said   []*coming
}

func (a *agreed) now() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.has
}

// serveBy is what all have.
func (a *agreed) serveBy(has, serving []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.has, a.known, a.serving = has, has, serving
}

// serve has other shards serve, while this process is alone.
func (a *agreed) serve(shards []catalog.Shard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serving = shardNames(shards)
}

// shards are those that serve, as this process goes by it.
func (a *agreed) shards() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.serving
}

// changeAlike has this process have something else from now on, if it serves alone. fn takes it in use; after its error all
// is as it was. While others serve it is said to be coming, if that can be.
func (m *member) changeAlike(ctx context.Context, cfg *config.Config, d *schema.Directory, fn func() error) error {
	m.adding.changing.Lock()
	defer m.adding.changing.Unlock()
	has, had := m.alike(cfg), m.agreed.now()
	if slices.Equal(had, has) {
		if err := m.takeBack(ctx); err != nil {
			return err
		}
		return fn()
	}
	if other, err := m.without(ctx, has, true); err != nil || other != "" {
		if err == nil {
			err = m.come(ctx, m.comingOf(cfg), d, other)
		}
		return err
	}
	if err := m.takeBack(ctx); err != nil { // or what it has said would come when others say it, too
		return err
	}
	known, err := m.known(ctx)
	if err != nil {
		return fmt.Errorf("read what is the same for all members: %w", err)
	}
	back := func() {
		if err := m.say(context.WithoutCancel(ctx), had); err != nil {
			m.log.Warn("others that start wait for this process: what it has isn't told", "error", err)
		}
	}
	if err := m.say(ctx, has); err != nil {
		back()
		return err
	}
	other, err := m.without(ctx, has, true)
	if err == nil && other != "" {
		err = fmt.Errorf("another member is starting (%s): send SIGHUP again when it serves", other)
	}
	if err == nil {
		err = fn()
	}
	if err != nil {
		back()
		return err
	}
	m.agreed.mu.Lock()
	m.agreed.has, m.agreed.known = has, known
	m.agreed.mu.Unlock()
	// Not before: what is known is what a process may begin to serve by at once.
	set, err := m.store.SetMembers(known, has)
	if err == nil && !set {
		err = errors.New("another one has changed it")
	}
	if err != nil {
		return fmt.Errorf("keep what is the same for all members; until that is done others that start are refused, so send SIGHUP again: %w", err)
	}
	return nil
}

// alike is what this process has by a configuration while the shards serve that do.
func (m *member) alike(cfg *config.Config) []string { return alike(withShards(cfg, m.agreed.shards())) }

func (m *member) known(ctx context.Context) ([]string, error) {
	if err := m.store.Refresh(ctx); err != nil {
		return nil, err
	}
	return m.store.Members()
}

func (m *member) say(ctx context.Context, has []string) error {
	return m.store.SetHas(m.cluster.Self(), has, func(other string) bool { return m.cluster.Gone(ctx, other) })
}

// saysOtherwise names a member that has said to have something else.
func (m *member) saysOtherwise(ctx context.Context, has []string) (string, error) {
	all, err := m.store.Has()
	if err != nil {
		return "", err
	}
	for other, said := range all {
		if other != m.cluster.Self() && !slices.Equal(said, has) && !m.cluster.Gone(ctx, other) {
			return other, nil
		}
	}
	return "", nil
}

// without names a member that hasn't said to have the same; with alone, any other.
func (m *member) without(ctx context.Context, has []string, alone bool) (string, error) {
	members, err := m.cluster.Members(ctx)
	if err != nil {
		return "", fmt.Errorf("see who else has the shards: %w", err)
	}
	if err := m.store.Refresh(ctx); err != nil {
		return "", err
	}
	all, err := m.store.Has()
	if err != nil {
		return "", err
	}
	for _, other := range members {
		if other.Member != m.cluster.Self() && (alone || !slices.Equal(all[other.Member], has)) {
			return other.Member + " at " + other.Addr, nil
		}
	}
	return "", nil
}
