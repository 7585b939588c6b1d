package e2e

import (
	"bufio"
	"bytes"
	le "encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// packetClient speaks the protocol with just the capabilities that a test gives it,
// and shows every packet. Its user has an empty password.
type packetClient struct {
	t            *testing.T
	nc           net.Conn
	r            *bufio.Reader
	seq          byte
	capabilities uint32
	greeting     []byte
	// login is the packet that ended the handshake.
	login []byte
	// unordered: changes of the session are sorted. MariaDB tells of them in the order
	// of a hash of addresses.
	unordered bool
}

const rawBasics = mysql.CLIENT_PROTOCOL_41 | mysql.CLIENT_SECURE_CONNECTION | mysql.CLIENT_PLUGIN_AUTH | mysql.CLIENT_LONG_PASSWORD | mysql.CLIENT_LONG_FLAG |
	mysql.CLIENT_TRANSACTIONS | mysql.CLIENT_MULTI_STATEMENTS | mysql.CLIENT_MULTI_RESULTS | mysql.CLIENT_PS_MULTI_RESULTS | mysql.CLIENT_CONNECT_WITH_DB | mysql.CLIENT_CONNECT_ATTRS

// mariaDBExtensions stands for capabilities of MariaDB's own, which have a place
// of their own.
const mariaDBExtensions = 1 << 31

func dialPackets(t *testing.T, addr, user, schema string, capabilities uint32, attributes ...string) *packetClient {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(3 * time.Minute))
	c := &packetClient{t: t, nc: nc, r: bufio.NewReader(nc), capabilities: capabilities&^mariaDBExtensions | rawBasics}
	c.greeting = c.packet()
	var attrs []byte
	for _, a := range attributes {
		attrs = append(append(attrs, byte(len(a))), a...)
	}
	const utf8mb4 = 45
	p := append(uint32s(c.capabilities, 1<<24), utf8mb4)
	filler := make([]byte, 23)
	if capabilities == mariaDBExtensions {
		filler[19] = 0x1f
	}
	p = append(p, filler...)
	p = append(append(p, user...), 0, 0)
	p = append(append(p, schema...), 0)
	p = append(append(p, mysql.AUTH_NATIVE_PASSWORD...), 0)
	p = append(append(p, byte(len(attrs))), attrs...)
	c.write(p)
	if c.login = c.authenticated(); c.login[0] != mysql.OK_HEADER {
		t.Fatalf("login at %s: %q", addr, c.login)
	}
	return c
}

// connectionID is the number that the greeting tells, behind the version.
func (c *packetClient) connectionID() uint32 {
	_, rest, _ := bytes.Cut(c.greeting[1:], []byte{0})
	return le.LittleEndian.Uint32(rest)
}

// authenticated answers what it is asked, and returns the packet that ends that.
func (c *packetClient) authenticated() []byte {
	c.t.Helper()
	for {
		switch p := c.packet(); p[0] {
		case mysql.EOF_HEADER: // another plugin; it is an empty password to all
			c.write(nil)
		case mysql.MORE_DATE_HEADER:
		default:
			return p
		}
	}
}

// supported reports whether the server has announced a capability.
func (c *packetClient) supported(capability uint32) bool {
	p := c.greeting[strings.IndexByte(string(c.greeting), 0)+1:]
	caps := uint32(le.LittleEndian.Uint16(p[13:])) | uint32(le.LittleEndian.Uint16(p[18:]))<<16
	return caps&capability != 0
}

