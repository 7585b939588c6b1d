package planner

import (
	"slices"
	"strings"
)

// Beyond is what a statement asks for beside rows of tables, for those who have
// not all of the rights of the shards' account.
type Beyond struct {
	// Show are the words behind SHOW, FULL and the like left out: "engine innodb".
	Show string
	// Files: it reads or writes a file of a server's.
	Files bool
	// Counts: it moves a sequence on, which the parser takes for a function.
	Counts bool
	// Flush: it is a FLUSH of anything but tables that it names.
	Flush bool
	// Program is what the text of a stored program or view has that reaches beyond
	// the rows of the tables that it names: a word, "" for nothing. Whoever calls
	// it, it runs with the rights of the shards' account.
	Program string
}

func (st *statement) beyond() (b Beyond) {
	b.Files, b.Counts = st.namesFiles(), st.counts()
	switch st.word(0) {
	case "show":
		i := 1
		for st.is(i, "full") || st.is(i, "extended") || st.is(i, "storage") || st.is(i, "session") || st.is(i, "local") || st.is(i, "global") {
			i++
		}
		b.Show = strings.TrimSpace(st.word(i) + " " + st.word(i+1))
	case "flush":
		i := 1
		if st.is(i, "local") || st.is(i, "no_write_to_binlog") {
			i++
		}
		_, named := st.identifier(i + 1)
		b.Flush = !st.is(i, "table") && !st.is(i, "tables") || !named || st.is(i+1, "with")
	case "create", "alter":
		if i := st.programAt(); i > 0 {
			b.Program = st.reaches(i)
		}
	}
	return b
}

// counts finds MariaDB's NEXT VALUE FOR s, NEXTVAL(s) and SETVAL(s, n).
func (st *statement) counts() bool {
	for i := range st.toks {
		name, ok := st.identifier(i)
		if ok && st.op(i+1, "(") && (strings.EqualFold(name, "nextval") || strings.EqualFold(name, "setval")) ||
			st.is(i, "next") && st.is(i+1, "value") && st.is(i+2, "for") {
			return true
		}
	}
	return false
}

// namesFiles finds LOAD_FILE(), INTO OUTFILE and DUMPFILE, and tables whose files
// lie where the statement says.
func (st *statement) namesFiles() bool {
	defines := st.is(0, "create") || st.is(0, "alter")
	for i := range st.toks {
		name, ok := st.identifier(i)
		switch {
		case !ok:
		case strings.EqualFold(name, "load_file") && st.op(i+1, "("), st.is(i-1, "into") && (st.is(i, "outfile") || st.is(i, "dumpfile")),
			defines && st.is(i, "directory") && (st.is(i-1, "data") || st.is(i-1, "index")), defines && st.is(i, "file_name") && st.has("connect"):
			return true
		}
	}
	return false
}

// programAt is where the text of a CREATE or ALTER of a stored program begins; 0
// for what is none. A view has a query and no statements.
func (st *statement) programAt() int {
	i := 1
	if st.is(i, "or") && st.is(i+1, "replace") {
		i += 2
	}
	switch st.word(i) {
	case "table", "temporary", "database", "schema", "index", "unique", "fulltext", "spatial", "vector", "virtual", "":
		return 0
	}
	view := false
	for j := i; j < len(st.toks); j++ {
		switch st.word(j) {
		case "view":
			view = true
		case "procedure", "function", "trigger", "event", "package", "begin", "do":
			return i
		case "as":
			if view {
				return 0
			}
		}
	}
	return i
}

// reaching are words with which statements begin that change or show more than
// rows of the tables that they name, or that run others which are made from texts.
// No stored program needs them for its own tables.
var reaching = []string{
	"prepare", "execute", "show", "create", "alter", "drop", "rename", "grant", "revoke", "kill", "flush", "reset", "purge", "install", "uninstall",
	"shutdown", "restart", "start", "stop", "change", "binlog", "load", "import", "clone", "cache", "backup", "xa",
}

