package shard

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// preparing is a server that answers executions with errors from a list, then
// with OK.
type preparing struct {
	refuse           []uint16
	prepared, closed []uint32
	executed         []uint32
	refusePrepare    bool
	rows             bool // it answers a row instead of OK
}

func (s *preparing) answer(c *wire.Conn, cmd byte, p []byte) error {
	switch cmd {
	case mysql.COM_STMT_PREPARE:
		if s.refusePrepare && len(s.prepared) > 0 {
			return c.WriteError(mysqlerr.New(mysqlerr.NoSuchTable, "no table"))
		}
		id := uint32(len(s.prepared) + 1)
		s.prepared = append(s.prepared, id)
		return c.WritePrepareOK(wire.PrepareOK{StatementID: id}, nil, nil, 2)
	case mysql.COM_STMT_CLOSE:
		s.closed = append(s.closed, binary.LittleEndian.Uint32(p))
		return nil
	case mysql.COM_STMT_EXECUTE:
		s.executed = append(s.executed, binary.LittleEndian.Uint32(p))
		if len(s.refuse) > 0 {
			code := s.refuse[0]
			s.refuse = s.refuse[1:]
			return c.WriteError(mysqlerr.New(code, "prepare it again"))
		}
		if s.rows {
			return c.WriteResult([]wire.Column{wire.TextColumn("a")}, [][]any{{"x"}}, 2, 0)
		}
		return c.WriteOK(wire.OK{Status: 2, Affected: 7})
	}
	return ok(c, cmd, p)
}

func TestExecuteAgain(t *testing.T) {
	for _, x := range []struct {
		refuse        []uint16
		refusePrepare bool
		failed        uint16
		executed      string
		closed        string
	}{
		{nil, false, 0, "[1]", "[]"},
		{[]uint16{1615}, false, 0, "[1 2]", "[1]"},
		{[]uint16{1243}, false, 0, "[1 2]", "[]"},
		{[]uint16{1615, 1243, 1615}, false, 0, "[1 2 3 4]", "[1 3]"},
		{[]uint16{1615, 1615, 1615, 1615}, false, 1615, "[1 2 3 4]", "[1 2 3]"},
		{[]uint16{1062}, false, 1062, "[1]", "[]"},
		{[]uint16{1615}, true, 1146, "[1]", "[1]"},
	} {
		t.Run(fmt.Sprint(x.refuse, x.refusePrepare), func(t *testing.T) {
			s := &preparing{refuse: x.refuse, refusePrepare: x.refusePrepare}
			f := startFake(t, s.answer)
			c, err := Dial(within(t), f.config(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			const sql = "UPDATE t SET a = 1"
			st, err := c.Prepare(within(t), sql)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Execute(st, sql, nil); err != nil {
				t.Fatal(err)
			}
			sum, err := c.Forward(nil, Result, ForwardOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var code uint16
			if sum.Err != nil {
				code = sum.Err.Code
			}
			if code != x.failed || code == 0 && sum.Affected != 7 {
				t.Errorf("error %d, %d rows affected, want error %d", code, sum.Affected, x.failed)
			}
			if err := c.Ping(within(t)); err != nil {
				t.Errorf("the connection can't go on: %v", err)
			}
			if got := fmt.Sprint(s.executed); got != x.executed {
				t.Errorf("executed %s, want %s", got, x.executed)
			}
			if got := fmt.Sprint(s.closed); got != x.closed {
				t.Errorf("closed %s, want %s", got, x.closed)
			}
			// What is kept is what the server has.
			again, err := c.Prepare(within(t), sql)
			switch {
			case x.refusePrepare && err == nil:
				t.Error("a statement that can't be prepared is kept")
			case !x.refusePrepare && (err != nil || again != st || again.ID != s.executed[len(s.executed)-1]):
				t.Errorf("kept %v, executed last %v (%v)", again, s.executed, err)
			}
		})
	}
}

// TestExecuteAgainRows: so it is with an answer that is read row by row.
func TestExecuteAgainRows(t *testing.T) {
	for _, x := range []struct {
		refuse   []uint16
		failed   uint16
		executed string
	}{
		{nil, 0, "[1]"},
		{[]uint16{1615, 1243}, 0, "[1 2 3]"},
		{[]uint16{1615, 1615, 1615, 1615}, 1615, "[1 2 3 4]"},
		{[]uint16{1062}, 1062, "[1]"},
	} {
		t.Run(fmt.Sprint(x.refuse), func(t *testing.T) {
			s := &preparing{refuse: x.refuse, rows: true}
			f := startFake(t, s.answer)
			c, err := Dial(within(t), f.config(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			const sql = "SELECT a FROM t"
			st, err := c.Prepare(within(t), sql)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Execute(st, sql, nil); err != nil {
				t.Fatal(err)
			}
			rows, err := c.Rows()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for p, err := rows.Next(); p != nil || err != nil; p, err = rows.Next() {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			var code uint16
			if rows.Summary.Err != nil {
				code = rows.Summary.Err.Code
			}
			if code != x.failed || code == 0 && n != 1 {
				t.Errorf("error %d, %d rows, want error %d", code, n, x.failed)
			}
			if err := c.Ping(within(t)); err != nil {
				t.Errorf("the connection can't go on: %v", err)
			}
			if got := fmt.Sprint(s.executed); got != x.executed {
				t.Errorf("executed %s, want %s", got, x.executed)
			}
		})
	}
}
