package proxy

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// preparedText is a statement that the client has prepared by SQL. Shards never see it
// as that: EXECUTE is its text with the values where the parameters were. What differs from
// a server is the scale of DECIMAL parameters, which MySQL makes 30, and names of columns (`?`).
type preparedText struct {
	text     string
	params   []text.Parameter
	prepared text.Settings
	// warned are the warnings of the text, which PREPARE has told, and EXECUTE doesn't tell again.
	warned [][][]byte
	// calls: it is a CALL, which may set the variables that it is given.
	calls bool
}

// preparedByText executes PREPARE and DEALLOCATE PREPARE, done is true then. For EXECUTE it
// gives the text to be executed, in a schema that is the current one until back is called.
func (s *session) preparedByText(ctx context.Context, t *spoken.Text) (text string, back func(), done bool, err error) {
	back = func() {}
	p, err := t.Prepared()
	if p == nil {
		return "", back, false, err
	}
	st := s.prepared.byName[strings.ToLower(p.Name)]
	before := s.diag.warnings
	var planned plan.Plan
	switch {
	case p.Verb == spoken.Prepare, p.Name == "":
		if p.Verb == spoken.Prepare {
			s.deallocate(p.Name) // even if the new one fails
		}
		if st, planned, err = s.readPrepared(ctx, p.From); err != nil {
			return "", back, false, err
		}
		// What EXECUTE IMMEDIATE has is executed at once.
		if rows, ok := planned.(*plan.Rows); ok && p.Verb == spoken.Prepare {
			if err := s.tryText(ctx, rows, s.textOf(st.text)); err != nil {
				return "", back, false, err
			}
		}
	case st == nil:
		to := "EXECUTE"
		if p.Verb == spoken.Deallocate {
			to = "DEALLOCATE PREPARE"
		}
		return "", back, false, mysqlerr.Newf(mysqlerr.UnknownStmtHandler, "Unknown prepared statement handler (%s) given to %s", p.Name, to)
	}
	switch p.Verb {
	case spoken.Prepare:
		if err := s.hold(preparedBytes(st.text)); err != nil {
			return "", back, false, err
		}
		if s.prepared.byName == nil { // most sessions have none
			s.prepared.byName = map[string]*preparedText{}
		}
		st.warned = slices.Clone(s.diag.warnings)
		s.prepared.byName[strings.ToLower(p.Name)] = st
		err = s.answerPrepared("Statement prepared")
		if rows, ok := planned.(*plan.Rows); s.mariaDB() && (!ok || len(rows.Tables) == 0) {
			s.diag.keepBefore(before)
		}
		return "", back, true, err
	case spoken.Deallocate:
		s.deallocate(p.Name)
		s.diag.clear()
		err = s.answerPrepared("")
		if s.mariaDB() {
			s.diag.keepBefore(before)
		}
		return "", back, true, err
	case spoken.Execute:
	}
	if len(p.Using) != len(st.params) {
		return "", back, false, mysqlerr.New(mysqlerr.WrongArguments, "Incorrect arguments to EXECUTE")
	}
	if err := meansTheSame(st.text, &st.prepared, &s.settings.planning); err != nil {
		return "", back, false, err
	}
	values, err := s.preparedValues(ctx, p.Using)
	if err != nil {
		return "", back, false, err
	}
	for i, u := range p.Using {
		if st.calls && strings.HasPrefix(u, "@") {
			values[i] = preparedValue{literal: " " + u + " "}
		}
	}
	untell := s.tellWithout(st.warned)
	if st.prepared.Schema != s.settings.schema {
		inSchema := s.inSchema(st.prepared.Schema)
		return st.with(values), func() { inSchema(); untell() }, false, nil
	}
	return st.with(values), untell, false, nil
}

// tellWithout leaves warnings out of what the client is told of a statement, which ends with done.
func (s *session) tellWithout(warned [][][]byte) (done func()) {
	if len(warned) == 0 {
		return func() {}
	}
	s.client.Told = warningCount(len(warned))
	return func() {
		s.client.Told = 0
		s.diag.leaveOut(warned)
	}
}

func (s *session) deallocate(name string) {
	name = strings.ToLower(name)
	if st := s.prepared.byName[name]; st != nil {
		s.letGoOf(preparedBytes(st.text))
		delete(s.prepared.byName, name)
	}
}

func (s *session) answerPrepared(info string) error {
	s.begun()
	return s.answerOK(wire.OK{Info: info, Warnings: s.diag.count()})
}

// with is the text with values for its parameters.
func (st *preparedText) with(values []preparedValue) string {
	var b strings.Builder
	from := 0
	for i := range st.params {
		p := &st.params[i]
		b.WriteString(st.text[from:p.At])
		b.WriteString(p.Write(values[i].literal, values[i].number))
		from = p.At + 1
	}
	b.WriteString(st.text[from:])
	return b.String()
}

