package indexer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// rows maps primary keys to the indexed column.
type rows map[int]string

func (r rows) has(key string) bool {
	for _, k := range r {
		if k == key {
			return true
		}
	}
	return false
}

// statement changes rows.
type statement struct {
	text   string
	pk     int // the row that it locks
	change func(rows)
}

// modelShard is one server with one table: the committed rows, and for each
// connection its transaction, its snapshot and the statement that it was sent.
type modelShard struct {
	w         *world
	committed rows
	conns     map[string]*modelThread
	// log is what was committed, or is about to be.
	log []*logged
	// server tells it from others that may answer.
	server int
}

// logged is a transaction in the log.
type logged struct {
	changes []rowChange
	shown   bool
}

type rowChange struct {
	pk            int
	before, after string // "": no row
}

// difference is what statements do.
func difference(from rows, sts []statement) (list []rowChange) {
	to := maps.Clone(from)
	for _, st := range sts {
		st.change(to)
	}
	for pk := range 5 {
		if from[pk] != to[pk] {
			list = append(list, rowChange{pk, from[pk], to[pk]})
		}
	}
	return list
}

// modelThread is one connection's side on the server.
type modelThread struct {
	// sent is a statement that was sent and has not run yet.
	sent *statement
	// commits, aborts: what was sent is the end of the transaction.
	commits, aborts bool
	// inTransaction: statements do not commit by themselves.
	inTransaction bool
	writes        []statement
	snapshot      rows
	// logging is what was logged, and is to be shown.
	logging *logged
	// orphan: the client is gone; its transaction is rolled back when the
	// server notices.
	orphan bool
	// stray: it isn't Shunt's.
	stray bool
	// id is the seat's, and of who has the connection: of members.
	id uint32
	of *process
}

func (s *modelShard) thread(name string) *modelThread {
	if s.conns[name] == nil {
		s.conns[name] = &modelThread{}
	}
	return s.conns[name]
}

// busy reports whether the thread has something to do.
func (t *modelThread) busy() bool { return t.sent != nil || t.commits || t.aborts }

// locked reports whether another thread's transaction holds the row.
func (s *modelShard) locked(name string, pk int) bool {
	for other, t := range s.conns {
		if other == name {
			continue
		}
		if t.logging != nil && slices.ContainsFunc(t.logging.changes, func(c rowChange) bool { return c.pk == pk }) {
			return true
		}
		for _, st := range t.writes {
			if st.pk == pk {
				return true
			}
		}
	}
	return false
}

// steps are what the server can do by itself.
func (s *modelShard) steps(opts []option) []option {
	for _, name := range slices.Sorted(maps.Keys(s.conns)) {
		t := s.conns[name]
		switch {
		case t.logging != nil:
			opts = append(opts, option{label: "server: shows what it logged of " + name, run: func() string {
				for _, c := range t.logging.changes {
					if s.committed[c.pk] = c.after; c.after == "" {
						delete(s.committed, c.pk)
					}
				}
				t.logging.shown = true
				t.sent, t.writes, t.commits, t.inTransaction, t.logging = nil, nil, false, false, nil
				return fmt.Sprint(s.committed)
			}})
		case s.w.sc.follows && (t.commits || t.sent != nil && !t.inTransaction && !s.locked(name, t.sent.pk)):
			opts = append(opts, option{label: "server: logs " + name, run: func() string {
				sts := t.writes
				if t.sent != nil {
					sts = []statement{*t.sent}
				}
				t.logging = &logged{changes: difference(s.committed, sts)}
				s.log = append(s.log, t.logging)
				return fmt.Sprint(t.logging.changes)
			}})
		case t.sent != nil && !s.locked(name, t.sent.pk):
			opts = append(opts, option{label: "server: runs " + name + "'s " + t.sent.text, run: func() string {
				st := *t.sent
				t.sent = nil
				if t.inTransaction {
					t.writes = append(t.writes, st)
				} else {
					st.change(s.committed)
				}
				return fmt.Sprint(s.committed)
			}})
		case t.commits:
			opts = append(opts, option{label: "server: commits " + name, run: func() string {
				for _, st := range t.writes {
					st.change(s.committed)
				}
				t.writes, t.commits, t.inTransaction = nil, false, false
				return fmt.Sprint(s.committed)
			}})
		case t.aborts, t.orphan && t.inTransaction && t.sent == nil:
			opts = append(opts, option{label: "server: rolls " + name + " back", run: func() string {
				t.writes, t.aborts, t.inTransaction = nil, false, false
				return ""
			}})
		}
		if s.killed(t) && t.logging == nil {
			opts = append(opts, option{label: "server: ends " + name, run: func() string {
				t.sent, t.writes, t.commits, t.aborts, t.inTransaction = nil, nil, false, false, false
				return ""
			}})
		}
	}
	return s.listing(opts)
}

