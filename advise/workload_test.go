package advise

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
)

func shapesOf(w *Workload) (out []string) {
	for _, s := range w.Shapes() {
		out = append(out, fmt.Sprintf("%d %s: %s", s.Calls, s.Schema, s.Digest))
	}
	return out
}

func TestLogs(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		read func(*Workload, string) error
		log  string
		want []string
	}{
		{"general log of MySQL", (*Workload).general, `/usr/sbin/mysqld, Version: 9.7.4 (MySQL). started with:
Tcp port: 3306  Unix socket: /tmp/mysql.sock
Time                 Id Command    Argument
2026-11-27T22:35:00.100000Z	    8 Connect	app@localhost on shop using TCP/IP
2026-11-27T22:35:00.200000Z	    8 Query	SELECT *
FROM users
WHERE id = 5
2026-11-27T22:35:00.300000Z	    9 Connect	app@localhost on  using Socket
2026-11-27T22:35:00.400000Z	    9 Init DB	other
2026-11-27T22:35:00.400000Z	    8 Prepare	SELECT * FROM users WHERE id = ?
2026-11-27T22:35:00.500000Z	    8 Execute	SELECT * FROM users WHERE id = 6
2026-11-27T22:35:00.600000Z	    9 Query	SELECT 'it''s; 1'
2026-11-27T22:35:00.700000Z	    8 Close stmt	
2026-11-27T22:35:00.800000Z	    8 Quit	
`, []string{"2 shop: SELECT * FROM users WHERE id = ?", "1 other: SELECT ?"}},
		{"general log of MariaDB", (*Workload).general, "261127 22:35:00\t     8 Connect\tapp@localhost on shop using TCP/IP\n\t\t     8 Query\tSELECT 1 IN (1, 2)\n261127 22:35:01\t     8 Query\tSELECT 2 IN (1, 2, 3)\n\t\t     8 Quit\t\n", []string{"2 shop: SELECT ? IN ( ... )"}},
		{"slow log", (*Workload).slow, `/usr/sbin/mysqld, Version: 9.7.4 (MySQL). started with:
# Time: 2026-11-27T22:35:00.100000Z
# User@Host: app[app] @ localhost []  Id:     8
# Query_time: 1.500000  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1
use shop;
SET timestamp=1795000000;
SELECT c FROM t
WHERE a = 'x';
# Time: 2026-11-27T22:35:01.100000Z
# User@Host: app[app] @ localhost []  Id:     8
# Query_time: 0.500000  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1
SET timestamp=1795000001;
SELECT c FROM t
WHERE a = 'y';
# User@Host: app[app] @ localhost []
# Query_time: 0.100000
# administrator command: Quit;
`, []string{"2 shop: SELECT c FROM t WHERE a = ?"}},
		{"statements", (*Workload).plain, "USE shop;\nINSERT INTO t VALUES (1, 'a;b'), (2, 'c');\n-- nothing\nINSERT INTO t VALUES (3, 'd');\n", []string{"2 shop: INSERT INTO t VALUES ( ... )"}},
	} {
		var w Workload
		if err := x.read(&w, x.log); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		wantLines(t, x.name, shapesOf(&w), x.want...)
	}
	var w Workload
	if err := w.ReadSlowLog(strings.NewReader("# Time: x\n# Query_time: 1.5\nSELECT 1;\n# Time: x\n# Query_time: 0.5\nSELECT 2;\n"), "shop"); err != nil {
		t.Fatal(err)
	}
	if s := w.Shapes(); len(s) != 1 || s[0].Seconds != 2 || len(s[0].Samples) != 2 {
		t.Errorf("%+v", s[0])
	}
}

func (w *Workload) general(log string) error { return w.ReadGeneralLog(strings.NewReader(log), "") }
func (w *Workload) slow(log string) error    { return w.ReadSlowLog(strings.NewReader(log), "") }
func (w *Workload) plain(log string) error   { return w.ReadStatements(strings.NewReader(log), "") }

// TestLines: of a line that is too long the rest is left out, and the next one is read.
func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	long := strings.Repeat("x", maxLine)
	if err := lines(strings.NewReader("a\r\n\n"+long+"yz\nb"), func(line string) { got = append(got, line) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"a", "", long, "b"}) {
		t.Errorf("%d lines", len(got))
	}
}

