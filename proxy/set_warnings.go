package proxy

import (
	"context"
	"errors"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// mayWarn is the text of a SET of which a server may warn, since a value is deprecated, or one that the server changes; ""
// for any other. Variables that Shunt itself obeys are in none.
func mayWarn(p *plan.Session, next *settings) string {
	if p.Op == plan.SetNames {
		if len(p.Set) == 1 && current[strings.ToLower(p.Set[0].Literal)] {
			return ""
		}
		text := "SET NAMES " + p.Set[0].Literal
		if len(p.Set) > 1 {
			text += " COLLATE " + p.Set[1].Literal
		}
		return text
	}
	var set []string
	for _, a := range p.Set {
		if a.Scope == "user" {
			continue
		}
		value, of := next.value("@@" + a.Name)
		if a.IsLiteral {
			value = a.Value
		}
		if !of && !ofCharset[a.Name] || a.Scope != "session" || !a.IsLiteral && a.Name != "sql_notes" || strings.EqualFold(a.Literal, "default") {
			return ""
		}
		if a.Name != "time_zone" {
			set = append(set, "SESSION "+catalog.QuoteName(a.Name)+" = "+value)
		}
	}
	if set == nil {
		return ""
	}
	return "SET " + strings.Join(set, ", ")
}

// current are the character sets that no server warns of.
var current = map[string]bool{"utf8mb4": true, "latin1": true, "binary": true, "ascii": true, "default": true}

// ofCharset are the variables that Shunt keeps as a character set and a collation.
var ofCharset = map[string]bool{"character_set_client": true, "character_set_results": true, "character_set_connection": true, "collation_connection": true}

// warned executes a SET that is in force on a connection, and keeps the server's warnings. An error is of the connection:
// what the server has against the text it has told of the settings.
func (s *session) warned(ctx context.Context, conn *shard.Conn, set string) error {
	if set == "" {
		return nil
	}
	sum, err := conn.Exec(ctx, set)
	if err == nil && sum.Warnings > 0 {
		var res *shard.QueryResult
		if res, err = conn.Query(ctx, "SHOW WARNINGS"); err == nil {
			s.diag.add(res.Rows...)
		}
	}
	if _, refused := errors.AsType[*shard.ServerError](err); refused {
		return nil
	}
	return err
}