// abandon is the death of the process that holds the connections.
func (s *modelShard) abandon() {
	for _, t := range s.conns {
		if t.stray {
			continue
		}
		t.orphan, t.snapshot = true, nil
	}
}

func (s *modelShard) String() string {
	var b strings.Builder
	fmt.Fprint(&b, s.server, s.committed)
	for _, l := range s.log {
		fmt.Fprint(&b, l.changes, l.shown)
	}
	for _, name := range slices.Sorted(maps.Keys(s.conns)) {
		t := s.conns[name]
		fmt.Fprint(&b, name, t.sent != nil, t.commits, t.aborts, t.inTransaction, len(t.writes), t.snapshot, t.orphan, t.logging != nil)
	}
	return b.String()
}

// modelConn is a maintenance connection.
type modelConn struct {
	w        *world
	name     string
	snapshot rows
}

func (w *world) Open(context.Context, catalog.ShardID) (Conn, error) {
	c := &modelConn{w: w, name: w.current.name}
	if w.broken.horizonLate {
		w.step("open snapshot", c.open)
	}
	return c, nil
}

func (c *modelConn) open() string {
	c.snapshot = maps.Clone(c.w.shard.committed)
	return fmt.Sprint(c.snapshot)
}

func (c *modelConn) Exec(_ context.Context, sql string) error {
	switch {
	case sql == "START TRANSACTION WITH CONSISTENT SNAPSHOT":
		if !c.w.broken.horizonLate {
			c.w.step("open snapshot", c.open)
		}
	case sql == "COMMIT":
		c.snapshot = nil
	case strings.HasPrefix(sql, "SET "):
	default:
		panic("model shard: " + sql)
	}
	return nil
}

func (c *modelConn) Stream(_ context.Context, sql string, fn func([][]byte) error) error {
	one := func(values ...string) error {
		row := make([][]byte, len(values))
		for i, v := range values {
			row[i] = []byte(v)
		}
		return fn(row)
	}
	switch {
	case strings.HasPrefix(sql, "SELECT ENGINE"):
		return one("InnoDB")
	case strings.HasPrefix(sql, "SHOW INDEX"):
		return nil
	case sql == "SELECT CONNECTION_ID()":
		return one("1000")
	case strings.HasPrefix(sql, "SHOW GLOBAL STATUS"):
		return nil
	case sql == "SHOW PROCESSLIST":
		var lines [][]string
		c.w.choose("look at the threads", c.w.quietLook(), 1, func(int) string {
			lines = [][]string{{"1000", "shunt", "", "", "Query", "0"}}
			for _, name := range slices.Sorted(maps.Keys(c.w.shard.conns)) {
				t := c.w.shard.conns[name]
				if !c.w.broken.blindToThreads && !t.stray && (t.busy() || t.orphan && t.inTransaction) {
					lines = append(lines, []string{strconv.Itoa(threadID(name)), "shunt", "", "", "Query", "1"})
				}
			}
			return fmt.Sprint(len(lines) - 1)
		})
		for _, l := range lines {
			if err := one(l...); err != nil {
				return err
			}
		}
		return nil
	case strings.HasPrefix(sql, "(SELECT 1 FROM"):
		var asked, found []string
		for branch := range strings.SplitSeq(sql, " UNION ALL ") {
			key := branch[strings.Index(branch, " = ")+3 : strings.Index(branch, " LIMIT")]
			asked = append(asked, string(key[len(key)-2]))
		}
		c.w.step("ask for "+strings.Join(asked, ", "), func() string {
			for n, key := range asked {
				if c.w.shard.committed.has(key) {
					found = append(found, strconv.Itoa(n+1))
				}
			}
			return fmt.Sprint(found)
		})
		for _, n := range found {
			if err := one(n); err != nil {
				return err
			}
		}
		return nil
	case strings.HasPrefix(sql, "SELECT `k` FROM"):
		for _, pk := range slices.Sorted(maps.Keys(c.snapshot)) {
			if err := one(c.snapshot[pk]); err != nil {
				return err
			}
		}
		return nil
	case strings.HasPrefix(sql, "SELECT `id`, `k` FROM"):
		after := 0
		if _, cond, ok := strings.Cut(sql, "`id` > "); ok {
			after, _ = strconv.Atoi(cond[:strings.IndexAny(cond, ") ")])
		}
		for _, pk := range slices.Sorted(maps.Keys(c.snapshot)) {
			if pk <= after {
				continue
			}
			if err := one(strconv.Itoa(pk), c.snapshot[pk]); err != nil {
				return err
			}
		}
		return nil
	}
	panic("model shard: " + sql)
}

func (c *modelConn) Close() error { return nil }

// threadID numbers the writers' connections: w1 is 1.
func threadID(name string) int {
	n, err := strconv.Atoi(name[len(name)-1:])
	if err != nil {
		panic(err)
	}
	return n
}
