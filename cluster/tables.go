package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// tables are the turns of tables that this process has: those of DDL that shards do while others have the turn of DDL. Each is
// taken while that is this process's, and taken over from who is gone, as every turn.
type tables struct {
	mu sync.Mutex
	of map[*turn]struct{}
}

func (t *tables) add(x *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[*turn]struct{}{}
	}
	t.of[x] = struct{}{}
}

func (t *tables) remove(x *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, x)
}

func (t *tables) all() []*turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.of))
}

// tablePrefix begins the names of turns of tables.
const tablePrefix = "table "

// maxTurnName is in bytes.
const maxTurnName = 255

// tableTurn names a table's turn. Names that differ by case alone have one together.
func tableTurn(n catalog.TableName) string {
	name := schemaTurns(n.Schema) + strings.ToLower(n.Name)
	if len(name) > maxTurnName {
		sum := sha256.Sum256([]byte(name))
		name = schemaTurns(n.Schema) + hex.EncodeToString(sum[:16])
	}
	return name
}

// schemaTurns begins the names of the turns of a schema's tables.
func schemaTurns(schema string) string {
	return tablePrefix + catalog.QuoteName(strings.ToLower(schema)) + "."
}

// within reports that a turn is of a table of a scope.
func within(turn string, of catalog.Scope) bool {
	return of.All || slices.ContainsFunc(of.Tables, func(n catalog.TableName) bool { return tableTurn(n) == turn }) ||
		slices.ContainsFunc(of.Schemas, func(schema string) bool { return strings.HasPrefix(turn, schemaTurns(schema)) })
}

// TakeTables is Tables'.
func (s *Shared) TakeTables(ctx context.Context, names ...catalog.TableName) (kept func() error, give func(), err error) {
	for _, a := range s.seats {
		if a.unlike.Load() {
			return nil, nil, nil
		}
	}
	want := map[string]bool{}
	for _, n := range names {
		want[tableTurn(n)] = true
	}
	var taken []*turn
	give = func() {
		for _, t := range taken {
			s.giveTable(t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t, holder, err := s.tryTable(ctx, name)
		if err == nil && holder != "" {
			err = fmt.Errorf("%s is had by %s", name, holder)
		}
		if err != nil {
			give()
			return nil, nil, err
		}
		taken = append(taken, t)
	}
	return func() error {
		if slices.ContainsFunc(taken, (*turn).isLost) {
			return ErrTurnLost
		}
		return nil
	}, give, nil
}

// tryTable takes the turn of a table, or names who has it.
func (s *Shared) tryTable(ctx context.Context, name string) (t *turn, holder string, err error) {
	t = &turn{}
	t.init(name)
	t.mine <- struct{}{}
	s.tables.add(t)
	if holder, err = s.tryTurn(ctx, t); err != nil || holder != "" {
		s.giveUp(t)
		s.tables.remove(t)
	}
	return t, holder, err
}

func (s *Shared) giveTable(t *turn) {
	s.giveTurn(t)
	s.tables.remove(t)
}

// TablesHeld is Tables'.
func (s *Shared) TablesHeld(ctx context.Context, of catalog.Scope) (holder string, err error) {
	held, err := s.opts.Board.Held(ctx, tablePrefix)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		by, _, _ := strings.Cut(held[name], "<")
		switch {
		case by == s.self || !within(name, of):
			continue
		case by != "" && s.lives(ctx, by):
			return s.describeMember(ctx, by), nil
		}
		t, holder, err := s.tryTable(ctx, name)
		if err != nil || holder != "" {
			return holder, err
		}
		s.giveTable(t)
	}
	return "", nil
}

// describeMember names one for people.
func (s *Shared) describeMember(ctx context.Context, member string) string {
	if rows, _ := s.rowsOf(ctx, member); len(rows) > 0 {
		return s.describe(rows[0])
	}
	return "member " + member
}

// AwaitTables is Tables'.
func (s *Shared) AwaitTables(ctx context.Context, of catalog.Scope) error {
	return s.awaitHolder(ctx, "turn of tables", func(ctx context.Context) (string, error) { return s.TablesHeld(ctx, of) })
}

// TakeTables is Tables'.
func (*Local) TakeTables(context.Context, ...catalog.TableName) (kept func() error, give func(), err error) {
	return func() error { return nil }, func() {}, nil
}

// TablesHeld is Tables'.
func (*Local) TablesHeld(context.Context, catalog.Scope) (string, error) { return "", nil }

// AwaitTables is Tables'.
func (*Local) AwaitTables(context.Context, catalog.Scope) error { return nil }
