package proxy

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Session tracking: a client that has SESSION_TRACK is told with OK packets what
// has changed in its session, so that a pool of connections can tell a clean one
// from another. It is Shunt's session that counts: shard connections have no
// SESSION_TRACK, and what is done with them for Shunt's own sake (USE, SET) is
// nobody's change.

// tracked is what a session wants to be told of: session_track_... variables.
type tracked struct {
	// variables by their names in lower case, as the client has written them.
	variables map[string]string
	all       bool // every variable that is SET
	schema    bool
	state     bool // that something has changed
	// transaction is what of the transaction.
	transaction transactionInfo
}

// trackedByDefault are the servers' defaults.
func trackedByDefault() tracked {
	return tracked{variables: trackedNames(defaultTracked), schema: true}
}

const defaultTracked = "time_zone,autocommit,character_set_client,character_set_results,character_set_connection"

func trackedNames(list string) map[string]string {
	names := map[string]string{}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[strings.ToLower(name)] = name
		}
	}
	return names
}

// assign takes over a variable of its own, which goes to the shards too: these say
// whether the value is one, and answer who asks for it.
func (t *tracked) assign(name, literal string, mariaDB bool) error {
	byDefault := strings.EqualFold(literal, "default")
	switch name {
	case "session_track_system_variables":
		switch {
		case byDefault:
			t.variables, t.all = trackedByDefault().variables, false
		case strings.EqualFold(literal, "null"):
			t.variables, t.all = nil, false
		default:
			t.variables = trackedNames(literal)
			_, star := t.variables["*"]
			t.all = star && (mariaDB || len(t.variables) == 1)
		}
	case "session_track_schema":
		if on, err := boolean(literal); err == nil {
			t.schema = on
		}
	case "session_track_state_change":
		if on, err := boolean(literal); err == nil {
			t.state = on && !byDefault
		}
	case "session_track_gtids":
		if !mariaDB && !byDefault && !strings.EqualFold(literal, "off") && literal != "0" {
			return refuse("SET session_track_gtids is not supported but for OFF: a transaction has a GTID on each shard that it changed; ask the shards for theirs")
		}
	case "session_track_transaction_info":
		t.assignTransactionInfo(literal)
	}
	return nil
}

// wants gives the name by which the client is told of a variable.
func (t *tracked) wants(name string) (string, bool) {
	if t.all {
		return name, true
	}
	as, ok := t.variables[name]
	return as, ok
}

// sessionChanges is what has changed since the client was last told.
type sessionChanges struct {
	variables     []change
	schema, state bool
	// transaction: the client has begun one, or said of what kind the next is; maybe
	// as it was before: servers say then that something has changed, but not what.
	transaction bool
}

type change struct{ name, value string }

// tracks reports whether the client is told of changes at all.
func (s *session) tracks() bool { return s.client.Changes != nil }

// tellChanges gives the next OK packet what has changed (wire.Conn.Changes).
func (s *session) tellChanges() (out []byte) {
	told, transaction := s.tellTransaction(nil)
	if !s.changes.schema && !s.changes.state && !transaction && len(s.changes.variables) == 0 {
		return nil
	}
	out = []byte{}
	for _, c := range s.changes.variables {
		out = wire.AppendChange(out, wire.TrackVariable, c.name, c.value)
	}
	if s.changes.schema {
		out = wire.AppendChange(out, wire.TrackSchema, s.settings.schema)
	}
	if s.changes.state {
		out = wire.AppendState(out)
	}
	out = append(out, told...)
	s.changes = sessionChanges{}
	return out
}

// schemaChanged notes that the session has another current schema, or was given
// its own once more.
func (s *session) schemaChanged() {
	s.changes.schema = s.tracks() && s.settings.tracked.schema
}

// stateChanged notes that something of the session has changed.
func (s *session) stateChanged() {
	s.changes.state = s.tracks() && s.settings.tracked.state
}

// changedBy is what a SET changes that the client wants to be told of. It is asked
// for before the SET counts, since that may fail.
func (s *session) changedBy(ctx context.Context, p *plan.Session, next *settings) (c sessionChanges, err error) {
	if !s.tracks() {
		return c, nil
	}
	mariaDB := s.mariaDB()
	var names []string
	for i, a := range p.Set {
		switch {
		case a.Scope == "transaction":
			c.transaction = next.tracked.transaction != infoOff
			continue
		case a.Scope == "global", a.Scope == "persist":
			continue
		case p.Op == plan.SetNames && i > 0, a.Scope != "user" && a.Name == "collation":
		case a.Scope == "user":
		case p.Op == plan.SetNames, a.Name == "names", a.Name == "character set":
			names = append(names, "character_set_client", "character_set_connection", "character_set_results")
		case a.Name == "session_track_state_change" && !mariaDB:
			continue // which MySQL doesn't count
		case a.Name == "session_track_system_variables" && !next.tracked.all:
		default:
			names = append(names, a.Name)
		}
		c.state = next.tracked.state
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if as, ok := next.tracked.wants(name); ok {
			c.variables = append(c.variables, change{name: as})
		}
	}
	c.variables, err = s.valuesOf(ctx, next, c.variables)
	return c, err
}

// valuesOf gives the changes that have a value: it fills in the variables' values, as SHOW VARIABLES has them. A shard is
// asked for those that it may write otherwise than the client did.
func (s *session) valuesOf(ctx context.Context, next *settings, vars []change) ([]change, error) {
	var ask []string
	for i := range vars {
		v := &vars[i]
		switch name := strings.ToLower(v.name); name {
		case "autocommit":
			if v.value = "OFF"; next.autocommit {
				v.value = "ON"
			}
		case "resultset_metadata":
			v.value = next.own.metadata()
		case "sql_select_limit":
			v.value = strconv.FormatUint(next.own.limit.value(), 10)
		case "completion_type":
			v.value = next.completionType()
		default:
			if own := next.own.named(name); own != nil {
				v.value = strconv.FormatInt(*own, 10)
				continue
			}
			charset, set := next.value("@@" + name)
			if _, other := next.value("@@collation_connection"); !set && (!other || name != "character_set_connection") {
				charset = next.charset
			}
			charset = strings.ToLower(charset)
			if _, known := s.catalog().DefaultCollation[charset]; known && charset != "utf8" && strings.HasPrefix(name, "character_set_") {
				v.value = charset
				continue
			}
			ask = append(ask, "'"+name+"'") // a variable's name, or a server had refused it
		}
	}
	if ask == nil {
		return vars, nil
	}
	next.update(s.catalog())
	var res *shard.QueryResult
	err := s.onAnyShard(ctx, func(id catalog.ShardID, conn *shard.Conn) (err error) {
		if err = next.applyTo(ctx, conn); err != nil {
			conn.State = "?"
		} else if res, err = conn.Query(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ("+strings.Join(ask, ", ")+")"); err == nil {
			return nil
		}
		return s.notJoined(id, err)
	})
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, row := range res.Rows {
		if len(row) == 2 {
			values[strings.ToLower(string(row[0]))] = string(row[1])
		}
	}
	for i := range vars {
		if value, ok := values[strings.ToLower(vars[i].name)]; ok {
			vars[i].value = value
		}
	}
	// What no server shows it doesn't tell of either.
	return slices.DeleteFunc(vars, func(v change) bool {
		_, ok := values[strings.ToLower(v.name)]
		return !ok && slices.Contains(ask, "'"+strings.ToLower(v.name)+"'")
	}), nil
}
