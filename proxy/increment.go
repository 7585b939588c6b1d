package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// ErrUnstarted: a sequence must be started before numbers are taken from it.
var ErrUnstarted = errors.New("the sequence is not started")

// Sequences hand out the values of AUTO_INCREMENT columns of tables that are on
// several shards, none twice, be it over crashes.
type Sequences interface {
	// Take hands out values: take is told the lowest that was never handed out,
	// and returns the one after the last that it takes. release is called when
	// the rows are in the table, or will never be. Errors are ErrUnstarted,
	// ErrIndexFull, ErrIndexReadOnly, or others.
	Take(t *catalog.Table, take func(next uint64) (end uint64)) (first uint64, release func(), err error)
	// Start asks from where on the table has no value. The next Take may be ErrUnstarted
	// all the same, where the table has changed meanwhile.
	Start(t *catalog.Table, ask func() (from uint64, err error)) error
	// Kept reports whether the sequence knows by itself what was handed out.
	Kept(t *catalog.Table) (bool, error)
	// Doubt says that the table may have higher values than were handed out: it
	// must be started again, and goes on where it stands or higher.
	Doubt(t *catalog.Table)
}

// counted are the AUTO_INCREMENT values of a statement.
type counted struct {
	table      catalog.TableName
	first, end uint64
	done       func()
}

// release is called when the statement is over.
func (c *counted) release() {
	if c.done != nil {
		c.done()
		c.done = nil
	}
}

// count takes the AUTO_INCREMENT values that a plan asks for; 0 where it asks for
// none.
func (s *session) count(ctx context.Context, r *request) (first uint64, err error) {
	n, err := s.proxy.planner.Increment(r.plan, r.values)
	if err != nil || n == nil {
		return 0, err
	}
	ids := &r.ids
	name := catalog.TableName{Schema: n.Table.Schema, Name: n.Table.Name}
	if end, ok := n.End(ids.first); ids.done == nil || ids.table != name || !ok || end != ids.end {
		ids.release()
		first, done, err := s.take(ctx, n)
		if err != nil {
			return 0, err
		}
		end, _ := n.End(first)
		*ids = counted{name, first, end, done}
	}
	return ids.first, nil
}

// take moves a counter over what a statement asks for.
func (s *session) take(ctx context.Context, n *plan.Increment) (first uint64, release func(), err error) {
	full := false
	for range 10 {
		first, release, err = s.proxy.opts.Sequences.Take(n.Table, func(next uint64) uint64 {
			end, ok := n.End(next)
			if full = !ok; full {
				return next
			}
			return end
		})
		if !errors.Is(err, ErrUnstarted) {
			break
		}
		err := s.proxy.opts.Sequences.Start(n.Table, func() (uint64, error) { return s.askCounter(ctx, n.Table, n.Column) })
		if err != nil {
			return 0, nil, err
		}
	}
	if err != nil {
		return 0, nil, err
	}
	if full {
		release()
		if s.catalog().MariaDB {
			return 0, nil, mysqlerr.Newf(mysqlerr.AutoincOutOfRange, "Out of range value for column '%s' at row 1", n.Column.Name)
		}
		return 0, nil, mysqlerr.New(mysqlerr.AutoincReadFailed, "Failed to read auto-increment value from storage engine")
	}
	return first, release, nil
}

// shownCounter finds the counter in what SHOW CREATE TABLE answers. A comment of
// a column can't look like it: line breaks in it are escaped.
var shownCounter = regexp.MustCompile(`(\n\) (?:/\*[^*]*\*/ )?ENGINE=\w+)(?: AUTO_INCREMENT=(\d+))?`)

// askCounter asks the shards for the first value over all that the table has or
// had. SHOW CREATE TABLE tells a shard's own counter, which knows of rows that
// are not committed yet or deleted; information_schema may tell one of a day
// ago. A shard that doesn't answer is left out where the sequence itself knows
// what was handed out.
func (s *session) askCounter(ctx context.Context, t *catalog.Table, c *catalog.Column) (from uint64, err error) {
	kept, err := s.proxy.opts.Sequences.Kept(t)
	if err != nil {
		return 0, err
	}
	from = 1
	for id := range t.Shards.All {
		next, err := s.askCounterOn(ctx, id, t, c)
		if err != nil {
			if kept && !isServerError(err) {
				s.log.Warn("AUTO_INCREMENT: go on without the counter of a shard", "table", t.Schema+"."+t.Name, "error", err)
				continue
			}
			return 0, err
		}
		from = max(from, next)
	}
	return from, nil
}

func isServerError(err error) bool {
	_, ok := errors.AsType[*shard.ServerError](err)
	return ok
}

