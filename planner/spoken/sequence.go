package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// SequenceCall reports a call of one's among tokens.
func SequenceCall(st *text.Statement, toks []text.Token) bool {
	word := func(i int) string {
		if i >= len(toks) {
			return ""
		}
		return strings.ToLower(st.Src[toks[i].Start:toks[i].End])
	}
	for i := range toks {
		switch w := word(i); {
		case (w == "nextval" || w == "setval") && word(i+1) == "(", w == "next" && word(i+1) == "value" && word(i+2) == "for":
			return st.Server.MariaDB
		}
	}
	return false
}

// RefusePrevious refuses to tell the last number of a sequence.
func RefusePrevious() *text.Error {
	return text.NotSupported("PREVIOUS VALUE FOR and LASTVAL() are not supported: shard connections are pooled; keep what NEXT VALUE FOR has answered")
}

// defineSequence plans CREATE, ALTER and DROP SEQUENCE; i is the token of that word.
func defineSequence(st *text.Statement, cat *catalog.Catalog, i int) (plan.Plan, *text.Error) {
	if !cat.MariaDB {
		return nil, st.Near(i)
	}
	verb := strings.ToUpper(st.Word(0))
	switch verb {
	case "DROP":
		return dropTables(st, cat, "DROP SEQUENCE")
	case "CREATE":
		i = ifNotExists(st, i+1)
	default:
		i = ifExists(st, i+1)
	}
	name, _, err := st.TableAt(i)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	ddl := &plan.DDL{Catalog: cat, Op: verb + " SEQUENCE", Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), Shards: sequencePlace(cat, name)}
	t := cat.Table(name.Schema, name.Name)
	switch {
	case t != nil && len(t.Columns) > 0:
		ddl.Shards = t.Shards
		if !t.Sequence && st.Is(1, "or") {
			return nil, text.NotSupported("CREATE OR REPLACE SEQUENCE %s in place of a table is not supported: DROP TABLE first", name.Name)
		}
	case verb == "ALTER":
		if _, err := userTable(cat, name); err != nil {
			written := name.Name
			if Absent(st, i, "Note", err).Only != "" {
				written = name.Schema + "." + name.Name
			}
			return nil, UnknownSequence(err, written)
		}
	}
	return ddl, nil
}

// sequenceApart refuses a table with a default that most of its shards can't compute.
func sequenceApart(d *plan.DDL, st *text.Statement) *text.Error {
	if d.Shards.Len() < 2 || !strings.HasSuffix(d.Op, " TABLE") || !SequenceCall(st, st.Tokens) {
		return nil
	}
	return text.NotSupported("%s of a table on several shards with a sequence, which is on one, is not supported: INSERT NEXT VALUE FOR it, or use AUTO_INCREMENT", d.Op)
}

// sequencePlace is the one shard where a sequence is made.
func sequencePlace(cat *catalog.Catalog, name catalog.TableName) catalog.ShardSet {
	if p, shards, _ := placed(cat, name, false); p == catalog.Single {
		return shards
	}
	return firstShard(cat)
}

// UnknownSequence is what a server says of a sequence where it would say err of a table.
func UnknownSequence(err *text.Error, name string) *text.Error {
	if err.Code != mysqlerr.NoSuchTable {
		return err
	}
	unknown := text.NewErrorf(mysqlerr.UnknownSequence, "Unknown SEQUENCE: '%s'", name)
	unknown.Only = err.Only
	return unknown
}