// reaches finds what in the tokens from i on reaches beyond the rows of tables. It
// looks for words wherever a statement might begin: a name that is one may be quoted.
func (st *statement) reaches(i int) string {
	for ; i < len(st.toks); i++ {
		name, ok := st.identifier(i)
		w := st.word(i)
		assigned := st.op(i+1, "=") || st.op(i+1, ":=")
		inSet := st.is(i-1, "set") || st.op(i-1, ",") || st.is(i-1, "session") || st.is(i-1, "local")
		switch {
		case st.op(i-1, "."), st.op(i+1, ".") && ok: // a name for sure
		case st.toks[i].kind == tokVar && strings.HasPrefix(st.text(i), "@@"):
			v := strings.ToLower(strings.Trim(st.text(i)[2:], "`"))
			if v == "session" || v == "local" {
				v = strings.ToLower(st.variableName(i + 2))
			}
			if scope := scopeOf(v); scope == "global" || scope == "persist" || PrivilegedVariable(v) {
				return st.text(i)
			}
		case !ok:
		case inSet && !assigned && (scopeOf(w) == "global" || scopeOf(w) == "persist" || w == "role" || w == "resource" && st.is(i+1, "group")),
			w == "role" && st.is(i-1, "default") && !assigned, w == "instance" && st.is(i-1, "lock"), w == "language" && !st.is(i+1, "sql") && !st.nameAt(i),
			w == "password" && inSet && (assigned || st.is(i+1, "for")):
			return w
		case slices.Contains(reaching, w) && !st.nameAt(i) && (w != "start" || !st.is(i+1, "transaction")) && (w != "rename" || !st.is(i+1, "to")):
			return w
		case inSet && assigned && PrivilegedVariable(strings.ToLower(name)):
			return name
		}
	}
	return ""
}

// nameAt reports that the word at i stands where no statement begins.
func (st *statement) nameAt(i int) bool {
	for _, o := range []string{",", "(", "=", "<", ">", "+", "-", "*", "/"} {
		if st.op(i-1, o) {
			return true
		}
	}
	switch st.word(i - 1) {
	case "select", "where", "and", "or", "by", "set", "not", "distinct":
		return true
	}
	for _, o := range []string{",", ")", "=", "<", ">", "<=", ">=", "<>", "!="} {
		if st.op(i+1, o) {
			return true
		}
	}
	return false
}

func (st *statement) variableName(i int) string {
	name, _ := st.identifier(i)
	return name
}

