package proxy

import "testing"

func TestMaxExecutionTimeHint(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT /*+ MAX_EXECUTION_TIME(400) */ 1":                        "400",
		"select/*+ no_index_merge(t) max_execution_time( 12 ) */ 1":      "12",
		"(SELECT /*+ MAX_EXECUTION_TIME(7) */ 1) UNION SELECT 2":         "7",
		"SELECT 1, (SELECT /*+ MAX_EXECUTION_TIME(7) */ 2)":              "",
		"SELECT '/*+ MAX_EXECUTION_TIME(7) */'":                          "",
		"SELECT /* MAX_EXECUTION_TIME(7) */ 1":                           "",
		"SELECT /*+ QB_NAME(a) */ 1 /*+ MAX_EXECUTION_TIME(7) */ FROM t": "",
		"INSERT /*+ MAX_EXECUTION_TIME(7) */ INTO t SELECT 1":            "",
	} {
		got := ""
		if m := maxExecutionTime.FindStringSubmatch(sql); m != nil {
			got = m[1]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}
