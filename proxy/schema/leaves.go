package schema

import (
	"regexp"
	"slices"
	"strings"
)

// Stored functions and triggers may leave something in the connection that they run
// on, which is pooled: the planner refuses what sets them off (rule nothing left
// behind, planner.leavingFunction).

// leavingTriggers are the bodies of triggers that leave something, themselves or by
// a function, a procedure, or the trigger of a table that they name.
func (b *builder) leavingTriggers() map[string]bool {
	leaving, tables := map[string]bool{}, map[string]bool{}
	calls := false
	for _, p := range b.c.Procedures {
		calls = calls || p.Variables || p.Hidden
	}
	for again := true; again; {
		again = false
		for _, id := range b.order {
			for t, tf := range b.Facts[id].triggers() {
				if leaving[tf.body] {
					continue
				}
				words := identifiers(tf.body)
				leaves := leavesTraces(tf.body) || calls && words["call"]
				for w := range words {
					leaves = leaves || b.c.LeavingFunctions[w] || tables[w]
				}
				if leaves {
					leaving[tf.body], tables[strings.ToLower(t.name)], again = true, true, true
				}
			}
		}
	}
	return leaving
}

// leavesTraces reports whether a body may leave something: a user variable or the
// session's, a lock by name, a temporary table, or what a procedure does. Too often
// only refuses what would do no harm.
func leavesTraces(body string) bool {
	rest := words(body)
	return setsSession.MatchString(rest) || keeps.MatchString(rest) || assigned.MatchString(rest) || userVariable.MatchString(rest) && filled.MatchString(rest)
}

// leavesMore reports a body that may leave other things than user variables whose names are known: @'n' has none in its words.
func leavesMore(body string) bool {
	rest := words(body)
	return setsSession.MatchString(rest) || keeps.MatchString(rest) || strings.Contains(rest, "@''")
}

// userVariables are those that a body names, in lower case.
func userVariables(body string) (names []string) {
	for _, m := range variableNames.FindAllStringSubmatch(words(body), -1) {
		names = append(names, strings.ToLower(strings.Trim(m[1], "`")))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// assigned notes the user variables that functions may assign, themselves or by others, where they leave nothing else.
func (b *builder) assigned() {
	var of func(name string, seen map[string]bool) (names []string, ok bool)
	of = func(name string, seen map[string]bool) (names []string, ok bool) {
		if seen[name] {
			return nil, true
		}
		seen[name] = true
		for _, f := range b.stored[name] {
			if f.Hidden || f.LeavesMore || f.Words["call"] {
				return nil, false
			}
			names = append(names, f.Assigns...)
			for w := range f.Words {
				if b.stored[w] == nil {
					continue
				}
				more, ok := of(w, seen)
				if !ok {
					return nil, false
				}
				names = append(names, more...)
			}
		}
		return names, true
	}
	for name := range b.c.LeavingFunctions {
		if names, ok := of(name, map[string]bool{}); ok {
			slices.Sort(names)
			b.c.Assigned[name] = slices.Compact(names)
		}
	}
}

// endsTransactions reports whether a body may end the transaction that it is called in,
// or begin another.
func endsTransactions(body string) bool {
	return ends.MatchString(harmless.ReplaceAllString(words(body), " "))
}

// words is a body without its strings and comments, but for what servers execute of
// these. Both are found in one pass: a comment may have an apostrophe.
func words(body string) string {
	return texts.ReplaceAllStringFunc(body, func(s string) string {
		switch s[0] {
		case '`':
			return s
		case '\'', '"':
			return "''"
		}
		return " "
	})
}

var (
	harmless      = regexp.MustCompile(`(?i)\b(?:rollback\s+(?:work\s+)?to|(?:create\s+(?:or\s+replace\s+)?|drop\s+)temporary)\b`)
	ends          = regexp.MustCompile(`(?i)\b(?:commit|rollback|start\s+transaction|autocommit|xa|truncate|analyze|optimize|repair|flush|create|alter|drop|rename|grant|revoke|lock\s+tables?|unlock\s+tables?)\b`)
	texts         = regexp.MustCompile(`(?s)'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|` + "`[^`]*`" + `|/\*M?!\d*|\*/|/\*.*?\*/|--\s[^\n]*|#[^\n]*`)
	variableNames = regexp.MustCompile("(?:^|[^@])@([\\w.$\\x80-\\xff]+|`[^`]*`)")
	userVariable  = regexp.MustCompile(`(?:^|[^@])@[^@\s]`)
	assigned      = regexp.MustCompile("(?:^|[^@])@(?:[\\w.$\\x80-\\xff]+|`[^`]*`|'')\\s*:?=")
	// Without SESSION a variable looks like one of the body's own, but for its name.
	setsSession = regexp.MustCompile("(?i)\\bset\\s+(?:session|local)\\s|,\\s*(?:session|local)\\s+\\w+\\s*:?=|\\bset\\s+(?:names|charset|character\\s+set|transaction)\\s+[^\\s:=]|@@[\\w.`]+\\s*:?=|(?:\\bset\\s|,)\\s*`?(?:" +
		"sql_(?:mode|notes|warnings|safe_updates|big_selects|select_limit|auto_is_null|quote_show_create)|time_zone|group_concat_max_len|(?:foreign_key|unique|check_constraint)_checks|" +
		"max_(?:error_count|sp_recursion_depth|heap_table_size|join_size|sort_length|execution_time|statement_time|recursive_iterations|length_for_sort_data)|cte_max_recursion_depth|" +
		"autocommit|completion_type|updatable_views_with_limit|low_priority_updates|(?:default_|default_tmp_)?storage_engine|(?:tx|transaction)_read_only|net_\\w+|(?:wait|interactive)_timeout|session_track_\\w+|sql_log_\\w+|big_tables|binlog_\\w+|pseudo_\\w+|old_mode|eq_range_index_dive_limit|resultset_metadata|" +
		"lc_time_names|default_week_format|div_precision_increment|timestamp|insert_id|last_insert_id|identity|rand_seed[12]|(?:innodb_)?lock_wait_timeout|optimizer_\\w+|" +
		"(?:sort|join|read|read_rnd)_buffer_size|tmp_table_size|tx_isolation|transaction_isolation|(?:character_set|collation)_\\w+)`?\\s*:?=")
	keeps  = regexp.MustCompile(`(?i)\b(?:get_lock\s*\(|create\s+(?:or\s+replace\s+)?temporary\b)`)
	filled = regexp.MustCompile(`(?i)\b(?:into|call)\b`)
)
