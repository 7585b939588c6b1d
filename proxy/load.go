package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// load executes LOAD DATA LOCAL INFILE: the client is asked for the file, its
// rows are read from the packets as they come, and inserted by statements of
// many rows, which are routed, indexed and counted as any other. They are one
// transaction, or a savepoint in the session's.
//
//	client ── packets ── loadFile ── rows ── INSERT IGNORE / REPLACE ── shards
//
// No more is held than a batch of rows: the client waits while one is written.
func (s *session) load(ctx context.Context, l *planner.Load) error {
	if s.client.Capabilities&mysql.CLIENT_LOCAL_FILES == 0 {
		return sqlError{3948, "42000", "Loading local data is disabled; this must be enabled on both the client and server sides"}
	}
	if err := s.mayGoOn(); err != nil {
		return err
	}
	if s.settings.readOnly() && !l.Table.Temporary {
		return s.readOnlyTransaction()
	}
	c, _ := s.settings.value("@@collation_connection")
	if c = strings.ToLower(c); s.settings.charset == "binary" && (strings.HasPrefix(c, "utf16") || strings.HasPrefix(c, "utf32") || strings.HasPrefix(c, "ucs2")) {
		// The ASCII that Shunt writes would be taken for half its characters.
		return refuse("LOAD DATA with character_set_client binary and collation_connection %s is not supported: SET NAMES utf8mb4 before", c)
	}
	charset, err := s.fileCharset(ctx, l)
	if err != nil {
		return err
	}
	loading := &loading{s: s, l: l, charset: charset}
	var lost error
	err = s.within(ctx, func() error {
		if lost = s.client.WritePacket(append([]byte{mysql.LocalInFile_HEADER}, l.File...)); lost != nil {
			return lost
		}
		content := &clientFile{conn: s.client}
		err := loading.run(ctx, newLoadFile(content, l.Format))
		// The client sends its file to the end, whatever has become of it.
		if _, lost = io.Copy(io.Discard, content); lost != nil {
			return lost
		}
		return err
	})
	if lost != nil {
		return s.clientError(lost)
	}
	if err != nil {
		return err
	}
	if loading.firstID != 0 {
		s.last.insertID = loading.firstID
	}
	if s.last.warnings = loading.shown; s.tx == nil {
		s.settings.once = characteristics{}
	}
	return s.answerOK(loading.ok())
}

// fileCharset is the character set that the file is read in.
func (s *session) fileCharset(ctx context.Context, l *planner.Load) (string, error) {
	if l.Charset != "" {
		return l.Charset, nil
	}
	if s.settings.fileCharset != "" {
		return s.settings.fileCharset, checkCharset(s.settings.fileCharset)
	}
	id := s.anyShard()
	pool := s.proxy.opts.Pools[id]
	conn, err := pool.Get(ctx, false)
	if err != nil {
		return "", shardDown(err)
	}
	defer pool.Put(conn)
	if err := s.settings.applyTo(ctx, conn); err != nil {
		return "", s.shardError(id, err)
	}
	of := "database"
	if s.settings.schema == "" {
		of = "server" // the connection's may be withoutSchema
	}
	res, err := conn.Query(ctx, "SELECT @@character_set_"+of)
	if err != nil {
		return "", s.shardError(id, err)
	}
	charset := strings.ToLower(string(res.Rows[0][0]))
	if err := checkCharset(charset); err != nil {
		return "", refuse("LOAD DATA in the schema's character set %s is not supported: convert the file to utf8mb4 and say CHARACTER SET utf8mb4", charset)
	}
	return charset, nil
}

// clientFile reads the packets of a file up to the empty one that ends it.
type clientFile struct {
	conn *wire.Conn
	rest []byte
	err  error
}

func (c *clientFile) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		packet, err := c.conn.ReadPacket()
		switch {
		case errors.Is(err, io.EOF):
			// A client that has gone in the middle has not sent its file: taken for the
			// file's end it would commit half of it, the last line cut off.
			c.err = io.ErrUnexpectedEOF
		case err != nil:
			c.err = err
		case len(packet) == 0:
			c.err = io.EOF
		}
		c.rest = packet
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

const (
	// A statement is sent when it has this many rows or bytes.
	loadRows  = 2000
	loadBytes = 512 << 10
	// maxWarnings is how many SHOW WARNINGS shows: max_error_count.
	maxWarnings = 1024
)

// loading is a LOAD DATA under way.
type loading struct {
	s       *session
	l       *planner.Load
	charset string

	text strings.Builder
	rows int

	records, affected, warnings uint64
	firstID                     uint64
	shown                       [][][]byte
}

func (d *loading) run(ctx context.Context, file *loadFile) error {
	if err := file.skipLines(d.l.Skip); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	for {
		extra, err := file.next(len(d.l.Columns))
		if errors.Is(err, io.EOF) {
			return d.send(ctx)
		}
		if err != nil {
			return err
		}
		if extra {
			if err := d.warn(1262, fmt.Sprintf("Row %d was truncated; it contained more data than there were input columns", file.line)); err != nil {
				return err
			}
		}
		for range len(d.l.Columns) - len(file.fields) {
			if err := d.warn(1261, fmt.Sprintf("Row %d doesn't contain data for all columns", file.line)); err != nil {
				return err
			}
		}
		if err := d.row(file); err != nil {
			return err
		}
		if d.rows == loadRows || d.text.Len() >= loadBytes {
			if err := d.send(ctx); err != nil {
				return err
			}
		}
	}
}

