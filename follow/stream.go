package follow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Stream reads a server's log over one connection. One goroutine at a time may use it.
type Stream struct {
	conn     *conn
	progress *Progress
	server   *catalog.Catalog  // its version, for what is executed of comments
	charsets map[uint64]string // by collation
	lowered  bool              // names of tables are in lower case, whatever statements have

	packets  *packets
	payload  *payload                  // the compressed transaction that is being read, or nil
	format   []byte                    // the log's
	parser   *replication.BinlogParser // reads TABLE_MAP events; it keeps them all
	checks   bool                      // events end with a checksum
	head     [headerSize]byte
	buf      []byte // the event's body
	inflater inflater

	tx          transaction
	foreign     foreignKeys
	ctx         context.Context // the stream's life
	tables      map[uint64]*Table
	definitions map[catalog.TableName]*definition
	rows        Rows
	// queue is what is to be handed out before another event is read, given what was last.
	queue []Event
	given Event
	err   error
	at    atomic.Int64 // when the last transaction that was consumed was committed, Unix nanoseconds; 0: none was
}

// Abreast is up to when all that was committed has been consumed, by the last transaction's time or by the server's having nothing
// more; zero where that isn't known yet. It may be called at any time.
func (s *Stream) Abreast() (at time.Time) {
	if n := s.at.Load(); n > 0 {
		at = time.Unix(0, n)
	}
	if s.packets.conn == nil {
		return at
	}
	if quiet := s.packets.conn.quietUntil(); quiet.After(at) {
		return quiet
	}
	return at
}

// transaction is what the stream is in.
type transaction struct {
	gtid gtid
	at   time.Time
	open bool
	xa   bool // it is a part of an XA transaction
	// grouped: it goes on until a commit; else it is one statement.
	grouped bool
	unknown map[catalog.TableName]bool // already given
}

// Open begins to read from where the progress is; Next advances it. The stream lives no longer than ctx.
// An error is ErrPurged, ErrUnfit, or one that may pass.
func Open(ctx context.Context, source Source, progress *Progress) (*Stream, error) {
	c, err := source.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stream{
		conn: c, ctx: ctx, progress: progress,
		server: &catalog.Catalog{ServerVersion: c.GetServerVersion(), MariaDB: c.mariaDB},
		tables: map[uint64]*Table{}, definitions: map[catalog.TableName]*definition{},
	}
	if err := s.begin(source); err != nil {
		c.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("follow the log of %s: %w", source.Addr, err)
	}
	return s, nil
}

func (s *Stream) begin(source Source) error {
	if err := s.conn.fit(); err != nil {
		return err
	}
	if err := s.readCharsets(); err != nil {
		return err
	}
	logged, err := s.conn.cascadesLogged()
	if err != nil {
		return err
	}
	s.foreign = foreignKeys{source: source, logged: logged, stale: true}
	names, err := s.conn.one("SELECT @@GLOBAL.lower_case_table_names")
	if err != nil {
		return err
	}
	s.lowered = names != "0"
	checksum, err := s.conn.one("SELECT @@GLOBAL.binlog_checksum")
	if err != nil {
		return err
	}
	s.checks = checksum == "CRC32"
	now, err := s.conn.clock()
	if err != nil {
		return err
	}
	if err := s.sameLog(source); err != nil {
		return err
	}
	if err := s.hasAll(); err != nil {
		return err
	}
	s.progress.open(now)
	from := s.progress.Position()
	if err := s.conn.dump(from, source.heartbeat()); err != nil {
		return err
	}
	// The handshake's reader has nothing left: a server speaks only when it is spoken to.
	s.packets = newPackets(s.conn.Conn.Conn.Conn, s.progress.lull)
	source.log().Debug("following the binary log", "server", source.Addr, "from", from.String())
	return nil
}

// sameLog is ErrDiverged where the server's logs may have been begun anew since they had the position.
//
// Counter-example: the position is behind transaction 1000. RESET BINARY LOGS AND GTIDS (MariaDB: RESET MASTER), and 1200 others
// follow until somebody reads the log again: the first 1000 of these count as read.
//
// Rule earlier: the oldest log was begun in an earlier second than the position was there. In the same second it may be another.
// Where all logs of that time were purged nothing need be lost, but nobody can tell.
func (s *Stream) sameLog(source Source) error {
	there := s.progress.Place().There
	if there.IsZero() {
		return nil
	}
	c, err := source.connect(s.ctx) // a connection that reads a log does nothing else
	if err != nil {
		return err
	}
	defer c.close()
	begun, err := c.begun()
	if err != nil {
		return fmt.Errorf("read the oldest log: %w", err)
	}
	if begun.Unix() >= there.Unix() {
		return fmt.Errorf("%w: the oldest one was begun at %s", ErrDiverged, begun.UTC().Format(time.DateTime))
	}
	return nil
}

