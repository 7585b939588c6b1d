package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/follow"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/virtual"
)

// newVirtual makes the engine of virtual columns, with connections of its own. close closes them.
func (s *service) newVirtual(directory *schema.Directory, c config.VirtualColumns) (e *virtual.Engine, closeAll func(context.Context)) {
	sh := &virtualShards{of: map[catalog.ShardID]*virtualShard{}, log: s.log}
	for id, to := range s.dial {
		sh.of[id] = &virtualShard{dial: to, pool: shard.New(to, shard.Options{
			Max: 8, IdleMax: 4, Logger: s.log,
			OnConnect: func(ctx context.Context, c *shard.Conn) error {
				_, err := c.Exec(ctx, "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', autocommit = 1")
				return err
			},
		})}
	}
	plans := planner.New()
	o := virtual.Options{
		Shards: sh, Catalog: directory.Catalog, Publish: directory.Republish, Log: s.log, Spare: s.indexer.Load().Spare,
		Every: c.ConsolidateEvery, At: c.ConsolidateAt, KeepFor: c.KeepFor, KeepMost: c.KeepMost,
		Define: func(d virtual.Definition) (*catalog.VirtualColumn, error) {
			cat := directory.Catalog()
			of := cat.Table(d.Schema, d.Table)
			if of == nil {
				return nil, fmt.Errorf("table %s.%s doesn't exist", d.Schema, d.Table)
			}
			return plans.DefineVirtual(of, d.Name, d.Expression, text.Settings{Schema: d.Schema, Charset: "utf8mb4"}, cat)
		},
	}
	if s.member != nil {
		o.Own = func(ctx context.Context) (context.Context, func(), error) {
			return s.cluster.Hold(ctx, "virtual columns")
		}
	}
	e = virtual.New(o)
	_ = s.servers.while(func() error {
		s.otherServer = func(id catalog.ShardID) {
			if to := sh.of[id]; to != nil {
				to.again()
			}
			e.Replaced(id)
		}
		for id := range s.othersBefore.All {
			s.otherServer(id)
		}
		return nil
	})
	return e, func(ctx context.Context) {
		for _, v := range sh.of {
			_ = v.pool.Close(ctx)
		}
	}
}

// virtualReplaced has virtual columns hear of a shard that has another server. REQUIRES: no server is judged meanwhile.
func (s *service) virtualReplaced(shard string) {
	id, known := s.shardNamed(shard)
	switch {
	case !known:
	case s.otherServer == nil:
		s.othersBefore.Add(id)
	default:
		s.otherServer(id)
	}
}

// virtualColumns are those of an engine for the proxy.
type virtualColumns struct{ *virtual.Engine }

// Rows implements proxy.VirtualColumns.
func (v virtualColumns) Rows() (out []proxy.VirtualColumnRow) {
	for _, r := range v.Engine.Rows() {
		out = append(out, proxy.VirtualColumnRow(r))
	}
	return out
}

// virtualShards implement virtual.Shards over connections.
type virtualShards struct {
	of  map[catalog.ShardID]*virtualShard
	log *slog.Logger
}

type virtualShard struct {
	dial shard.Config
	pool *shard.Pool

	asking sync.Mutex // server
	server *follow.Server
	ends   context.CancelFunc

	mu   sync.Mutex
	life context.Context // while the shard has this server; nil: nothing has asked for it
	over context.CancelFunc
}

// connected is for a connection to the server that follows the log, or is asked: it ends when the shard has another one.
func (s *virtualShard) connected(ctx context.Context) (_ context.Context, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		s.life, s.over = context.WithCancel(context.Background())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(errOtherServer) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// again has the server be connected to anew: the shard has another one.
func (s *virtualShard) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil {
		s.over()
		s.life = nil
	}
}

const (
	virtualDefined   = catalog.VirtualSchema + ".`columns`"
	virtualPositions = catalog.VirtualSchema + ".positions"
	// virtualRows bounds the rows of one statement.
	virtualRows = 500
)

