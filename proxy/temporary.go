package proxy

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// temporaries are a session's temporary tables and the one shard connection that
// they are on. The session keeps it, pinned, from the first CREATE TEMPORARY
// TABLE until the last is dropped, COM_RESET_CONNECTION or the session's end. It
// serves the statements that name a temporary table, and a transaction's on that
// shard; for all else pooled ones will do.
//
// To the planner the tables are of placement single, in the session's own view
// of the catalog (catalog.With).
//
// A connection that has had temporary tables goes back to its pool reset, or it
// is closed: what one session made must not reach another.
type temporaries struct {
	shard catalog.ShardID
	conn  *shard.Conn // nil: it was lost, and the tables with it
	// tables in the order of their making, lost ones too.
	tables []*catalog.Table
	// needed: the statement at hand names one.
	needed bool

	mu sync.Mutex // of the rest
	// over is base with the tables.
	base, over *catalog.Catalog
}

// temporaryChanged is called after every change of the tables.
func (s *session) temporaryChanged() {
	s.temporarySerial++
	if t := s.temporary; t != nil {
		t.mu.Lock()
		t.base = nil
		t.mu.Unlock()
	}
}

// needTemporary notes whether a statement names temporary tables, of which only
// the pinned connection knows.
func (s *session) needTemporary(tables []*catalog.Table) {
	if s.temporary == nil {
		return
	}
	s.temporary.needed = false
	for _, t := range tables {
		s.temporary.needed = s.temporary.needed || t.Temporary
	}
}

func (s *session) temporaryNeeded() bool { return s.temporary != nil && s.temporary.needed }

// usesPinned reports whether a connection to a shard must be the pinned one.
func (s *session) usesPinned(id catalog.ShardID) bool {
	t := s.temporary
	return t != nil && t.conn != nil && t.shard == id && (t.needed || s.tx != nil)
}

// borrowPinned returns the pinned connection with the session's settings.
func (s *session) borrowPinned(ctx context.Context) (*shard.Conn, error) {
	t := s.temporary
	conn := t.conn
	if !conn.Alive() {
		conn.Broken = true
		s.loseTemporary()
		return nil, mysqlerr.Newf(mysqlerr.ShardLost, "Connection to shard %s was lost, and this session's temporary tables with it", s.catalog().ShardName(t.shard))
	}
	if err := s.settings.applyMore(ctx, conn); err != nil {
		err = s.shardError(t.shard, err)
		s.putBack(t.shard, conn)
		return nil, err
	}
	return conn, nil
}

// loseTemporary notes that the pinned connection is gone. Its tables stay known,
// as lost: see the planner's rule not the other.
func (s *session) loseTemporary() {
	t := s.temporary
	conn := t.conn
	t.conn = nil
	for i, x := range t.tables {
		lost := *x
		lost.Lost = true
		t.tables[i] = &lost
	}
	s.temporaryChanged()
	s.unpinned(t.shard, pinnedByTables)
	s.proxy.pool(t.shard).Discard(conn)
	s.log.Info("temporary tables lost with their connection", "shard", s.proxy.pool(t.shard).Name(), "tables", len(t.tables))
}

// endTemporary drops all temporary tables and gives the connection back.
// REQUIRES: no transaction is open.
func (s *session) endTemporary() {
	t := s.temporary
	if t == nil {
		return
	}
	switch {
	case t.conn == nil:
	case s.locked(t.shard, t.conn):
		// It is kept for its locks. UNLOCK TABLES gives it to its pool.
		t.conn.Unclean = true
		s.relabel(t.shard, pinnedByTables, pinnedByTableLocks)
	default:
		s.letGo(t.shard, t.conn, pinnedByTables)
	}
	s.temporary = nil
	s.temporaryChanged()
}

