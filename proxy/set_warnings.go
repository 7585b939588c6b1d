package proxy

import (
	"context"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// mayWarn is a SET as a shard is asked what a server warns of it, "" where it warns of nothing: a value that is deprecated, one
// that it changes. What Shunt itself obeys is told by none.
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
		if _, of := next.value("@@" + a.Name); !of && !ofCharset[a.Name] || a.Scope != "session" || !a.IsLiteral || strings.EqualFold(a.Literal, "default") {
			return ""
		}
		if a.Name != "time_zone" {
			set = append(set, "SESSION "+catalog.QuoteName(a.Name)+" = "+a.Value)
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

// warned asks a shard, for a session that has these settings by now.
func (s *session) warned(ctx context.Context, next *settings, text string) error {
	return s.onAnyShard(ctx, func(id catalog.ShardID, conn *shard.Conn) error {
		if err := next.applyTo(ctx, conn); err != nil {
			return s.notJoined(id, err)
		}
		sum, err := conn.Exec(ctx, text)
		if err == nil && sum.Warnings > 0 {
			var res *shard.QueryResult
			if res, err = conn.Query(ctx, "SHOW WARNINGS"); err == nil {
				s.diag.add(res.Rows...)
			}
		}
		if err != nil {
			return s.notJoined(id, err)
		}
		return nil
	})
}
