package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// LockTables is LOCK TABLES, UNLOCK TABLES, or FLUSH TABLES of named tables WITH
// READ LOCK, which locks as LOCK TABLES ... READ does. A table is locked on every
// shard that holds it, by one statement a shard.
type LockTables struct {
	Catalog *catalog.Catalog
	Unlock  bool
	Locks   []TableLock
	// Failed is what is wrong with a table, to be told when what was locked before
	// has been released.
	Failed *Error
	// Flush: FLUSH TABLES.
	Flush bool
	wait  string // MariaDB's WAIT n or NOWAIT
}

// TableLock is one item of a LockTables.
type TableLock struct {
	Table *catalog.Table
	// Alias under which alone it may be named; "" for its own name.
	Alias string
	Write bool
	// mode as written: READ LOCAL, LOW_PRIORITY WRITE, ..
	mode string
}

func (*LockTables) isPlan() {}

// Writes reports a lock that keeps others from reading.
func (l *LockTables) Writes() bool {
	for _, x := range l.Locks {
		if x.Write {
			return true
		}
	}
	return false
}

// Shards are those that hold one of the tables. Temporary tables need no lock.
func (l *LockTables) Shards() catalog.ShardSet {
	var set catalog.ShardSet
	for _, x := range l.Locks {
		if !x.Table.Temporary {
			set = set.Union(x.Table.Shards)
		}
	}
	return set
}

// Text is the statement for one of Shards. All tables of a shard are in one
// statement: a server takes them in an order of its own, the same for all.
func (l *LockTables) Text(id catalog.ShardID) string {
	var b strings.Builder
	for _, x := range l.Locks {
		if x.Table.Temporary || !x.Table.Shards.Has(id) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(catalog.QuoteTable(x.Table.Schema, x.Table.Name))
		if x.Alias != "" {
			b.WriteString(" AS " + catalog.QuoteName(x.Alias))
		}
		if !l.Flush {
			b.WriteString(" " + x.mode)
		}
	}
	if l.Flush {
		return "FLUSH TABLES " + b.String() + " WITH READ LOCK"
	}
	return "LOCK TABLES " + b.String() + l.wait
}

// planLock reads
//
//	LOCK {TABLE | TABLES} t [[AS] alias] {READ [LOCAL] | [LOW_PRIORITY] WRITE [CONCURRENT]}, .. [WAIT n | NOWAIT]
//
// The text is written anew, since mysqldump's has LOCAL in a comment that is cut
// with its item: READ /*!32311 LOCAL */.
func planLock(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if !st.is(1, "table") && !st.is(1, "tables") {
		return nil, notSupported("LOCK %s is not supported: run it on the shard itself", strings.ToUpper(st.word(1)))
	}
	l := &LockTables{Catalog: cat}
	names := map[[2]string]bool{} // schema and name in lower case
	for i := 2; ; i++ {
		t, next, err := st.lockedTable(i, cat)
		switch {
		case err != nil && (err.Code == codeUnknownTable || err.Code == codeUnknownSchema):
			l.Failed = err
		case err != nil:
			return nil, err
		}
		i = next
		x := TableLock{Table: t}
		if st.is(i, "as") {
			i++
		}
		if !st.is(i, "read") && !st.is(i, "write") && (!st.is(i, "low_priority") || !st.is(i+1, "write")) {
			alias, ok := st.identifier(i)
			if !ok {
				return nil, st.near(i)
			}
			x.Alias = alias
			i++
		}
		switch {
		case st.is(i, "read") && st.is(i+1, "local"):
			x.mode = "READ LOCAL"
			i += 2
		case st.is(i, "read"):
			x.mode = "READ"
			i++
		case st.is(i, "low_priority") && st.is(i+1, "write"):
			x.mode, x.Write = "LOW_PRIORITY WRITE", true
			i += 2
		case st.is(i, "write") && st.is(i+1, "concurrent") && cat.MariaDB:
			x.mode, x.Write = "WRITE CONCURRENT", true
			i += 2
		case st.is(i, "write"):
			x.mode, x.Write = "WRITE", true
			i++
		default:
			return nil, st.near(i)
		}
		if t != nil {
			name := x.Alias
			if name == "" {
				name = t.Name
			}
			key := [2]string{t.Schema, strings.ToLower(name)}
			if names[key] {
				return nil, &Error{Code: 1066, State: stateNotSupported, Message: "Not unique table/alias: '" + name + "'"}
			}
			names[key] = true
			l.Locks = append(l.Locks, x)
		}
		switch {
		case i == len(st.toks):
			return l, nil
		case cat.MariaDB && st.is(i, "nowait") && i+1 == len(st.toks):
			l.wait = " NOWAIT"
			return l, nil
		case cat.MariaDB && st.is(i, "wait") && i+2 == len(st.toks) && st.toks[i+1].kind == tokInt:
			l.wait = " WAIT " + st.text(i+1)
			return l, nil
		case !st.op(i, ","):
			return nil, st.near(i)
		}
	}
}

func (st *statement) lockedTable(i int, cat *catalog.Catalog) (*catalog.Table, int, *Error) {
	name, next, err := st.tableAt(i)
	if err != nil {
		return nil, next, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, next, notSupported("a lock of %s.%s is not supported: it is a table of each server's own; run it on the shard itself", name.Schema, name.Name)
	}
	t, _, failed := lookupTable(cat, name.Schema, name.Name)
	if failed != nil {
		return nil, next, failed
	}
	return t, next, nil
}

func planUnlock(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if !st.is(1, "table") && !st.is(1, "tables") {
		return nil, notSupported("UNLOCK %s is not supported: run it on the shard itself", strings.ToUpper(st.word(1)))
	}
	if len(st.toks) != 2 {
		return nil, st.near(2)
	}
	return &LockTables{Catalog: cat, Unlock: true}, nil
}

// flushLocked plans FLUSH TABLES t, .. WITH READ LOCK; nil where it is another
// FLUSH. FLUSH TABLES WITH READ LOCK, of all tables, is refused: Shunt's own work
// on the shards (copies for gathers, sequences) would wait for it too.
func flushLocked(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	i := 1
	if st.is(i, "local") || st.is(i, "no_write_to_binlog") {
		i++
	}
	if !st.is(i, "table") && !st.is(i, "tables") || st.is(i+1, "with") {
		return nil, nil
	}
	l := &LockTables{Catalog: cat, Flush: true}
	for i++; ; i++ {
		t, next, err := st.lockedTable(i, cat)
		if err != nil {
			return nil, err
		}
		l.Locks = append(l.Locks, TableLock{Table: t})
		if i = next; !st.op(i, ",") {
			break
		}
	}
	if st.is(i, "with") && st.is(i+1, "read") && st.is(i+2, "lock") && i+3 == len(st.toks) {
		return l, nil
	}
	return nil, nil
}