func (v *virtualShards) on(ctx context.Context, id catalog.ShardID, fn func(*shard.Conn) error) error {
	s := v.of[id]
	if s == nil {
		return fmt.Errorf("no shard has number %d", id)
	}
	c, err := s.pool.Get(ctx, false)
	if err != nil {
		return err
	}
	if err = fn(c); err != nil {
		s.pool.Discard(c)
		return err
	}
	s.pool.Put(c)
	return nil
}

func (v *virtualShards) exec(ctx context.Context, id catalog.ShardID, statements ...string) error {
	return v.on(ctx, id, func(c *shard.Conn) error {
		for _, sql := range statements {
			if _, err := c.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

func lacks(err error, codes ...uint16) bool {
	e, ok := errors.AsType[*shard.ServerError](err)
	return ok && slices.Contains(codes, e.Code)
}

// Load implements virtual.Shards.
func (v *virtualShards) Load(ctx context.Context, on catalog.ShardID) (out []virtual.Definition, err error) {
	err = v.on(ctx, on, func(c *shard.Conn) error {
		res, err := c.Query(ctx, "SELECT id, table_schema, table_name, column_name, expression FROM "+virtualDefined)
		if err != nil {
			return err
		}
		for _, r := range res.Rows {
			id, err := strconv.ParseUint(string(r[0]), 10, 32)
			if err != nil {
				return err
			}
			out = append(out, virtual.Definition{ID: uint32(id), Schema: string(r[1]), Table: string(r[2]), Name: string(r[3]), Expression: string(r[4])})
		}
		return nil
	})
	// Where nobody may look, or there is nothing, there are none.
	if lacks(err, mysqlerr.NoSuchTable, mysqlerr.BadDB, mysqlerr.DBAccessDenied, mysqlerr.TableAccessDenied) {
		return nil, nil
	}
	return out, err
}

// Define implements virtual.Shards.
func (v *virtualShards) Define(ctx context.Context, on catalog.ShardID, d virtual.Definition, col *catalog.VirtualColumn) error {
	columns := catalog.VirtualKey + " " + col.KeyType + " NOT NULL PRIMARY KEY, " + catalog.VirtualCount + " BIGINT NOT NULL"
	if !col.Counts() {
		columns += ", " + catalog.VirtualValue + " " + col.ValueType + " NULL"
	}
	if col.Ordered() {
		columns += ", " + catalog.VirtualOrder + " " + col.OrderType + " NULL"
	}
	return v.exec(ctx, on,
		"CREATE DATABASE IF NOT EXISTS "+catalog.VirtualSchema,
		"CREATE TABLE IF NOT EXISTS "+virtualDefined+" (id INT UNSIGNED NOT NULL PRIMARY KEY, table_schema VARCHAR(64) NOT NULL, table_name VARCHAR(64) NOT NULL, "+
			"column_name VARCHAR(64) NOT NULL, expression TEXT NOT NULL, generation INT UNSIGNED NOT NULL DEFAULT 0, batch BIGINT UNSIGNED NOT NULL DEFAULT 0) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'Shunt: virtual columns'",
		"CREATE TABLE IF NOT EXISTS "+virtualPositions+" (id INT UNSIGNED NOT NULL, shard VARCHAR(255) NOT NULL, position LONGTEXT NOT NULL, PRIMARY KEY (id, shard)) "+
			"ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT = 'Shunt: up to where in the shards'' logs virtual columns count'",
		"DROP TABLE IF EXISTS "+col.Durable().Quoted(), // of a build that has failed
		"CREATE TABLE "+col.Durable().Quoted()+" ("+columns+", "+catalog.VirtualDoubtful+" TINYINT NOT NULL DEFAULT 0, "+catalog.VirtualBatch+" BIGINT UNSIGNED NOT NULL DEFAULT 0) ENGINE = InnoDB COMMENT = 'Shunt: values of a virtual column'",
		fmt.Sprintf("INSERT IGNORE INTO %s (id, table_schema, table_name, column_name, expression) VALUES (%d, %s, %s, %s, %s)", virtualDefined, d.ID,
			quoteText(d.Schema), quoteText(d.Table), quoteText(d.Name), quoteText(d.Expression)))
}

// quoteText is a string literal, under any SQL mode.
func quoteText(s string) string { return keys.String([]byte(s), "utf8mb4").Literal() }

// Forget implements virtual.Shards.
func (v *virtualShards) Forget(ctx context.Context, on catalog.ShardID, col *catalog.VirtualColumn) error {
	err := v.on(ctx, on, func(c *shard.Conn) error {
		for _, from := range []string{virtualDefined, virtualPositions} {
			if _, err := c.Exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE id = %d", from, col.ID)); err != nil {
				return err
			}
		}
		return v.dropBut(ctx, c, col, "")
	})
	if lacks(err, mysqlerr.NoSuchTable, mysqlerr.BadDB) {
		return nil
	}
	return err
}

// State implements virtual.Shards.
func (v *virtualShards) State(ctx context.Context, on catalog.ShardID, col *catalog.VirtualColumn) (s virtual.State, ok bool, err error) {
	err = v.on(ctx, on, func(c *shard.Conn) error {
		res, err := c.Query(ctx, fmt.Sprintf("SELECT generation, batch FROM %s WHERE id = %d", virtualDefined, col.ID))
		if err != nil {
			return err
		}
		if len(res.Rows) == 1 {
			generation, err := strconv.ParseUint(string(res.Rows[0][0]), 10, 32)
			if err != nil {
				return err
			}
			s.Generation, ok = uint32(generation), generation > 0
			if s.Batch, err = strconv.ParseUint(string(res.Rows[0][1]), 10, 64); err != nil {
				return err
			}
		}
		if s.Counted, err = v.counted(ctx, c, col); err != nil || !ok {
			return err
		}
		of := *col
		of.Generation = s.Generation
		if res, err = c.Query(ctx, "SELECT "+catalog.VirtualKey+" FROM "+of.Durable().Quoted()+" WHERE "+catalog.VirtualDoubtful+" = 1"); err != nil {
			return err
		}
		for _, r := range res.Rows {
			s.Doubtful = append(s.Doubtful, r[0])
		}
		return nil
	})
	if lacks(err, mysqlerr.NoSuchTable, mysqlerr.BadDB) {
		return s, false, nil
	}
	return s, ok, err
}

func (v *virtualShards) counted(ctx context.Context, c *shard.Conn, col *catalog.VirtualColumn) (map[catalog.ShardID]string, error) {
	res, err := c.Query(ctx, fmt.Sprintf("SELECT shard, position FROM %s WHERE id = %d", virtualPositions, col.ID))
	if err != nil {
		return nil, err
	}
	out := map[catalog.ShardID]string{}
	for _, r := range res.Rows {
		for id, of := range v.of {
			if of.dial.Name == string(r[0]) {
				out[id] = string(r[1])
			}
		}
	}
	return out, nil
}

// Tidy implements virtual.Shards.
func (v *virtualShards) Tidy(ctx context.Context, on catalog.ShardID, col *catalog.VirtualColumn) error {
	return v.on(ctx, on, func(c *shard.Conn) error { return v.dropBut(ctx, c, col, col.Durable().Name) })
}

// dropBut drops a column's durable tables, but for one.
func (v *virtualShards) dropBut(ctx context.Context, c *shard.Conn, col *catalog.VirtualColumn, kept string) error {
	res, err := c.Query(ctx, fmt.Sprintf("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '%s' AND TABLE_NAME LIKE 'c%d\\_%%'", catalog.VirtualSchema, col.ID))
	if err != nil {
		return err
	}
	for _, r := range res.Rows {
		if name := string(r[0]); name != kept {
			if _, err := c.Exec(ctx, "DROP TABLE IF EXISTS "+(catalog.TableName{Schema: catalog.VirtualSchema, Name: name}).Quoted()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write implements virtual.Shards.
func (v *virtualShards) Write(ctx context.Context, on catalog.ShardID, col *catalog.VirtualColumn, b virtual.Batch) error {
	statements := v.writes(col, b)
	return v.on(ctx, on, func(c *shard.Conn) error {
		if _, err := c.Exec(ctx, "START TRANSACTION"); err != nil {
			return err
		}
		if b.Number > 0 {
			res, err := c.Query(ctx, fmt.Sprintf("SELECT batch FROM %s WHERE id = %d FOR UPDATE", virtualDefined, col.ID))
			if err != nil {
				return err
			}
			if len(res.Rows) != 1 || string(res.Rows[0][0]) != strconv.FormatUint(b.Last, 10) {
				return fmt.Errorf("%w: %s, not %d", virtual.ErrStale, res.Rows, b.Last)
			}
		}
		for _, sql := range statements {
			if _, err := c.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if _, err := c.Exec(ctx, "COMMIT"); err != nil {
			if _, refused := errors.AsType[*shard.ServerError](err); refused {
				return err
			}
			return fmt.Errorf("%w: %w", virtual.ErrUncertain, err)
		}
		return nil
	})
}

// writes are the statements of a batch.
func (v *virtualShards) writes(col *catalog.VirtualColumn, b virtual.Batch) (out []string) {
	into := "INSERT INTO " + col.Durable().Quoted() + " (" + catalog.VirtualKey + ", " + catalog.VirtualBatch + ", " + catalog.VirtualCount
	if !col.Counts() {
		into += ", " + catalog.VirtualValue
	}
	if col.Ordered() {
		into += ", " + catalog.VirtualOrder
	}
	into += ") VALUES "
	const batch = catalog.VirtualBatch
	list := func(values []virtual.Value, behind string) {
		for some := range slices.Chunk(values, virtualRows) {
			var rows []string
			for _, x := range some {
				row := fmt.Sprintf("(%s, %d, %d", x.Key, b.Number, x.N)
				if !col.Counts() {
					row += ", " + x.Value
				}
				if col.Ordered() {
					row += ", " + x.Order
				}
				rows = append(rows, row+")")
			}
			out = append(out, into+strings.Join(rows, ", ")+" ON DUPLICATE KEY UPDATE "+batch+" = VALUES("+batch+"), "+behind)
		}
	}
	const n, value, order = catalog.VirtualCount, catalog.VirtualValue, catalog.VirtualOrder
	add, whole := "", n+" = VALUES("+n+"), "+catalog.VirtualDoubtful+" = 0"
	switch col.Aggregate {
	case catalog.Sum:
		add = value + " = COALESCE(" + value + ", 0) + COALESCE(VALUES(" + value + "), 0), "
	case catalog.Min, catalog.Max:
		pick := map[catalog.Aggregate]string{catalog.Min: "LEAST", catalog.Max: "GREATEST"}[col.Aggregate]
		add = value + " = COALESCE(" + pick + "(" + value + ", VALUES(" + value + ")), " + value + ", VALUES(" + value + ")), "
	case catalog.Last, catalog.First: // assignments are made from left to right
		than := "COALESCE(VALUES(" + order + ") " + map[catalog.Aggregate]string{catalog.Last: ">", catalog.First: "<"}[col.Aggregate] + " " + order + ", VALUES(" + order + ") IS NOT NULL)"
		add = value + " = IF(" + than + ", VALUES(" + value + "), " + value + "), " + order + " = IF(" + than + ", VALUES(" + order + "), " + order + "), "
		whole = order + " = VALUES(" + order + "), " + whole
	case catalog.CountRows, catalog.CountNulls:
	}
	if !col.Counts() {
		whole = value + " = VALUES(" + value + "), " + whole
	}
	list(b.Whole, whole)
	list(b.Add, add+n+" = "+n+" + VALUES("+n+")")
	for some := range slices.Chunk(b.Doubt, virtualRows) {
		var rows []string
		for _, x := range some {
			rows = append(rows, "("+x.Key+", 0, 1)")
		}
		out = append(out, "INSERT INTO "+col.Durable().Quoted()+" ("+catalog.VirtualKey+", "+n+", "+catalog.VirtualDoubtful+") VALUES "+strings.Join(rows, ", ")+
			" ON DUPLICATE KEY UPDATE "+catalog.VirtualDoubtful+" = 1")
	}
	var positions []string
	for _, id := range slices.Sorted(maps.Keys(b.Counted)) {
		positions = append(positions, fmt.Sprintf("(%d, %s, '%s')", col.ID, quoteText(v.of[id].dial.Name), b.Counted[id]))
	}
	if len(positions) > 0 {
		out = append(out, "REPLACE INTO "+virtualPositions+" (id, shard, position) VALUES "+strings.Join(positions, ", "))
	}
	if b.Complete {
		out = append(out, fmt.Sprintf("UPDATE %s SET generation = %d WHERE id = %d", virtualDefined, col.Generation, col.ID))
	}
	if b.Number > 0 {
		out = append(out, fmt.Sprintf("UPDATE %s SET batch = %d WHERE id = %d", virtualDefined, b.Number, col.ID))
	}
	return out
}

// Measure implements virtual.Shards.
func (v *virtualShards) Measure(ctx context.Context, on catalog.ShardID, col *catalog.VirtualColumn, keys []string, fn virtual.Each) error {
	const child = "c"
	key := child + "." + catalog.QuoteName(col.ChildKey)
	n := "COUNT(*)"
	if col.Argument != "" && !col.Ordered() {
		n = "COUNT(" + child + "." + catalog.QuoteName(col.Argument) + ")"
	}
	order := child + "." + catalog.QuoteName(col.Order)
	sql := "SELECT " + key + ", " + n
	switch {
	case col.Ordered():
		sql += ", " + map[catalog.Aggregate]string{catalog.Last: "MAX", catalog.First: "MIN"}[col.Aggregate] + "(" + order + ") AS o"
	case !col.Counts():
		sql += ", " + col.Call(child)
	}
	sql += " FROM " + col.Child.Quoted() + " AS " + child + " WHERE (" + col.Condition(child, key) + ")"
	if keys != nil {
		sql += " AND " + key + " IN (" + strings.Join(keys, ", ") + ")"
	}
	sql += " GROUP BY " + key
	if col.Ordered() {
		// The column that it is ordered by is unique.
		sql = "SELECT m.k, m.n, " + writtenValue(col, child+"."+catalog.QuoteName(col.Argument)) + ", m.o FROM (" + strings.Replace(sql, key+", "+n, key+" AS k, "+n+" AS n", 1) + ") AS m" +
			" JOIN " + col.Child.Quoted() + " AS " + child + " ON " + order + " = m.o"
	}
	return v.values(ctx, on, sql, fn)
}

// Durable implements virtual.Shards.
func (v *virtualShards) Durable(ctx context.Context, on catalog.ShardID, col *catalog.VirtualColumn, keys []string, fn virtual.Each) error {
	sql := "SELECT " + catalog.VirtualKey + ", " + catalog.VirtualCount
	switch {
	case col.Ordered():
		sql += ", " + writtenValue(col, "d."+catalog.VirtualValue) + ", d." + catalog.VirtualOrder
	case !col.Counts():
		sql += ", " + col.Value("d")
	}
	sql += " FROM " + col.Durable().Quoted() + " AS d"
	if keys != nil {
		sql += " WHERE " + catalog.VirtualKey + " IN (" + strings.Join(keys, ", ") + ")"
	}
	return v.values(ctx, on, sql, fn)
}

// writtenValue is one row's value as it is read: a text in utf8mb4, whatever the connection's character set.
func writtenValue(col *catalog.VirtualColumn, value string) string {
	if col.ValueCharset != "" {
		return "CAST(CONVERT(" + value + " USING utf8mb4) AS BINARY)"
	}
	return value
}

func (v *virtualShards) values(ctx context.Context, on catalog.ShardID, sql string, fn virtual.Each) error {
	return v.on(ctx, on, func(c *shard.Conn) error {
		_, err := c.Stream(ctx, sql, func(row [][]byte) error {
			n, err := strconv.ParseInt(string(row[1]), 10, 64)
			if err != nil {
				return err
			}
			var value, order []byte
			if len(row) > 2 {
				value = row[2]
			}
			if len(row) > 3 {
				order = row[3]
			}
			return fn(row[0], n, value, order)
		})
		return err
	})
}

// Shown implements virtual.Shards.
func (v *virtualShards) Shown(ctx context.Context, on catalog.ShardID) (follow.Position, error) {
	return v.ask(ctx, on, (*follow.Server).Now)
}

// Seen implements virtual.Shards.
func (v *virtualShards) Seen(ctx context.Context, on catalog.ShardID) (follow.Position, error) {
	return v.ask(ctx, on, (*follow.Server).Seen)
}

// ask asks a server for a position over a connection that is kept.
func (v *virtualShards) ask(ctx context.Context, on catalog.ShardID, question func(*follow.Server) (follow.Position, error)) (follow.Position, error) {
	s := v.of[on]
	if s == nil {
		return follow.Position{}, fmt.Errorf("no shard has number %d", on)
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	for again := false; ; again = true {
		fresh := s.server == nil
		if fresh {
			life, cancel := s.connected(context.WithoutCancel(ctx))
			server, err := follow.Dial(life, sourceOf(s.dial, v.log))
			if err != nil {
				cancel()
				return follow.Position{}, err
			}
			s.server, s.ends = server, cancel
		}
		p, err := question(s.server)
		if err == nil {
			return p, nil
		}
		s.ends()
		s.server = nil
		if fresh || again || ctx.Err() != nil {
			return follow.Position{}, err
		}
	}
}

// Fit implements virtual.Shards.
func (v *virtualShards) Fit(ctx context.Context, on catalog.ShardID) error {
	problems, err := follow.Check(ctx, sourceOf(v.of[on].dial, v.log))
	if err != nil && !errors.Is(err, follow.ErrUnfit) {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("the binary log of shard %s can't be followed: %v", v.of[on].dial.Name, problems)
	}
	return err
}

// Follow implements virtual.Shards.
func (v *virtualShards) Follow(ctx context.Context, on catalog.ShardID, progress *follow.Progress, r virtual.LogReader, begun func()) error {
	ctx, done := v.of[on].connected(ctx)
	defer done()
	source := sourceOf(v.of[on].dial, v.log)
	stream, err := follow.Open(ctx, source, progress)
	if err != nil {
		return err
	}
	defer stream.Close()
	begun()
	for {
		event, err := stream.Next()
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case *follow.Begin:
			r.Begin(e.GTID)
		case *follow.Rows:
			table := catalog.TableName{Schema: e.Table.Schema, Name: e.Table.Name}
			err = e.Each(func(before, after *follow.Row) error {
				r.Change(table, imageOf(e.Table, before), imageOf(e.Table, after))
				return nil
			})
		case *follow.Unknown:
			r.Unknown(catalog.TableName{Schema: e.Schema, Name: e.Table}, e.Why)
		case *follow.Schema:
			for _, t := range e.Tables {
				if e.Gone {
					r.Gone(t)
				}
			}
		case *follow.Commit:
			r.Commit(e.GTID, e.XA)
		}
		if err != nil {
			return err
		}
	}
}
