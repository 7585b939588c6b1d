package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// TestSendAhead: what goes ahead needs no round trip of its own, whatever command follows.
func TestSendAhead(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, *Conn, *Stmt) error{
		"text": func(_ context.Context, c *Conn, _ *Stmt) error { return c.SendStatement("SELECT 1") },
		"text and await": func(_ context.Context, c *Conn, _ *Stmt) error {
			c.Await = true
			return c.SendStatement("SELECT 1")
		},
		"execute": func(_ context.Context, c *Conn, st *Stmt) error { return c.Execute(st, "SELECT 2", nil) },
		"close, then execute": func(_ context.Context, c *Conn, st *Stmt) error {
			if err := c.closeStatement(&Stmt{ID: 99}); err != nil {
				return err
			}
			return c.Execute(st, "SELECT 2", nil)
		},
		"prepare, then execute": func(ctx context.Context, c *Conn, _ *Stmt) error {
			st, err := c.Prepare(ctx, "SELECT 3")
			if err != nil {
				return err
			}
			return c.Execute(st, "SELECT 3", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &preparing{rows: true, refuse: []uint16{1615}} // a statement is executed again as ever
			began := false
			f := startFake(t, func(c *wire.Conn, cmd byte, p []byte) error {
				switch {
				case cmd == mysql.COM_QUERY && string(p) == "BEGIN":
					began = true
					return nil // no answer before the next command is here
				case cmd == mysql.COM_STMT_CLOSE:
				case began:
					began = false
					if err := c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_IN_TRANS}); err != nil {
						return err
					}
					c.Writer().SetSequence(1)
				}
				if cmd == mysql.COM_QUERY {
					return c.WriteResult([]wire.Column{wire.TextColumn("a")}, [][]any{{"x"}}, mysql.SERVER_STATUS_IN_TRANS, 0)
				}
				return s.answer(c, cmd, p)
			})
			c, err := Dial(within(t), f.config(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			st, err := c.Prepare(within(t), "SELECT 2")
			if err != nil {
				t.Fatal(err)
			}
			c.SendAhead("BEGIN")
			if !c.Ahead() {
				t.Error("it is told as sent")
			}
			if err := ask(within(t), c, st); err != nil {
				t.Fatal(err)
			}
			if c.Ahead() {
				t.Error("it is told as not sent")
			}
			for range 2 {
				sum, err := c.Forward(nil, Result, ForwardOptions{})
				if err != nil || sum.Err != nil || sum.Rows != 1 {
					t.Fatalf("%+v, %v", sum, err)
				}
				if err := c.SendStatement("SELECT 4"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSendAheadFails: the failure is told as that of what went ahead, and the connection isn't
// used any more.
func TestSendAheadFails(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		for sql, code := range map[string]uint16{"BEGIN": 0, "BEGIN INDEED": 1064, "SET @@sql_mode = 'none'": 1231} {
			t.Run(sql, func(t *testing.T) {
				c := dialReal(t, s, false)
				c.SendAhead(sql)
				_, err := c.Query(within(t), "SELECT 1")
				ahead, failed := errors.AsType[*AheadError](err)
				var server *ServerError
				switch {
				case code == 0:
					if err != nil || !c.InTransaction() || c.Broken {
						t.Errorf("%v, in a transaction %v, broken %v", err, c.InTransaction(), c.Broken)
					}
				case !failed || !errors.As(ahead.Err, &server) || server.Code != code || !c.Broken || c.Busy():
					t.Errorf("%v, broken %v, busy %v", err, c.Broken, c.Busy())
				}
			})
		}
	})
}

func TestSendAheadOfTheDead(t *testing.T) {
	t.Parallel()
	f := startFake(t, func(*wire.Conn, byte, []byte) error { return fmt.Errorf("it ends") })
	c, err := Dial(within(t), f.config(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SendAhead("BEGIN")
	_, err = c.Query(within(t), "SELECT 1")
	if _, failed := errors.AsType[*AheadError](err); !failed || !errors.Is(err, ErrShard) || !c.Broken {
		t.Errorf("%v, broken %v", err, c.Broken)
	}
}
