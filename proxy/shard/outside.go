package shard

import (
	"context"
	"time"
)

// Outside asks a server by a connection outside of its pool, which may be exhausted by those that
// wait for what is asked about. It is one goroutine's.
type Outside struct {
	Pool *Pool
	conn *Conn
	used time.Time // last
}

// Query runs a small query.
func (o *Outside) Query(ctx context.Context, sql string) (rows [][][]byte, err error) {
	if err := o.connect(ctx); err != nil {
		return nil, err
	}
	res, err := o.conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return res.Rows, nil
}

// Processes are the server's.
func (o *Outside) Processes(ctx context.Context) ([]Process, error) {
	if err := o.connect(ctx); err != nil {
		return nil, err
	}
	return o.conn.Processes(ctx, false)
}

func (o *Outside) connect(ctx context.Context) (err error) {
	if o.conn != nil && !o.conn.Alive() {
		o.conn.Close()
		o.conn = nil
	}
	if o.conn == nil {
		if o.conn, err = o.Pool.Dial(ctx); err != nil {
			o.conn = nil
			return err
		}
	}
	o.used = time.Now()
	return nil
}

// CloseIdle closes the connection if it has been idle for so long.
func (o *Outside) CloseIdle(idle time.Duration) {
	if o.conn != nil && time.Since(o.used) >= idle {
		o.conn.Close()
		o.conn = nil
	}
}
