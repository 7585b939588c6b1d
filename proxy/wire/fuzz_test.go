package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/mysqlerr"
)

// recorded is a connection whose other side has sent all that it ever will.
type recorded struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (c *recorded) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *recorded) Write(p []byte) (int, error) { return c.out.Write(p) }
func (c *recorded) Close() error                { return nil }
func (c *recorded) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (c *recorded) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)} }
func (c *recorded) SetDeadline(time.Time) error      { return nil }
func (c *recorded) SetReadDeadline(time.Time) error  { return nil }
func (c *recorded) SetWriteDeadline(time.Time) error { return nil }

// frame puts one payload into a frame.
func frame(seq byte, payload []byte) []byte {
	return append([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), seq}, payload...)
}

// FuzzAccept: whatever a client sends in its handshake, it is accepted with the
// capabilities that were announced, or refused with an error that says so.
func FuzzAccept(f *testing.F) {
	suite.Promise(f)
	empty := helloBytes(mysql.CLIENT_PLUGIN_AUTH|mysql.CLIENT_DEPRECATE_EOF|mysql.CLIENT_SESSION_TRACK|mysql.CLIENT_OPTIONAL_RESULTSET_METADATA, "empty", nil, "caching_sha2_password")
	f.Add(frame(1, empty), false)
	f.Add(append(frame(1, helloBytes(mysql.CLIENT_PLUGIN_AUTH, "empty", nil, "mysql_clear_password")), frame(3, nil)...), true)
	f.Add(frame(1, helloBytes(mysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA|mysql.CLIENT_CONNECT_ATTRS, "app", bytes.Repeat([]byte{1}, 20), "x")), false)
	f.Add([]byte{0xFF, 0xFF, 0xFF, 1}, false)
	none := PasswordCredential("")
	f.Fuzz(func(t *testing.T, in []byte, mariaDB bool) {
		nc := &recorded{in: bytes.NewReader(in)}
		version := "9.7.4"
		if mariaDB {
			version = "10.11.19-MariaDB"
		}
		c, err := Accept(t.Context(), nc, Options{
			ServerVersion: version,
			Users:         func(name string) (Credential, bool) { return none, name == "empty" },
		})
		greeting, _ := NewReader(bytes.NewReader(nc.out.Bytes())).ReadPacket(1 << 10)
		if len(greeting) == 0 {
			t.Fatal("no greeting")
		}
		if err != nil {
			if c != nil {
				t.Fatalf("a connection and %v", err)
			}
			return
		}
		if c.User != "empty" {
			t.Fatalf("%q came in", c.User)
		}
		after := greeting[bytes.IndexByte(greeting, 0)+1:]
		announced := uint32(after[13]) | uint32(after[14])<<8 | uint32(after[18])<<16 | uint32(after[19])<<24
		if c.Capabilities&^announced != 0 {
			t.Fatalf("capabilities %x of %x", c.Capabilities, announced)
		}
		if mariaDB && c.Capabilities&mysql.CLIENT_OPTIONAL_RESULTSET_METADATA != 0 {
			t.Fatal("MariaDB has no optional metadata")
		}
		size := 0
		for _, a := range c.Attrs {
			size += len(a.Name) + len(a.Value)
		}
		if size > len(in) {
			t.Fatalf("%d bytes of attributes in %d", size, len(in))
		}
	})
}

// FuzzCommands: whatever comes as commands is read within its bounds, and what
// they hold is parsed or refused.
func FuzzCommands(f *testing.F) {
	suite.Promise(f)
	f.Add(frame(0, []byte("\x03SELECT 1")), uint32(0))
	f.Add(append(frame(0, []byte("\x02shop")), frame(0, []byte{mysql.COM_SET_OPTION, 0, 0})...), AnswerCapabilities)
	f.Add(frame(0, []byte("\x03\x00\x01SELECT 1")), mysql.CLIENT_QUERY_ATTRIBUTES)
	f.Add(frame(0, append([]byte{mysql.COM_STMT_EXECUTE}, EncodeExecute(1, 0, []Param{{Type: mysql.MYSQL_TYPE_LONG, Data: []byte{1, 2, 3, 4}}})...)), uint32(0))
	f.Add(frame(0, []byte("\x11app\x00\x00shop\x00\x2d\x00x\x00")), mysql.CLIENT_PLUGIN_AUTH)
	f.Add(append(frame(0, nil), 0xFF, 0xFF, 0xFF, 0, 3), uint32(0))
	f.Fuzz(func(t *testing.T, in []byte, capabilities uint32) {
		nc := &recorded{in: bytes.NewReader(in)}
		c := NewConn(nc)
		c.Capabilities = capabilities & serverCapabilities
		c.max = 1 << 16
		for {
			cmd, p, err := c.ReadCommand()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrPacketTooLarge) && !errors.Is(err, ErrSequence) {
					t.Fatal(err)
				}
				return
			}
			if len(p) > min(len(in), 1<<16) {
				t.Fatalf("%d bytes of %d", len(p), len(in))
			}
			switch cmd {
			case mysql.COM_QUERY:
				if c.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0 {
					_, err = QueryText(p, nil)
				}
			case mysql.COM_STMT_EXECUTE:
				_, _, _ = ExecuteHeader(p)
				_, _, err = DecodeExecute(nil, p, 2, nil, nil, c.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0, nil)
			case mysql.COM_CHANGE_USER:
				_, err = parseChangeUser(p, c.Capabilities, 45)
			}
			if err != nil {
				err = c.WriteError(mysqlerr.New(mysqlerr.UnknownError, err.Error()))
			} else {
				err = c.WriteResult([]Column{TextColumn("a")}, [][]any{{string(p)}}, 2, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzChanges: changes of a session are read again as they were told.
func FuzzChanges(f *testing.F) {
	suite.Promise(f)
	f.Add("autocommit", "ON", "shop", true)
	f.Add("", string(bytes.Repeat([]byte{0xFB}, 300)), "", false)
	f.Fuzz(func(t *testing.T, name, value, schema string, state bool) {
		told := AppendChange(AppendChange(nil, TrackVariable, name, value), TrackSchema, schema)
		if state {
			told = AppendState(told)
		}
		p := OK{Info: "i"}.append(nil, mysql.EOF_HEADER, told)
		info, rest, ok := TakeLenBytes(p[7:])
		if !ok || string(info) != "i" {
			t.Fatalf("info %q", info)
		}
		changes, rest, ok := TakeLenBytes(rest)
		if !ok || len(rest) > 0 {
			t.Fatalf("%q behind the changes", rest)
		}
		var got []string
		for len(changes) > 0 {
			kind := changes[0]
			var data []byte
			if data, changes, ok = TakeLenBytes(changes[1:]); !ok {
				t.Fatal("a change cut off")
			}
			for kind != TrackState && len(data) > 0 {
				var text []byte
				if text, data, ok = TakeLenBytes(data); !ok {
					t.Fatal("a text cut off")
				}
				got = append(got, string(text))
			}
			if kind == TrackState {
				got = append(got, "state "+string(data))
			}
		}
		want := []string{name, value, schema}
		if state {
			want = append(want, "state 1")
		}
		if len(got) != len(want) {
			t.Fatalf("%q, want %q", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	})
}