func (c *packetClient) write(p []byte) {
	c.t.Helper()
	head := []byte{byte(len(p)), byte(len(p) >> 8), byte(len(p) >> 16), c.seq}
	c.seq++
	if _, err := c.nc.Write(append(head, p...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *packetClient) packet() []byte {
	c.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		c.t.Fatal(err)
	}
	if head[3] != c.seq {
		c.t.Fatalf("packet %d, want %d", head[3], c.seq)
	}
	c.seq++
	p := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(c.r, p); err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c *packetClient) has(capability uint32) bool { return c.capabilities&capability != 0 }

// say sends a command.
func (c *packetClient) say(command byte, payload ...[]byte) {
	c.t.Helper()
	c.seq = 0
	c.write(append([]byte{command}, slices.Concat(payload...)...))
}

// query sends a text and describes all of its answer.
func (c *packetClient) query(sql string) string {
	c.t.Helper()
	c.say(mysql.COM_QUERY, []byte(sql))
	return c.answer()
}

// prepare returns the statement's number and describes the answer.
func (c *packetClient) prepare(sql string) (uint32, string) {
	c.t.Helper()
	c.say(mysql.COM_STMT_PREPARE, []byte(sql))
	p := c.packet()
	if p[0] == mysql.ERR_HEADER {
		return 0, describeError(p)
	}
	id, columns, params := le.LittleEndian.Uint32(p[1:]), le.LittleEndian.Uint16(p[5:]), le.LittleEndian.Uint16(p[7:])
	var out strings.Builder
	fmt.Fprintf(&out, "prepared %x\n", p[5:])
	flag := byte(1)
	if c.has(mysql.CLIENT_OPTIONAL_RESULTSET_METADATA) && len(p) > 12 {
		flag = p[12]
	}
	for _, n := range []uint16{params, columns} {
		if n > 0 && flag != 0 {
			c.definitions(&out, int(n))
		}
		if n > 0 && !c.has(mysql.CLIENT_DEPRECATE_EOF) {
			c.end(&out)
		}
	}
	return id, out.String()
}

func describeError(p []byte) string {
	return fmt.Sprintf("ERR %d %s\n", le.LittleEndian.Uint16(p[1:]), p[4:9])
}

func (c *packetClient) definitions(out *strings.Builder, n int) {
	for range n {
		p := c.packet()
		fields := make([]string, 6)
		for i := range fields {
			v, _, n, err := mysql.LengthEncodedString(p)
			if err != nil {
				c.t.Fatal(err)
			}
			fields[i], p = string(v), p[n:]
		}
		fmt.Fprintf(out, "column %s\n", fields[4])
	}
}

// end describes an EOF, an OK in its place, or an ERR; more are to come where it
// says so.
func (c *packetClient) end(out *strings.Builder) (status uint16) {
	return c.describeEnd(out, c.packet())
}

// outParams is SERVER_PS_OUT_PARAMS.
const outParams = 0x1000

// Flags of what the server thinks of its plan.
const statusOfPlan = mysql.SERVER_STATUS_NO_GOOD_INDEX_USED | mysql.SERVER_STATUS_NO_INDEX_USED | mysql.SERVER_QUERY_WAS_SLOW

func (c *packetClient) describeEnd(out *strings.Builder, p []byte) (status uint16) {
	if p[0] == mysql.EOF_HEADER && len(p) == 5 {
		status = le.LittleEndian.Uint16(p[3:]) &^ statusOfPlan
		fmt.Fprintf(out, "EOF %04x %d\n", status, le.LittleEndian.Uint16(p[1:]))
		return status
	}
	fmt.Fprintf(out, "OK %02x", p[0])
	if p = p[1:]; len(p) < 6 {
		c.t.Fatalf("OK packet %q", p)
	}
	for range 2 {
		n, _, size := mysql.LengthEncodedInt(p)
		fmt.Fprintf(out, " %d", n)
		p = p[size:]
	}
	status = le.LittleEndian.Uint16(p) &^ statusOfPlan
	fmt.Fprintf(out, " %04x %d", status, le.LittleEndian.Uint16(p[2:]))
	if p = p[4:]; len(p) > 0 {
		info, _, n, err := mysql.LengthEncodedString(p)
		if err != nil {
			c.t.Fatalf("info %q: %v", p, err)
		}
		fmt.Fprintf(out, " %q", info)
		p = p[n:]
	}
	out.WriteByte('\n')
	if len(p) == 0 {
		return status
	}
	changes, _, n, err := mysql.LengthEncodedString(p)
	if err != nil || n != len(p) {
		c.t.Fatalf("changes %q: %v", p, err)
	}
	var told []string
	defer func() {
		if c.unordered {
			slices.Sort(told)
		}
		out.WriteString(strings.Join(told, ""))
	}()
	for len(changes) > 0 {
		kind := changes[0]
		data, _, n, err := mysql.LengthEncodedString(changes[1:])
		if err != nil {
			c.t.Fatalf("changes %q: %v", changes, err)
		}
		changes = changes[1+n:]
		if kind == 2 { // the one that is no text with a length
			told = append(told, fmt.Sprintf("  change 2 %q\n", data))
			continue
		}
		var texts []string
		for len(data) > 0 {
			text, _, n, err := mysql.LengthEncodedString(data)
			if err != nil {
				c.t.Fatalf("change %d %q: %v", kind, data, err)
			}
			texts, data = append(texts, string(text)), data[n:]
		}
		told = append(told, fmt.Sprintf("  change %d %q\n", kind, texts))
	}
	return status
}

// answer describes an answer to its end.
func (c *packetClient) answer() string {
	c.t.Helper()
	var out strings.Builder
	for {
		p := c.packet()
		var status uint16
		switch p[0] {
		case mysql.ERR_HEADER:
			out.WriteString(describeError(p))
			return out.String()
		case mysql.OK_HEADER, mysql.EOF_HEADER:
			status = c.describeEnd(&out, p)
		default:
			metadata := true
			if c.has(mysql.CLIENT_OPTIONAL_RESULTSET_METADATA) {
				metadata = p[len(p)-1] == 1 // behind the number
			}
			fmt.Fprintf(&out, "columns %d\n", p[0])
			if metadata {
				c.definitions(&out, int(p[0]))
			}
			kept := uint16(0)
			if !c.has(mysql.CLIENT_DEPRECATE_EOF) {
				if status = c.end(&out); status&mysql.SERVER_STATUS_CURSOR_EXISTS != 0 {
					return out.String()
				}
				if status&outParams != 0 {
					kept = status & mysql.SERVER_MORE_RESULTS_EXISTS // as client libraries do
				}
			}
			var ended bool
			if status, ended = c.rows(&out); !ended {
				return out.String()
			}
			status |= kept
		}
		if status&mysql.SERVER_MORE_RESULTS_EXISTS == 0 {
			return out.String()
		}
	}
}

// rows describes rows and what ends them. ended is false for an error.
func (c *packetClient) rows(out *strings.Builder) (status uint16, ended bool) {
	for {
		p := c.packet()
		switch p[0] {
		case mysql.ERR_HEADER:
			out.WriteString(describeError(p))
			return 0, false
		case mysql.EOF_HEADER:
			return c.describeEnd(out, p), true
		}
		fmt.Fprintf(out, "row %x\n", p)
	}
}

// answerOfCursor describes the answer to an execution with a cursor: rows come when
// they are fetched.
func (c *packetClient) answerOfCursor() string {
	c.t.Helper()
	p := c.packet()
	var out strings.Builder
	switch p[0] {
	case mysql.ERR_HEADER:
		return describeError(p)
	case mysql.OK_HEADER:
		c.describeEnd(&out, p)
		return out.String()
	}
	metadata := true
	if c.has(mysql.CLIENT_OPTIONAL_RESULTSET_METADATA) {
		metadata = p[len(p)-1] == 1
	}
	fmt.Fprintf(&out, "columns %d\n", p[0])
	if metadata {
		c.definitions(&out, int(p[0]))
	}
	c.end(&out)
	return out.String()
}
