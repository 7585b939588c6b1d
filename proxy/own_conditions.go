package proxy

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// What they answer was read right after the statement, while its shard connection was still at hand.
var (
	showWarnings = conditionsOwn(spoken.ShowWarnings, false)
	showErrors   = conditionsOwn(spoken.ShowErrors, true)
)

func conditionsOwn(form string, errorsOnly bool) *own {
	return &own{
		form: form, open: true, keepsFound: true,
		columns: func(s *session, _ *plan.Admin) []wire.Column { return conditionColumns(s.mariaDB()) },
		do: func(s *session, _ context.Context, a *plan.Admin) ([][]any, error) {
			rows := s.conditions(errorsOnly)
			rows = rows[min(a.Offset, len(rows)):]
			if a.Limit >= 0 {
				rows = rows[:min(a.Limit, len(rows))]
			}
			return rows, nil
		},
	}
}

// conditionColumns are those of SHOW WARNINGS and SHOW ERRORS.
func conditionColumns(mariaDB bool) []wire.Column {
	cols := []wire.Column{serverText("Level", 7, mariaDB), wire.IntColumn("Code"), serverText("Message", 512, mariaDB)}
	cols[1].Type, cols[1].Length = mysql.MYSQL_TYPE_LONG, 5
	cols[1].Flags |= mysql.UNSIGNED_FLAG
	if mariaDB {
		cols[1].Length = 4
	}
	for i := range cols {
		cols[i].Flags |= mysql.NOT_NULL_FLAG
	}
	return cols
}

// conditions are the rows of SHOW WARNINGS, or SHOW ERRORS.
func (s *session) conditions(errorsOnly bool) [][]any {
	var rows [][]any
	for _, w := range s.diag.warnings {
		if len(w) < 3 || errorsOnly && !strings.EqualFold(string(w[0]), "error") {
			continue
		}
		code, _ := strconv.ParseUint(string(w[1]), 10, 16)
		told, msg := s.veiled(uint16(code), string(w[2]))
		rows = append(rows, []any{string(w[0]), int64(told), msg})
	}
	return rows
}
