package spoken

import (
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// OwnSchema refuses a client a schema that is Shunt's own.
func OwnSchema(name string) *text.Error {
	return text.NewError(mysqlerr.DBAccessDenied, "Access denied to database '"+name+"': it is Shunt's own")
}

// NamesOwn returns the name of a schema of Shunt's own that the statement has, whatever for, "" if it has
// none: with a hint, too, and in the text of a view or trigger that would go to the shards as it is.
//
// Counter-example: /* shunt: shard=s0 */ DROP DATABASE shunt_scratch. It takes the copies from
// under gathers, and the record of who serves the shard.
func NamesOwn(st *text.Statement) string {
	for i, t := range st.Tokens {
		if int(t.End-t.Start) < len(catalog.StoreSchema) {
			continue
		}
		for _, name := range catalog.OwnSchemas {
			if st.Named(i, name) && (name != catalog.VirtualSchema || !st.Settings.Virtual) {
				return name
			}
		}
	}
	return ""
}