// pin chooses a shard of the set for temporary tables, and keeps a connection
// to it, if the session has none yet.
func (s *session) pin(ctx context.Context, set catalog.ShardSet) (*shard.Conn, error) {
	if t := s.temporary; t != nil && t.conn != nil {
		if s.tx != nil {
			return s.tx.conn(ctx, t.shard)
		}
		return s.borrowPinned(ctx)
	}
	id, found := s.shardFor(set)
	if !found {
		return nil, mysqlerr.New(mysqlerr.ShardDown, "no shard is there for a temporary table")
	}
	shared := s.lockedConn(id) != nil
	if !shared {
		if err := s.pinned(id, pinnedByTables); err != nil {
			return nil, err
		}
	}
	conn, err := s.borrow(ctx, id)
	switch {
	case err != nil && !shared:
		s.unpinned(id, pinnedByTables)
		return nil, err
	case err != nil:
		return nil, err
	case shared:
		s.relabel(id, pinnedByTableLocks, pinnedByTables)
	}
	if s.temporary == nil {
		s.temporary = &temporaries{}
	}
	s.temporary.shard, s.temporary.conn = id, conn
	s.temporaryChanged()
	return conn, nil
}

// shardFor is one of the transaction's, or else one that is up and has few
// connections kept and in use.
func (s *session) shardFor(set catalog.ShardSet) (catalog.ShardID, bool) {
	if s.tx != nil {
		for _, id := range s.tx.order {
			if set.Has(id) {
				return id, true
			}
		}
	}
	var best catalog.ShardID
	var bestScore [4]int
	found := false
	for id := range set.All {
		pool := s.proxy.pool(id)
		if pool == nil {
			continue
		}
		score := [4]int{0, pool.Pinned(), pool.Stats().InUse, int(uint32(id)+s.client.ID) % len(s.proxy.opts.Pools)}
		if pool.State() != "up" {
			score[0] = 1
		}
		if !found || slices.Compare(score[:], bestScore[:]) < 0 {
			best, bestScore, found = id, score, true
		}
	}
	return best, found
}

// unpinIfEmpty gives the connection up when the last table is gone.
func (s *session) unpinIfEmpty() {
	t := s.temporary
	if t == nil || len(t.tables) > 0 {
		return
	}
	if s.tx != nil && t.conn != nil && s.tx.conns.at(t.shard) == t.conn {
		// It goes to its pool with the transaction's end, and is reset then.
		t.conn.Unclean = true
		s.temporary = nil
		if s.locked(t.shard, t.conn) {
			s.relabel(t.shard, pinnedByTables, pinnedByTableLocks)
		} else {
			s.unpinned(t.shard, pinnedByTables)
		}
		s.temporaryChanged()
		return
	}
	s.endTemporary()
}

// temporaryTable executes a statement about temporary tables.
func (s *session) temporaryTable(ctx context.Context, p *plan.Temporary, sql string) error {
	if p.Commits {
		if err := s.commitBefore(ctx, sql); err != nil {
			return err
		}
	}
	if s.settings.readOnly() {
		return s.readOnlyTransaction()
	}
	if err := s.mayGoOn(); err != nil {
		return err
	}
	if !s.settings.autocommit && !p.Commits && !s.mariaDB() { // where it depends on what was before
		s.transact()
	}
	s.diag.sending()
	s.diag.clear()
	defer s.unpinIfEmpty()
	var ok wire.OK
	var err error
	switch {
	case p.Op == "DROP TABLE":
		ok, err = s.dropTemporary(ctx, p, sql)
	case p.As != nil:
		restore := s.diag.keepFound()
		ok, err = s.createTemporaryAs(ctx, p, sql)
		if restore(); s.mariaDB() && err == nil {
			s.diag.setFound(int64(ok.Affected))
		}
	default:
		ok, err = s.onPinned(ctx, p, p.Shards, sql)
	}
	if err != nil {
		return err
	}
	switch {
	case p.Op == "CREATE TEMPORARY TABLE" && p.As == nil, p.Op == "ALTER TABLE", p.Op == "DROP TABLE" && !p.Commits:
		s.stateChanged() // not of the others, as servers do
	}
	return s.answerOK(ok)
}