func (s *session) askCounterOn(ctx context.Context, id catalog.ShardID, t *catalog.Table, c *catalog.Column) (next uint64, err error) {
	err = s.besideOn(ctx, id, func(conn *shard.Conn) error {
		table := catalog.QuoteTable(t.Schema, t.Name)
		res, err := conn.Query(ctx, fmt.Sprintf("SELECT MAX(%s) FROM %s", catalog.QuoteName(c.Name), table))
		if err != nil {
			return fmt.Errorf("read the AUTO_INCREMENT counter of %s: %w", table, err)
		}
		next = 1
		if len(res.Rows) == 1 && len(res.Rows[0]) == 1 {
			// NULL and negative numbers don't parse.
			if n, err := strconv.ParseUint(string(res.Rows[0][0]), 10, 64); err == nil {
				next = max(n, n+1)
			}
		}
		own, err := ownCounter(ctx, conn, table)
		next = max(next, own)
		return err
	})
	return next, err
}

// ownCounter is a shard's own counter of a table, 0 where it doesn't tell.
func ownCounter(ctx context.Context, conn *shard.Conn, table string) (uint64, error) {
	res, err := conn.Query(ctx, "SHOW CREATE TABLE "+table)
	if err != nil {
		return 0, fmt.Errorf("read the AUTO_INCREMENT counter of %s: %w", table, err)
	}
	if len(res.Rows) == 1 && len(res.Rows[0]) > 1 {
		if m := shownCounter.FindSubmatch(res.Rows[0][1]); m != nil {
			n, _ := strconv.ParseUint(string(m[2]), 10, 64)
			return n, nil
		}
	}
	return 0, nil
}

// besideOn has a connection answer that is none of the transaction's, whose snapshot may
// be old, under a server's own settings: an SQL mode may leave the counter out.
func (s *session) besideOn(ctx context.Context, id catalog.ShardID, do func(*shard.Conn) error) (err error) {
	conn := s.lockedConn(id) // another would wait for its locks
	if conn == nil {
		pool := s.proxy.pool(id)
		if conn, err = pool.Get(ctx, false); err != nil {
			return shard.Down(err)
		}
		defer pool.Put(conn)
		if conn.State != "" {
			if err := conn.Reset(ctx); err != nil {
				return shard.Down(err)
			}
		}
	}
	return do(conn)
}

// showCreateWay is how SHOW CREATE TABLE is executed of a table that Shunt counts.
var showCreateWay = &way{
	at:   bound,
	fits: func(_ *session, r *request) bool { return len(r.bound.Statements) == 1 && r.plan.Creates != nil },
	execute: func(s *session, ctx context.Context, r *request) error {
		err := s.showCreate(ctx, r.plan.Creates, r.bound.Statements[0])
		if err == nil {
			s.diag.findAnswered()
		}
		return err
	},
}

// showCreate answers SHOW CREATE TABLE with the highest of the shards' counters, as
// information_schema has it: a dump that is restored would count from one shard's own. A
// shard that doesn't answer is left out.
func (s *session) showCreate(ctx context.Context, t *catalog.Table, st plan.ShardStatement) error {
	res, err := s.askOne(ctx, st)
	if err != nil {
		return err
	}
	if len(res.Rows) == 1 && len(res.Rows[0]) > 1 {
		var highest uint64
		for id := range t.Shards.All {
			err := s.besideOn(ctx, id, func(conn *shard.Conn) error {
				own, err := ownCounter(ctx, conn, catalog.QuoteTable(t.Schema, t.Name))
				highest = max(highest, own)
				return err
			})
			if err != nil {
				s.log.Debug("SHOW CREATE TABLE without the counter of a shard", "table", t.Schema+"."+t.Name, "error", err)
			}
		}
		if highest > 0 {
			res.Rows[0][1] = shownCounter.ReplaceAll(res.Rows[0][1], fmt.Appendf(nil, "${1} AUTO_INCREMENT=%d", highest))
		}
	}
	return s.answerTexts(res.Definitions, res.Rows)
}

// holdsID reports that the answer of one shard alone may have another last insert id
// than the statement: the shard got values, not NULL, and tells the last one, or
// none, or LAST_INSERT_ID(expr)'s. So it may have fewer warnings (warnEmpty).
func holdsID(r *request) bool {
	b := r.bound
	return b.Generated != nil && b.Generated.First > 0 && (b.Generated.Rows > 1 || b.Generated.Column.Unannounced || b.Generated.Empty != nil || asksID(r, r.sql))
}

// warnEmpty warns as a server does of rows that give ” for the counted column, whose shards got numbers.
func (s *session) warnEmpty(g *plan.Generated) (warnings uint16) {
	if g == nil {
		return 0
	}
	column := "'" + g.Column.Name + "'"
	if s.mariaDB() {
		column = catalog.QuoteTable(g.Table.Schema, g.Table.Name) + "." + catalog.QuoteName(g.Column.Name)
	}
	var told [][][]byte
	for _, row := range g.Empty {
		told = append(told, condition("Warning", mysqlerr.TruncatedWrongValueForField, fmt.Sprintf("Incorrect integer value: '' for column %s at row %d", column, row+1)))
	}
	s.diag.replace(append(told, s.diag.warnings...)...)
	return uint16(len(told))
}

