package proxy

import (
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// paramValues are the parameters as the planner knows values. For a SELECT texts are
// views.
func (s *session) paramValues(params []wire.Param, planned plan.Plan) []keys.Value {
	if len(params) == 0 {
		return nil
	}
	if cap(s.room.values) < len(params) || cap(s.room.values) > 4*len(params)+16 {
		s.room.values = make([]keys.Value, len(params))
	}
	out := s.room.values[:len(params)]
	rows, ok := planned.(*plan.Rows)
	views := ok && rows.Kind == plan.Select
	for i := range params {
		p := &params[i]
		switch p.Kind() {
		case wire.KindNull:
			out[i] = keys.Null()
		case wire.KindInt:
			out[i] = keys.Int(p.Int64())
		case wire.KindUint:
			out[i] = keys.Uint(p.Uint64())
		case wire.KindFloat:
			out[i] = keys.Float(p.Float64())
		case wire.KindDecimal:
			out[i] = keys.Decimal(p.Text())
		case wire.KindString:
			if views {
				out[i] = keys.Text(view(p.Data), s.settings.planning.Charset)
			} else {
				out[i] = keys.String(p.Data, s.settings.planning.Charset)
			}
		case wire.KindBytes:
			out[i] = keys.Bytes(p.Data)
		case wire.KindDate, wire.KindDatetime, wire.KindTime:
			out[i] = keys.Temporal(p.Text())
		}
	}
	return out
}

// remember notes the types of values that are not NULL.
func (st *preparedStatement) remember(params []wire.Param) {
	if st.had == nil {
		st.had = make([]wire.ParamType, len(params))
		for i := range st.had {
			st.had[i].Type = mysql.MYSQL_TYPE_NULL
		}
	}
	for i := range params {
		if !params[i].Null && params[i].Type != mysql.MYSQL_TYPE_NULL {
			st.had[i] = wire.ParamType{Type: params[i].Type, Unsigned: params[i].Unsigned}
		}
	}
}

// typesOf tells executions apart whose parameters a shard may take for others'
// types (shard.Conn.PrepareFor). NULL has no type, and leaves a statement's as
// they are: it counts as what the parameter was before, or each pattern of NULLs
// in a wide INSERT would be a statement of its own. places are the parameters'
// in the client's statement, nil where all of them go.
func (st *preparedStatement) typesOf(params []wire.Param, places []int) string {
	out := make([]byte, 0, 2*len(params))
	for i := range params {
		n := i
		if places != nil {
			n = places[i]
		}
		had := wire.ParamType{Type: params[i].Type, Unsigned: params[i].Unsigned}
		if n < len(st.had) { // else a value of our own
			had = st.had[n]
		}
		unsigned := byte(0)
		if had.Unsigned {
			unsigned = 1
		}
		out = append(out, had.Type, unsigned)
	}
	if string(out) != st.use {
		st.use = string(out)
	}
	return st.use
}

// textForOther finds a text for what is no text on the server. MySQL makes the
// one of the other, and where that fails the parameter keeps what an execution
// before left in it, be it another client's:
//
//	SELECT ... WHERE day IN (?, ?) executed with '2020-01-05', then with 'x'
//	    the second finds the rows of 2020-01-05
//
// So such a text is kept apart, unless it is surely one of that type: from other clients,
// and from this one's values of other types.
//
//	SELECT ... WHERE id IN (?, ?) executed with 5 and a TIME, then with '2020-01-05' and '1'
//	    the second doesn't find 2020, nor maybe 1
func textForOther(params []wire.Param, types []byte) bool {
	for i := range params {
		p := &params[i]
		if p.Null {
			continue
		}
		switch p.Kind() {
		case wire.KindString, wire.KindBytes:
		default:
			continue
		}
		switch types[i] {
		case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG,
			mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL:
			digits := strings.TrimPrefix(string(p.Data), "-")
			if digits == "" || len(digits) > 18 || strings.Trim(digits, "0123456789") != "" {
				return true
			}
		case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2:
			layout := time.DateTime
			if len(p.Data) == len(time.DateOnly) {
				layout = time.DateOnly
			}
			if _, err := time.Parse(layout, string(p.Data)); err != nil {
				return true
			}
		case mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_TIME2, mysql.MYSQL_TYPE_YEAR, mysql.MYSQL_TYPE_BIT, mysql.MYSQL_TYPE_JSON, mysql.MYSQL_TYPE_GEOMETRY:
			return true
		}
	}
	return false
}
