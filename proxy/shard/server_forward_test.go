package shard

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// forward sends a command and returns what the client gets.
func forward(t *testing.T, c *Conn, cmd byte, payload []byte, kind ResponseKind, o ForwardOptions) (sum Summary, packets [][]byte) {
	t.Helper()
	cl := newClient(t)
	cl.Writer().SetSequence(1)
	packets = cl.collect(t, func() {
		if err := c.Send(cmd, payload); err != nil {
			t.Fatal(err)
		}
		var err error
		if sum, err = c.Forward(cl.Conn, kind, o); err != nil {
			t.Fatal(err)
		}
	})
	if c.Busy() || c.Broken {
		t.Errorf("busy %v, broken %v", c.Busy(), c.Broken)
	}
	if sum.Written != (len(packets) > 0) {
		t.Errorf("Written %v, %d packets came", sum.Written, len(packets))
	}
	return sum, packets
}

func query(q string) []byte { return []byte(q) }

// shape writes packets down by kind: 1 (a number of columns), d (definition),
// e (EOF), o (OK), x (ERR), r (row).
func shape(packets [][]byte) string {
	var b strings.Builder
	inRows := false
	for _, p := range packets {
		switch {
		case len(p) > 0 && p[0] == 0xFF:
			b.WriteByte('x')
		case len(p) > 0 && p[0] == 0xFE && len(p) < 9:
			b.WriteByte('e')
			inRows = !inRows
		case bytes.HasPrefix(p, []byte("\x03def")):
			b.WriteByte('d')
		case inRows:
			b.WriteByte('r')
		case len(p) > 1 && p[0] == 0:
			b.WriteByte('o')
		default:
			b.WriteString(strconv.Itoa(int(p[0])))
		}
	}
	return b.String()
}

func wantShape(t *testing.T, packets [][]byte, want string) {
	t.Helper()
	if got := shape(packets); got != want {
		t.Errorf("packets %.300s, want %.300s", got, want)
	}
}

func statusOf(t *testing.T, p []byte) uint16 {
	t.Helper()
	if e, err := wire.ParseEOF(p); err == nil {
		return e.Status
	}
	o, err := wire.ParseOK(p)
	if err != nil {
		t.Fatalf("neither OK nor EOF: %q", p)
	}
	return o.Status
}

