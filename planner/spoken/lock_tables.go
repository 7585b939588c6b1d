package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// planLock reads
//
//	LOCK {TABLE | TABLES} t [[AS] alias] {READ [LOCAL] | [LOW_PRIORITY] WRITE [CONCURRENT]}, .. [WAIT n | NOWAIT]
//
// The text is written anew, since mysqldump's has LOCAL in a comment that is cut
// with its item: READ /*!32311 LOCAL */.
func planLock(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if !st.Is(1, "table") && !st.Is(1, "tables") {
		return nil, text.NotSupported("LOCK %s is not supported: run it on the shard itself", strings.ToUpper(st.Word(1)))
	}
	l := &plan.LockTables{Catalog: cat}
	names := map[[2]string]bool{} // schema and name in lower case
	for i := 2; ; i++ {
		t, next, err := lockedTable(st, i, cat)
		switch {
		case err != nil && (err.Code == mysqlerr.NoSuchTable || err.Code == mysqlerr.BadDB):
			l.Failed = err
		case err != nil:
			return nil, err
		}
		i = next
		x := plan.TableLock{Table: t}
		if st.Is(i, "as") {
			i++
		}
		if !st.Is(i, "read") && !st.Is(i, "write") && (!st.Is(i, "low_priority") || !st.Is(i+1, "write")) {
			alias, ok := st.Identifier(i)
			if !ok {
				return nil, st.Near(i)
			}
			x.Alias = alias
			i++
		}
		switch {
		case st.Is(i, "read") && st.Is(i+1, "local"):
			x.Mode = "READ LOCAL"
			i += 2
		case st.Is(i, "read"):
			x.Mode = "READ"
			i++
		case st.Is(i, "low_priority") && st.Is(i+1, "write"):
			x.Mode, x.Write = "LOW_PRIORITY WRITE", true
			i += 2
		case st.Is(i, "write") && st.Is(i+1, "concurrent") && cat.MariaDB:
			x.Mode, x.Write = "WRITE CONCURRENT", true
			i += 2
		case st.Is(i, "write"):
			x.Mode, x.Write = "WRITE", true
			i++
		default:
			return nil, st.Near(i)
		}
		if t != nil {
			name := x.Alias
			if name == "" {
				name = t.Name
			}
			key := [2]string{t.Schema, strings.ToLower(name)}
			if names[key] {
				return nil, text.NewError(mysqlerr.NonUniqTable, "Not unique table/alias: '"+name+"'")
			}
			names[key] = true
			l.Locks = append(l.Locks, x)
		}
		switch {
		case i == len(st.Tokens):
			return l, nil
		case cat.MariaDB && st.Is(i, "nowait") && i+1 == len(st.Tokens):
			l.Wait = " NOWAIT"
			return l, nil
		case cat.MariaDB && st.Is(i, "wait") && i+2 == len(st.Tokens) && st.Tokens[i+1].Kind == text.Int:
			l.Wait = " WAIT " + st.Text(i+1)
			return l, nil
		case !st.Op(i, ","):
			return nil, st.Near(i)
		}
	}
}

func lockedTable(st *text.Statement, i int, cat *catalog.Catalog) (*catalog.Table, int, *text.Error) {
	name, next, err := st.TableAt(i)
	if err != nil {
		return nil, next, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, next, text.NotSupported("a lock of %s.%s is not supported: it is a table of each server's own; run it on the shard itself", name.Schema, name.Name)
	}
	t, _, failed := LookupTable(cat, name.Schema, name.Name)
	if failed != nil {
		return nil, next, failed
	}
	return t, next, nil
}

func planUnlock(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if !st.Is(1, "table") && !st.Is(1, "tables") {
		return nil, text.NotSupported("UNLOCK %s is not supported: run it on the shard itself", strings.ToUpper(st.Word(1)))
	}
	if len(st.Tokens) != 2 {
		return nil, st.Near(2)
	}
	return &plan.LockTables{Catalog: cat, Unlock: true}, nil
}

// flushLocked plans FLUSH TABLES [t, ..] WITH READ LOCK; nil where it is another
// FLUSH.
func flushLocked(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	i := 1
	if st.Is(i, "local") || st.Is(i, "no_write_to_binlog") {
		i++
	}
	if !st.Is(i, "table") && !st.Is(i, "tables") {
		return nil, nil
	}
	l := &plan.LockTables{Catalog: cat, Flush: true}
	if st.Is(i+1, "with") && st.Is(i+2, "read") && st.Is(i+3, "lock") && i+4 == len(st.Tokens) {
		l.Global = true
		return l, nil
	}
	for i++; ; i++ {
		t, next, err := lockedTable(st, i, cat)
		if err != nil {
			return nil, err
		}
		l.Locks = append(l.Locks, plan.TableLock{Table: t})
		if i = next; !st.Op(i, ",") {
			break
		}
	}
	if st.Is(i, "with") && st.Is(i+1, "read") && st.Is(i+2, "lock") && i+3 == len(st.Tokens) {
		return l, nil
	}
	return nil, nil
}
