package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// schemaTimeout bounds how long `shunt check` reads the schemas of all shards: many tables
// take their time.
const schemaTimeout = time.Minute

// checkSchemas holds the configuration's shards, placements and indexes against the tables of the
// shards that were reached, and against what the store has kept. Failures are what `shunt serve`
// wouldn't start with, and reference tables whose copies differ. To compare these takes as long as they are large: copies is told
// how far that is, and nil has them left out.
func checkSchemas(ctx context.Context, cfg *config.Config, reached []reachedShard, store store, copies func(what string, done, all int64)) (notes []string, failures []error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	layout, err := shardLayout(cfg, store)
	if err != nil {
		return nil, []error{err}
	}
	dial := func(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
		i := slices.IndexFunc(layout.shards, func(s catalog.Shard) bool { return s.ID == id })
		if err := reached[i].err; err != nil {
			return nil, err
		}
		return shard.Dial(ctx, shardConfig(cfg.Shards[i]), false)
	}
	open := opener(func(ctx context.Context, id catalog.ShardID) (querier, func(), error) {
		conn, err := dial(ctx, id)
		if err != nil {
			return querier{}, nil, err
		}
		return querier{conn}, func() { _ = conn.Close() }, nil
	})
	var asked []catalog.Shard
	for i, s := range layout.shards {
		if reached[i].err == nil && slices.Contains(layout.serving, s) {
			asked = append(asked, s)
		}
	}
	told := notesLog{&notes}
	failures = append(failures, mistakenShards(ctx, cfg, layout, reached)...)
	placed := &placementCheck{store: store, open: open, log: slog.New(told)}
	unfinished, err := proxy.NewUnfinished(ctx, unfinishedDDL{store}, nil, slog.New(told))
	if err != nil {
		return nil, []error{err}
	}
	src := schema.Sources{Shards: layout.serving, Slots: layout.slots, Placements: placements(cfg), Kept: placed.kept, Unfinished: unfinished.Tables()}
	var errs map[catalog.ShardID]error
	src.Facts, errs = schema.ReadAll(ctx, asked, open.schema, nil, nil)
	for _, s := range asked {
		if err := errs[s.ID]; err != nil {
			failures = append(failures, fmt.Errorf("%w: %w", errUnread, err))
		}
	}
	src.First = len(src.Facts) == len(layout.serving)
	if len(src.Facts) == 0 {
		return nil, failures
	}
	c, err := schema.Build(src)
	if err != nil {
		return nil, append(failures, err)
	}
	if changed, err := placed.check(ctx, c, src.Placements, nil, src.First, true); err != nil {
		failures = append(failures, err)
	} else if changed {
		if c, err = schema.Build(src); err != nil {
			return nil, append(failures, err)
		}
	}
	notes = append(notes, unfinished.Told(c)...)
	for _, name := range sorted(tablesOf(c)) {
		if t := c.Table(name.Schema, name.Name); t.Differs != "" && !t.Unfinished {
			notes = append(notes, fmt.Sprintf("table %s.%s is not the same on all shards, so its virtual indexes are not used: %s", t.Schema, t.Name, t.Differs))
		}
	}
	if copies != nil {
		failures = append(failures, proxy.UnlikeCopies(whole, c, dial, copies)...)
	}
	for _, ix := range cfg.Indexes {
		if t := c.Table(ix.Schema, ix.Table); t != nil && (len(t.Columns) > 0 || t.IsView) && t.Differs == "" {
			if err := indexer.Indexable(t, ix.Columns, c.MariaDB); err != nil {
				failures = append(failures, fmt.Errorf("indexes: %s: %w", ix.Name, err))
			}
		}
	}
	if missing := notYet(cfg, c, src.Facts); src.First && len(missing) > 0 {
		notes = append(notes, "on no shard yet, or mistyped: "+strings.Join(missing, ", "))
	}
	return notes, failures
}

// errUnread: a shard's schema can't be read now, which serve waits for.
var errUnread = errors.New("read the schema")

// mistakenShards are those whose address leads to another one's server, or whose rows another
// Shunt has placed otherwise.
func mistakenShards(ctx context.Context, cfg *config.Config, l layout, reached []reachedShard) (wrong []error) {
	quiet := slog.New(slog.DiscardHandler)
	known, err := knownServers(cfg, quiet)
	if err != nil {
		return []error{err}
	}
	records := recordsToRead(l, lockNames(cfg))
	for i, sh := range cfg.Shards {
		if reached[i].err != nil {
			continue
		}
		conn, err := shard.Dial(ctx, shardConfig(sh), false)
		if err != nil {
			continue // it was reached before
		}
		if to, err := askServer(ctx, conn); err == nil {
			if err := known.mistaken(sh.Name, to); err != nil {
				wrong = append(wrong, fmt.Errorf("shard %s at %s: %w", sh.Name, sh.Addr, err))
			}
		}
		if err := records.fits(ctx, sh.Name, conn); never(err) && (!cfg.Store.Shared() || !errors.Is(err, errSeveral)) {
			wrong = append(wrong, err)
		}
		_ = conn.Close()
	}
	return wrong
}

// notesLog has what would be logged among the notes.
type notesLog struct{ notes *[]string }

func (notesLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (n notesLog) WithAttrs([]slog.Attr) slog.Handler         { return n }
func (n notesLog) WithGroup(string) slog.Handler              { return n }

func (n notesLog) Handle(_ context.Context, r slog.Record) error { //nolint:gocritic // slog's
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += ": " + a.Value.String()
		return true
	})
	*n.notes = append(*n.notes, text)
	return nil
}

// notYet are the schemas and tables that the configuration names and no shard has.
func notYet(cfg *config.Config, c *catalog.Catalog, facts map[catalog.ShardID]*schema.Facts) (missing []string) {
	known := func(name string) bool {
		for _, f := range facts {
			if slices.ContainsFunc(f.Schemas, func(have string) bool {
				return have == name || c.LowerCaseNames && strings.EqualFold(have, name)
			}) {
				return true
			}
		}
		return false
	}
	note := func(what string) {
		if !slices.Contains(missing, what) {
			missing = append(missing, what)
		}
	}
	table := func(in, name string) {
		if !known(in) {
			note("schema " + in)
		} else if t := c.Table(in, name); t == nil || len(t.Columns) == 0 && !t.IsView {
			note("table " + in + "." + name)
		}
	}
	for _, s := range cfg.Schemas {
		if !known(s.Name) {
			note("schema " + s.Name)
			continue
		}
		for _, t := range s.Tables {
			table(s.Name, t.Name)
		}
	}
	for _, ix := range cfg.Indexes {
		table(ix.Schema, ix.Table)
	}
	return missing
}