func TestForward(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		numbers(t, c, 5000)
		mustExec(t, c,
			"CREATE TABLE w (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
			"CREATE PROCEDURE p() BEGIN SELECT 1; SELECT id, pad FROM n WHERE id < 4; INSERT INTO w (v) VALUES (1), (2); END",
			"CREATE PROCEDURE bad() BEGIN SELECT 1; SELECT * FROM missing; END")

		sum, got := forward(t, c, mysql.COM_QUERY, query("INSERT INTO w (v) VALUES (1), (2)"), Result, ForwardOptions{})
		wantShape(t, got, "o")
		if o, err := wire.ParseOK(got[0]); err != nil || o.Affected != 2 || o.LastInsertID != 1 || o.Info != "Records: 2  Duplicates: 0  Warnings: 0" || sum.Affected != 2 || sum.Info != o.Info {
			t.Errorf("%+v, %+v, %v", o, sum, err)
		}

		sum, got = forward(t, c, mysql.COM_QUERY, query("SELECT nonsense"), Result, ForwardOptions{})
		wantShape(t, got, "x")
		if sum.Err == nil || sum.Err.Code != 1054 || !strings.Contains(string(got[0]), "#42S22") {
			t.Errorf("%+v, %q", sum, got)
		}

		sum, got = forward(t, c, mysql.COM_QUERY, query("SELECT id, pad FROM n ORDER BY id"), Result, ForwardOptions{})
		wantShape(t, got, "2dde"+strings.Repeat("r", 5000)+"e")
		if sum.Rows != 5000 || !sum.ResultSet || string(got[4+4321]) != "\x044322\x32"+strings.Repeat("x", 50) {
			t.Errorf("%+v, %q", sum, got[4+4321])
		}

		sum, got = forward(t, c, mysql.COM_QUERY, query("SELECT NULL, '', 'a' FROM n WHERE id < 0"), Result, ForwardOptions{})
		wantShape(t, got, "3dddee")
		_, got = forward(t, c, mysql.COM_QUERY, query("SELECT NULL, '', 'a'"), Result, ForwardOptions{})
		wantShape(t, got, "3dddere")
		if string(got[5]) != "\xFB\x00\x01a" {
			t.Errorf("row %q", got[5])
		}

		sum, got = forward(t, c, mysql.COM_QUERY, query("CALL p()"), Result, ForwardOptions{MoreResults: true})
		wantShape(t, got, "1dere2dderrreo")
		if sum.Rows != 4 || sum.Affected != 2 {
			t.Errorf("%+v", sum)
		}
		for _, i := range []int{4, 12, 13} {
			if statusOf(t, got[i])&mysql.SERVER_MORE_RESULTS_EXISTS == 0 {
				t.Errorf("packet %d: no more results", i)
			}
		}
		_, got = forward(t, c, mysql.COM_QUERY, query("CALL p()"), Result, ForwardOptions{HoldOK: true})
		wantShape(t, got, "1dere2dderrre")
		sum, got = forward(t, c, mysql.COM_QUERY, query("CALL bad()"), Result, ForwardOptions{})
		wantShape(t, got, "1derex")
		if sum.Err == nil || sum.Err.Code != 1146 || sum.Rows != 1 {
			t.Errorf("%+v", sum)
		}

		// An error in the middle of the rows.
		q := "SELECT id, pad, (SELECT 1 UNION SELECT IF(a.id > 4000, 2, 1)) FROM n a ORDER BY id"
		sum, got = forward(t, c, mysql.COM_QUERY, query(q), Result, ForwardOptions{})
		if sh := shape(got); !strings.HasPrefix(sh, "3ddderr") || !strings.HasSuffix(sh, "rx") || sum.Rows == 0 || sum.Err == nil || sum.Err.Code != 1242 {
			t.Errorf("%.100s, %+v", sh, sum)
		}
		sum, got = forward(t, c, mysql.COM_QUERY, query(q), Result, ForwardOptions{HoldErr: true})
		if sh := shape(got); !strings.HasSuffix(sh, "r") || sum.Err == nil || !sum.Written {
			t.Errorf("%.100s, %+v", sh, sum)
		}

		// Other commands.
		_, got = forward(t, c, mysql.COM_PING, nil, Result, ForwardOptions{})
		wantShape(t, got, "o")
		_, got = forward(t, c, mysql.COM_INIT_DB, []byte(s.schema), Result, ForwardOptions{})
		wantShape(t, got, "o")
		_, got = forward(t, c, mysql.COM_STATISTICS, nil, Single, ForwardOptions{})
		if len(got) != 1 || !bytes.Contains(got[0], []byte("Uptime")) {
			t.Errorf("statistics %q", got)
		}
		_, got = forward(t, c, mysql.COM_SET_OPTION, []byte{1, 0}, Result, ForwardOptions{})
		wantShape(t, got, "e")
		_, got = forward(t, c, mysql.COM_FIELD_LIST, []byte("n\x00"), FieldList, ForwardOptions{})
		wantShape(t, got, "dde")
		_, got = forward(t, c, mysql.COM_FIELD_LIST, []byte("missing\x00"), FieldList, ForwardOptions{})
		wantShape(t, got, "x")
		_, got = forward(t, c, mysql.COM_STMT_PREPARE, query("SELECT id, pad FROM n WHERE id = ? OR id = ? OR id = ?"), Prepared, ForwardOptions{})
		wantShape(t, got, "oddde"+"dde")
		_, got = forward(t, c, mysql.COM_STMT_PREPARE, query("INSERT INTO w (v) VALUES (1)"), Prepared, ForwardOptions{})
		wantShape(t, got, "o")
		_, got = forward(t, c, mysql.COM_STMT_PREPARE, query("nonsense"), Prepared, ForwardOptions{})
		wantShape(t, got, "x")
		if _, got = forward(t, c, 200, nil, Result, ForwardOptions{}); shape(got) != "x" {
			t.Errorf("unknown command: %q", got)
		}
	})
}

