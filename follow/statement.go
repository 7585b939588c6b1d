package follow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// query is a QUERY event.
type query struct {
	settings text.Settings
	// schemas are those with tables that the statement changes, where the server says so (MySQL).
	schemas []string
	text    string
}

func (s *Stream) readQuery(h header, body []byte) (q query, err error) {
	const fixed = 4 + 4 + 1 + 2 + 2
	if len(body) < fixed {
		return q, errShort
	}
	schema, status := int(body[8]), int(binary.LittleEndian.Uint16(body[11:]))
	rest := body[fixed:]
	if len(rest) < status+schema+1 {
		return q, errShort
	}
	q.settings.Schema = string(rest[status:][:schema])
	s.readStatus(&q, rest[:status])
	statement := rest[status+schema+1:]
	if h.typ == replication.MARIADB_QUERY_COMPRESSED_EVENT {
		if statement, err = s.inflater.inflate(statement); err != nil {
			return q, err
		}
	}
	q.text = string(statement)
	return q, nil
}

// readStatus reads the session's settings. They come in any order, each as a code and a value of the
// code's length; what follows an unknown one can't be read. (MySQL, libs/mysql/binlog/event/statement_events.h)
func (s *Stream) readStatus(q *query, b []byte) {
	const (
		sqlMode   = 1
		charset   = 4
		schemas   = 12
		maxListed = 254 // there are more: not told
	)
	size := map[byte]int{0: 4, sqlMode: 8, 3: 4, charset: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1, 128: 3, 129: 8}
	for len(b) > 0 {
		code := b[0]
		b = b[1:]
		switch code {
		case 5, 6: // time zone, catalog
			if len(b) == 0 || len(b) < 1+int(b[0]) {
				return
			}
			b = b[1+int(b[0]):]
		case 2: // catalog with a zero byte
			if len(b) == 0 || len(b) < 2+int(b[0]) {
				return
			}
			b = b[2+int(b[0]):]
		case 11: // invoker: user and host
			for range 2 {
				if len(b) == 0 || len(b) < 1+int(b[0]) {
					return
				}
				b = b[1+int(b[0]):]
			}
		case schemas:
			if len(b) == 0 {
				return
			}
			n := int(b[0])
			b = b[1:]
			if n == maxListed {
				continue
			}
			for range n {
				name, rest, ok := bytes.Cut(b, []byte{0})
				if !ok {
					q.schemas = nil
					return
				}
				q.schemas, b = append(q.schemas, string(name)), rest
			}
		default:
			n, known := size[code]
			if !known || len(b) < n {
				return
			}
			switch code {
			case sqlMode:
				const ansiQuotes, noBackslashEscapes = 1 << 2, 1 << 20
				mode := binary.LittleEndian.Uint64(b)
				q.settings.ANSIQuotes, q.settings.NoBackslashEscapes = mode&ansiQuotes != 0, mode&noBackslashEscapes != 0
			case charset:
				q.settings.Charset = s.charsets[uint64(binary.LittleEndian.Uint16(b))]
			}
			b = b[n:]
		}
	}
}

// takeQuery: transactions' beginnings and ends are statements too, and DDL is.
func (s *Stream) takeQuery(h header, body []byte) error {
	q, err := s.readQuery(h, body)
	if errors.Is(err, errTooLarge) {
		s.give(&Unknown{Why: "a statement is too large to be read"})
		return nil
	} else if err != nil {
		return fmt.Errorf("read a statement: %w", err)
	}
	switch q.text {
	case "BEGIN":
		s.tx.grouped = true
		return nil
	case "COMMIT", "ROLLBACK": // of tables without transactions, whose rows are changed for good
		s.commit()
		return nil
	}
	switch c := s.effects(q); {
	case c.begins:
		s.tx.grouped = true
	case c.ends:
		s.tx.grouped = false
	default:
		if len(c.defined) > 0 {
			s.forget(c.defined)
			s.give(&Schema{c.defined, c.gone})
		}
		if s.foreign.stale = s.foreign.stale || c.relates; c.renames {
			if err := s.refresh(); err != nil { // by what they are called now
				return err
			}
		}
		for _, t := range c.changed {
			s.unknown(t, c.why)
		}
	}
	if !s.tx.grouped {
		s.commit()
	}
	return nil
}