// hasAll returns when the server has all that was read of the log before, or ErrDiverged: a MySQL sends its log all the same
// where it lacks some.
//
// Counter-example: a replica takes over without the last transactions. What was read of these is never visible there, which
// who clears marks, or keeps answers, would wait for; and a count has rows that are gone.
func (s *Stream) hasAll() error {
	for began := time.Now(); ; {
		text, err := s.conn.seenText()
		if err != nil {
			return err
		}
		has, err := ParsePosition(text)
		switch {
		case err != nil:
			return err
		case has.Covers(s.progress.Position()):
			return nil
		case time.Since(began) > hasAllPatience: // they are in its log, and not yet committed
			return fmt.Errorf("%w: the server lacks transactions that its log had before", ErrDiverged)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// hasAllPatience is how long a server may need to commit what its log has.
const hasAllPatience = 2 * time.Second

// readCharsets asks for the character sets of collations: the log has numbers, of which servers have
// their own.
func (s *Stream) readCharsets() error {
	query := "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
	if s.conn.mariaDB {
		query = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
	}
	rows, err := s.conn.rows(query)
	if err != nil {
		return err
	}
	s.charsets = make(map[uint64]string, len(rows))
	for _, row := range rows {
		id, err := strconv.ParseUint(row[0], 10, 64)
		if err != nil {
			return fmt.Errorf("read collations: %w", err)
		}
		s.charsets[id] = row[1]
	}
	return nil
}

// Close ends the stream.
func (s *Stream) Close() {
	s.payload.close()
	s.conn.close()
	if s.err == nil {
		s.err = errors.New("the stream is closed")
	}
}

// Next returns the next event, and by being called says that the one before has been consumed. It waits
// for one as long as the server sends heartbeats. After an error there are no more: the consumer opens
// another stream with the same Progress, unless the error is ErrPurged or ErrDiverged.
func (s *Stream) Next() (Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	event, err := s.next()
	if err != nil {
		if s.ctx.Err() != nil {
			err = s.ctx.Err() // which has closed the connection
		}
		s.err = err
		return nil, err
	}
	s.given = event
	return event, nil
}

func (s *Stream) next() (_ Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read event %d: %v", s.head[4], r)
		}
	}()
	switch given := s.given.(type) {
	case *Commit:
		if err := s.progress.advance(given.of, given.At); err != nil {
			return nil, err
		}
		s.at.Store(given.At.UnixNano())
	case *Rows:
		if given.malformed != nil {
			s.unknown(given.Table.name(), given.malformed.Error())
		}
	}
	s.given = nil
	for len(s.queue) == 0 {
		h, body, err := s.read()
		if err != nil {
			return nil, err
		}
		if err := s.take(h, body); err != nil {
			return nil, err
		}
	}
	s.packets.found(s.foreign.source.silence())
	event := s.queue[0]
	s.queue = append(s.queue[:0], s.queue[1:]...)
	return event, nil
}

func (s *Stream) give(e Event) { s.queue = append(s.queue, e) }

// header is what events begin with.
type header struct {
	at    uint32 // seconds since 1970
	typ   replication.EventType
	from  uint32 // the server that wrote it first
	size  int    // of all of the event
	flags uint16
	// cut: the event was too large, and only its beginning was read.
	cut bool
}

const (
	headerSize   = 19
	checksumSize = 4
	// largestEvent bounds the memory that an event takes. Servers write rows in events of 8 KiB, or
	// of one row.
	largestEvent = 64 << 20
	cutEvent     = 64 << 10
)

// read reads an event, its body without the checksum.
func (s *Stream) read() (h header, body []byte, err error) {
	for {
		if s.payload == nil {
			if err := s.packet(); err != nil {
				return h, nil, err
			}
			h, err = s.readHeader(s.packets)
		} else if h, err = s.readHeader(s.payload); err == io.EOF { //nolint:errorlint // ReadFull gives it as it is
			if err = s.payload.end(); err != nil {
				return h, nil, err
			}
			s.payload = nil
			continue
		}
		if err != nil {
			return h, nil, fmt.Errorf("read an event: %w", unexpected(err))
		}
		if s.payload == nil && h.typ == replication.TRANSACTION_PAYLOAD_EVENT {
			if s.payload, err = s.openPayload(h); err != nil {
				return h, nil, err
			}
			continue
		}
		body, err = s.readBody(&h)
		return h, body, err
	}
}

// packet goes to the next packet that is an event.
func (s *Stream) packet() error {
	if err := s.packets.next(); err != nil {
		return fmt.Errorf("read the log: %w", unexpected(err))
	}
	var first [1]byte
	if _, err := io.ReadFull(s.packets, first[:]); err != nil {
		return fmt.Errorf("read the log: %w", unexpected(err))
	}
	switch first[0] {
	case mysql.OK_HEADER:
		return nil
	case mysql.ERR_HEADER:
		text, err := io.ReadAll(io.LimitReader(s.packets, 4<<10))
		if err != nil {
			return fmt.Errorf("read the server's error: %w", err)
		}
		return serverError(text)
	default:
		return errors.New("the server has ended the stream")
	}
}

func (s *Stream) readHeader(r io.Reader) (h header, err error) {
	if _, err := io.ReadFull(r, s.head[:]); err != nil {
		return h, err
	}
	le := binary.LittleEndian
	h = header{
		at: le.Uint32(s.head[:]), typ: replication.EventType(s.head[4]), from: le.Uint32(s.head[5:]),
		size: int(le.Uint32(s.head[9:])), flags: le.Uint16(s.head[17:]),
	}
	if h.size < headerSize {
		return h, fmt.Errorf("event of %d bytes", h.size)
	}
	return h, nil
}

func (s *Stream) readBody(h *header) ([]byte, error) {
	size := h.size - headerSize
	var r io.Reader = s.packets
	if s.payload != nil {
		r = s.payload
	}
	if h.cut = size > largestEvent; h.cut {
		size = cutEvent
	}
	if cap(s.buf) < size {
		s.buf = make([]byte, max(size, 16<<10))
	}
	body := s.buf[:size]
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read an event: %w", unexpected(err))
	}
	if h.cut {
		_, err := io.CopyN(io.Discard, r, int64(h.size-headerSize-size))
		return body, err
	}
	checks := s.checks && s.payload == nil
	if h.typ == replication.FORMAT_DESCRIPTION_EVENT {
		if size < 5 {
			return nil, errShort
		}
		// From here on it says whether events have checksums. It has the place for one itself.
		s.checks = body[size-5] == byte(replication.BINLOG_CHECKSUM_ALG_CRC32)
		checks = s.checks
	}
	if !checks {
		return body, nil
	}
	if size < checksumSize {
		return nil, errShort
	}
	body, sum := body[:size-checksumSize], binary.LittleEndian.Uint32(body[size-checksumSize:])
	// What a server makes up says which file comes, and not in all versions has a right checksum.
	if got := crc32.Update(crc32.ChecksumIEEE(s.head[:]), crc32.IEEETable, body); got != sum && h.typ != replication.ROTATE_EVENT {
		return nil, fmt.Errorf("%w: event %s has checksum %08x, not %08x", ErrDamaged, h.typ, sum, got)
	}
	return body, nil
}