func TestForwardStatus(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		mustExec(t, c, "BEGIN")
		defer mustExec(t, c, "ROLLBACK")
		const mask = mysql.SERVER_STATUS_IN_TRANS | mysql.SERVER_STATUS_AUTOCOMMIT
		for _, q := range []string{"SELECT 1", "DO 1"} {
			for _, o := range []ForwardOptions{
				{StatusMask: mask},
				{StatusMask: mask, StatusSet: mysql.SERVER_STATUS_AUTOCOMMIT},
				{StatusMask: 0xFFFF, StatusSet: mysql.SERVER_STATUS_IN_TRANS, MoreResults: true},
			} {
				sum, got := forward(t, c, mysql.COM_QUERY, query(q), Result, o)
				for _, p := range got {
					if p[0] != 0 && p[0] != 0xFE {
						continue
					}
					want := o.StatusSet
					if o.MoreResults {
						want |= mysql.SERVER_MORE_RESULTS_EXISTS
					}
					if st := statusOf(t, p); st&(mask|mysql.SERVER_MORE_RESULTS_EXISTS) != want {
						t.Errorf("%s, %+v: status %#x", q, o, st)
					}
				}
				if sum.Status&mysql.SERVER_STATUS_IN_TRANS == 0 || !c.InTransaction() {
					t.Errorf("%s: the shard's own status is lost: %+v", q, sum)
				}
			}
		}
	})
}

func TestForwardConcatenation(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		a, b := dialSchema(t, s), dialSchema(t, s)
		numbers(t, a, 10)
		cl := newClient(t)
		cl.Writer().SetSequence(1)
		var cols Columns
		step := func(c *Conn, q string, o ForwardOptions) Summary {
			o.Columns = &cols
			if err := c.Send(mysql.COM_QUERY, query(q)); err != nil {
				t.Fatal(err)
			}
			sum, err := c.Forward(cl.Conn, Result, o)
			if err != nil {
				t.Fatal(err)
			}
			return sum
		}
		var sum Summary
		got := cl.collect(t, func() {
			step(a, "SELECT id, pad FROM n WHERE id < 4", ForwardOptions{SkipEnd: true})
			step(b, "SELECT id, pad FROM n WHERE id < 0", ForwardOptions{SkipHeader: true, SkipEnd: true})
			sum = step(b, "SELECT id, pad FROM n WHERE id > 6", ForwardOptions{SkipHeader: true})
		})
		wantShape(t, got, "2dderrrrrrre")
		if sum.Rows != 4 {
			t.Errorf("%+v", sum)
		}
		// Shards that answer something else.
		for _, q := range []string{"SELECT id FROM n", "SELECT pad, id FROM n", "SELECT id, pad, 1 FROM n", "DO 1"} {
			if err := a.Send(mysql.COM_QUERY, query(q)); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Forward(cl.Conn, Result, ForwardOptions{SkipHeader: true, Columns: &cols}); !errors.Is(err, ErrColumns) || !a.Broken {
				t.Errorf("%s: %v", q, err)
			}
			a = dialSchema(t, s)
		}
	})
}

func TestForwardHeld(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		numbers(t, c, 3)
		for q, affected := range map[string]uint64{"DELETE FROM n WHERE id = 1": 1, "DELETE FROM n WHERE id = 1000": 0} {
			sum, got := forward(t, c, mysql.COM_QUERY, query(q), Result, ForwardOptions{HoldOK: true})
			if len(got) != 0 || sum.Affected != affected {
				t.Errorf("%s: %d packets, %+v", q, len(got), sum)
			}
		}
		sum, got := forward(t, c, mysql.COM_QUERY, query("INSERT INTO n VALUES (2, '')"), Result, ForwardOptions{HoldOK: true, HoldErr: true})
		if len(got) != 0 || sum.Err == nil || sum.Err.Code != 1062 || sum.Err.State != "23000" {
			t.Errorf("%d packets, %+v", len(got), sum)
		}
	})
}

