package proxy

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// clientAttributes are what one client says of itself.
type clientAttributes struct {
	id    uint32
	user  string
	attrs wire.Attributes
}

// attributeRows are the rows of performance_schema.session_connect_attrs: what
// Shunt's clients say of themselves, where a shard knows only what Shunt says. own:
// of the user's connections alone, as for a user who may not see others'. Servers
// cut names and values off too.
func (s *session) attributeRows(cols []systemColumn, own bool) [][]any {
	own = own || s.rights().limited()
	var clients []clientAttributes
	s.proxy.sessions.each(func(x *session) {
		x.activity.mu.Lock()
		defer x.activity.mu.Unlock()
		if c := x.activity.client; c != nil && (!own || c.User == s.client.User) {
			clients = append(clients, clientAttributes{c.ID, c.User, c.Attrs})
		}
	})
	slices.SortFunc(clients, func(a, b clientAttributes) int { return int(a.id) - int(b.id) })
	var rows [][]any
	for _, c := range clients {
		for n, a := range c.attrs {
			row := make([]any, len(cols))
			for i, col := range cols {
				switch strings.ToLower(col.name) {
				case "processlist_id":
					row[i] = c.id
				case "attr_name":
					row[i] = cutRunes(a.Name, 32)
				case "attr_value":
					if a.Value != "" { // which servers have as NULL
						row[i] = cutRunes(a.Value, 1024)
					}
				case "ordinal_position":
					row[i] = n
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func cutRunes(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