// PrivilegedVariable reports a session variable (in lower case) that a server lets
// only its administrators set: those of logs, replication and debugging.
func PrivilegedVariable(name string) bool {
	switch name {
	case "sql_log_bin", "sql_log_off", "server_id", "rbr_exec_mode", "require_row_format", "sql_require_primary_key", "default_table_encryption",
		"terminology_use_previous", "transaction_write_set_extraction", "gtid_next", "gtid_domain_id", "gtid_seq_no":
		return true
	}
	return slices.ContainsFunc([]string{"binlog_", "pseudo_", "original_", "immediate_", "debug"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// reachesSystem refuses what would have information_schema of one shard, with the
// rights of its account, for a client who may not see all schemas: only a query of
// it by itself is answered from rows that are looked through.
//
// Counter-examples: SET @a = (SELECT GROUP_CONCAT(TABLE_NAME) FROM
// information_schema.TABLES), and the same in DO, whose errors tell it, in an UPDATE,
// or in a function.
func reachesSystem(st *statement, plan Plan) *Error {
	if !st.settings.Restricted {
		return nil
	}
	if a, ok := plan.(*Admin); ok && a.Op == ExplainRoute {
		return nil // of what it explains
	}
	if rows, ok := plan.(*Rows); ok {
		switch act := rows.action.(type) {
		case *systemAction:
			return nil
		case *explainAction:
		default:
			if rows.Kind == Show && act != nil {
				return nil // of one table's columns
			}
		}
	}
	var n Named
	n.readAll(st)
	for _, table := range n.System {
		if KnowsSystemTable(table) {
			return notSupported("information_schema.%s in this statement is not supported for a user who may see some schemas only: SELECT from it by a statement of its own", strings.ToUpper(table))
		}
	}
	return nil
}

// tableStands reports whether a name with a schema at token i stands where only a
// table can, and no column, whose qualifier might be an alias.
func (st *statement) tableStands(i int) bool {
	j := i - 1
	opened := false
	for st.op(j, "(") { // FROM ((a.t ..
		opened = true
		j--
	}
	if !st.op(j, ",") {
		return st.beforeTable(j, opened)
	}
	// A list, of tables or of whatever: what it is a list of stands before it.
	depth := 0
	for ; j >= 0 && st.toks[j].kind != tokEnd; j-- {
		switch {
		case st.op(j, ")"):
			depth++
		case st.op(j, "("):
			if depth--; depth >= 0 {
				continue
			}
			for st.op(j-1, "(") {
				j--
			}
			if !st.op(j-1, ",") {
				return st.beforeTable(j-1, true)
			}
			depth = 0
		case depth > 0:
		default:
			switch st.word(j) {
			case "from", "join", "straight_join", "update", "into", "table", "tables", "view", "delete", "to":
				return st.beforeTable(j, false)
			case "using":
				if !st.op(j+1, "(") {
					return true
				}
			case "select", "where", "set", "by", "having", "values", "value", "limit", "returning", "return", "do", "begin":
				return false
			}
		}
	}
	return false
}

// beforeTable reports whether a table follows token j; opened: in parentheses.
func (st *statement) beforeTable(j int, opened bool) bool {
	switch st.word(j) {
	case "from":
		return !st.fromOfFunction(j)
	case "join", "straight_join":
		return true
	case "using":
		return !opened && !st.op(j+1, "(")
	case "update":
		return !st.is(j-1, "key") && !st.is(j-1, "for") && !st.is(j-1, "on") && !st.is(j-1, "before") && !st.is(j-1, "after")
	}
	if opened {
		return false // REPLACE(t.a, ..
	}
	switch st.word(j) {
	case "into", "references", "table", "tables", "view", "procedure", "function", "trigger", "event", "call", "truncate", "insert", "replace",
		"delete", "ignore", "low_priority", "high_priority", "delayed", "quick":
		return true
	case "exists":
		return st.is(j-1, "if") || st.is(j-1, "not") && st.is(j-2, "if")
	case "to":
		return st.is(0, "rename") || st.is(0, "alter")
	case "as":
		return st.is(0, "alter") && st.is(j-1, "rename")
	case "rename":
		return st.is(0, "alter")
	case "like":
		return st.is(0, "create")
	case "in":
		return st.is(0, "show")
	case "on":
		return st.is(j-1, "insert") || st.is(j-1, "update") || st.is(j-1, "delete") || // of a trigger
			(st.is(0, "create") || st.is(0, "drop") || st.is(0, "alter") || st.is(0, "rebuild") || st.is(0, "check")) && st.hasBefore(j, "index")
	case "describe", "desc", "explain":
		return j == 0
	}
	return false
}

func (st *statement) hasBefore(j int, w string) bool {
	for k := 1; k < j; k++ {
		if st.is(k, w) {
			return true
		}
	}
	return false
}

// fromOfFunction reports whether the FROM at j is one of EXTRACT(YEAR FROM o.made)
// and the like, or of IS DISTINCT FROM.
func (st *statement) fromOfFunction(j int) bool {
	if st.is(j-1, "distinct") {
		return true
	}
	depth := 0
	for k := j - 1; k >= 0; k-- {
		switch {
		case st.op(k, ")"):
			depth++
		case st.op(k, "("):
			if depth--; depth < 0 {
				return slices.Contains([]string{"extract", "trim", "substring", "substr", "mid"}, st.word(k-1))
			}
		}
	}
	return false
}