// effects of a statement on the log's reader.
type effects struct {
	begins, ends bool // it is XA's BEGIN or COMMIT
	// relates: tables may have other foreign keys; renames: or be called otherwise.
	relates, renames bool
	defined          []catalog.TableName
	gone             bool                // defined were dropped or renamed
	changed          []catalog.TableName // whose rows may have changed
	why              string
}

// harmless are first words of statements that change no table, or only what is of no table (accounts).
var harmless = []string{
	"savepoint", "release", "rollback", "set", "grant", "revoke", "flush", "analyze", "optimize", "install", "uninstall", "use", "reset", "purge",
}

var errNotRead = errors.New("a statement isn't understood")

func (s *Stream) effects(q query) effects {
	if !q.toUTF8() {
		return q.anything(errNotRead.Error())
	}
	st, refused := text.Read(q.text, q.settings, s.server)
	if refused != nil || st.Doubtful {
		return q.anything(errNotRead.Error())
	}
	verb := st.Word(0)
	switch verb {
	case "xa":
		second := st.Word(1)
		s.tx.xa = true
		return effects{begins: second == "start" || second == "begin" || second == "end", ends: second == "commit" || second == "rollback"}
	case "create", "alter", "drop", "rename", "truncate":
		e, err := define(st, verb)
		if err != nil {
			return q.anything(err.Error())
		}
		if s.lowered {
			for _, list := range [][]catalog.TableName{e.defined, e.changed} {
				for i := range list {
					list[i] = lower(list[i])
				}
			}
		}
		e.renames = verb == "rename" || verb == "alter" && st.Has("rename")
		e.relates = e.renames || st.Has("references")
		return e
	}
	if slices.Contains(harmless, verb) {
		return effects{}
	}
	e := q.anything("a change was logged as a statement: " + verb)
	e.defined, e.relates, e.renames = nil, false, false
	return e
}

// toUTF8 has the text in UTF-8: a session's statements, and so the names in them, are in the character set
// that it has set.
func (q *query) toUTF8() bool {
	if text.IsASCII(q.text) {
		return true
	}
	decode := keys.Decoder(q.settings.Charset)
	if decode == nil || text.HidesASCII(q.settings.Charset) {
		return false
	}
	utf8, ok := decode(nil, []byte(q.text))
	q.text, q.settings.Charset = string(utf8), "utf8mb4"
	return ok
}

// anything is the effect of a statement that isn't understood.
func (q query) anything(why string) effects {
	e := effects{why: why}
	for _, schema := range q.schemas {
		e.changed = append(e.changed, catalog.TableName{Schema: schema})
	}
	if len(e.changed) == 0 {
		e.changed = []catalog.TableName{{}}
	}
	e.defined, e.gone, e.relates, e.renames = e.changed, true, true, true
	return e
}

// define reads DDL.
func define(st *text.Statement, verb string) (e effects, err error) {
	i := object(st)
	if verb == "truncate" {
		i = 1
		if !st.Is(i, "table") {
			i = 0
		}
	}
	temporary := slices.ContainsFunc([]int{1, 2, 3}, func(k int) bool { return k < i && st.Is(k, "temporary") })
	switch kind := st.Word(i); {
	case temporary:
		return e, nil
	case verb == "truncate":
		e.why = "TRUNCATE"
		e.changed, _, err = names(st, i+1)
		return e, err
	case kind == "table" || kind == "tables":
		return defineTable(st, verb, i+1)
	case kind == "index":
		for k := i + 1; k < len(st.Tokens); k++ {
			if st.Is(k, "on") {
				e.defined, _, err = names(st, k+1)
				return e, err
			}
		}
		return e, errNotRead
	case kind == "database" || kind == "schema":
		if verb != "drop" {
			return e, nil
		}
		if i++; st.Is(i, "if") {
			i += 2
		}
		name, ok := st.Identifier(i)
		if !ok {
			return e, errNotRead
		}
		e.defined, e.gone = []catalog.TableName{{Schema: name}}, true
		return e, nil
	case kind == "":
		return e, errNotRead
	}
	return e, nil
}

// objects are what DDL is about. Words between the verb and one of these qualify it.
var objects = []string{
	"table", "tables", "index", "database", "schema", "view", "trigger", "procedure", "function", "event", "user", "role",
	"server", "tablespace", "sequence", "package", "logfile", "instance", "reference", "resource", "library",
}