// readPrepared has a statement that is the value of an expression, and says what is wrong
// with it as far as Shunt itself knows before it is executed. Its plan is nil where that
// depends on its parameters.
func (s *session) readPrepared(ctx context.Context, from string) (*preparedText, plan.Plan, error) {
	if err := s.mayPrepare(); err != nil {
		return nil, nil, err
	}
	var raw []byte
	err := s.computed(ctx, "SELECT CONVERT("+from+" USING "+s.settings.charset+")", func(row [][]byte, _ []wire.Column) {
		raw = row[0]
	})
	if err != nil {
		return nil, nil, err
	}
	if raw == nil {
		return nil, nil, mysqlerr.New(mysqlerr.ParseError, "You have an error in your SQL syntax; there is no statement in NULL")
	}
	statements, err := text.Split(string(raw), s.settings.planning)
	switch {
	case err != nil:
		return nil, nil, err
	case len(statements) == 0 || strings.TrimSpace(statements[0]) == "":
		return nil, nil, errEmptyQuery
	case len(statements) > 1:
		return nil, nil, mysqlerr.New(mysqlerr.ParseError, "You have an error in your SQL syntax: only one statement can be prepared, near '"+excerpt(statements[1])+"'")
	}
	s.diag.clear()
	st := &preparedText{text: statements[0], prepared: s.settings.planning}
	read := s.textOf(st.text)
	if st.params, err = read.Parameters(); err != nil {
		return nil, nil, err
	}
	if err := s.mayText(st.text, read); err != nil {
		return nil, nil, err
	}
	planned, err := s.planText(ctx, read)
	if err != nil && coded(err).Code != mysqlerr.NotSupportedYet { // that may be for its parameters
		return nil, nil, err
	}
	if p, ok := planned.(*plan.Session); ok && p.Op == plan.Use {
		return nil, nil, errNotPrepared
	}
	if s.neverPrepared(planned) {
		return nil, nil, errNotPrepared
	}
	if rows, ok := planned.(*plan.Rows); ok {
		st.calls = rows.Calls
	}
	return st, planned, nil
}

// tryText has a shard say what it thinks of a text that is to be executed later, where one
// can: what only the session knows may be another then.
func (s *session) tryText(ctx context.Context, plan *plan.Rows, t *spoken.Text) error {
	text, _, err := s.ofSession(ctx, t, false)
	if s.diag.spliced = 0; err == nil && !knowing(plan).Empty() {
		_, err = s.describe(ctx, plan, text.SQL)
		return err
	}
	return nil
}

// computed has a shard compute expressions under the session's settings.
func (s *session) computed(ctx context.Context, sql string, take func(row [][]byte, defs []wire.Column)) error {
	return s.askUnder(ctx, s.settings.clone(), s.catalog().All, func(id catalog.ShardID, conn *shard.Conn) error {
		res, err := conn.Query(ctx, sql)
		if err != nil {
			return s.notJoined(id, err)
		}
		take(res.Rows[0], res.Definitions)
		return nil
	})
}

// preparedValue is a parameter's value: a literal, and what Parameter.Write wants to know.
type preparedValue struct{ literal, number string }

// preparedValues are literals with the values that parameters have: texts are in the
// connection's character set and collation then, whatever the variable has.
func (s *session) preparedValues(ctx context.Context, using []string) ([]preparedValue, error) {
	if len(using) == 0 {
		return nil, nil
	}
	asked := make([]string, 0, len(using))
	for _, u := range using {
		asked = append(asked, fmt.Sprintf("%s, CHARSET(%[1]s), HEX(%[1]s), HEX(CONVERT(%[1]s USING %s))", u, s.settings.charset))
	}
	values := make([]preparedValue, 0, len(using))
	err := s.computed(ctx, "SELECT "+strings.Join(asked, ", "), func(row [][]byte, defs []wire.Column) {
		for i := 0; i < len(row); i += 4 {
			v := preparedValue{literal: "NULL"}
			switch def := defs[i]; {
			case row[i] == nil:
			case def.Type == mysql.MYSQL_TYPE_LONGLONG, def.Type == mysql.MYSQL_TYPE_LONG, def.Type == mysql.MYSQL_TYPE_NEWDECIMAL:
				v.number = string(row[i])
				v.literal = " " + v.number // behind a minus, -- would begin a comment
			case def.Type == mysql.MYSQL_TYPE_DOUBLE:
				v.literal = " " + string(row[i])
				if !strings.Contains(v.literal, "e") {
					v.literal += "e0"
				}
			case string(row[i+1]) == "binary":
				v.literal = "_binary X'" + string(row[i+2]) + "'"
			default:
				text, _ := hex.DecodeString(string(row[i+3])) // the server's own
				v.literal, v.number = s.settings.quoted(string(text)), string(text)
			}
			values = append(values, v)
		}
	})
	return values, err
}
