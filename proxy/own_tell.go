package proxy

import (
	"context"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/wire"
)

var (
	// tellSession is a SELECT of what a shard's connection would tell of itself instead.
	tellSession = &own{form: spoken.TellSession, tells: true, columns: toldColumns, do: (*session).tell, warns: (*session).deprecated}
	showCount   = &own{form: spoken.ShowCount, open: true, columns: toldColumns, do: (*session).tell}
)

func toldColumns(s *session, a *plan.Admin) []wire.Column {
	return tellColumns(a.Tell, s.mariaDB())
}

// deprecated are MySQL's warnings of what is told.
func (s *session) deprecated(a *plan.Admin) (warnings [][][]byte) {
	for _, t := range a.Tell {
		if t.What == "found_rows" && !s.mariaDB() {
			warnings = append(warnings, deprecatedFound())
		}
	}
	return warnings
}

func (s *session) tell(_ context.Context, a *plan.Admin) ([][]any, error) {
	row := make([]any, len(a.Tell))
	for i, t := range a.Tell {
		if t.What == "found_rows" && s.diag.found == noFound {
			return nil, errFound
		}
		row[i] = s.told(t.What)
	}
	return [][]any{row}, nil
}

// told is what plan.Told asks for.
func (s *session) told(what string) any {
	switch what {
	case "connection_id":
		return int64(s.client.ID)
	case "user":
		return s.client.User + "@" + s.client.Host
	case "schema":
		return nullable(s.settings.schema)
	case "row_count":
		return s.diag.rows
	case "found_rows":
		return s.diag.found
	case "autocommit":
		if s.settings.autocommit {
			return int64(1)
		}
		return int64(0)
	case "sql_select_limit":
		return s.settings.own.limit.value()
	case "warning_count":
		return int64(len(s.diag.warnings))
	case "completion_type":
		return s.settings.completionType()
	case "error_count":
		return int64(len(s.conditions(true)))
	}
	if what == "resultset_metadata" {
		return s.settings.own.metadata()
	}
	if v, ok := ofOneServer[what]; ok {
		return v
	}
	if what == "shunt_virtual_columns" {
		return tellFreshness(s.fastVirtual())
	}
	if what == "shunt_index_reads" {
		return tellFreshness(s.fastIndexes())
	}
	if what == "shunt_read_from" {
		return s.readFrom()
	}
	if v := s.settings.own.named(what); v != nil {
		return *v
	}
	return nil
}

// tellColumns are typed as a server's are: drivers size their buffers and choose
// types of their own by that.
func tellColumns(told []plan.Told, mariaDB bool) []wire.Column {
	cols := make([]wire.Column, len(told))
	for i, t := range told {
		switch t.What {
		case "user":
			chars := uint32(32 + 1 + 255)
			if mariaDB {
				chars = 128 + 1 + 255
			}
			cols[i] = serverText(t.Label, chars, mariaDB)
		case "schema", "shunt_read_from", "shunt_virtual_columns", "shunt_index_reads":
			cols[i] = serverText(t.Label, 64, mariaDB)
		case "resultset_metadata":
			cols[i] = serverText(t.Label, 4, mariaDB)
		case "gtid_mode", "gtid_executed", "gtid_purged", "gtid_owned":
			cols[i] = serverText(t.Label, 1024, mariaDB)
		case "completion_type":
			cols[i] = serverText(t.Label, 8, mariaDB)
		case "autocommit":
			cols[i] = wire.IntColumn(t.Label)
			cols[i].Length = 1
		default:
			c := wire.IntColumn(t.Label)
			c.Length = 21
			if t.What != "row_count" && t.What != "found_rows" {
				c.Flags |= mysql.UNSIGNED_FLAG
			}
			if t.What == "row_count" || t.What == "found_rows" || t.What == "connection_id" {
				c.Flags |= mysql.NOT_NULL_FLAG
			}
			if t.What == "connection_id" && mariaDB {
				c.Type, c.Length = mysql.MYSQL_TYPE_LONG, 10
			}
			cols[i] = c
		}
	}
	return cols
}
