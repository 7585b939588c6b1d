package shard

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// A server that talks nonsense must give an error, never a panic or a hang.
func TestDialNonsense(t *testing.T) {
	t.Parallel()
	greeting := append([]byte{10}, "8.4.0\x00\x01\x00\x00\x00"...)
	for name, sends := range map[string][]byte{
		"nothing":         {},
		"empty packet":    {0, 0, 0, 0},
		"HTTP":            []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"half a greeting": append([]byte{byte(len(greeting)), 0, 0, 0}, greeting...),
		"X protocol":      {1, 0, 0, 0, 11},
		"error":           append([]byte{23, 0, 0, 0}, "\xFF\x10\x04Too many connections"...),
		"zeros":           make([]byte, 300),
		"letters":         append([]byte{200, 0, 0, 0}, bytes.Repeat([]byte{10}, 200)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				nc, err := l.Accept()
				if err == nil {
					_, _ = nc.Write(sends)
					_ = nc.Close()
				}
			}()
			_, err = Dial(within(t), Config{Name: "s9", Addr: l.Addr().String(), ConnectTimeout: 10 * time.Second}, false)
			if !errors.Is(err, ErrShard) || !strings.HasPrefix(err.Error(), "shard s9 (127.0.0.1:") {
				t.Errorf("error %v", err)
			}
			var refused *ServerError
			if errors.As(err, &refused) != (name == "error") || refused != nil && refused.Code != 1040 {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Answers that contradict the protocol.
func TestForwardNonsense(t *testing.T) {
	t.Parallel()
	col := wire.TextColumn("a")
	def := string(col.Append(nil))
	eof := string(wire.EOF{Status: 2}.Append(nil))
	for name, packets := range map[string][]string{
		"empty":             {""},
		"short OK":          {"\x00\x01"},
		"short error":       {"\xFF"},
		"no columns":        {"\xFC\x00\x00"},
		"NUL count":         {"\xFE\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"fewer definitions": {"\x02", def, eof},
		"more definitions":  {"\x01", def, def, eof},
		"odd EOF":           {"\x01", def, "\xFE\x00"},
		"row cut":           {"\x01", def, eof, "\xFE\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t, func(c *wire.Conn, _ byte, _ []byte) error {
				for _, p := range packets {
					if err := c.WritePacket([]byte(p)); err != nil {
						return err
					}
				}
				_ = c.Flush()
				return errors.New("end of the script")
			})
			c, err := Dial(within(t), f.config(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Exec(within(t), "x"); !errors.Is(err, ErrShard) || !c.Broken || errors.Is(err, ErrClient) {
				t.Errorf("error %v, broken %v", err, c.Broken)
			}
			if err := c.Ping(within(t)); !errors.Is(err, ErrShard) {
				t.Errorf("a broken connection is used again: %v", err)
			}
		})
	}
}

// Where a shard's answer may be broken off, and what can follow then.
func TestForwardBrokenOff(t *testing.T) {
	t.Parallel()
	frame := func(seq byte, p string) string {
		return string([]byte{byte(len(p)), byte(len(p) >> 8), byte(len(p) >> 16), seq}) + p
	}
	col := wire.TextColumn("a")
	def, eof := string(col.Append(nil)), string(wire.EOF{Status: 2}.Append(nil))
	more := string(wire.EOF{Status: mysql.SERVER_MORE_RESULTS_EXISTS}.Append(nil))
	head := frame(1, "\x01") + frame(2, def) + frame(3, eof)
	large := strings.Repeat("x", 3*wire.BufferSize)
	for name, tc := range map[string]struct {
		sends          string
		written, clean bool
		rows           int64
	}{
		"at once":               {"", false, true, 0},
		"in the count":          {frame(1, "\x01")[:4], false, true, 0},
		"after the count":       {frame(1, "\x01"), true, false, 0},
		"after the definitions": {frame(1, "\x01") + frame(2, def), true, false, 0},
		"before the rows":       {head, true, true, 0},
		"after a row":           {head + frame(4, "\x01a"), true, true, 1},
		"in a small row":        {head + frame(4, "\x01a") + frame(5, "\x05abcde")[:7], true, true, 1},
		"in a large row":        {head + frame(4, "\xFD\x00\xC0\x00"+large)[:2*wire.BufferSize], true, false, 0},
		"between results":       {head + frame(4, more), true, true, 0},
		"in the next result":    {head + frame(4, more) + frame(5, "\x01"), true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t, nil)
			f.answerRaw = []byte(tc.sends)
			c, err := Dial(within(t), f.config(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Send(mysql.COM_QUERY, nil); err != nil {
				t.Fatal(err)
			}
			cl := newClient(t)
			sum, err := c.Forward(cl.Conn, Result, ForwardOptions{})
			if !errors.Is(err, ErrShard) || sum.Written != tc.written || sum.Clean != tc.clean || sum.Rows != tc.rows {
				t.Errorf("%+v, %v", sum, err)
			}
		})
	}
}

func TestLocalInfileIsRefused(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	f := startFake(t, func(c *wire.Conn, cmd byte, p []byte) error {
		if err := c.WritePacket([]byte("\xFB/etc/passwd")); err != nil {
			return err
		}
		if err := c.Flush(); err != nil {
			return err
		}
		file, err := c.ReadPacket()
		asked <- string(file)
		if err != nil {
			return err
		}
		return ok(c, cmd, p)
	})
	c, err := Dial(within(t), f.config(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var refused *ServerError
	if _, err := c.Exec(within(t), "LOAD DATA LOCAL ..."); !errors.As(err, &refused) || refused.Code != 3948 {
		t.Errorf("error %v", err)
	}
	if file := <-asked; file != "" {
		t.Errorf("sent %q", file)
	}
	if err := c.Ping(within(t)); err != nil {
		t.Error(err)
	}
}

// A context that ends makes the connection Broken; one that had ended before
// doesn't.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	f := startFake(t, func(*wire.Conn, byte, []byte) error { return nil }) // never answers
	c, err := Dial(within(t), f.config(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Exec(ctx, "x"); !errors.Is(err, context.Canceled) || c.Broken || c.Busy() {
		t.Errorf("before: %v, broken %v", err, c.Broken)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Exec(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrShard) || !c.Broken || !c.Busy() {
		t.Errorf("during: %v, broken %v, busy %v", err, c.Broken, c.Busy())
	}
}