// onPinned runs a statement on the pinned connection, and looks at what has
// become of its tables.
func (s *session) onPinned(ctx context.Context, p *plan.Temporary, set catalog.ShardSet, sql string) (wire.OK, error) {
	conn, err := s.pin(ctx, set)
	if err != nil {
		return wire.OK{}, err
	}
	id := s.temporary.shard
	if s.tx != nil {
		s.tx.temporary = conn
	}
	s.activity.sent(id, conn)
	sum, err := conn.Exec(ctx, sql)
	s.activity.done(conn)
	if err == nil {
		s.diag.keep(ctx, conn, &sum)
	} else {
		err = s.shardError(id, err)
		s.diag.unanswered() // the client has not been told yet
	}
	for i, name := range p.Tables {
		if p.Renamed[i].Name != "" && err == nil {
			s.forgetTemporary(name)
			name = p.Renamed[i]
		}
		if learned := s.learnTemporary(ctx, conn, name); learned != nil && err == nil {
			err = learned
		}
	}
	s.temporaryChanged()
	if s.tx == nil || s.tx.conns.at(id) != conn {
		s.putBack(id, conn)
	}
	return wire.OK{Affected: sum.Affected, Warnings: sum.Warnings, Info: sum.Info}, err
}

// forgetTemporary takes a table out of the session's catalog.
func (s *session) forgetTemporary(name catalog.TableName) {
	t := s.temporary
	was := s.catalog().Table(name.Schema, name.Name)
	for i, x := range t.tables {
		if x == was {
			t.tables = append(t.tables[:i:i], t.tables[i+1:]...)
			break
		}
	}
	s.temporaryChanged()
}

// learnTemporary asks the server what a temporary table is now, if there is one.
// information_schema doesn't know them.
func (s *session) learnTemporary(ctx context.Context, conn *shard.Conn, name catalog.TableName) error {
	s.forgetTemporary(name)
	if conn.Broken {
		return nil
	}
	base := s.proxy.opts.Directory.Catalog()
	if strings.HasPrefix(s.settings.charset, "utf8") {
		if _, set := s.settings.value("@@character_set_results"); set {
			defer func() { conn.State = againAll }()
			if _, err := conn.Exec(ctx, "SET SESSION character_set_results = utf8mb4"); err != nil {
				return s.shardError(s.temporary.shard, err)
			}
		}
	} else {
		defer func() { conn.State = againAll }()
		if _, err := conn.Exec(ctx, "SET NAMES utf8mb4"); err != nil {
			return s.shardError(s.temporary.shard, err)
		}
	}
	full := quoted(name)
	res, err := conn.Query(ctx, "SHOW CREATE TABLE "+full)
	if shard.Code(err) != 0 || err == nil && (len(res.Rows) != 1 || len(res.Rows[0]) < 2 || !strings.HasPrefix(string(res.Rows[0][1]), "CREATE TEMPORARY TABLE")) {
		return nil
	}
	if err != nil {
		return s.shardError(s.temporary.shard, err)
	}
	columns, err := conn.Query(ctx, "SHOW FULL COLUMNS FROM "+full)
	if err != nil {
		return s.shardError(s.temporary.shard, err)
	}
	keys, err := conn.Query(ctx, "SHOW INDEX FROM "+full)
	if err != nil {
		return s.shardError(s.temporary.shard, err)
	}
	t := &catalog.Table{
		Schema: name.Schema, Name: name.Name, Placement: catalog.Single, Shards: catalog.Only(s.temporary.shard), Temporary: true,
		Columns: temporaryColumns(base, columns),
	}
	temporaryKeys(t, keys)
	if base.MariaDB {
		text, err := conn.Query(ctx, "SHOW CREATE TABLE "+full)
		if err != nil {
			return s.shardError(s.temporary.shard, err)
		}
		temporaryJSON(t, text)
	}
	s.temporary.tables = append(s.temporary.tables, t)
	s.temporaryChanged()
	return nil
}

// againAll is the state of a connection that needs all of the session's settings
// once more.
const againAll = "again"

