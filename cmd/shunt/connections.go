package main

import (
	"context"
	"fmt"

	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// openSchema borrows a connection for information_schema.
func openSchema(ctx context.Context, p *shard.Pool) (schema.Querier, func(), error) {
	conn, err := p.Get(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	if conn.State != "" {
		if err := conn.Reset(ctx); err != nil {
			p.Put(conn)
			return nil, nil, err
		}
	}
	return querier{conn}, func() { p.Put(conn) }, nil
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