// Rows of one and of several frames, whose first byte or continuation might be
// taken for an EOF or ERR packet.
func TestForwardLargeRows(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		root := dialReal(t, s, false)
		mustExec(t, root, "SET GLOBAL max_allowed_packet = 1073741824")
		c := dialSchema(t, s) // has the new limit
		for _, size := range []int{
			250, 251, 65535, 65536, 16<<20 - 10,
			wire.MaxFrame - 9, wire.MaxFrame - 4, wire.MaxFrame, wire.MaxFrame + 1, // value; the packet is a few bytes longer
			2*wire.MaxFrame - 9, 64 << 20,
		} {
			sum, got := forward(t, c, mysql.COM_QUERY, query(fmt.Sprintf("SELECT REPEAT(X'FE', %d) UNION ALL SELECT 'last'", size)), Result, ForwardOptions{})
			wantShape(t, got, "1derre")
			if sum.Rows != 2 || len(got) != 6 {
				t.Fatalf("%d bytes: %+v", size, sum)
			}
			want := wire.AppendLenBytes(nil, bytes.Repeat([]byte{0xFE}, size))
			if !bytes.Equal(got[3], want) {
				t.Errorf("%d bytes came as %d", size, len(got[3]))
			}
			// And towards Stream.
			n := 0
			if _, err := c.Stream(within(t), fmt.Sprintf("SELECT REPEAT('a', %d)", size), func(row [][]byte) error { n = len(row[0]); return nil }); err != nil || n != size {
				t.Errorf("%d bytes came as %d: %v", size, n, err)
			}
		}
		// Towards the shard: a statement, and a parameter, of several frames.
		big := strings.Repeat("b", 20<<20)
		if n := one(t, c, "SELECT LENGTH('"+big+"')"); n != fmt.Sprint(len(big)) {
			t.Errorf("length %s", n)
		}
		st, err := c.Prepare(within(t), "SELECT LENGTH(?), ?")
		if err != nil {
			t.Fatal(err)
		}
		args := []wire.Param{{Type: mysql.MYSQL_TYPE_LONG_BLOB, Data: []byte(big)}, {Type: mysql.MYSQL_TYPE_LONG_BLOB, Data: []byte(big)}}
		sum, got := forward(t, c, mysql.COM_STMT_EXECUTE, wire.EncodeExecute(st.ID, 0, args), Result, ForwardOptions{})
		if sum.Err != nil || len(got) != 6 || len(got[4]) < len(big) || !bytes.HasSuffix(got[4], []byte(big)) {
			t.Errorf("%+v, %d packets", sum, len(got))
		}
	})
}

func TestClientFailsDuringForward(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		var lost []uint32
		p := newPool(t, s.config(), Options{OnEnd: func(c *Conn, busy bool) {
			if busy {
				lost = append(lost, c.ThreadID)
			}
		}})
		c := get(t, p, false)
		if err := c.InitDB(within(t), s.schema); err != nil {
			t.Fatal(err)
		}
		numbers(t, c, 1000)
		cl := newClient(t)
		_ = cl.far.Close()
		if err := c.Send(mysql.COM_QUERY, query("SELECT a.pad FROM n a JOIN n b")); err != nil {
			t.Fatal(err)
		}
		sum, err := c.Forward(cl.Conn, Result, ForwardOptions{})
		if !errors.Is(err, ErrClient) || errors.Is(err, ErrShard) || !c.Broken || !c.Busy() || !sum.Written {
			t.Errorf("error %v, broken %v, busy %v", err, c.Broken, c.Busy())
		}
		id := c.ThreadID
		p.Put(c)
		if !slices.Equal(lost, []uint32{id}) || p.Stats() != (Stats{}) {
			t.Errorf("lost %v, %+v", lost, p.Stats())
		}
	})
}