// inserted settles the last insert id of an INSERT whose values Shunt counted,
// from what the shards have answered. In the answer it is the first value that
// was generated for a row that was really inserted, or what the shard of the
// last row says; LAST_INSERT_ID() is the former, or LAST_INSERT_ID(expr)'s where there is none.
func (s *session) inserted(ctx context.Context, r *request, answered []sent, ids map[catalog.ShardID]uint64) (id uint64, err error) {
	b := r.bound
	g := b.Generated
	id = ids[g.LastShard]
	var first uint64
	switch told := g.Rows == 1 && !g.Column.Unannounced; {
	case told && id == g.First:
		first = id
	case told && !asksID(r, r.sql): // the row wasn't inserted
	default:
		if first, err = s.firstInserted(ctx, g, answered); err != nil {
			return 0, err
		}
	}
	if first > 0 {
		s.diag.give(first)
		return first, nil
	}
	return id, s.computedID(ctx, b, answered)
}

// computedID takes over what LAST_INSERT_ID(expr) may have made of what the shards were told.
func (s *session) computedID(ctx context.Context, b *plan.Bound, answered []sent) error {
	for i, st := range b.Statements {
		if i >= len(answered) || !spoken.NamesInsertID(st.SQL) {
			continue
		}
		id, told, err := askID(ctx, answered[i].conn)
		if err != nil {
			return s.shardError(st.Shard, err)
		}
		if told {
			s.diag.giveNew(id)
		}
	}
	return nil
}

// firstInserted is the lowest of the generated values that is in the table, 0 for none.
func (s *session) firstInserted(ctx context.Context, g *plan.Generated, answered []sent) (first uint64, err error) {
	if g.First == 0 || g.Uncertain == nil {
		return g.First, nil
	}
	sql := fmt.Sprintf("SELECT MIN(%[1]s) FROM %[2]s.%[3]s WHERE %[1]s %[4]s", catalog.QuoteName(g.Column.Name), catalog.QuoteName(g.Table.Schema), catalog.QuoteName(g.Table.Name), given(g))
	for _, x := range answered {
		res, err := x.conn.Query(ctx, sql)
		if err != nil {
			return 0, s.shardError(x.shard, err)
		}
		if n, err := strconv.ParseUint(string(res.Rows[0][0]), 10, 64); err == nil && (first == 0 || n < first) {
			first = n
		}
	}
	return first, nil
}

// given is a condition for values that were generated: of a statement without Uncertain ones also for those
// between them.
func given(g *plan.Generated) string {
	if g.Uncertain == nil || g.Last-g.First+1 == uint64(len(g.Uncertain)) {
		return fmt.Sprintf("BETWEEN %d AND %d", g.First, g.Last)
	}
	list := make([]string, len(g.Uncertain))
	for i, id := range g.Uncertain {
		list[i] = strconv.FormatUint(id, 10)
	}
	return "IN (" + strings.Join(list, ", ") + ")"
}

// unsure tells the sequences of tables that may have got AUTO_INCREMENT values
// that they don't know of.
func (s *session) unsure(r *request) {
	b := r.bound
	for _, t := range b.Doubts {
		s.proxy.opts.Sequences.Doubt(t)
	}
	if b.Generated != nil && s.diag.failed == mysqlerr.DupEntry {
		// Somebody has written to a shard around Shunt.
		s.proxy.opts.Sequences.Doubt(b.Generated.Table)
	}
	if r.plan.Kind != plan.Other {
		return
	}
	for _, t := range r.plan.Tables {
		for _, c := range t.Columns {
			if c.AutoIncrement && t.Shards.Len() > 1 {
				s.proxy.opts.Sequences.Doubt(t)
			}
		}
	}
}

// generatedParam is a counted value as a parameter.
func generatedParam(n uint64) wire.Param {
	return wire.Param{Type: mysql.MYSQL_TYPE_LONGLONG, Unsigned: true, Data: binary.LittleEndian.AppendUint64(nil, n)}
}

// answerInserted, for an INSERT whose values Shunt counted, settles the last insert id behind a statement to one shard, and
// answers where the shard's own answer was held back.
func (s *session) answerInserted(ctx context.Context, r *request, conn *shard.Conn, sum shard.Summary) error {
	b := r.bound
	if b.Generated == nil {
		return nil
	}
	id := b.Statements[0].Shard
	last, err := s.inserted(ctx, r, []sent{{id, conn}}, map[catalog.ShardID]uint64{id: sum.LastInsertID})
	if err != nil || !holdsID(r) {
		return err
	}
	warnings := sum.Warnings + s.warnEmpty(b.Generated)
	byRow(s.diag.warnings, nil)
	return s.answerOK(wire.OK{Affected: sum.Affected, LastInsertID: last, Warnings: warnings, Info: infoWarnings.ReplaceAllString(sum.Info, fmt.Sprintf("Warnings: %d", warnings))})
}