// TestPlannable: digests as both servers write them are made statements again.
func TestPlannable(t *testing.T) {
	t.Parallel()
	table := testTable(t, "CREATE TABLE t (a INT NOT NULL, b INT, c INT, PRIMARY KEY (a))")
	history := testTable(t, "CREATE TABLE history (a INT NOT NULL, b INT, c INT, d INT, e INT, PRIMARY KEY (a))")
	cat := testCatalog(Design{}, map[string]*catalog.Table{"t": table, "history": history}, 2)
	for digest, want := range map[string]string{
		"SELECT * FROM `t` WHERE `a` IN (...)":                                                "SELECT * FROM `t` WHERE `a` IN (?, ?, ?)",
		"SELECT * FROM `t` LIMIT ?, ...":                                                      "SELECT * FROM `t` LIMIT ?, ?",
		"INSERT INTO `t` VALUES (...)":                                                        "INSERT INTO `t` VALUES (?, ?, ?)",
		"INSERT INTO `app` . `t` ( `a` , `b` ) VALUES (...) /* , ... */":                      "INSERT INTO `app` . `t` ( `a` , `b` ) VALUES (?, ?)",
		"INSERT INTO `t` ( `a` ) VALUES (?) ON DUPLICATE KEY UPDATE `a` = IF ( `a` , ...)":    "INSERT INTO `t` ( `a` ) VALUES (?) ON DUPLICATE KEY UPDATE `a` = IF ( `a` , ?)",
		"INSERT INTO HISTORY ( `a` , `b` , `c` , `d` , `e` ) VALUES ( ?, ... , NOW ( ) , ? )": "INSERT INTO `history` ( `a` , `b` , `c` , `d` , `e` ) VALUES (?, ?, ?, NOW ( ), ?)",
		"INSERT INTO HISTORY VALUES ( ?, ... , IF ( ? , ... ) , ?, ... )":                     "INSERT INTO `history` VALUES (?, ?, IF ( ?, ? ), ?, ?)",
		"SELECT HISTORY . `b` FROM HISTORY JOIN STATUS":                                       "SELECT `history` . `b` FROM `history` JOIN STATUS",
		"SELECT SQL_TSI_MONTH ( `a` ) AS SQL_TSI_MONTH FROM `t`":                              "SELECT MONTH ( `a` ) AS MONTH FROM `t`",
		"SELECT `DATE_FORMAT` ( `a` , ? ) FROM `t`":                                           "SELECT DATE_FORMAT( `a` , ? ) FROM `t`",
		"SELECT * FROM `t` WHERE `a` > DATE ? AND `b` = _utf8mb4 ?":                           "SELECT * FROM `t` WHERE `a` > ? AND `b` = ?",
		"SELECT GROUP_CONCAT ( `a` SEPARATOR ? ) FROM `t` WHERE `b` LIKE ? ESCAPE ?":          "SELECT GROUP_CONCAT ( `a` SEPARATOR '|' ) FROM `t` WHERE `b` LIKE ? ESCAPE '|'",
	} {
		if got := plannable(digest, "app", cat); got != want {
			t.Errorf("%s\n is %s\nnot %s", digest, got, want)
		}
	}
	j := &judge{planner: planner.New(), shards: 2, trials: 1}
	for _, digest := range []string{"SELECT * FROM `t` JOIN", "CREATE TABLE `u` ( `a` INT8 NOT NULL , INDEX `u_a` (", "SELECT * FROM `t` WHERE ( `a` = ?"} {
		if v := j.of(&Shape{Schema: "app", Digest: digest}, cat); v.Reason != cutShort.Reason {
			t.Errorf("%s: %s", digest, v.Reason)
		}
	}
	for digest, want := range map[string]Route{
		"SELECT `FOUND_ROWS` ( )":                                          Session,
		"SET SESSION MAX_STATEMENT_TIME = ?":                               Session,
		"CREATE TABLE `u` ( `a` INT8 (?) NOT NULL , PRIMARY KEY ( `a` ) )": DDL,
		"SELECT COUNT ( * ) , `NOW` ( ) FROM `t` WHERE `a` = ?":            One,
		"SELECT * FROM `t` WHERE `b` = ?":                                  All,
		"SELECT * FROM `t` WHERE `a` = ? AND `b` LIKE ? ESCAPE ?":          One,
		"INSERT INTO HISTORY VALUES ( ?, ... , NOW ( ) , ?, ... )":         One,
		"UPDATE HISTORY SET `b` = ? WHERE HISTORY . `a` = ?":               One,
	} {
		if v := j.of(&Shape{Schema: "app", Digest: digest}, cat); v.Route != want {
			t.Errorf("%s: %s (%s), want %s", digest, v.Route, v.Reason, want)
		}
	}
}

// TestCutSamples: a text that a server has cut is none.
func TestCutSamples(t *testing.T) {
	t.Parallel()
	var w Workload
	for _, sample := range []string{"REPLACE INTO t (a) VALUES ('ab", "REPLACE INTO t (a) VALUES (1", "REPLACE INTO t (a) VALUES ('(')"} {
		w.Add("app", "REPLACE INTO `t` ( `a` ) VALUES (?)", sample, 1, 0)
	}
	if s := w.Shapes()[0]; s.Calls != 3 || len(s.Samples) != 1 || !whole(s.Samples[0]) {
		t.Errorf("%d calls, %q", s.Calls, s.Samples)
	}
}
