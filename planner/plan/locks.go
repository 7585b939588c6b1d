package plan

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// NamedLock is a SELECT or DO of GET_LOCK(), RELEASE_LOCK(), IS_FREE_LOCK() or
// RELEASE_ALL_LOCKS(), without tables. Locks by name belong to a server's
// connection: all sessions take them on the first shard, each over a connection
// that it keeps while it has any. So they agree with those of other proxies over
// the same shards.
type NamedLock struct {
	Op        NamedLockOp
	Statement *text.Statement
	// Name are the tokens of the lock's name, where Op is GetLock or ReleaseLock.
	Name []text.Token
	// Taken are the names that GET_LOCK() is given, but for plain texts.
	Taken [][]text.Token
}

// LockPrefix begins names of locks that are Shunt's own. A client's would keep a schema
// from being served.
const LockPrefix = "shunt-serves-"

// NamedLockOp is what a statement does to the locks of its session.
type NamedLockOp uint8

const (
	// SomeLocks: it may take and release any.
	SomeLocks NamedLockOp = iota
	// LookAtLock: it takes and releases none.
	LookAtLock
	GetLock
	ReleaseLock
	ReleaseAllLocks
)

// Owner asks for the connection that has the lock of GetLock and ReleaseLock.
func (n *NamedLock) Owner(params []keys.Value) string {
	return "SELECT IS_USED_LOCK(" + n.Statement.Written(n.Name[0].Start, n.Name[len(n.Name)-1].End, params) + ")"
}

// Reserved asks whether a lock that the statement takes is Shunt's own, "" where none can be.
func (n *NamedLock) Reserved(params []keys.Value) string {
	var all []string
	for _, name := range n.Taken {
		all = append(all, "COALESCE(LOWER(CONVERT("+n.Statement.Written(name[0].Start, name[len(name)-1].End, params)+" USING utf8mb4)) LIKE '"+LockPrefix+"%', 0)")
	}
	if len(all) == 0 {
		return ""
	}
	return "SELECT " + strings.Join(all, " OR ")
}

// LockTables is LOCK TABLES, UNLOCK TABLES, or FLUSH TABLES of named tables WITH
// READ LOCK, which locks as LOCK TABLES ... READ does. A table is locked on every
// shard that holds it, by one statement a shard.
type LockTables struct {
	Catalog *catalog.Catalog
	Unlock  bool
	Locks   []TableLock
	// Failed is what is wrong with a table, to be told when what was locked before
	// has been released.
	Failed *text.Error
	// Flush: FLUSH TABLES. Global: of all tables.
	Flush, Global bool
	Wait          string // MariaDB's WAIT n or NOWAIT
}

// TableLock is one item of a LockTables.
type TableLock struct {
	Table *catalog.Table
	// Alias under which alone it may be named; "" for its own name.
	Alias string
	Write bool
	// Mode as written: READ LOCAL, LOW_PRIORITY WRITE, ..
	Mode string
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
			b.WriteString(" " + x.Mode)
		}
	}
	if l.Flush {
		return "FLUSH TABLES " + b.String() + " WITH READ LOCK"
	}
	return "LOCK TABLES " + b.String() + l.Wait
}