// object is the place of the word that says what DDL is about, or behind the end.
func object(st *text.Statement) int {
	for i := 1; i < len(st.Tokens); i++ {
		if slices.Contains(objects, st.Word(i)) {
			return i
		}
	}
	return len(st.Tokens)
}

// names reads a list of tables.
func names(st *text.Statement, i int) (list []catalog.TableName, next int, err error) {
	if st.Is(i, "if") { // IF EXISTS, IF NOT EXISTS
		for i++; !st.Is(i, "exists"); i++ {
			if i >= len(st.Tokens) {
				return nil, i, errNotRead
			}
		}
		i++
	}
	for {
		name, next, ok := st.QualifiedName(i)
		if !ok || name.Schema == "" {
			return nil, next, errNotRead
		}
		list = append(list, name)
		if !st.Op(next, ",") {
			return list, next, nil
		}
		i = next + 1
	}
}

func defineTable(st *text.Statement, verb string, i int) (e effects, err error) {
	switch verb {
	case "drop":
		e.gone = true
		e.defined, _, err = names(st, i)
		return e, err
	case "rename":
		e.why, e.gone = "RENAME", true
		for {
			old, next, err := names(st, i)
			if err != nil || !st.Is(next, "to") {
				return effects{}, errNotRead
			}
			name, next, ok := st.QualifiedName(next + 1)
			if !ok || name.Schema == "" {
				return effects{}, errNotRead
			}
			e.defined = append(append(e.defined, old...), name)
			if !st.Op(next, ",") {
				e.changed = e.defined
				return e, nil
			}
			i = next + 1
		}
	}
	list, next, err := names(st, i)
	if err != nil {
		return e, err
	}
	e.defined = list[:1]
	if len(list) != 1 {
		return effects{}, errNotRead
	}
	if verb == "create" {
		// The rows of CREATE ... SELECT are in the log, unless that is of statements.
		e.gone = st.Is(1, "or")
		if e.why = "CREATE TABLE with rows"; e.gone || selects(st) {
			e.changed = e.defined
		}
		return e, nil
	}
	return alter(st, e, next)
}

// selects reports a CREATE TABLE that may have a query; VALUES are a partition's, too.
func selects(st *text.Statement) bool {
	for i := range st.Tokens {
		if st.Is(i, "select") || st.Is(i, "values") && (st.Is(i+1, "row") || st.Op(i+1, "(")) {
			return true
		}
	}
	return false
}

// alter reads an ALTER TABLE's specifications, which begin at token i.
func alter(st *text.Statement, e effects, i int) (effects, error) {
	safe := !st.Is(1, "ignore") // which deletes rows
	depth := 0
	for first := true; i < len(st.Tokens); i++ {
		switch {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		case depth > 0:
			continue
		case st.Op(i, ","):
			first = true
			continue
		case first:
			safe = safe && changesNoRow(st.Word(i), st.Word(i+1))
			if st.Word(i) == "rename" && !slices.Contains([]string{"index", "key", "column"}, st.Word(i+1)) {
				if st.Is(i+1, "to") || st.Is(i+1, "as") || st.Op(i+1, "=") {
					i++
				}
				name, next, ok := st.QualifiedName(i + 1)
				if !ok || name.Schema == "" {
					return effects{}, errNotRead
				}
				e.defined, e.gone, i = append(e.defined, name), true, next-1
			}
		case st.Is(i, "table"): // EXCHANGE PARTITION p WITH TABLE t, and MariaDB's CONVERT
			name, next, ok := st.QualifiedName(i + 1)
			if !ok || name.Schema == "" {
				return effects{}, errNotRead
			}
			e.defined, i, safe = append(e.defined, name), next-1, false
		}
		first = false
	}
	if !safe {
		e.changed, e.why = e.defined, "ALTER TABLE"
	}
	return e, nil
}

// changesNoRow reports a specification of ALTER TABLE, by its first words, that leaves rows and the names
// of columns as they are. DROP CONSTRAINT isn't one: what a foreign key did before isn't known later.
func changesNoRow(verb, what string) bool {
	switch verb {
	case "add":
		return slices.Contains([]string{"index", "key", "unique", "fulltext", "spatial", "primary", "constraint", "foreign", "check"}, what)
	case "drop":
		return slices.Contains([]string{"index", "key", "primary", "check"}, what)
	case "alter", "rename":
		return what == "index" || what == "key"
	case "comment", "auto_increment", "algorithm", "lock", "force":
		return true
	}
	return false
}