// temporaryColumns reads SHOW FULL COLUMNS.
func temporaryColumns(c *catalog.Catalog, res *shard.QueryResult) []*catalog.Column {
	var out []*catalog.Column
	cells := named(res)
	for i := range res.Rows {
		extra := strings.ToLower(cells(i, "Extra"))
		col := &catalog.Column{
			Name: cells(i, "Field"), Position: i, Type: cells(i, "Type"), Collation: cells(i, "Collation"), Nullable: cells(i, "Null") == "YES",
			// What the default is, only information_schema tells without doubt.
			DefaultExpr:   cells(i, "Default") != "",
			AutoIncrement: strings.Contains(extra, "auto_increment"),
			OnUpdate:      strings.Contains(extra, "on update"),
			Generated:     strings.Contains(extra, "virtual generated") || strings.Contains(extra, "stored generated") || strings.Contains(extra, "persistent"),
			Invisible:     strings.Contains(extra, "invisible"),
		}
		for _, x := range c.Collations {
			if x.Name == col.Collation {
				col.Charset = x.Charset
			}
		}
		out = append(out, col)
	}
	return out
}

// temporaryJSON reads which texts are MariaDB's JSON from SHOW CREATE TABLE: no other
// statement tells the checks of temporary tables.
func temporaryJSON(t *catalog.Table, res *shard.QueryResult) {
	for _, row := range res.Rows {
		for line := range strings.SplitSeq(string(row[len(row)-1]), "\n") {
			for _, c := range t.Columns {
				name := catalog.QuoteName(c.Name)
				if strings.HasPrefix(strings.TrimLeft(line, " "), name+" ") && strings.Contains(line, "CHECK (json_valid("+name+"))") {
					c.JSON = true
				}
			}
		}
	}
}

// temporaryKeys reads SHOW INDEX.
func temporaryKeys(t *catalog.Table, res *shard.QueryResult) {
	cells := named(res)
	var order []string
	keys := map[string][]*catalog.Column{}
	odd := map[string]bool{}
	for i := range res.Rows {
		if cells(i, "Non_unique") != "0" {
			continue
		}
		key := cells(i, "Key_name")
		if keys[key] == nil && !odd[key] {
			order = append(order, key)
		}
		c := t.Column(cells(i, "Column_name"))
		if c == nil || cells(i, "Sub_part") != "" {
			odd[key] = true // a functional or prefix part: no key of columns
			continue
		}
		keys[key] = append(keys[key], c)
	}
	for _, key := range order {
		if odd[key] {
			continue
		}
		t.Unique = append(t.Unique, keys[key])
		if key == "PRIMARY" {
			t.PrimaryKey = keys[key]
		}
	}
}

// named finds cells by their column's name; "" for NULL.
func named(res *shard.QueryResult) func(row int, column string) string {
	at := map[string]int{}
	for i, name := range res.Columns {
		at[strings.ToLower(name)] = i
	}
	return func(row int, column string) string {
		i, ok := at[strings.ToLower(column)]
		if !ok || i >= len(res.Rows[row]) {
			return ""
		}
		return string(res.Rows[row][i])
	}
}

// dropTemporary executes DROP TABLE of temporary tables.
func (s *session) dropTemporary(ctx context.Context, p *plan.Temporary, sql string) (wire.OK, error) {
	var alive, unknown []string
	lost := false
	var names []catalog.TableName
	for _, name := range p.Tables {
		t := s.catalog().Table(name.Schema, name.Name)
		switch {
		case t == nil || !t.Temporary:
			unknown = append(unknown, name.Schema+"."+name.Name)
		case t.Lost:
			s.forgetTemporary(name)
			lost = true
		default:
			alive = append(alive, catalog.QuoteTable(name.Schema, name.Name))
			names = append(names, name)
		}
	}
	if s.temporary != nil && s.temporary.conn != nil && !lost {
		return s.onPinned(ctx, p, p.Shards, sql)
	}
	// A server would know fewer tables than the session does, or none.
	if len(unknown) > 0 && !p.Quiet {
		return wire.OK{}, mysqlerr.New(mysqlerr.BadTable, "Unknown table '"+strings.Join(unknown, ",")+"'")
	}
	if len(alive) > 0 {
		rest := *p
		rest.Tables, rest.Renamed = names, make([]catalog.TableName, len(names))
		if _, err := s.onPinned(ctx, &rest, p.Shards, "DROP TEMPORARY TABLE "+strings.Join(alive, ", ")); err != nil {
			return wire.OK{}, err
		}
	}
	var ok wire.OK
	for _, name := range unknown {
		ok.Warnings += s.note(mysqlerr.BadTable, "Unknown table '"+name+"'")
	}
	return ok, nil
}
