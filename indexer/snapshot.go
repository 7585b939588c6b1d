package indexer

import (
	"context"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// session is what a maintenance connection sets before anything else, so that
// no global setting of a server changes what a scan reads.
func session(mariaDB bool) []string {
	limit := "max_execution_time = 0"
	if mariaDB {
		limit = "max_statement_time = 0"
	}
	return []string{
		"SET NAMES utf8mb4",
		// sql_select_limit and sql_big_selects: a truncated scan would take rows
		// for absent. net_write_timeout: a scan reads as fast as the store takes.
		// lock_wait_timeout: who waits for a table that a session has locked (LOCK
		// TABLES ... WRITE) keeps other tables waiting. The job is done again later;
		// until then its entries and marks stay.
		"SET SESSION sql_mode = '', time_zone = '+00:00', net_write_timeout = 3600, lock_wait_timeout = 1, autocommit = 1, " +
			"sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_auto_is_null = 0, " + limit,
		// Under READ UNCOMMITTED or READ COMMITTED there is no snapshot.
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	}
}

// connect opens a connection and sets it up.
func (x *Indexer) connect(ctx context.Context, id catalog.ShardID) (Conn, error) {
	mariaDB := false
	if c := x.opts.Catalog(); c != nil {
		mariaDB = c.MariaDB
	}
	conn, err := x.opts.Shards.Open(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	for _, sql := range session(mariaDB) {
		if err := conn.Exec(ctx, sql); err != nil {
			conn.Close()
			return nil, fmt.Errorf("set up connection: %w", err)
		}
	}
	return conn, nil
}

// bounds are the epochs around a snapshot.
type bounds struct {
	shard catalog.ShardID
	// gates are what the scan has opened.
	gates map[catalog.IndexID]storage.Gate
	// horizon was computed before the snapshot was opened: what was registered
	// earlier has ended and is in the snapshot.
	horizon storage.Epoch
	// after is the epoch that began when the snapshot was open: what was
	// registered earlier may look at something older than the snapshot.
	after storage.Epoch
}

// begin begins the epoch in which a scan opens the gates of its indexes: what the scan
// relies on from now on, no scan that began earlier removes.
//
// Counter-example for the generations: a scan knows that the store has key k. A build begins,
// reads the shard, and ends; then a row gets k, by a statement that marks. The scan finds the
// row, adds nothing, and clears the mark; the new generation has no k.
//
// Without a new epoch, entries of statements that ended just now would be of the horizon's
// own, and none could be removed.
func (x *Indexer) begin(ctx context.Context, id catalog.ShardID, indexes []*catalog.Index) (b bounds, err error) {
	b.shard = id
	e, err := x.cluster.Advance(ctx, id)
	if err != nil {
		return b, err
	}
	b.gates = make(map[catalog.IndexID]storage.Gate, len(indexes))
	for _, ix := range indexes {
		g, err := x.store.OpenGate(ix.ID, id, e)
		if err == nil && g.Epoch != e {
			err = storage.ErrSuperseded // one that began later has opened it before
		}
		if err != nil {
			return b, fmt.Errorf("index %s: open the gate: %w", ix.Name, err)
		}
		b.gates[ix.ID] = g
	}
	return b, nil
}

// around runs open between the computing of a horizon and the beginning of a
// new epoch.
func (b *bounds) around(ctx context.Context, x *Indexer, open func() error) (err error) {
	if b.horizon, err = x.cluster.Horizon(ctx, b.shard); err != nil {
		return fmt.Errorf("ask for the horizon: %w", err)
	}
	if err := open(); err != nil {
		return err
	}
	b.after, err = x.cluster.Advance(ctx, b.shard)
	return err
}

// openSnapshot opens a consistent snapshot on conn.
func (b *bounds) openSnapshot(ctx context.Context, x *Indexer, conn Conn) error {
	return b.around(ctx, x, func() error {
		if err := conn.Exec(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
			return fmt.Errorf("open snapshot: %w", err)
		}
		return nil
	})
}

// reach connects to a shard for maintenance and asks it for a table's layout.
func (x *Indexer) reach(ctx context.Context, t *catalog.Table, id catalog.ShardID) (Conn, layout, error) {
	conn, err := x.connect(ctx, id)
	if err != nil {
		return nil, layout{}, err
	}
	l, err := describe(ctx, conn, t, x.opts.Catalog().MariaDB)
	if err != nil {
		conn.Close()
		return nil, layout{}, err
	}
	return conn, l, nil
}

// layout is what a scan must know of a table on one shard.
type layout struct {
	// snapshots: the engine has consistent snapshots. Where it has none a scan
	// may only add: a row that moves during the scan could be missed.
	snapshots bool
	keys      []shardKey
}

// shardKey is an index of the shard's table, by whole columns (lower case); it
// ends at the first part that is a prefix or an expression.
type shardKey struct {
	name    string
	columns []string
	usable  bool
}

// describe asks a shard for a table's engine and indexes.
func describe(ctx context.Context, conn Conn, t *catalog.Table, mariaDB bool) (layout, error) {
	var l layout
	engine := ""
	err := conn.Stream(ctx, "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+text(t.Schema)+" AND TABLE_NAME = "+text(t.Name), func(row [][]byte) error {
		engine = strings.ToLower(string(row[0]))
		return nil
	})
	if err != nil {
		return l, fmt.Errorf("read the table's engine: %w", err)
	}
	l.snapshots = engine == "innodb" || engine == "rocksdb"
	visible := "YES" // MySQL's column Visible; MariaDB's is Ignored
	if mariaDB {
		visible = "NO"
	}
	ended := false
	err = conn.Stream(ctx, "SHOW INDEX FROM "+catalog.QuoteTable(t.Schema, t.Name), func(row [][]byte) error {
		if len(row) < 11 {
			return nil
		}
		name := string(row[2])
		if n := len(l.keys); n == 0 || l.keys[n-1].name != name {
			l.keys = append(l.keys, shardKey{name: name, usable: string(row[10]) == "BTREE" && (len(row) < 14 || string(row[13]) == visible)})
			ended = false
		}
		k := &l.keys[len(l.keys)-1]
		ended = ended || row[4] == nil || row[7] != nil
		if !ended {
			k.columns = append(k.columns, strings.ToLower(string(row[4])))
		}
		return nil
	})
	if err != nil {
		return l, fmt.Errorf("read the table's keys: %w", err)
	}
	return l, nil
}

// ordered names a secondary index of the shard that has these columns as its
// prefix, "" if there is none. The primary key does not count: reading it is
// reading the table.
func (l layout) ordered(columns []*catalog.Column) string {
next:
	for _, k := range l.keys {
		if !k.usable || k.name == "PRIMARY" || len(k.columns) < len(columns) {
			continue
		}
		for i, c := range columns {
			if k.columns[i] != strings.ToLower(c.Name) {
				continue next
			}
		}
		return k.name
	}
	return ""
}

// text writes a string literal for a session whose sql_mode is empty.
func text(s string) string { return "'" + escapes.Replace(s) + "'" }

var escapes = strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", `\0`)
