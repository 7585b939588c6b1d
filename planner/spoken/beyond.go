package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/text"
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
	// Function is one that it calls and that servers keep for their administrators.
	Function string
	// Program is what the text of a stored program or view has that reaches beyond
	// the rows of the tables that it names: a word, "" for nothing. Whoever calls
	// it, it runs with the rights of the shards' account.
	Program string
}

func beyond(st *text.Statement) (b Beyond) {
	b.Files, b.Counts, b.Function = namesFiles(st), movesSequence(st), privilegedCall(st)
	switch st.Word(0) {
	case "show":
		i := 1
		for st.Is(i, "full") || st.Is(i, "extended") || st.Is(i, "storage") || st.Is(i, "session") || st.Is(i, "local") || st.Is(i, "global") {
			i++
		}
		b.Show = strings.TrimSpace(st.Word(i) + " " + st.Word(i+1))
	case "flush":
		i := 1
		if st.Is(i, "local") || st.Is(i, "no_write_to_binlog") {
			i++
		}
		_, named := st.Identifier(i + 1)
		b.Flush = !st.Is(i, "table") && !st.Is(i, "tables") || !named || st.Is(i+1, "with")
	case "create", "alter":
		if i := programAt(st); i > 0 {
			b.Program = reaches(st, i)
		}
	}
	return b
}

// movesSequence finds MariaDB's NEXT VALUE FOR s, NEXTVAL(s) and SETVAL(s, n).
func movesSequence(st *text.Statement) bool {
	for i := range st.Tokens {
		name, ok := st.Identifier(i)
		if ok && st.Op(i+1, "(") && (strings.EqualFold(name, "nextval") || strings.EqualFold(name, "setval")) ||
			st.Is(i, "next") && st.Is(i+1, "value") && st.Is(i+2, "for") {
			return true
		}
	}
	return false
}

// namesFiles finds LOAD_FILE(), INTO OUTFILE and DUMPFILE, and tables whose files
// lie where the statement says.
func namesFiles(st *text.Statement) bool {
	defines := st.Is(0, "create") || st.Is(0, "alter")
	for i := range st.Tokens {
		name, ok := st.Identifier(i)
		switch {
		case !ok:
		case strings.EqualFold(name, "load_file") && st.Op(i+1, "("), st.Is(i-1, "into") && (st.Is(i, "outfile") || st.Is(i, "dumpfile")),
			defines && st.Is(i, "directory") && (st.Is(i-1, "data") || st.Is(i-1, "index")), defines && st.Is(i, "file_name") && st.Has("connect"):
			return true
		}
	}
	return false
}

// MayReachBeyond is false for most texts in which Beyond has nothing but what writes are refused for
// already, and costs less than to read them.
func MayReachBeyond(sql string) bool {
	has := func(word string) bool { return text.ContainsFold(sql, word) }
	return slices.ContainsFunc(beyondWords, has) || strings.Contains(sql, "(") && slices.ContainsFunc(privilegedFunctions, has)
}

var beyondWords = []string{"load_file", "show", "processlist", "nextval", "setval", "value"}

// privilegedFunctions are how the names of functions begin that a server lets only
// its administrators call, as it finds by the account's rights: those of replication,
// of accounts, and of keys, audits, firewalls and rewritten queries, which come with plugins.
var privilegedFunctions = []string{
	"asynchronous_connection_failover_", "group_replication_", "roles_graphml", "keyring_", "audit_", "mysql_firewall_", "firewall_", "set_firewall_",
	"read_firewall_", "version_tokens_", "flush_rewrite_rules", "load_rewrite_rules", "masking_dictionary_", "masking_dictionaries_", "gen_dictionary_",
}

func privilegedCall(st *text.Statement) string {
	for i := range st.Tokens {
		if name, ok := st.Identifier(i); ok && st.Op(i+1, "(") && !st.Op(i-1, ".") {
			name = strings.ToLower(name)
			if slices.ContainsFunc(privilegedFunctions, func(p string) bool { return strings.HasPrefix(name, p) }) {
				return name
			}
		}
	}
	return ""
}