// warn notes what is wrong with a line. With REPLACE it is an error to a strict session:
// what LOCAL forgives goes by IGNORE.
func (d *loading) warn(code uint16, text string) error {
	if d.l.Replace && d.s.settings.planning.Strict {
		return sqlError{code, "01000", text}
	}
	d.warnings++
	if len(d.shown) < maxWarnings {
		d.shown = append(d.shown, condition("Warning", code, text))
	}
	return nil
}

// row appends a line to the statement.
func (d *loading) row(file *loadFile) error {
	if d.rows == 0 {
		d.text.WriteString(d.l.Statement())
	} else {
		d.text.WriteString(",")
	}
	d.rows++
	for i, c := range d.l.Columns {
		if i == 0 {
			d.text.WriteString("(")
		} else {
			d.text.WriteString(",")
		}
		if i >= len(file.fields) {
			v, ok := missing(c)
			if !ok {
				return refuse("row %d has no field for the column %s (%s), which is not supported by LOAD DATA: give it one, or leave the column out of the list", file.line, c.Name, c.Type)
			}
			d.text.WriteString(v)
			continue
		}
		f := file.fields[i]
		switch v := file.buf[f.start:f.end]; {
		case f.null && !c.Nullable && !c.AutoIncrement && strings.HasPrefix(strings.ToLower(c.Type), "timestamp"):
			return refuse("row %d: NULL for the column %s (TIMESTAMP NOT NULL) is not supported by LOAD DATA: write the time into the file", file.line, c.Name)
		case f.null && !c.Nullable && d.s.mariaDB() && strings.HasPrefix(strings.ToLower(c.Type), "enum"):
			d.text.WriteString("''") // for which an INSERT has its first value
		case f.null:
			d.text.WriteString("NULL")
		case len(v) == 0 && c.AutoIncrement:
			d.text.WriteString("0")
		default:
			d.literal(v, c)
		}
	}
	d.text.WriteString(")")
	return nil
}

// missing is what a server stores where a line ends too early: not the column's
// default, but zero or nothing, unless the default is NULL.
func missing(c *catalog.Column) (literal string, ok bool) {
	typ, _, _ := strings.Cut(strings.ToLower(c.Type), "(")
	typ, _, _ = strings.Cut(typ, " ")
	switch {
	case c.AutoIncrement:
		return "NULL", true // the next number, by NO_AUTO_VALUE_ON_ZERO too
	case c.DefaultExpr:
		return "", false
	case c.Default == nil && c.Nullable:
		return "NULL", true
	}
	switch typ {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double":
		return "0", true
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return "''", true
	}
	return "", false
}

// literal writes a value so that no sql_mode and no character set of the session
// reads it differently.
func (d *loading) literal(v []byte, c *catalog.Column) {
	plain := d.charset != "binary" || c.Collation == "" && !bytesOrText(c)
	for _, x := range v {
		plain = plain && x >= 0x20 && x < 0x7f && x != '\'' && x != '\\'
	}
	if plain {
		d.text.WriteByte('\'')
		d.text.Write(v)
		d.text.WriteByte('\'')
		return
	}
	d.text.WriteString("_" + d.charset + " X'")
	d.text.WriteString(hex.EncodeToString(v))
	d.text.WriteByte('\'')
}

// bytesOrText: binary strings are taken for its own bytes, others for its text.
func bytesOrText(c *catalog.Column) bool {
	switch strings.ToLower(c.Type) {
	case "uuid", "inet4", "inet6":
		return true
	}
	return false
}

// send inserts the rows collected.
func (d *loading) send(ctx context.Context) error {
	if d.rows == 0 {
		return nil
	}
	if d.s.activity.killed() {
		return errInterrupted
	}
	before := d.s.last.insertID
	d.s.last.given = false
	ok, err := d.s.insertRows(ctx, d.text.String())
	for _, w := range d.s.last.warnings {
		if len(w) > 2 {
			w[2] = []byte(d.ofFile(string(w[2])))
		}
	}
	if d.firstID == 0 && d.s.last.given {
		d.firstID = d.s.last.insertID
	}
	d.s.last.insertID = before
	if err != nil {
		if e, ok := errors.AsType[sqlError](err); ok {
			e.msg = d.ofFile(e.msg)
			return e
		}
		return err
	}
	d.records += uint64(d.rows)
	d.affected += ok.Affected
	d.warnings += uint64(ok.Warnings)
	d.shown = append(d.shown, d.s.last.warnings...)
	d.shown = d.shown[:min(len(d.shown), maxWarnings)]
	d.text.Reset()
	d.rows = 0
	return nil
}

// ofFile makes a message about a row of the statement one about the file's row.
func (d *loading) ofFile(msg string) string {
	m := atRow.FindStringSubmatchIndex(msg)
	if m == nil {
		return msg
	}
	n, err := strconv.ParseUint(msg[m[2]:m[3]], 10, 32)
	if err != nil {
		return msg
	}
	return fmt.Sprintf("%s%d%s", msg[:m[2]], n+d.records, msg[m[3]:])
}

func (d *loading) ok() wire.OK {
	deleted, skipped := uint64(0), uint64(0)
	if d.l.Replace {
		deleted = d.affected - min(d.affected, d.records)
	} else {
		skipped = d.records - min(d.affected, d.records)
	}
	return wire.OK{
		Affected: d.affected, Warnings: warningCount(int(d.warnings)),
		Info: fmt.Sprintf("Records: %d  Deleted: %d  Skipped: %d  Warnings: %d", d.records, deleted, skipped, d.warnings),
	}
}