// A client that stops reading stops the shard, and fails after its timeout.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		c := dialSchema(t, s)
		numbers(t, c, 1000)
		cl := newClient(t)
		cl.SetWriteTimeout(50 * time.Millisecond)
		if err := c.Send(mysql.COM_QUERY, query("SELECT a.pad FROM n a JOIN n b")); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if sum, err := c.Forward(cl.Conn, Result, ForwardOptions{}); !errors.Is(err, ErrClient) || !errors.As(err, &timeout) || !timeout.Timeout() || sum.Rows > 900_000 {
			t.Errorf("error %v after %d rows", err, sum.Rows)
		}
	})
}

func TestShardFailsDuringForward(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		p := newPool(t, s.config(), Options{})
		for _, connection := range []bool{false, true} {
			c := get(t, p, false)
			cl := newClient(t)
			// Bytes that are no text, which keep MySQL from answering information_schema.PROCESSLIST.
			lock := fmt.Sprintf("'asleep %d'", c.ThreadID)
			if err := c.Send(mysql.COM_QUERY, query("SELECT IF(GET_LOCK("+lock+", 0), SLEEP(100), 0) FROM DUAL WHERE _binary'\xFE\xFF' <> ''")); err != nil {
				t.Fatal(err)
			}
			type result struct {
				sum Summary
				err error
			}
			done := make(chan result)
			go func() {
				sum, err := c.Forward(cl.Conn, Result, ForwardOptions{HoldErr: true})
				done <- result{sum, err}
			}()
			watch := get(t, p, false)
			until(t, "it sleeps", func() bool {
				return one(t, watch, "SELECT COALESCE(IS_USED_LOCK("+lock+"), 0)") == fmt.Sprint(c.ThreadID)
			})
			p.Put(watch)
			if err := p.Kill(within(t), c.ThreadID, connection); err != nil {
				t.Fatal(err)
			}
			r := <-done
			if !connection {
				// SLEEP answers 1 when it is interrupted.
				if r.err != nil || r.sum.Rows != 1 && (r.sum.Err == nil || r.sum.Err.Code != 1317) {
					t.Errorf("killed query: %+v, %v", r.sum, r.err)
				}
			} else if r.err == nil {
				if err := c.Ping(within(t)); !errors.Is(err, ErrShard) {
					t.Errorf("killed connection: %+v, then %v", r.sum, err)
				}
			} else if !errors.Is(r.err, ErrShard) || errors.Is(r.err, ErrClient) || !c.Broken {
				t.Errorf("killed connection: %v", r.err)
			}
			p.Put(c)
		}
	})
}

