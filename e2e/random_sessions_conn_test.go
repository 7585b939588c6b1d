package e2e

import (
	le "encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// sessionConn is one client's connection, and the prepared statements that it has.
// Every packet of an answer is read here: drivers hide status flags and info.
type sessionConn struct {
	*wireConn
	shape    sessionShape
	user     string
	prepared map[int]*sessionPrepared
}

// sessionPrepared is a statement of COM_STMT_PREPARE.
type sessionPrepared struct {
	id, params uint32
	sql        string
	// long are the parameters that COM_STMT_SEND_LONG_DATA has given values.
	long map[int]bool
}

// sessionShape is what the client can do.
type sessionShape struct{ deprecateEOF, foundRows bool }

// dialSession connects a user whose password is empty.
func dialSession(addr, user, schema string, shape sessionShape) (*sessionConn, error) {
	c, err := client.Connect(addr, user, "", schema, func(c *client.Conn) error {
		c.UnsetCapability(mysql.CLIENT_QUERY_ATTRIBUTES | mysql.CLIENT_SESSION_TRACK)
		if !shape.deprecateEOF {
			c.UnsetCapability(mysql.CLIENT_DEPRECATE_EOF)
		}
		capabilities := []uint32{mysql.CLIENT_MULTI_STATEMENTS, mysql.CLIENT_MULTI_RESULTS}
		if shape.foundRows {
			capabilities = append(capabilities, mysql.CLIENT_FOUND_ROWS)
		}
		for _, capability := range capabilities {
			if err := c.SetCapability(capability); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &sessionConn{&wireConn{c}, shape, user, map[int]*sessionPrepared{}}, nil
}

// sessionResult is one result of a command: rows, OK or an error.
type sessionResult struct {
	reply
	state  string // SQLSTATE
	status uint16
	info   string
}

func (r *sessionResult) String() string {
	text := r.reply.String()
	switch {
	case r.broken != nil:
		return text
	case r.code != 0:
		return fmt.Sprintf("error %d (%s): %s", r.code, r.state, r.message)
	case r.fields == nil:
		text = fmt.Sprintf("%d affected, insert id %d", r.affected, r.insertID)
	}
	return fmt.Sprintf("%s [status %04x, %d warnings, info %q]", text, r.status, r.counted, r.info)
}

var errPacket = errors.New("a packet that is none of this protocol's")

// command sends one and reads its answer to the end.
func (c *sessionConn) command(command byte, payload ...[]byte) []*sessionResult {
	// A deadline that can't be set shows in what follows.
	_ = c.SetDeadline(time.Now().Add(statementTimeout))
	c.ResetSequence()
	if err := c.WritePacket(append([]byte{0, 0, 0, 0, command}, slices.Concat(payload...)...)); err != nil {
		return []*sessionResult{{reply: reply{broken: err}}}
	}
	var out []*sessionResult
	for {
		r := &sessionResult{}
		if err := c.result(r, command == mysql.COM_STMT_EXECUTE); err != nil {
			r.reply = reply{broken: err}
		}
		out = append(out, r)
		if r.broken != nil || r.code != 0 || r.status&mysql.SERVER_MORE_RESULTS_EXISTS == 0 {
			return out
		}
	}
}

func (c *sessionConn) result(r *sessionResult, binary bool) error {
	p, err := c.ReadPacket()
	if err != nil {
		return err
	}
	switch p[0] {
	case mysql.ERR_HEADER:
		r.failed(p)
		return nil
	case mysql.OK_HEADER, mysql.EOF_HEADER:
		return r.end(p)
	}
	n, _, _ := mysql.LengthEncodedInt(p)
	r.fields, err = c.columns(int(n))
	if err != nil {
		return err
	}
	for {
		p, err := c.ReadPacket()
		if err != nil {
			return err
		}
		switch {
		case p[0] == mysql.ERR_HEADER:
			r.failed(p)
			return nil
		case p[0] == mysql.EOF_HEADER && len(p) < 1<<24-1:
			return r.end(p)
		}
		row, err := cells(slices.Clone(p), r.fields, binary)
		if err != nil {
			return err
		}
		r.rows = append(r.rows, row)
	}
}

// columns reads n definitions, and the EOF behind them where there is one.
func (c *sessionConn) columns(n int) ([]*mysql.Field, error) {
	fields := make([]*mysql.Field, 0, n)
	for range n {
		p, err := c.ReadPacket()
		if err != nil {
			return nil, err
		}
		f, err := mysql.FieldData(slices.Clone(p)).Parse()
		if err != nil {
			return nil, fmt.Errorf("read column: %w", err)
		}
		fields = append(fields, f)
	}
	if n > 0 && !c.shape.deprecateEOF {
		p, err := c.ReadPacket()
		if err != nil {
			return nil, err
		}
		if p[0] != mysql.EOF_HEADER {
			return nil, errPacket
		}
	}
	return fields, nil
}

func (r *sessionResult) failed(p []byte) {
	r.code, r.state, r.message = le.LittleEndian.Uint16(p[1:]), string(p[4:9]), string(p[9:])
}

// end reads an OK or EOF packet.
func (r *sessionResult) end(p []byte) error {
	if len(p) == 5 {
		r.counted, r.status = int(le.LittleEndian.Uint16(p[1:])), le.LittleEndian.Uint16(p[3:])&^statusIgnored
		return nil
	}
	p = p[1:]
	var n int
	r.affected, _, n = mysql.LengthEncodedInt(p)
	p = p[n:]
	r.insertID, _, n = mysql.LengthEncodedInt(p)
	p = p[n:]
	if len(p) < 4 {
		return errPacket
	}
	r.status, r.counted = le.LittleEndian.Uint16(p)&^statusIgnored, int(le.LittleEndian.Uint16(p[2:]))
	r.info = string(p[4:])
	return nil
}

// prepare answers with the statement's columns as those of a result without rows, and the
// number of its parameters as the affected rows.
func (c *sessionConn) prepare(slot int, sql string) []*sessionResult {
	if s := c.prepared[slot]; s != nil {
		c.closeStatement(slot)
	}
	_ = c.SetDeadline(time.Now().Add(statementTimeout))
	c.ResetSequence()
	r := &sessionResult{}
	out := []*sessionResult{r}
	if r.broken = c.WritePacket(append([]byte{0, 0, 0, 0, mysql.COM_STMT_PREPARE}, sql...)); r.broken != nil {
		return out
	}
	p, err := c.ReadPacket()
	if err != nil {
		r.broken = err
		return out
	}
	if p[0] == mysql.ERR_HEADER {
		r.failed(p)
		return out
	}
	s := &sessionPrepared{id: le.LittleEndian.Uint32(p[1:]), params: uint32(le.LittleEndian.Uint16(p[7:])), sql: sql, long: map[int]bool{}}
	columns := int(le.LittleEndian.Uint16(p[5:]))
	r.affected, r.counted = uint64(s.params), int(le.LittleEndian.Uint16(p[10:]))
	if _, r.broken = c.columns(int(s.params)); r.broken != nil {
		return out
	}
	fields, err := c.columns(columns)
	if err != nil {
		r.broken = err
		return out
	}
	if columns > 0 {
		r.fields = fields
	}
	c.prepared[slot] = s
	return out
}

// closeStatement has no answer.
func (c *sessionConn) closeStatement(slot int) {
	if s := c.prepared[slot]; s != nil {
		c.ResetSequence()
		_ = c.WritePacket(append([]byte{0, 0, 0, 0, mysql.COM_STMT_CLOSE}, uint32s(s.id)...)) // what follows shows it
		delete(c.prepared, slot)
	}
}

// longData gives a parameter a piece of its value; it has no answer.
func (c *sessionConn) longData(slot, param int, text string) {
	if s := c.prepared[slot]; s != nil && param < int(s.params) {
		c.ResetSequence()
		_ = c.WritePacket(slices.Concat([]byte{0, 0, 0, 0, mysql.COM_STMT_SEND_LONG_DATA}, uint32s(s.id), []byte{byte(param), byte(param >> 8)}, []byte(text)))
		s.long[param] = true
	}
}

// execute runs a prepared statement.
func (c *sessionConn) execute(slot int, params []sessionParam) []*sessionResult {
	s := c.prepared[slot]
	head := slices.Concat(uint32s(s.id), []byte{0}, uint32s(1))
	if s.params == 0 {
		return c.command(mysql.COM_STMT_EXECUTE, head)
	}
	nulls, types, values := make([]byte, (s.params+7)/8), []byte{}, []byte{}
	for i := range int(s.params) {
		v := sessionParam{null: true}
		if i < len(params) {
			v = params[i]
		}
		kind := mysql.MYSQL_TYPE_LONGLONG
		if v.text {
			kind = mysql.MYSQL_TYPE_VAR_STRING
		}
		types = append(types, kind, 0)
		switch {
		case s.long[i]:
		case v.null:
			nulls[i/8] |= 1 << (i % 8)
		case v.text:
			values = append(append(values, byte(len(v.value))), v.value...)
		default:
			n, _ := strconv.ParseInt(v.value, 10, 64) // the generator's own
			values = le.LittleEndian.AppendUint64(values, uint64(n))
		}
	}
	clear(s.long)
	return c.command(mysql.COM_STMT_EXECUTE, head, nulls, []byte{1}, types, values)
}

// resetStatement is COM_STMT_RESET.
func (c *sessionConn) resetStatement(slot int) []*sessionResult {
	s := c.prepared[slot]
	clear(s.long)
	return c.command(mysql.COM_STMT_RESET, uint32s(s.id))
}

// changeTo is COM_CHANGE_USER of the same user, whose password is empty.
func (c *sessionConn) changeTo(schema string) []*sessionResult {
	_ = c.SetDeadline(time.Now().Add(statementTimeout))
	c.ResetSequence()
	r := &sessionResult{}
	p := slices.Concat([]byte{0, 0, 0, 0, mysql.COM_CHANGE_USER}, []byte(c.user), []byte{0, 0}, []byte(schema), []byte{0, 45, 0}, []byte(mysql.AUTH_NATIVE_PASSWORD), []byte{0, 0})
	for {
		if r.broken = c.WritePacket(p); r.broken != nil {
			break
		}
		answer, err := c.ReadPacket()
		if r.broken = err; err != nil {
			break
		}
		if answer[0] == mysql.EOF_HEADER { // another plugin; it is an empty password to all
			p = make([]byte, 4)
			continue
		}
		if answer[0] == mysql.ERR_HEADER {
			r.failed(answer)
		} else {
			r.broken = r.end(answer)
		}
		break
	}
	return []*sessionResult{r}
}

// begunAnew is a session without what COM_RESET_CONNECTION and COM_CHANGE_USER end.
func (c *sessionConn) begunAnew() { clear(c.prepared) }

// statusIgnored: MariaDB tells of a changed session though nobody asked.
const statusIgnored = statusOfPlan | mysql.SERVER_SESSION_STATE_CHANGED

// sessionParam is a parameter's value. Its type stays the same from one execution to the
// next, NULL or not: a server converts those of another type as it has seen the first.
type sessionParam struct {
	text, null bool
	value      string
}

// literal is the value as it stands in SQL.
func (p sessionParam) literal() string {
	switch {
	case p.null:
		return "NULL"
	case p.text:
		return "'" + strings.ReplaceAll(p.value, "'", "''") + "'"
	}
	return p.value
}
