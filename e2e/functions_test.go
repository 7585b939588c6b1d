package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFunctionsAreKnown: every function that a server's own help tells of is known for the server's, or
// it would be refused in a query that is gathered as a stored one, which reads what its server has.
func TestFunctionsAreKnown(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"src: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE src (id INT PRIMARY KEY, s VARCHAR(20))")
		help := onShard(t, p.servers[0], "mysql")
		rows := mustRows(t, help, "SELECT DISTINCT t.name AS name FROM help_topic t JOIN help_category c ON t.help_category_id = c.help_category_id WHERE c.name LIKE '%function%' OR c.name LIKE '%MBR%' OR c.name LIKE '%WK%' OR c.name LIKE '%propert%' OR c.name LIKE '%relation%' OR c.name LIKE '%constructor%' OR c.name LIKE '%column%'")
		name := regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
		notThem := strings.Fields("BINARY CASE CURRENT_USER CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP DIV MOD XOR AND OR NOT BETWEEN IN IS LIKE REGEXP RLIKE DUAL WITHIN MATCH TRUE FALSE NULL" +
			" JSON_TABLE NAME_CONST" + // a table, and what the server itself writes
			" BINLOG_GTID_POS MASTER_GTID_WAIT MASTER_POS_WAIT WSREP_LAST_SEEN_GTID WSREP_LAST_WRITTEN_GTID WSREP_SYNC_WAIT_UPTO_GTID" + // of the shard's own log
			" ROLES_GRAPHML PS_CURRENT_THREAD_ID PS_THREAD_ID") // of the shard's own connection or accounts
		known := 0
		for _, n := range flat(rows, "name") {
			if !name.MatchString(n) || slices.Contains(notThem, n) {
				continue
			}
			known++
			if direct := execError(t, help, "SELECT "+n+"('a')"); errorCode(direct) == 1305 || errorCode(direct) == 3566 {
				continue // of a plugin that isn't here, or for the server's own views alone
			}
			_, err := rowsOf(t.Context(), c, "SELECT DISTINCT a.id FROM src a JOIN src b ON a.s = b.s WHERE "+n+"(a.s) IS NULL")
			if err != nil && strings.Contains(err.Error(), "unless it is the servers' own") {
				t.Errorf("%s() isn't known", n)
			}
		}
		if known < 100 {
			t.Errorf("the help tells of %d functions only", known)
		}
		// The parser's names for some of them.
		for _, e := range []string{"CHAR(a.id)", "INSERT(a.s, 1, 1, 'x')"} {
			_, err := rowsOf(t.Context(), c, "SELECT DISTINCT a.id FROM src a JOIN src b ON a.s = b.s WHERE "+e+" <> 'x'")
			if err != nil {
				t.Errorf("%s: %v", e, err)
			}
		}
		if f.name == "mysql" {
			mustRows(t, c, "SELECT DISTINCT a.id FROM src a JOIN src b ON a.s = b.s WHERE a.id MEMBER OF ('[1, 2]') AND STATEMENT_DIGEST('SELECT 1') <> '' AND ICU_VERSION() <> ''")
		} else {
			mustRows(t, c, "SELECT DISTINCT a.id FROM src a JOIN src b ON a.s = b.s WHERE COLUMN_CHECK(COLUMN_CREATE('a', a.s))")
		}
	})
}
