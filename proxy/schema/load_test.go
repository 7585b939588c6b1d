package schema

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// shuffled answers the same rows in another order each time, where none was asked for.
type shuffled struct{ answers map[string][][]string }

func (s shuffled) Rows(_ context.Context, sql string) ([][][]byte, error) {
	var out [][][]byte
	for name, rows := range s.answers {
		if !strings.Contains(sql, name) {
			continue
		}
		for _, r := range rows {
			var row [][]byte
			for _, v := range r {
				row = append(row, []byte(v))
			}
			out = append(out, row)
		}
	}
	if !strings.Contains(sql, "ORDER BY") {
		rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out, nil
}

// TestReadInAnyOrder: the same rows in another order are no change of the schema, after
// which replicas would have to prove that they have it.
func TestReadInAnyOrder(t *testing.T) {
	t.Parallel()
	s := shuffled{map[string][][]string{
		"VERSION()":                           {{"9.7.4", "0"}},
		"SHOW GLOBAL VARIABLES":               {{"sql_mode", "ANSI"}, {"time_zone", "SYSTEM"}},
		"information_schema.COLLATIONS":       {{"1", "a", "a", "Yes"}, {"2", "b", "b", ""}, {"3", "c", "c", ""}},
		"information_schema.SCHEMATA":         {{"x"}, {"y"}, {"z"}},
		"information_schema.TABLES":           {{"x", "t", "BASE TABLE", "InnoDB"}, {"x", "u", "BASE TABLE", "InnoDB"}, {"y", "t", "BASE TABLE", "InnoDB"}},
		"information_schema.COLUMNS":          {{"x", "t", "a", "int", "", "", "NO", "", "", "", ""}, {"x", "u", "a", "int", "", "", "NO", "", "", "", ""}, {"y", "t", "a", "int", "", "", "NO", "", "", "", ""}},
		"information_schema.TRIGGERS":         {{"x", "t", "INSERT", "a", ""}, {"x", "t", "INSERT", "b", ""}, {"x", "t", "DELETE", "a", ""}},
		"information_schema.ROUTINES":         {{"f", "a", "x", "FUNCTION"}, {"g", "a", "x", "FUNCTION"}, {"f", "a", "y", "FUNCTION"}},
		"information_schema.EVENTS":           {{"x", "e", "DO 1"}, {"x", "f", "DO 2"}, {"y", "e", "DO 3"}},
		"information_schema.KEY_COLUMN_USAGE": {{"x", "t", "k1", "a", "x", "u", "a"}, {"x", "u", "k2", "a", "x", "t", "a"}, {"y", "t", "k1", "a", "x", "t", "a"}},
		"REFERENTIAL_CONSTRAINTS":             {{"x", "T", "k1", "SET NULL", "CASCADE"}, {"y", "t", "k1", "RESTRICT", "NO ACTION"}},
	}}
	first, err := Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Tables) != 3 || len(first.Functions) != 3 || len(first.Tables[0].triggers) != 3 || len(first.Events) != 3 {
		t.Fatalf("%+v", first)
	}
	for i, rules := range [][2]string{{"SET NULL", "CASCADE"}, {"CASCADE", "CASCADE"}, {"RESTRICT", "NO ACTION"}} {
		if keys := first.Tables[i].foreignKeys; len(keys) != 1 || [2]string{keys[0].update, keys[0].delete} != rules {
			t.Errorf("%+v, want the rules %q", keys, rules)
		}
	}
	for range 20 {
		if again, err := Read(t.Context(), s); err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("%+v, then %+v, %v", first, again, err)
		}
	}
}

// renamedMeanwhile answers as a server on which a table comes back from another name
// between the questions for its columns and for its keys, the first time.
type renamedMeanwhile struct {
	shuffled
	readings int
}

func (q *renamedMeanwhile) Rows(ctx context.Context, sql string) ([][][]byte, error) {
	if strings.Contains(sql, "STATISTICS") {
		if q.readings++; q.readings == 1 {
			return nil, nil
		}
	}
	return q.shuffled.Rows(ctx, sql)
}

func TestReadWholeTables(t *testing.T) {
	t.Parallel()
	q := &renamedMeanwhile{shuffled: shuffled{map[string][][]string{
		"VERSION()":                     {{"9.7.4", "0"}},
		"information_schema.TABLES":     {{"x", "t", "BASE TABLE", "InnoDB"}},
		"information_schema.COLUMNS":    {{"x", "t", "a", "int", "", "", "NO", "", "", "", "PRI"}},
		"information_schema.STATISTICS": {{"x", "t", "PRIMARY", "a", "", ""}},
	}}}
	f, err := Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if keys := f.Tables[0].keys; len(keys) != 1 || q.readings != 2 {
		t.Errorf("keys %v after %d readings of a table with a primary key", keys, q.readings)
	}
}

// TestWithIntroducers: strings get the character sets that SHOW CREATE VIEW has, however it names columns.
func TestWithIntroducers(t *testing.T) {
	t.Parallel()
	const head = "CREATE ALGORITHM=UNDEFINED DEFINER=`a'b`@`%` SQL SECURITY DEFINER VIEW `v` (`_utf8mb4 x`) AS "
	for _, c := range []struct{ definition, shown, want string }{
		{"select concat(`s`.`t`.`a`,' x','y') AS `c` from `s`.`t`", "select concat(`t`.`a`,_utf8mb4' x','y') AS `c` from `t`", "select concat(`s`.`t`.`a`,_utf8mb4' x','y') AS `c` from `s`.`t`"},
		{"select 'it''s' AS `a`,'é' AS `b`", "select _latin1'it''s' AS `a`,_utf8mb4'é' AS `b`", "select _latin1'it''s' AS `a`,_utf8mb4'é' AS `b`"},
		{"select 'a' AS `a`", "select 'a' AS `a`", "select 'a' AS `a`"},
		{"select 'é' AS `a`", "select _latin1'é' AS `a`", ""}, // in other bytes
		{"select 'a' AS `a`", "select _latin1'a' AS `a`,'b' AS `b`", ""},
		{"select 'a' AS `a`", "select _latin1'b' AS `a`", ""},
	} {
		got, ok := withIntroducers(c.definition, head+c.shown)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s as %s: %q, %t", c.definition, c.shown, got, ok)
		}
	}
}