// ErrDamaged: the log isn't as it was written.
var ErrDamaged = errors.New("the binary log is damaged")

// serverError reads an error packet behind its first byte.
func serverError(text []byte) error {
	if len(text) < 2 {
		return errors.New("the server has sent an error that can't be read")
	}
	e := &mysql.MyError{Code: binary.LittleEndian.Uint16(text), State: "HY000"}
	text = text[2:]
	if len(text) >= 6 && text[0] == '#' {
		e.State, text = string(text[1:6]), text[6:]
	}
	e.Message = string(text)
	if e.Code == mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG && !takenOver(e.Message) {
		return fmt.Errorf("%w: %w", ErrPurged, e)
	}
	return e
}

// take gives the events of one of the log's.
func (s *Stream) take(h header, body []byte) error {
	if f, ok := forms[h.typ]; ok {
		return s.takeRows(f, h, body)
	}
	if h.cut {
		if h.typ == replication.QUERY_EVENT || h.typ == replication.MARIADB_QUERY_COMPRESSED_EVENT {
			s.give(&Unknown{Why: "a statement is too large to be read"})
		}
		return nil
	}
	switch h.typ {
	case replication.FORMAT_DESCRIPTION_EVENT:
		s.takeFormat(body)
		return nil
	case replication.TABLE_MAP_EVENT:
		_, err := s.readTable(body)
		return err
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT:
		return s.takeGTID(h, body)
	case replication.MARIADB_GTID_EVENT:
		return s.takeMariaDBGTID(h, body)
	case replication.ANONYMOUS_GTID_EVENT:
		return fmt.Errorf("%w: a transaction without a GTID: set gtid_mode = ON", ErrUnfit)
	case replication.XID_EVENT, replication.XA_PREPARE_LOG_EVENT:
		s.tx.xa = s.tx.xa || h.typ == replication.XA_PREPARE_LOG_EVENT
		s.commit()
		return nil
	case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT:
		return s.takeQuery(h, body)
	case replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2:
		if !s.tx.open {
			s.give(&Heartbeat{})
		}
		return nil
	case replication.EXECUTE_LOAD_QUERY_EVENT:
		s.give(&Unknown{Why: "LOAD DATA was logged as a statement"})
		return nil
	case replication.INCIDENT_EVENT:
		s.give(&Unknown{Why: "the server says that its log has a gap"})
		return nil
	default:
		const ignorable = 0x80
		if !empty[h.typ] && h.flags&ignorable == 0 {
			s.give(&Unknown{Why: fmt.Sprintf("the log has an event of type %d, which isn't known", h.typ)})
		}
		return nil
	}
}

