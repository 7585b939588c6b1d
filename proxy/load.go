package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/infile"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// load executes LOAD DATA LOCAL INFILE: the client is asked for the file, its
// rows are read from the packets as they come, and inserted by statements of
// many rows, which are routed, indexed and counted as any other. They are one
// transaction, or a savepoint in the session's.
//
//	client ── packets ── infile ── rows ── INSERT IGNORE / REPLACE ── shards
//
// No more is held than a batch of rows: the client waits while one is written.
func (s *session) load(ctx context.Context, l *plan.Load) error {
	if s.client.Capabilities&mysql.CLIENT_LOCAL_FILES == 0 {
		return mysqlerr.New(mysqlerr.ClientLocalFilesDisabled, "Loading local data is disabled; this must be enabled on both the client and server sides")
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
	if slices.ContainsFunc(l.Vars, func(v string) bool { return v != "" }) {
		loading.vars = map[string]string{}
	}
	var lost error
	err = s.within(ctx, func() error {
		if lost = s.client.WritePacket(append([]byte{mysql.LocalInFile_HEADER}, l.File...)); lost != nil {
			return lost
		}
		content := &clientFile{conn: s.client}
		err := loading.run(ctx, infile.New(content, l.Format))
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
	for name, value := range loading.vars {
		if err := s.assignLiteral(ctx, name, value); err != nil {
			return err
		}
	}
	if loading.firstID != 0 {
		s.diag.setID(loading.firstID)
	}
	if s.diag.replace(loading.shown...); s.tx == nil {
		s.settings.once = characteristics{}
	}
	return s.answerOK(loading.ok())
}

// assignLiteral gives a user variable the value of a literal.
func (s *session) assignLiteral(ctx context.Context, name, literal string) error {
	planned, err := s.plan(ctx, "SET @"+catalog.QuoteName(name)+" = "+literal)
	if err != nil {
		return err
	}
	set, ok := planned.(*plan.Session)
	if !ok {
		return fmt.Errorf("assign a variable: plan is %T", planned)
	}
	return s.set(ctx, set)
}

// fileCharset is the character set that the file is read in.
func (s *session) fileCharset(ctx context.Context, l *plan.Load) (string, error) {
	if l.Charset != "" {
		return l.Charset, nil
	}
	if s.settings.fileCharset != "" {
		return s.settings.fileCharset, checkCharset(s.settings.fileCharset)
	}
	id := s.anyShard()
	pool := s.proxy.pool(id)
	conn, err := pool.GetFor(ctx, s.holder(), false, s.settings.fingerprint)
	if err != nil {
		return "", shard.Down(err)
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
	l       *plan.Load
	charset string

	text strings.Builder
	rows int
	// vars are what user variables among the fields are left with, as literals; nil without any.
	vars map[string]string

	records, affected, warnings uint64
	firstID                     uint64
	shown                       [][][]byte
}

func (d *loading) run(ctx context.Context, file *infile.File) error {
	if err := file.SkipLines(d.l.Skip); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	for {
		extra, err := file.Next(len(d.l.Columns))
		if errors.Is(err, io.EOF) {
			return d.send(ctx)
		}
		if err != nil {
			return err
		}
		if extra {
			if err := d.warn(mysqlerr.WarnTooManyRecords, fmt.Sprintf("Row %d was truncated; it contained more data than there were input columns", file.Line())); err != nil {
				return err
			}
		}
		for range len(d.l.Columns) - file.Fields() {
			if err := d.warn(mysqlerr.WarnTooFewRecords, fmt.Sprintf("Row %d doesn't contain data for all columns", file.Line())); err != nil {
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
		return mysqlerr.New(code, text)
	}
	d.warnings++
	if len(d.shown) < maxWarnings {
		d.shown = append(d.shown, condition("Warning", code, text))
	}
	return nil
}

// row appends a line to the statement.
func (d *loading) row(file *infile.File) error {
	if d.rows == 0 {
		d.text.WriteString(d.l.Statement())
	} else {
		d.text.WriteString(",")
	}
	d.rows++
	d.text.WriteString("(")
	values := 0
	next := func() {
		if values++; values > 1 {
			d.text.WriteString(",")
		}
	}
	for i, c := range d.l.Columns {
		if c == nil {
			continue
		}
		next()
		if i >= file.Fields() {
			v, ok := missing(c)
			if !ok {
				return refuse("row %d has no field for the column %s (%s), which is not supported by LOAD DATA: give it one, or leave the column out of the list", file.Line(), c.Name, c.Type)
			}
			d.text.WriteString(v)
			continue
		}
		switch v, null := file.Value(i); {
		case null && !c.Nullable && !c.AutoIncrement && strings.HasPrefix(strings.ToLower(c.Type), "timestamp"):
			return refuse("row %d: NULL for the column %s (TIMESTAMP NOT NULL) is not supported by LOAD DATA: write the time into the file", file.Line(), c.Name)
		case null && !c.Nullable && d.s.mariaDB() && strings.HasPrefix(strings.ToLower(c.Type), "enum"):
			d.text.WriteString("''") // for which an INSERT has its first value
		case null:
			d.text.WriteString("NULL")
		case len(v) == 0 && c.AutoIncrement:
			d.text.WriteString("0")
		default:
			d.literal(&d.text, v, c)
		}
	}
	for _, x := range d.l.Sets {
		next()
		for n, i := range x.Fields {
			d.text.WriteString(x.Parts[n] + " ")
			d.variable(&d.text, file, i)
			d.text.WriteString(" ")
		}
		d.text.WriteString(x.Parts[len(x.Fields)])
	}
	d.text.WriteString(")")
	d.remember(file)
	return nil
}

// variable writes the field that a user variable gets. A line that is too short leaves it NULL.
func (d *loading) variable(to *strings.Builder, file *infile.File, i int) {
	if i < file.Fields() {
		if v, null := file.Value(i); !null {
			d.literal(to, v, nil)
			return
		}
	}
	to.WriteString("NULL")
}

// remember keeps what the line leaves in user variables.
func (d *loading) remember(file *infile.File) {
	for i, name := range d.l.Vars {
		if name != "" {
			var value strings.Builder
			d.variable(&value, file, i)
			d.vars[name] = value.String()
		}
	}
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
func (d *loading) literal(to *strings.Builder, v []byte, c *catalog.Column) {
	plain := d.charset != "binary" || c != nil && c.Collation == "" && !bytesOrText(c)
	for _, x := range v {
		plain = plain && x >= 0x20 && x < 0x7f && x != '\'' && x != '\\'
	}
	if plain {
		to.WriteByte('\'')
		to.Write(v)
		to.WriteByte('\'')
		return
	}
	to.WriteString("_" + d.charset + " X'")
	to.WriteString(hex.EncodeToString(v))
	to.WriteByte('\'')
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
	var ok wire.OK
	id, given, err := d.s.diag.givenIn(func() (err error) {
		ok, err = d.s.insertRows(ctx, d.text.String())
		return err
	})
	d.s.diag.reword(d.ofFile)
	if d.firstID == 0 && given {
		d.firstID = id
	}
	if err != nil {
		if e, ok := errors.AsType[mysqlerr.Error](err); ok {
			e.Message = d.ofFile(e.Message)
			return e
		}
		return err
	}
	d.records += uint64(d.rows)
	d.affected += ok.Affected
	d.warnings += uint64(ok.Warnings)
	d.shown = append(d.shown, d.s.diag.warnings...)
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
