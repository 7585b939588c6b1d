package shard

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// TestRows reads answers row by row, whatever ends them.
func TestRows(t *testing.T) {
	big := strings.Repeat("x", 40_000) // more than a buffer
	columns := []wire.Column{wire.IntColumn("n"), wire.TextColumn("v")}
	f := startFake(t, func(c *wire.Conn, _ byte, sql []byte) error {
		switch string(sql) {
		case "rows":
			return c.WriteResult(columns, [][]any{{1, "a"}, {2, big}, {3, nil}}, mysql.SERVER_STATUS_AUTOCOMMIT, 2)
		case "none":
			return c.WriteResult(columns, nil, 0, 0)
		case "error":
			return c.WriteError(mysqlerr.New(mysqlerr.NoSuchTable, "no table"))
		case "error after a row":
			if err := c.WriteColumns(columns, 0); err != nil {
				return err
			}
			if err := c.WriteRow([]any{1, "a"}); err != nil {
				return err
			}
			return c.WriteError(mysqlerr.New(mysqlerr.QueryInterrupted, "interrupted"))
		case "end after a row":
			if err := c.WriteColumns(columns, 0); err != nil {
				return err
			}
			if err := c.WriteRow([]any{1, "a"}); err != nil {
				return err
			}
			if err := c.Flush(); err != nil {
				return err
			}
			return errors.New("gone")
		case "many":
			rows := make([][]any, 1000)
			for i := range rows {
				rows[i] = []any{i, "row"}
			}
			return c.WriteResult(columns, rows, 0, 0)
		case "several":
			return c.WriteResult(columns, nil, mysql.SERVER_MORE_RESULTS_EXISTS, 0)
		}
		return ok(c, 0, nil)
	})
	begin := func(sql string) (*Conn, *Rows, error) {
		t.Helper()
		c, err := Dial(within(t), f.config(), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.Send(mysql.COM_QUERY, []byte(sql)); err != nil {
			t.Fatal(err)
		}
		rows, err := c.Rows()
		return c, rows, err
	}
	read := func(r *Rows) (n int, err error) {
		for {
			p, err := r.Next()
			if p == nil {
				return n, err
			}
			n++
		}
	}

	c, rows, err := begin("rows")
	if err != nil || len(rows.Columns) != 2 || rows.Columns[1].Name != "v" || len(rows.Definitions) != 2 {
		t.Fatalf("rows: %+v %v", rows, err)
	}
	if !c.Busy() || rows.Done() {
		t.Error("rows are left, and the connection isn't busy")
	}
	for i, want := range []string{"1 a", "2 " + big, "3 <nil>"} {
		p, err := rows.Next()
		row := make([][]byte, 2)
		if err != nil || splitRow(row, p) != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		got := fmt.Sprintf("%s %s", row[0], row[1])
		if row[1] == nil {
			got = fmt.Sprintf("%s <nil>", row[0])
		}
		if got != want {
			t.Errorf("row %d: got %.20s, want %.20s", i, got, want)
		}
	}
	if n, err := read(rows); n != 0 || err != nil || !rows.Done() || c.Busy() || rows.Summary.Rows != 3 || rows.Summary.Warnings != 2 || c.Status != mysql.SERVER_STATUS_AUTOCOMMIT {
		t.Errorf("end: %d %v %+v", n, err, rows.Summary)
	}
	if p, err := rows.Next(); p != nil || err != nil {
		t.Errorf("after the end: %v %v", p, err)
	}
	if err := c.Ping(within(t)); err != nil {
		t.Errorf("the connection afterwards: %v", err)
	}

	if _, rows, err = begin("none"); err != nil {
		t.Fatal(err)
	}
	if n, err := read(rows); n != 0 || err != nil || !rows.Done() {
		t.Errorf("none: %d %v", n, err)
	}

	c, rows, err = begin("error")
	if err != nil || rows.Summary.Err == nil || rows.Summary.Err.Code != 1146 || !rows.Done() || c.Busy() || c.Broken {
		t.Errorf("error: %+v %v", rows.Summary, err)
	}

	c, rows, err = begin("error after a row")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := read(rows); n != 1 || err != nil || rows.Summary.Err == nil || rows.Summary.Err.Code != 1317 || c.Busy() {
		t.Errorf("error after a row: %d %v %+v", n, err, rows.Summary)
	}

	c, rows, err = begin("end after a row")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := read(rows); n != 1 || !errors.Is(err, ErrShard) || !c.Broken || rows.Done() {
		t.Errorf("end after a row: %d %v", n, err)
	}

	if _, rows, err = begin("several"); err != nil {
		t.Fatal(err)
	}
	if _, err := read(rows); !errors.Is(err, ErrShard) {
		t.Errorf("several results: %v", err)
	}
	if c, _, err = begin("an OK"); !errors.Is(err, ErrShard) || !c.Broken {
		t.Errorf("OK: %v", err)
	}

	c, rows, err = begin("many")
	if err != nil {
		t.Fatal(err)
	}
	if rows.Drain(100) || !c.Busy() {
		t.Error("a little drained all")
	}
	if !rows.Drain(1<<20) || c.Busy() {
		t.Error("not drained")
	}
}
