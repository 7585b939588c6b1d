package shard

import (
	"errors"
	"slices"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// ResponseKind is the shape of an answer, which follows from the command.
type ResponseKind uint8

const (
	// Result: OK, ERR, EOF or result sets, text or binary: COM_QUERY,
	// COM_STMT_EXECUTE, COM_INIT_DB, COM_PING, COM_STMT_RESET, ...
	Result ResponseKind = iota
	// Prepared: the answer of COM_STMT_PREPARE.
	Prepared
	// FieldList: column definitions up to an EOF: COM_FIELD_LIST.
	FieldList
	// Single: one packet whatever it holds: COM_STATISTICS.
	Single
)

// ForwardOptions tell what to change of an answer while it is forwarded. The
// zero value changes nothing.
type ForwardOptions struct {
	// MoreResults: SERVER_MORE_RESULTS_EXISTS is set on the last packet,
	// because the proxy will send the result of another statement.
	MoreResults bool
	// StatusMask's bits are cleared and StatusSet's are set in every status
	// that the client gets: the transaction state is the proxy's. The flag of
	// more results isn't affected.
	StatusMask, StatusSet uint16

	// SkipHeader: the column definitions are not sent, only compared with
	// Columns: the second and later shards of a concatenation.
	SkipHeader bool
	// SkipEnd: the last EOF is not sent: another shard's rows follow.
	SkipEnd bool
	// Columns, when set, is filled from a result's definitions, or with
	// SkipHeader compared with them (ErrColumns).
	Columns *Columns

	// Expect, when above 0, is how many columns a result must have; ErrColumns
	// before anything is sent.
	Expect int
	// Define, when set, gives what is sent for a column definition.
	Define func(def []byte) []byte

	// Tell, when set, gives what is sent for an ERR; the Summary has the shard's.
	Tell func(*wire.Error) *wire.Error

	// HoldOK, HoldErr: a (last) OK or ERR is not sent but only returned in the
	// Summary, so that the caller can merge several or try elsewhere.
	HoldOK, HoldErr bool
}

// Columns is what must agree between shards whose rows are concatenated, so
// that the first shard's definitions fit the rows of all.
type Columns struct {
	// Binary rows hold integers in as many bytes as their type has.
	Binary bool
	types  []columnType
}

type columnType struct {
	typ      byte
	unsigned bool
}

// Layout is one type of those whose values lie alike in a row. A server gives an
// expression one or another of them as it takes a temporary table or not, so
// shards that run one statement may differ in it.
func Layout(typ byte, binary bool) byte {
	switch typ {
	case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING,
		mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB, mysql.MYSQL_TYPE_BLOB:
		return mysql.MYSQL_TYPE_VAR_STRING
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG:
		if !binary {
			return mysql.MYSQL_TYPE_LONGLONG
		}
	}
	return typ
}

// Summary is what an answer said.
type Summary struct {
	Status       uint16 // of the last OK or EOF, as the shard sent it
	Warnings     uint16 // of the last OK or EOF
	Affected     uint64 // of the last OK
	LastInsertID uint64 // of the last OK
	Info         string // of the last OK
	Rows         int64  // over all result sets
	// ResultSet: there was at least one result set. Counted: the last packet was an OK,
	// which it is behind CALL all the same.
	ResultSet, Counted bool
	// Headed: the definitions of the first one have been read to their end, and
	// what follows are its rows.
	Headed bool
	// Written: something of the answer was sent (buffered) to the client.
	Written bool
	// Clean: an ERR packet may be sent next, and ends the answer for the
	// client: nothing was sent, or nothing but whole rows since the column
	// definitions, or a whole result set. After ErrShard without Clean all
	// that is left is to close the client's connection.
	Clean bool
	// Err is the server's error, nil for none. It was forwarded unless
	// HoldErr. Written tells whether rows went before it.
	Err *ServerError
}

// maxControl bounds packets that are not rows: OK, ERR, column definitions.
const maxControl = 1 << 20

// maxRow is the protocol's limit of a packet, and of max_allowed_packet.
const maxRow = 1 << 30

// Forward reads the answer of the command that was sent and copies it to dst,
// whose buffer it doesn't flush at the end. A nil dst discards the answer.
// The error is ErrClient or ErrShard; a server's error is Summary.Err.
//
// A caller that must stop it when a context ends runs it in Under.
func (c *Conn) Forward(dst *wire.Conn, kind ResponseKind, o ForwardOptions) (Summary, error) {
	f := forwarder{c: c, o: o, dst: dst}
	var before int64
	if dst != nil {
		f.w = dst.Writer()
		before = f.w.Total()
	}
	err := f.run(kind)
	f.sum.Written = f.w != nil && f.w.Total() > before
	f.sum.Clean = !f.sum.Written || f.between && !f.w.Cut()
	return f.sum, err
}

// forwarder reads one answer.
type forwarder struct {
	c   *Conn
	o   ForwardOptions
	dst *wire.Conn   // nil: nothing is forwarded
	w   *wire.Writer // dst's
	sum Summary
	// between: what was sent last is a row or the end of a result set.
	between bool

	// follows: the rows are those of OUT parameters, and the packet that ends them
	// doesn't say that the answer goes on, though the one before them did.
	// (Connector/C has "OUT-parameters result set" in the same place.)
	follows bool

	// onColumn and onRow, when set, get the packets of the first result set
	// instead of a writer. The bytes are valid during the call.
	onColumn, onRow func(p []byte) error
	// caller is the error of onColumn or onRow.
	caller error
}

// run reads the whole answer. Whatever goes wrong leaves the connection
// Broken, with the rest of the answer unread.
func (f *forwarder) run(kind ResponseKind) error {
	c := f.c
	if !c.busy || c.Broken {
		return c.fail(errors.New("no answer is due"))
	}
	err := c.readAhead(kind)
	if err != nil {
		return err
	}
	switch kind {
	case Prepared:
		err = f.prepared()
	case FieldList:
		err = f.fieldList()
	case Single:
		err = f.single()
	default:
		for more := true; more && err == nil; {
			more, err = f.result()
		}
	}
	if err == nil {
		c.answered()
		return nil
	}
	if f.caller != nil {
		c.Broken = true
		return f.caller
	}
	if f.w != nil && f.w.Err() != nil {
		c.Broken = true
		return &connError{ErrClient, "client", f.w.Err()}
	}
	return c.fail(err)
}

// result reads one result: OK, ERR, EOF or a result set.
func (f *forwarder) result() (more bool, err error) {
	if done, err := f.whole(); done {
		return false, err
	}
	p, err := f.c.r.ReadPacket(maxControl)
	if err != nil {
		return false, err
	}
	if len(p) == 0 {
		return false, wire.ErrMalformed
	}
	switch {
	case p[0] == mysql.OK_HEADER:
		return f.ok(p)
	case p[0] == mysql.ERR_HEADER:
		p, again, err := f.executeAgain(p)
		if again || err != nil {
			return again, err
		}
		return false, f.serverError(p)
	case p[0] == mysql.EOF_HEADER && len(p) < 9:
		return f.eof(p)
	case p[0] == mysql.LocalInFile_HEADER:
		return false, f.localInfile()
	}
	count, _, ok := wire.TakeLenInt(p)
	if !ok || count == 0 {
		return false, wire.ErrMalformed
	}
	if f.o.Expect > 0 && count != uint64(f.o.Expect) {
		return false, ErrColumns
	}
	first := !f.sum.ResultSet
	f.sum.ResultSet = true
	f.between = f.o.SkipHeader
	if !f.o.SkipHeader && f.dst != nil {
		if err := f.dst.WriteCount(int(count)); err != nil {
			return false, err
		}
	}
	if ended, err := f.columns(count, first); ended || err != nil {
		return false, err
	}
	f.between, f.sum.Headed = true, true
	return f.rows(first)
}

// whole forwards a result set that has come whole, and goes to the client as it is but for its
// status: in one piece. What it doesn't take (done is false) it leaves as it was.
func (f *forwarder) whole() (done bool, err error) {
	if f.dst == nil || f.w.Sequence() != f.c.r.Sequence() ||
		f.o.SkipHeader || f.o.SkipEnd || f.o.Columns != nil || f.o.Define != nil || f.o.Expect > 0 || f.onColumn != nil || f.onRow != nil {
		return false, nil
	}
	x, ok := f.c.r.Whole()
	if !ok || !f.dst.Takes(x) || (x.Defined.Status|x.End.Status)&(mysql.SERVER_MORE_RESULTS_EXISTS|statusOutParams) != 0 {
		return false, nil
	}
	f.sum.ResultSet, f.sum.Headed, f.between = true, true, true
	f.sum.Rows += x.Rows
	f.ended(x.End.Status, x.End.Warnings)
	return true, f.dst.WriteWhole(f.c.r, x, f.status(x.Defined.Status, f.o.MoreResults), f.status(x.End.Status, f.o.MoreResults))
}

// columns reads count definitions and the EOF after them. ended: the server
// sent an error instead.
func (f *forwarder) columns(count uint64, first bool) (ended bool, err error) {
	r := f.c.r
	var n int64
	if f.o.Columns == nil && f.o.Define == nil && !f.o.SkipHeader && f.onColumn == nil {
		to := f.w
		if f.dst != nil && f.dst.NoMetadata {
			to = nil
		}
		n, _, err = r.CopyUntilEnd(to)
	} else {
		n, err = f.definitions(first)
	}
	if err != nil {
		return false, err
	}
	p, err := r.Rest()
	if err != nil {
		return false, err
	}
	if p[0] == mysql.ERR_HEADER {
		return true, f.serverError(p)
	}
	if uint64(n) != count {
		return false, wire.ErrMalformed
	}
	if f.o.SkipHeader {
		_, err = wire.ParseEOF(p)
		return false, err
	}
	e, err := wire.ParseEOF(p)
	f.follows = err == nil && e.Status&statusOutParams != 0 && e.Status&mysql.SERVER_MORE_RESULTS_EXISTS != 0
	if err != nil || f.dst == nil {
		return false, err
	}
	return false, f.dst.WriteColumnsEnd(f.status(e.Status, f.o.MoreResults))
}

// definitions reads the definitions one by one, up to the header of the packet
// that ends them.
func (f *forwarder) definitions(first bool) (n int64, err error) {
	r := f.c.r
	var types []columnType
	for {
		end, size, err := r.AtEnd()
		if err != nil {
			return n, err
		}
		if end {
			break
		}
		if size > wire.BufferSize {
			return n, wire.ErrMalformed
		}
		p, err := r.Rest()
		if err != nil {
			return n, err
		}
		n++
		if f.o.Define != nil {
			p = f.o.Define(p)
		}
		if !f.o.SkipHeader && f.dst != nil {
			if err := f.dst.WriteDefinition(p); err != nil {
				return n, err
			}
		}
		if f.onColumn != nil && first {
			if f.caller = f.onColumn(p); f.caller != nil {
				return n, f.caller
			}
		}
		if f.o.Columns != nil {
			typ, flags, err := wire.ColumnType(p)
			if err != nil {
				return n, err
			}
			types = append(types, columnType{Layout(typ, f.o.Columns.Binary), flags&mysql.UNSIGNED_FLAG != 0})
		}
	}
	if f.o.Columns != nil {
		if !f.o.SkipHeader {
			f.o.Columns.types = types
		} else if !slices.Equal(f.o.Columns.types, types) {
			return n, ErrColumns
		}
	}
	return n, nil
}

// rows copies rows up to the EOF or ERR that ends them.
func (f *forwarder) rows(first bool) (more bool, err error) {
	r := f.c.r
	if f.onRow != nil && first {
		err = f.eachRow()
	} else {
		var n int64
		n, _, err = r.CopyUntilEnd(f.w)
		f.sum.Rows += n
	}
	if err != nil {
		return false, err
	}
	p, err := r.Rest()
	if err != nil {
		return false, err
	}
	if p[0] == mysql.ERR_HEADER {
		return false, f.serverError(p)
	}
	return f.eof(p)
}

// eachRow gives the rows to onRow, up to the header of the packet that ends
// them.
func (f *forwarder) eachRow() error {
	r := f.c.r
	for {
		end, n, err := r.AtEnd()
		if err != nil || end {
			return err
		}
		p, err := r.Packet(n, maxRow)
		if err != nil {
			return err
		}
		f.sum.Rows++
		if f.caller = f.onRow(p); f.caller != nil {
			return f.caller
		}
	}
}

func (f *forwarder) ok(p []byte) (more bool, err error) {
	ok, err := wire.ParseOK(p)
	if err != nil {
		return false, err
	}
	if f.o.SkipHeader && !f.o.HoldOK {
		// The client is in the middle of a result set, where an OK packet
		// would be taken for a row.
		return false, ErrColumns
	}
	f.sum.Affected, f.sum.LastInsertID, f.sum.Info, f.sum.Counted = ok.Affected, ok.LastInsertID, ok.Info, true
	more = f.ended(ok.Status, ok.Warnings)
	if !more && f.o.HoldOK {
		return false, nil
	}
	if f.dst == nil {
		return more, nil
	}
	ok.Status = f.status(ok.Status, !more && f.o.MoreResults)
	return more, f.dst.WriteOK(ok)
}

// statusOutParams is SERVER_PS_OUT_PARAMS.
const statusOutParams = 0x1000

// eof ends a result set, or is the whole answer (COM_SET_OPTION).
func (f *forwarder) eof(p []byte) (more bool, err error) {
	e, err := wire.ParseEOF(p)
	if err != nil {
		return false, err
	}
	more = f.ended(e.Status, e.Warnings) || f.follows
	if f.follows && f.dst != nil && f.dst.Capabilities&mysql.CLIENT_DEPRECATE_EOF != 0 {
		// The client got no EOF packet that says so.
		e.Status |= statusOutParams | mysql.SERVER_MORE_RESULTS_EXISTS
	}
	f.follows = false
	if !more && f.o.SkipEnd {
		return false, nil
	}
	if f.dst == nil {
		return more, nil
	}
	return more, f.dst.WriteEnd(f.status(e.Status, !more && f.o.MoreResults), e.Warnings)
}

func (f *forwarder) ended(status, warnings uint16) (more bool) {
	f.c.executing.st = nil // something has happened
	f.sum.Status, f.sum.Warnings = status, warnings
	f.c.Status = status
	return status&mysql.SERVER_MORE_RESULTS_EXISTS != 0
}

// status is what the client gets for a shard's status.
func (f *forwarder) status(s uint16, more bool) uint16 {
	s = s&^(f.o.StatusMask&^mysql.SERVER_MORE_RESULTS_EXISTS) | f.o.StatusSet
	if more {
		s |= mysql.SERVER_MORE_RESULTS_EXISTS
	}
	return s
}

func (f *forwarder) serverError(p []byte) error {
	e, err := wire.ParseError(p)
	if err != nil {
		return err
	}
	f.sum.Err = (*ServerError)(e)
	switch {
	case endsConnection(e.Code):
		f.c.Broken = true
	case e.Code == mysqlerr.QueryInterrupted:
		// KILL QUERY and KILL CONNECTION look the same until the end comes.
		f.c.suspect = true
		if reason := f.c.interruptedBy.Load(); reason != nil {
			f.sum.Err = reason
			p = (*wire.Error)(reason).Append(nil)
		}
	}
	if f.o.HoldErr {
		return nil
	}
	if f.o.Tell != nil {
		p = f.o.Tell((*wire.Error)(f.sum.Err)).Append(nil)
	}
	return f.write(p)
}

// endsConnection: the errors after which a server closes the connection.
func endsConnection(code uint16) bool {
	switch code {
	case mysqlerr.ServerShutdown,
		mysqlerr.AbortingConnection, mysqlerr.NewAbortingConnection, mysqlerr.NetPacketTooLarge, mysqlerr.NetPacketsOutOfOrder,
		mysqlerr.NetReadError, mysqlerr.NetReadInterrupted, mysqlerr.NetErrorOnWrite, mysqlerr.NetWriteInterrupted,
		mysqlerr.ConnectionKilled, mysqlerr.ServerIsntAvailable, mysqlerr.SessionWasKilled, mysqlerr.ClientInteractionTimeout:
		return true
	}
	return false
}

// localInfile refuses a request for a client's file. The server can't make one
// without CLIENT_LOCAL_FILES; should it do so all the same it gets an empty
// file, and the client an error.
func (f *forwarder) localInfile() error {
	c := f.c
	c.w.SetSequence(c.r.Sequence())
	if err := c.w.WritePacket(nil); err != nil {
		return err
	}
	if err := c.w.Flush(); err != nil {
		return err
	}
	c.r.SetSequence(c.w.Sequence())
	if _, err := c.r.ReadPacket(maxControl); err != nil {
		return err
	}
	f.sum.Err = new(ServerError(mysqlerr.New(mysqlerr.ClientLocalFilesDisabled, "Loading local data is disabled; this must be enabled on both the client and server sides")))
	if f.o.HoldErr {
		return nil
	}
	return f.write((*wire.Error)(f.sum.Err).Append(nil))
}

func (f *forwarder) write(p []byte) error {
	if f.w == nil {
		return nil
	}
	return f.w.WritePacket(p)
}

func (f *forwarder) prepared() error {
	p, err := f.c.r.ReadPacket(maxControl)
	if err != nil {
		return err
	}
	if len(p) > 0 && p[0] == mysql.ERR_HEADER {
		return f.serverError(p)
	}
	o, err := wire.ParsePrepareOK(p)
	if err != nil {
		return err
	}
	f.sum.Warnings = o.Warnings
	if err := f.write(p); err != nil {
		return err
	}
	for _, count := range [2]uint16{o.Params, o.Columns} {
		if count == 0 {
			continue
		}
		if ended, err := f.columns(uint64(count), true); ended || err != nil {
			return err
		}
	}
	return nil
}

func (f *forwarder) fieldList() error {
	to := f.w
	if f.dst != nil && f.dst.NoMetadata {
		to = nil
	}
	n, _, err := f.c.r.CopyUntilEnd(to)
	if err != nil {
		return err
	}
	f.sum.Rows = n
	p, err := f.c.r.Rest()
	if err != nil {
		return err
	}
	if p[0] == mysql.ERR_HEADER {
		return f.serverError(p)
	}
	_, err = f.eof(p)
	return err
}

func (f *forwarder) single() error {
	p, err := f.c.r.ReadPacket(maxControl)
	if err != nil {
		return err
	}
	if len(p) > 0 && p[0] == mysql.ERR_HEADER {
		return f.serverError(p)
	}
	return f.write(p)
}