// empty are events that change no row.
var empty = map[replication.EventType]bool{
	replication.STOP_EVENT: true, replication.ROTATE_EVENT: true, replication.INTVAR_EVENT: true, replication.RAND_EVENT: true,
	replication.USER_VAR_EVENT: true, replication.APPEND_BLOCK_EVENT: true, replication.DELETE_FILE_EVENT: true,
	replication.BEGIN_LOAD_QUERY_EVENT: true, // EXECUTE_LOAD_QUERY comes later
	replication.IGNORABLE_EVENT:        true, replication.ROWS_QUERY_EVENT: true, replication.PREVIOUS_GTIDS_EVENT: true,
	replication.TRANSACTION_CONTEXT_EVENT: true, replication.VIEW_CHANGE_EVENT: true,
	replication.MARIADB_ANNOTATE_ROWS_EVENT: true, replication.MARIADB_BINLOG_CHECKPOINT_EVENT: true,
	replication.MARIADB_GTID_LIST_EVENT: true, replication.MARIADB_START_ENCRYPTION_EVENT: true,
}

// takeFormat keeps what go-mysql is to be told first: the format, with a word that there are no checksums.
func (s *Stream) takeFormat(body []byte) {
	if s.checks {
		body = body[:len(body)+checksumSize]
	}
	s.format = append(append(s.format[:0], s.head[:]...), body...)
	s.format[len(s.format)-5] = byte(replication.BINLOG_CHECKSUM_ALG_OFF)
	s.parser = nil
}

func (s *Stream) takeGTID(h header, body []byte) error {
	var e replication.GTIDEvent
	if h.typ == replication.GTID_TAGGED_LOG_EVENT {
		var tagged replication.GtidTaggedLogEvent
		if err := tagged.Decode(body); err != nil {
			return fmt.Errorf("read a GTID: %w", err)
		}
		e = tagged.GTIDEvent
	} else if err := e.Decode(body); err != nil {
		return fmt.Errorf("read a GTID: %w", err)
	}
	source, err := uuid.FromBytes(e.SID)
	if err != nil {
		return fmt.Errorf("read a GTID: %w", err)
	}
	at := e.ImmediateCommitTime()
	if at.IsZero() {
		at = time.Unix(int64(h.at), 0)
	}
	return s.start(gtid{source: source, tag: e.Tag, number: uint64(e.GNO)}, at, false) // BEGIN, if any, follows
}

func (s *Stream) takeMariaDBGTID(h header, body []byte) error {
	var e replication.MariadbGTIDEvent
	if err := e.Decode(body); err != nil {
		return fmt.Errorf("read a GTID: %w", err)
	}
	g := gtid{mariaDB: true, domain: e.GTID.DomainID, server: h.from, number: e.GTID.SequenceNumber}
	return s.start(g, time.Unix(int64(h.at), 0), !e.IsStandalone())
}

// start begins a transaction. One that hasn't ended ends: the log has no two at once.
func (s *Stream) start(g gtid, at time.Time, grouped bool) error {
	s.commit()
	s.tx = transaction{gtid: g, at: at, open: true, grouped: grouped}
	if len(s.tables) > 1000 {
		s.tables, s.parser = map[uint64]*Table{}, nil // each statement names its tables
	}
	s.give(&Begin{GTID: g.String(), At: at})
	return s.refresh()
}

// commit ends the transaction.
func (s *Stream) commit() {
	if s.tx.open {
		s.tx.open = false
		s.give(&Commit{GTID: s.tx.gtid.String(), At: s.tx.at, XA: s.tx.xa, of: s.tx.gtid})
	}
}

func (s *Stream) takeRows(f form, h header, body []byte) error {
	r, err := s.readRowsHeader(f, body)
	if err != nil {
		return err
	}
	why := r.table.unreadable
	if h.cut {
		why = fmt.Sprintf("a row of %d bytes is too large to be read", h.size)
	}
	if why == "" && r.table.nameless {
		if err := s.define(r.table); errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil {
			return err
		} else if err != nil {
			why = err.Error()
		}
	}
	if why == "" {
		if err := s.readRows(f, r); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		s.unknown(r.table.name(), why)
		return nil
	}
	s.give(&s.rows)
	s.cascade(r.flags)
	return nil
}
