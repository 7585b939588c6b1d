package proxy

import (
	"context"
	"regexp"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// showGrants shows the rights of the shards' account, which are those of every
// client whose user isn't limited, as the client's own.
var showGrants = &own{
	form: spoken.ShowGrants, open: true, keepsFound: true,
	columns: func(s *session, _ *plan.Admin) []wire.Column {
		return []wire.Column{wire.TextColumn("Grants for " + s.client.User + "@%")}
	},
	do: func(s *session, ctx context.Context, _ *plan.Admin) ([][]any, error) { return s.grants(ctx) },
}

// identified is the password that MariaDB shows in SHOW GRANTS, and grantee the
// account.
var (
	identified = regexp.MustCompile(` IDENTIFIED (BY|VIA|WITH) .*?( REQUIRE | WITH |$)`)
	grantee    = regexp.MustCompile("(?i) TO ([`'\"][^`'\"]*[`'\"]@[`'\"][^`'\"]*[`'\"])")
)

func (s *session) grants(ctx context.Context) ([][]any, error) {
	if u := s.rights(); u.limited() {
		return s.limitedGrants(u), nil
	}
	res, err := s.askOne(ctx, plan.ShardStatement{Shard: s.anyShard(), SQL: "SHOW GRANTS"})
	if err != nil {
		return nil, err
	}
	account := catalog.QuoteName(s.client.User) + "@`%`"
	var rows [][]any
	for _, r := range res.Rows {
		text := identified.ReplaceAllString(string(r[0]), "$2")
		rows = append(rows, []any{grantee.ReplaceAllString(text, " TO "+strings.ReplaceAll(account, "$", "$$"))})
	}
	return rows, nil
}

// limitedGrants are a server's grants that come nearest to the user's rights.
func (s *session) limitedGrants(u *User) (rows [][]any) {
	account := catalog.QuoteName(s.client.User) + "@`%`"
	what := "ALL PRIVILEGES"
	if u.ReadOnly {
		what = "SELECT, EXECUTE, SHOW VIEW"
	}
	if u.Schemas == nil {
		return append(rows, []any{"GRANT " + what + " ON *.* TO " + account})
	}
	rows = append(rows, []any{"GRANT USAGE ON *.* TO " + account})
	for _, schema := range u.Schemas {
		rows = append(rows, []any{"GRANT " + what + " ON " + catalog.QuoteName(schema) + ".* TO " + account})
	}
	return rows
}
