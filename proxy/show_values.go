package proxy

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// ofOneServer are variables that each shard has for itself: transactions over
// Shunt have no id of theirs. So mysqldump neither locks all tables to read the
// ids nor writes one shard's as those of the whole.
var ofOneServer = map[string]string{"gtid_mode": "OFF", "gtid_executed": "", "gtid_purged": "", "gtid_owned": ""}

// showValuesWay is how SHOW VARIABLES and SHOW STATUS are executed.
var showValuesWay = &way{
	at:   bound,
	fits: func(_ *session, r *request) bool { return len(r.bound.Statements) == 1 && r.plan.Shown != nil },
	execute: func(s *session, ctx context.Context, r *request) error {
		s.cutsShown = s.limits(r)
		err := s.showValues(ctx, r, r.bound.Statements[0])
		if err == nil {
			s.diag.findAnswered()
		}
		return err
	},
}

// showValues answers SHOW VARIABLES and SHOW STATUS with what a shard says, and what
// only Shunt knows in its place. A condition on values is asked of the rows that the
// client would see: by a shard, to which they go as JSON.
func (s *session) showValues(ctx context.Context, r *request, st plan.ShardStatement) error {
	v := r.plan.Shown
	if !v.ByName {
		st.SQL, st.Params = v.All, nil
	} else if r.prepared != nil && v.Where(nil) != "" {
		st.SQL, st.Params = v.All+" WHERE "+v.Where(r.values), nil
	}
	res, err := s.askOne(ctx, st)
	if err != nil {
		return err
	}
	rows := res.Rows
	for _, row := range rows {
		if len(row) == 2 {
			if own, ok := s.shown(strings.ToLower(string(row[0])), v); ok {
				row[1] = []byte(own)
			}
		}
	}
	if !v.Status && !v.Global && len(res.Columns) == 2 && (!v.ByName || v.HasLike && likeName(v.Like, readFromVariable) || !v.HasLike && v.Where(nil) == "") {
		own := [][]byte{[]byte(readFromVariable), []byte(s.readFrom())}
		at, _ := slices.BinarySearchFunc(rows, own, func(a, b [][]byte) int { return bytes.Compare(bytes.ToLower(a[0]), b[0]) })
		rows = slices.Insert(rows, at, own)
	}
	if !v.ByName {
		if rows, err = s.filterShown(ctx, st.Shard, rows, v.Where(r.values)); err != nil {
			return err
		}
	}
	return s.answerTexts(res.Definitions, rows)
}

const readFromVariable = "shunt_read_from"

// shown is the value of a variable, or a line of SHOW STATUS, that is Shunt's.
func (s *session) shown(name string, v *plan.ShownValues) (value string, ok bool) {
	if value, ok = ofOneServer[name]; ok || v.Global {
		return value, ok
	}
	if v.Status {
		return s.shownStatus(name)
	}
	if v := s.settings.own.named(name); v != nil {
		return strconv.FormatInt(*v, 10), true
	}
	switch name {
	case "autocommit":
		if s.settings.autocommit {
			return "ON", true
		}
		return "OFF", true
	case "completion_type":
		return s.settings.completionType(), true
	case "sql_select_limit":
		return strconv.FormatUint(s.settings.own.limit.value(), 10), true
	case "last_insert_id", "identity":
		return strconv.FormatUint(s.diag.insertID, 10), true
	case "resultset_metadata":
		return s.settings.own.metadata(), true
	}
	return "", false
}

// shownStatus is shown for SHOW STATUS: of the client's connection.
func (s *session) shownStatus(name string) (value string, ok bool) {
	version, cipher := s.client.Cipher()
	compression, level := s.client.Compression()
	switch name {
	case "ssl_version":
		return version, true
	case "ssl_cipher":
		return cipher, true
	case "compression":
		if compression != "" {
			return "ON", true
		}
		return "OFF", true
	case "compression_algorithm":
		return compression, true
	case "compression_level":
		return strconv.Itoa(level), true
	}
	return "", false
}

// filterShown has a shard find the rows that satisfy a condition.
func (s *session) filterShown(ctx context.Context, id catalog.ShardID, rows [][][]byte, where string) ([][][]byte, error) {
	all := make([][2]string, len(rows))
	for i, row := range rows {
		all[i] = [2]string{string(row[0]), string(row[1])}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("filter variables: %w", err)
	}
	const column = "%s VARCHAR(4096) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PATH _utf8mb4'$[%d]'"
	sql := fmt.Sprintf("SELECT Variable_name, Value FROM JSON_TABLE(CONVERT(0x%s USING utf8mb4), _utf8mb4'$[*]' COLUMNS (shunt_row FOR ORDINALITY, "+column+", "+column+")) AS shunt_shown WHERE (%s\n) ORDER BY shunt_row",
		hex.EncodeToString(text), "Variable_name", 0, "Value", 1, where)
	res, err := s.askOne(ctx, plan.ShardStatement{Shard: id, SQL: sql})
	if err != nil {
		return nil, err
	}
	return res.Rows, nil
}

// likeName reports whether a pattern of LIKE finds a name in lower case. A % that
// fails is tried again one character further; no earlier one need be.
func likeName(pattern, name string) bool {
	i, from, again := 0, -1, 0 // from is behind the last %, again where it was tried
	for at := 0; at < len(name); {
		width, fits := 1, false
		switch {
		case i == len(pattern):
		case pattern[i] == '%':
			from, again = i+1, at
			i++
			continue
		case pattern[i] == '_':
			fits = true
		case pattern[i] == '\\' && i+1 < len(pattern):
			width, fits = 2, strings.EqualFold(pattern[i+1:i+2], name[at:at+1])
		default:
			fits = strings.EqualFold(pattern[i:i+1], name[at:at+1])
		}
		switch {
		case fits:
			i, at = i+width, at+1
		case from < 0:
			return false
		default:
			again++
			i, at = from, again
		}
	}
	return strings.Trim(pattern[i:], "%") == ""
}