// programAt is where the text of a CREATE or ALTER of a stored program begins; 0
// for what is none. A view has a query and no statements.
func programAt(st *text.Statement) int {
	i := 1
	if st.Is(i, "or") && st.Is(i+1, "replace") {
		i += 2
	}
	switch st.Word(i) {
	case "table", "temporary", "database", "schema", "index", "unique", "fulltext", "spatial", "vector", "virtual", "":
		return 0
	}
	view := false
	for j := i; j < len(st.Tokens); j++ {
		switch st.Word(j) {
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
func reaches(st *text.Statement, i int) string {
	for ; i < len(st.Tokens); i++ {
		name, ok := st.Identifier(i)
		w := st.Word(i)
		assigned := st.Op(i+1, "=") || st.Op(i+1, ":=")
		inSet := st.Is(i-1, "set") || st.Op(i-1, ",") || st.Is(i-1, "session") || st.Is(i-1, "local")
		switch {
		case st.Op(i-1, "."), st.Op(i+1, ".") && ok: // a name for sure
		case st.Tokens[i].Kind == text.Variable && strings.HasPrefix(st.Text(i), "@@"):
			v := strings.ToLower(strings.Trim(st.Text(i)[2:], "`"))
			if v == "session" || v == "local" {
				v = strings.ToLower(variableName(st, i+2))
			}
			if scope := scopeOf(v); scope == "global" || scope == "persist" || PrivilegedVariable(v) {
				return st.Text(i)
			}
		case !ok:
		case inSet && !assigned && (scopeOf(w) == "global" || scopeOf(w) == "persist" || w == "role" || w == "resource" && st.Is(i+1, "group")),
			w == "role" && st.Is(i-1, "default") && !assigned, w == "instance" && st.Is(i-1, "lock"), w == "language" && !st.Is(i+1, "sql") && !nameAt(st, i),
			w == "password" && inSet && (assigned || st.Is(i+1, "for")):
			return w
		case slices.Contains(reaching, w) && !nameAt(st, i) && (w != "start" || !st.Is(i+1, "transaction")) && (w != "rename" || !st.Is(i+1, "to")):
			return w
		case inSet && assigned && PrivilegedVariable(strings.ToLower(name)):
			return name
		}
	}
	return ""
}

// nameAt reports that the word at i stands where no statement begins.
func nameAt(st *text.Statement, i int) bool {
	for _, o := range []string{",", "(", "=", "<", ">", "+", "-", "*", "/"} {
		if st.Op(i-1, o) {
			return true
		}
	}
	switch st.Word(i - 1) {
	case "select", "where", "and", "or", "by", "set", "not", "distinct":
		return true
	}
	for _, o := range []string{",", ")", "=", "<", ">", "<=", ">=", "<>", "!="} {
		if st.Op(i+1, o) {
			return true
		}
	}
	return false
}

func variableName(st *text.Statement, i int) string {
	name, _ := st.Identifier(i)
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

// HasSubquery reports a query in parentheses.
func HasSubquery(st *text.Statement) bool {
	for i := range st.Tokens {
		if st.Op(i, "(") && slices.Contains([]string{"select", "with", "table", "values"}, st.Word(i+1)) {
			return true
		}
	}
	return false
}

// NamesBare reports whether a table without a schema is named, or what looks like one.
//
// Rule none is none: in a session without a current schema a shard's connection may have
// one all the same: information_schema, since it can't be without again. Counter-example:
// SET @a = (SELECT GROUP_CONCAT(INFO) FROM processlist), which tells what others do. A
// name in the body of a stored program is of the program's schema.
func NamesBare(st *text.Statement) bool {
	if (st.Is(0, "create") || st.Is(0, "alter") || st.Is(0, "drop") || st.Is(0, "rename")) && !st.Has("view") && (programAt(st) > 0 || !st.Has("select")) {
		return false
	}
	for i := range st.Tokens {
		if _, ok := st.Identifier(i); !ok || st.Op(i-1, ".") || st.Op(i+1, ".") || st.Op(i+1, "(") || slices.Contains(besideTable, st.Word(i)) {
			continue
		}
		if tableStands(st, i) {
			return true
		}
	}
	return false
}

// besideTable are words that stand where a table may, and are none.
var besideTable = []string{
	"dual", "if", "not", "exists", "ignore", "low_priority", "high_priority", "delayed", "quick", "local", "from", "into", "on", "with", "select", "values", "lateral",
	"table", "view", "read", "write", "set", "of", "to",
}

// tableStands reports whether a name with a schema at token i stands where only a
// table can, and no column, whose qualifier might be an alias.
func tableStands(st *text.Statement, i int) bool {
	if ofSequence(st, i) {
		return true
	}
	j := i - 1
	opened := false
	for st.Op(j, "(") { // FROM ((a.t ..
		opened = true
		j--
	}
	if !st.Op(j, ",") {
		return tableFollows(st, j, opened)
	}
	// A list, of tables or of whatever: what it is a list of stands before it.
	depth := 0
	for ; j >= 0 && st.Tokens[j].Kind != text.Semicolon; j-- {
		switch {
		case st.Op(j, ")"):
			depth++
		case st.Op(j, "("):
			if depth--; depth >= 0 {
				continue
			}
			for st.Op(j-1, "(") {
				j--
			}
			if !st.Op(j-1, ",") {
				return tableFollows(st, j-1, true)
			}
			depth = 0
		case depth > 0:
		default:
			switch st.Word(j) {
			case "from", "join", "straight_join", "update", "into", "table", "tables", "view", "delete", "to":
				return tableFollows(st, j, false)
			case "using":
				if !st.Op(j+1, "(") {
					return true
				}
			case "select", "where", "set", "by", "having", "values", "value", "limit", "returning", "return", "do", "begin":
				return false
			}
		}
	}
	return false
}

// tableFollows reports whether a table follows token j; opened: in parentheses.
func tableFollows(st *text.Statement, j int, opened bool) bool {
	switch st.Word(j) {
	case "from":
		return !fromOfFunction(st, j)
	case "join", "straight_join":
		return true
	case "using":
		return !opened && !st.Op(j+1, "(")
	case "update":
		return !st.Is(j-1, "key") && !st.Is(j-1, "for") && !st.Is(j-1, "on") && !st.Is(j-1, "before") && !st.Is(j-1, "after")
	}
	if opened {
		return false // REPLACE(t.a, ..
	}
	switch st.Word(j) {
	case "into", "references", "table", "tables", "view", "procedure", "function", "trigger", "event", "sequence", "call", "truncate", "insert", "replace",
		"delete", "ignore", "low_priority", "high_priority", "delayed", "quick":
		return true
	case "exists":
		return st.Is(j-1, "if") || st.Is(j-1, "not") && st.Is(j-2, "if")
	case "to":
		return st.Is(0, "rename") || st.Is(0, "alter")
	case "as":
		return st.Is(0, "alter") && st.Is(j-1, "rename")
	case "rename":
		return st.Is(0, "alter")
	case "like":
		return st.Is(0, "create")
	case "in":
		return st.Is(0, "show")
	case "on":
		return st.Is(j-1, "insert") || st.Is(j-1, "update") || st.Is(j-1, "delete") || // of a trigger
			(st.Is(0, "create") || st.Is(0, "drop") || st.Is(0, "alter") || st.Is(0, "rebuild") || st.Is(0, "check")) && hasBefore(st, j, "index")
	case "describe", "desc", "explain":
		return j == 0
	}
	return false
}

// ofSequence reports whether the name at i is that of one of MariaDB's sequences:
// NEXTVAL(shop.s), NEXT VALUE FOR shop.s. They are tables to a server, and to its rights.
func ofSequence(st *text.Statement, i int) bool {
	if st.Op(i-1, "(") {
		name, _ := st.Identifier(i - 2)
		return slices.Contains([]string{"nextval", "lastval", "setval"}, strings.ToLower(name))
	}
	return st.Is(i-1, "for") && st.Is(i-2, "value")
}

func hasBefore(st *text.Statement, j int, w string) bool {
	for k := 1; k < j; k++ {
		if st.Is(k, w) {
			return true
		}
	}
	return false
}

// fromOfFunction reports whether the FROM at j is one of EXTRACT(YEAR FROM o.made)
// and the like, or of IS DISTINCT FROM.
func fromOfFunction(st *text.Statement, j int) bool {
	if st.Is(j-1, "distinct") {
		return true
	}
	depth := 0
	for k := j - 1; k >= 0; k-- {
		switch {
		case st.Op(k, ")"):
			depth++
		case st.Op(k, "("):
			if depth--; depth < 0 {
				return slices.Contains([]string{"extract", "trim", "substring", "substr", "mid"}, st.Word(k-1))
			}
		}
	}
	return false
}