// TestDriverThroughForward puts a real driver in front: what it decodes is what
// the server meant.
func TestDriverThroughForward(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s realServer) {
		addr := startForwarder(t, s)
		cfg := driver.NewConfig()
		cfg.Net, cfg.Addr, cfg.User = "tcp", addr, "any"
		connector, err := driver.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		defer db.Close()
		exec := func(q string, args ...any) {
			t.Helper()
			if _, err := db.Exec(q, args...); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
		exec("CREATE TABLE v (id BIGINT UNSIGNED PRIMARY KEY, a VARCHAR(20), b DOUBLE, c DATETIME(6), d DECIMAL(10,2), e BLOB, f TIME(6))")
		at := time.Date(2024, 2, 29, 12, 34, 56, 789000, time.UTC)
		for i := range 300 {
			exec("INSERT INTO v VALUES (?, ?, ?, ?, ?, ?, ?)", uint64(1<<63)+uint64(i), fmt.Sprint("é", i), float64(i)/3, at, "12.50", []byte{0, 0xFE, 0xFF, byte(i)}, "-838:59:58.5")
		}
		exec("INSERT INTO v (id) VALUES (?)", 1)
		for _, q := range []string{"SELECT * FROM v WHERE id >= ? ORDER BY id", "SELECT * FROM v WHERE id >= 9223372036854775808 ORDER BY id"} {
			var args []any
			if strings.Contains(q, "?") {
				args = append(args, uint64(1)<<63)
			}
			rows, err := db.Query(q, args...)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; rows.Next(); n++ {
				var id uint64
				var a, c, d, f string
				var b float64
				var e []byte
				if err := rows.Scan(&id, &a, &b, &c, &d, &e, &f); err != nil {
					t.Fatal(err)
				}
				if id != uint64(1<<63)+uint64(n) || a != fmt.Sprint("é", n) || b != float64(n)/3 || c != "2024-02-29 12:34:56.000789" ||
					d != "12.50" || !bytes.Equal(e, []byte{0, 0xFE, 0xFF, byte(n)}) || f != "-838:59:58.500000" {
					t.Fatalf("row %d: %d %s %v %s %s %q %s", n, id, a, b, c, d, e, f)
				}
			}
			if err := rows.Err(); err != nil || n != 300 {
				t.Errorf("%s: %d rows, %v", q, n, err)
			}
		}
		var null sql.NullString
		if err := db.QueryRow("SELECT a FROM v WHERE id = ?", 1).Scan(&null); err != nil || null.Valid {
			t.Errorf("%v, %v", null, err)
		}
		var e *driver.MySQLError
		if _, err := db.Exec("INSERT INTO v (id) VALUES (?)", 1); !errors.As(err, &e) || e.Number != 1062 {
			t.Errorf("%v", err)
		}
	})
}

// startForwarder is the smallest proxy: each client has one shard connection.
func startForwarder(t *testing.T, s realServer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	serve := func(nc net.Conn) error {
		c, err := wire.Accept(context.Background(), nc, wire.Options{
			ServerVersion: "8.4.0", Users: func(string) (wire.Credential, bool) { return wire.Credential{}, true },
		})
		if err != nil {
			return err
		}
		defer c.Close()
		back, err := Dial(within(t), s.config(), false)
		if err != nil {
			return err
		}
		defer back.Close()
		if err := back.InitDB(within(t), s.schema); err != nil {
			return err
		}
		if err := c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT}); err != nil {
			return err
		}
		var texts []string
		var types [][]wire.ParamType
		for {
			cmd, p, err := c.ReadCommand()
			if err != nil || cmd == mysql.COM_QUIT {
				return nil
			}
			switch cmd {
			case mysql.COM_STMT_CLOSE:
				continue
			case mysql.COM_STMT_PREPARE:
				st, err := back.Prepare(within(t), string(p))
				if refused, ok := errors.AsType[*ServerError](err); ok {
					err = c.WriteError(mysqlerr.Error(*refused))
				} else if err == nil {
					texts, types = append(texts, string(p)), append(types, nil)
					err = c.WritePrepareOK(wire.PrepareOK{StatementID: uint32(len(texts) - 1)}, st.Params, st.Columns, back.Status)
				}
				if err != nil {
					return err
				}
				continue
			case mysql.COM_STMT_EXECUTE:
				id, flags, _ := wire.ExecuteHeader(p)
				st, err := back.Prepare(within(t), texts[id])
				if err != nil {
					return err
				}
				var params []wire.Param
				if params, types[id], err = wire.DecodeExecute(nil, p, len(st.Params), types[id], nil, false, nil); err != nil {
					return err
				}
				p = wire.EncodeExecute(st.ID, flags, params)
			}
			if err := back.Send(cmd, p); err != nil {
				return err
			}
			if _, err := back.Forward(c, Result, ForwardOptions{}); err != nil {
				return err
			}
		}
	}
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				if err := serve(nc); err != nil {
					t.Error(err)
				}
			})
		}
	})
	return l.Addr().String()
}
