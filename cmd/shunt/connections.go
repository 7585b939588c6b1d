package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// openSchema borrows a connection for information_schema, or makes one.
//
// One that only reads needs no join. Counter-example to asking for one: a member is fenced on all
// shards, and a table is altered; to join it has to go by the new schema, and to read that it
// would have to have joined.
func openSchema(ctx context.Context, p *shard.Pool) (q querier, done func(), err error) {
	conn, err := (*shard.Conn)(nil), cluster.ErrNotJoined
	if !p.Barred() { // else it is being added
		conn, err = p.Get(ctx, false)
	}
	if errors.Is(err, cluster.ErrNotJoined) {
		if conn, err = p.Dial(ctx); err != nil {
			return q, nil, err
		}
		return querier{conn}, func() { _ = conn.Close() }, nil
	}
	if err != nil {
		return q, nil, err
	}
	if conn.State != "" {
		if err := conn.Reset(ctx); err != nil {
			p.Put(conn)
			return q, nil, err
		}
	}
	return querier{conn}, func() { p.Put(conn) }, nil
}

// opener opens a connection to a shard, and says what gives it back.
type opener func(context.Context, catalog.ShardID) (querier, func(), error)

// schema is open for who reads a schema.
func (open opener) schema(ctx context.Context, id catalog.ShardID) (schema.Querier, func(), error) {
	return open(ctx, id)
}

type querier struct{ conn *shard.Conn }

func (q querier) Rows(ctx context.Context, sql string) ([][][]byte, error) {
	res, err := q.conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return res.Rows, nil
}

// dedicated opens connections for maintenance, outside of the pools: a scan
// must not take a connection from a query.
type dedicated map[catalog.ShardID]shard.Config

func (d dedicated) Open(ctx context.Context, id catalog.ShardID) (indexer.Conn, error) {
	cfg, ok := d[id]
	if !ok {
		return nil, fmt.Errorf("no shard has number %d", id)
	}
	conn, err := shard.Dial(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	return maintenanceConn{conn}, nil
}

type maintenanceConn struct{ *shard.Conn }

func (c maintenanceConn) Exec(ctx context.Context, sql string) error {
	_, err := c.Conn.Exec(ctx, sql)
	return err
}

func (c maintenanceConn) Stream(ctx context.Context, sql string, fn func(row [][]byte) error) error {
	_, err := c.Conn.Stream(ctx, sql, fn)
	return err
}
