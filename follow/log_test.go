package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestCompressed: any session may have its transactions compressed.
func TestCompressed(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
		p := NewProgress(s.now())
		on := "SET SESSION binlog_transaction_compression = ON"
		if s.mariaDB {
			on = "SET GLOBAL log_bin_compress = ON, log_bin_compress_min_len = 10"
			defer s.exec("SET GLOBAL log_bin_compress = OFF")
		}
		const n = 3000 // events beyond one block of the compression
		s.exec(on, "BEGIN")
		for i := range n {
			s.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, REPEAT('x%d', 100))", i, i%7))
		}
		s.exec("COMMIT", "UPDATE t SET v = CONCAT(id, REPEAT('y', 1000)) WHERE id < 2", "DELETE FROM t WHERE id = 0")
		until := s.written()
		stream := s.open(p)
		got := s.collect(stream, p, until)
		if s.mariaDB && stream.inflater.r == nil {
			t.Error("the server has compressed nothing")
		}
		if len(got) != n+3 {
			t.Fatalf("%d changes", len(got))
		}
		for i, change := range got[:n] {
			if want := fmt.Sprintf("insert t {id=%d v=%s}", i, strings.Repeat(fmt.Sprintf("x%d", i%7), 100)); change != want {
				t.Fatalf("got %s, want %s", change, want)
			}
		}
		if want := "delete t {id=0 v=0" + strings.Repeat("y", 1000) + "}"; got[n+2] != want {
			t.Errorf("got %s, want %s", got[n+2], want)
		}
	})
}

// TestSeen: what is visible, or may be, is seen, though its statement has not ended.
func TestSeen(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		asked, err := Dial(t.Context(), s.source)
		check(t, err)
		seen := func() Position {
			p, err := asked.Seen()
			check(t, err)
			return p
		}
		if s.mariaDB {
			s.exec("INSERT INTO t VALUES (1)")
			if !seen().Covers(s.written()) {
				t.Error("what has ended isn't seen")
			}
			return
		}
		// A commit waits for a replica that isn't there: before it is visible, or behind.
		control := func(statements ...string) {
			for _, q := range statements {
				_, err := s.admin.Exec(q)
				check(t, err)
			}
		}
		control("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
			"SET GLOBAL rpl_semi_sync_source_timeout = 600000", "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON")
		for i, point := range []string{"AFTER_SYNC", "AFTER_COMMIT"} {
			control("SET GLOBAL rpl_semi_sync_source_wait_point = "+point, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
			before := seen()
			p := NewProgress(before)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			stream, err := Open(ctx, s.source, p)
			check(t, err)
			read := make(chan error, 1)
			go func() {
				defer stream.Close()
				for {
					if _, err := stream.Next(); err != nil {
						read <- err
						return
					}
				}
			}()
			ended := make(chan error, 1)
			go func() {
				_, err := s.db.Exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
				ended <- err
			}()
			is := seen()
			for ; before.Covers(is); is = seen() {
				select {
				case err := <-ended:
					t.Fatalf("%s: it has ended, and nothing was seen of it: %v", point, err)
				case err := <-read:
					t.Fatal(err)
				case <-time.After(10 * time.Millisecond):
				}
			}
			if point == "AFTER_SYNC" && !before.Covers(s.written()) {
				t.Errorf("%s: it has ended: %s", point, s.written())
			}
			waiting, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			check(t, p.Wait(waiting, is)) // it is handed over before it is visible
			cancel()
			select {
			case err := <-ended:
				t.Errorf("%s: it has ended: %v", point, err)
			default:
			}
			control("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
			check(t, <-ended)
			stop()
			<-read
		}
	})
}

// TestImages: what an image doesn't have isn't NULL.
func TestImages(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c INT)", "INSERT INTO t VALUES (1, 2, 'b', 3)")
		s.want(s.changes("SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET a = NULL", "UPDATE t SET a = 5", "INSERT INTO t (id, a) VALUES (2, 7)", "DELETE FROM t WHERE id = 2"),
			"update t {id=1} {a=NULL}", "update t {id=1} {a=5}", "insert t {id=2 a=7}", "delete t {id=2}")
		s.want(s.changes("SET SESSION binlog_row_image = NOBLOB", "UPDATE t SET a = 6", "UPDATE t SET b = 'c'"),
			"update t {id=1 a=5 c=3} {id=1 a=6 c=3}", "update t {id=1 a=6 c=3} {id=1 a=6 b=c c=3}")
	})
}

// TestPartialJSON: an update's after-image has the parts of documents that changed.
func TestPartialJSON(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		if s.mariaDB {
			t.Skip("MariaDB's JSON is a text")
		}
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, j JSON, v VARCHAR(9), k JSON, n INT)",
			`INSERT INTO t VALUES (1, JSON_OBJECT('a', REPEAT('x', 500), 'b', 1), 'v', '[1]', 4)`)
		s.want(s.changes("SET SESSION binlog_row_value_options = PARTIAL_JSON",
			"UPDATE t SET j = JSON_SET(j, '$.b', 2), v = 'w'", "UPDATE t SET n = 5", "UPDATE t SET k = '[2]'",
			"SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET j = JSON_SET(j, '$.b', 3), v = 'x'"),
			"update t {id=1 j=? v=v k=? n=4} {id=1 j=? v=w k=? n=4}", "update t {id=1 j=? v=w k=? n=4} {id=1 j=? v=w k=? n=5}",
			"update t {id=1 j=? v=w k=? n=5} {id=1 j=? v=w k=? n=5}", "update t {id=1} {j=? v=x}")
	})
}

// TestStatements: what isn't logged as rows is unknown.
//
// Their events name no schema: on a server of others they would be in the others' streams.
func TestStatements(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
		s.want(s.changes("SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET v = v + 1", "SET SESSION binlog_format = ROW",
			"INSERT INTO t VALUES (3, 3)"),
			"unknown ", "unknown ", "insert t {id=3 v=3}")
		s.want(s.changes("TRUNCATE t", "TRUNCATE TABLE "+s.schema+".t"), "unknown t", "unknown t")
	})
}

func TestDefinitions(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		other := s.schema + "_other"
		_, err := s.admin.Exec("CREATE DATABASE " + other)
		check(t, err)
		for _, c := range []struct {
			statement string
			want      []string
		}{
			{"CREATE TABLE t (id INT PRIMARY KEY, v INT)", []string{"schema t"}},
			{"CREATE TABLE `a``b` (id INT) -- a comment", []string{"schema a`b"}},
			{"/* a */ DROP TABLE `a``b`", []string{"schema a`b gone"}},
			{"CREATE TABLE IF NOT EXISTS " + s.schema + ".u LIKE t", []string{"schema u"}},
			{"CREATE TABLE c (PRIMARY KEY (id)) SELECT 1 AS id, 2 AS v", []string{"schema c", "insert c {id=1 v=2}"}},
			{"CREATE INDEX i ON t (v)", []string{"schema t"}},
			{"ALTER TABLE t ADD INDEX j (v), DROP INDEX i, COMMENT = 'x, y'", []string{"schema t"}},
			{"ALTER TABLE t MODIFY v BIGINT", []string{"schema t", "unknown t"}},
			{"ALTER TABLE t ADD KEY k (v), ADD COLUMN (w INT, x INT)", []string{"schema t", "unknown t"}},
			{"DROP INDEX j ON t", []string{"schema t"}},
			{"ALTER TABLE u RENAME INDEX i TO k, RENAME TO " + s.schema + ".w", nil}, // refused
			{"ALTER TABLE u RENAME TO " + s.schema + ".w", []string{"schema u,w gone", "unknown u", "unknown w"}},
			{"RENAME TABLE w TO x, c TO w", []string{"schema w,x,c,w gone", "unknown w", "unknown x", "unknown c"}},
			{"CREATE VIEW z AS SELECT * FROM t", nil},
			{"CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 1", nil},
			{"DROP VIEW z", nil},
			{"CREATE PROCEDURE p() BEGIN DELETE FROM t; DROP TABLE t; END", nil},
			{"CREATE TEMPORARY TABLE y (id INT)", nil},
			{"INSERT INTO y VALUES (1)", nil},
			{"DROP TEMPORARY TABLE y", nil},
			{"ANALYZE TABLE t", nil},
			{"OPTIMIZE TABLE t", nil},
			{"DROP TABLE IF EXISTS x, w, nothing", nil}, // as servers split it
			{"CREATE TABLE q (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))", []string{"schema q"}},
			{"CREATE TABLE r (id INT PRIMARY KEY)", []string{"schema r"}},
			{"ALTER TABLE q EXCHANGE PARTITION a WITH TABLE r", []string{"schema q,r", "unknown q", "unknown r"}},
			{"ALTER TABLE q TRUNCATE PARTITION a", []string{"schema q", "unknown q"}},
			{"CREATE USER follow_" + s.schema, nil},
			{"GRANT SELECT ON t TO follow_" + s.schema, nil},
			{"DROP USER follow_" + s.schema, nil},
			{"CREATE DATABASE other_" + s.schema, nil},
			{"DROP DATABASE " + other, nil},
			{"DROP DATABASE " + s.schema, []string{"schema  gone"}},
		} {
			p := NewProgress(s.written())
			_, err := s.db.Exec(c.statement)
			got := s.read(p)
			switch {
			case strings.HasPrefix(c.statement, "DROP TABLE IF EXISTS"):
				if text := strings.Join(got, ","); !strings.Contains(text, "x") || !strings.Contains(text, "w") || strings.Contains(text, "unknown") {
					t.Errorf("%s: %q", c.statement, got)
				}
				continue
			case strings.HasPrefix(c.statement, "CREATE TABLE c "):
				// MySQL creates and fills it in one transaction.
			case err != nil && c.want != nil:
				t.Errorf("%s: %v", c.statement, err)
				continue
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%s: got %q, want %q", c.statement, got, c.want)
			}
		}
		_, _ = s.admin.Exec("DROP DATABASE other_" + s.schema)
	})
}

// TestCharset: names in a statement are in the session's character set.
func TestCharset(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.want(s.changes("SET NAMES latin1", "CREATE TABLE `t\xe4` (id INT)", "TRUNCATE `t\xe4`", "SET NAMES utf8mb4", "DROP TABLE `tä`"), "schema tä", "unknown tä", "schema tä gone")
	})
}

// TestGenerated: values that a server computes are in the log, also those that it doesn't store. MariaDB 11.8 leaves them out
// of what it writes of UPDATE and DELETE: they are absent, and not NULL.
func TestGenerated(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), v VARCHAR(12) AS (CONCAT(a, 'v')) VIRTUAL, w VARCHAR(12) AS (CONCAT(a, 'w')) STORED, KEY (v))")
		if !s.mariaDB {
			s.exec("CREATE INDEX f ON t ((UPPER(a)))")
		}
		was, is := "{id=1 a=a v=av w=aw}", "{id=1 a=b v=bv w=bw}"
		inserted := "insert t " + was
		var version string
		check(t, s.db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version))
		if strings.Contains(version, "MariaDB") && !strings.HasPrefix(version, "10.") {
			was, is = "{id=1 a=a}", "{id=1 a=b}"
		}
		s.want(s.changes("INSERT INTO t (id, a) VALUES (1, 'a')", "UPDATE t SET a = 'b'", "DELETE FROM t"),
			inserted, "update t "+was+" "+is, "delete t "+is)
	})
}

// TestXA: the rows come with the preparation.
func TestXA(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		x := "'" + s.schema + "'"
		p := NewProgress(s.now())
		s.exec("XA START "+x, "INSERT INTO t VALUES (1)", "XA END "+x, "XA PREPARE "+x)
		s.want(s.read(p), "insert t {id=1}")
		s.exec("XA COMMIT " + x)
		s.want(s.read(p))
		s.exec("XA START "+x, "INSERT INTO t VALUES (2)", "XA END "+x, "XA COMMIT "+x+" ONE PHASE", "INSERT INTO t VALUES (3)")
		s.want(s.read(p), "insert t {id=2}", "insert t {id=3}")
		s.exec("XA START "+x, "INSERT INTO t VALUES (4)", "XA END "+x, "XA PREPARE "+x, "XA ROLLBACK "+x, "INSERT INTO t VALUES (5)")
		s.want(s.read(p), "insert t {id=4}", "insert t {id=5}")
	})
}

// TestTransactions: savepoints, and tables without transactions.
func TestTransactions(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM")
		s.want(s.changes("BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT s", "INSERT INTO t VALUES (2)", "ROLLBACK TO s", "INSERT INTO t VALUES (3)", "COMMIT"),
			"insert t {id=1}", "insert t {id=3}")
		s.want(s.changes("INSERT INTO m VALUES (1)", "UPDATE m SET id = 9"), "insert m {id=1}", "update m {id=1} {id=9}")
		if !s.mariaDB {
			return // which refuses to mix them
		}
		s.want(s.changes("INSERT INTO m VALUES (1)", "BEGIN", "INSERT INTO t VALUES (4)", "INSERT INTO m VALUES (2)", "ROLLBACK", "INSERT INTO m VALUES (3)"),
			"insert m {id=1}", "insert m {id=2}", "insert m {id=3}")
	})
}

// TestForeignKeys: a row that a foreign key changes is in the log, or its table is unknown.
func TestForeignKeys(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE p (id INT PRIMARY KEY, v INT)",
			"CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
			"CREATE TABLE g (id INT PRIMARY KEY, c INT, CONSTRAINT g FOREIGN KEY (c) REFERENCES c (id) ON DELETE SET NULL)",
			"INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO c VALUES (10, 1), (20, 2), (30, 3)", "INSERT INTO g VALUES (100, 10), (200, 20), (300, 30)")
		s.want(s.changes("UPDATE p SET v = 7 WHERE id = 1"), "update p {id=1 v=1} {id=1 v=7}")
		told := func(statement string, own string, rows []string, tables ...string) {
			t.Helper()
			got := s.changes(statement)
			if s.mariaDB {
				rows = nil
				for _, table := range tables {
					rows = append(rows, "unknown "+table)
				}
			}
			text := strings.Join(got, "\n")
			for _, want := range append(rows, own) {
				if !strings.Contains(text, want) {
					t.Errorf("%s: got %q, which lacks %s", statement, got, want)
				}
			}
			if len(got) != len(rows)+1 {
				t.Errorf("%s: got %q", statement, got)
			}
		}
		told("UPDATE p SET id = 4 WHERE id = 1", "update p {id=1 v=7} {id=4 v=7}", []string{"update c {id=10 p=1} {id=10 p=4}"}, "c", "g")
		told("DELETE FROM p WHERE id = 2", "delete p {id=2 v=2}", []string{"delete c {id=20 p=2}", "update g {id=200 c=20} {id=200 c=NULL}"}, "c", "g")
		told("DELETE FROM c WHERE id = 10", "delete c {id=10 p=4}", []string{"update g {id=100 c=10} {id=100 c=NULL}"}, "g")
		// By the time that they are read these foreign keys are gone, or are of tables of other names.
		p := NewProgress(s.now())
		s.exec("UPDATE p SET id = 5 WHERE id = 3", "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1", "DELETE FROM c WHERE id = 30", "RENAME TABLE c TO d")
		text := strings.Join(s.read(p), "\n")
		for _, want := range []string{"update p {id=3 v=3} {id=5 v=3}", "unknown c", "unknown d"} {
			if !strings.Contains(text, want) {
				t.Errorf("got %s, which lacks %s", text, want)
			}
		}
		if s.mariaDB && !strings.Contains(text, "unknown g") {
			t.Errorf("got %s, which lacks g", text)
		}
	})
}

// TestNativeForeignKeys: MySQL can be told to leave foreign keys to InnoDB, which logs nothing of them.
func TestNativeForeignKeys(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE)",
			"INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (1), (2)")
		s.want(s.changes("DELETE FROM p WHERE id = 1", "SET SESSION foreign_key_checks = 0", "DELETE FROM p"), "delete p {id=1}", "unknown c", "delete p {id=2}")
	}, "--loose-innodb-native-foreign-keys=ON")
}

// TestMetadata: where the log doesn't name the columns, the server is asked for them; what that may be too
// new for is unknown.
func TestMetadata(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, a TINYINT UNSIGNED, b VARCHAR(9) CHARACTER SET latin1, e ENUM('x', 'é'), f BINARY(4), d DECIMAL(5,2), g DATETIME(3), h TEXT)")
		insert := func(id int) string {
			return fmt.Sprintf("INSERT INTO t VALUES (%d, 200, 'é', 'é', 'ab', 1.5, '2024-05-06 07:08:09.123', 'ü')", id)
		}
		want := func(id int) string {
			return fmt.Sprintf("insert t {id=%d a=200 b=é e=é f=ab\x00\x00 d=1.50 g=2024-05-06 07:08:09.123 h=ü}", id)
		}
		p := NewProgress(s.now())
		stream := s.open(p)
		read := func(statements ...string) []string {
			t.Helper()
			s.exec(statements...)
			return s.collect(stream, p, s.written())
		}
		least := "MINIMAL"
		if s.mariaDB {
			least = "NO_LOG"
		}
		s.want(read("SET GLOBAL binlog_row_metadata = "+least, "BEGIN", insert(1), insert(2), "COMMIT", insert(3)), "unknown t", "unknown t")
		s.want(read(insert(4)), want(4))
		s.want(read(insert(5)), want(5))
		// Names that change places.
		s.exec("CREATE TABLE u (id INT PRIMARY KEY, a INT, b INT)")
		s.want(read("INSERT INTO u VALUES (1, 2, 3)"), "schema u", "unknown u")
		s.want(read("INSERT INTO u VALUES (2, 2, 3)", "ALTER TABLE u RENAME COLUMN a TO b, RENAME COLUMN b TO a", "INSERT INTO u VALUES (3, 2, 3)"),
			"insert u {id=2 a=2 b=3}", "schema u", "unknown u", "unknown u")
		s.want(read("INSERT INTO u VALUES (4, 2, 3)"), "insert u {id=4 b=2 a=3}")
		s.want(read("DROP TABLE u", "SET GLOBAL binlog_row_metadata = FULL", insert(6)), "schema u gone", want(6))
	})
}

func TestLargeRow(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
		if !s.mariaDB {
			s.exec("SET SESSION binlog_transaction_compression = OFF")
		}
		s.want(s.changes("INSERT INTO t VALUES (1, REPEAT('x', 20 << 20))", "DELETE FROM t")[1:], "delete t {id=1 v="+strings.Repeat("x", 20<<20)+"}")
		s.exec("INSERT INTO t VALUES (1, REPEAT('x', 40 << 20))")
		defer func() { // behind an event that is larger than max_allowed_packet
			if until := s.written(); !s.now().Covers(until) {
				t.Errorf("Now doesn't cover %s", until)
			}
		}()
		s.want(s.changes("UPDATE t SET id = 2", "SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET id = 3"), "unknown t", "update t {id=2} {id=3}")
		if !s.mariaDB {
			s.want(s.changes("SET SESSION binlog_row_image = FULL", "SET SESSION binlog_transaction_compression = ON", "UPDATE t SET id = 4", "DELETE FROM t WHERE id = 9",
				"SET SESSION binlog_row_image = MINIMAL", "DELETE FROM t"), "unknown t", "delete t {id=4}")
		}
	})
}

// TestPurged: a log that begins later than the position, or isn't the position's.
func TestPurged(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		s.exec("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS")
		if s.mariaDB { // which may keep all while no replica is connected
			_, _ = s.db.Exec("SET GLOBAL slave_connections_needed_for_purge = 0") // older ones don't have it
		}
		logs := s.logs()
		last := logs[len(logs)-1]
		await(t, func() bool { // a log that a crash would need is kept for a moment
			s.exec("PURGE BINARY LOGS TO '" + last + "'")
			return len(s.logs()) == 1
		})
		var err error
		stream := s.open(p)
		for err == nil {
			_, err = stream.Next()
		}
		if !errors.Is(err, ErrPurged) {
			t.Errorf("got %v", err)
		}
		s.want(s.changes("INSERT INTO t VALUES (3)"), "insert t {id=3}")
	})
}

// TestBegunAnew: a position that was there before the logs were begun anew says nothing of them, however many transactions have
// followed since; be it kept for another time, or not.
func TestBegunAnew(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		s.exec("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
		s.want(s.read(p), "insert t {id=1}", "insert t {id=2}")
		place, err := ParsePlace(p.Place().String())
		if err != nil || place.There.IsZero() || place.There.Unix() != p.Place().There.Unix() || !place.Covers(p.Position()) || !p.Position().Covers(place.Position) {
			t.Fatalf("%v is kept as %v: %v", p.Place(), place, err)
		}
		s.exec("INSERT INTO t VALUES (3)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (4)")
		s.want(s.read(Resume(place)), "insert t {id=3}", "insert t {id=4}")

		reset := "RESET BINARY LOGS AND GTIDS"
		if s.mariaDB {
			reset = "RESET MASTER"
		}
		_, err = s.admin.Exec(reset)
		check(t, err)
		for i := range 20 { // more than there were
			s.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", 10+i))
		}
		for _, p := range []*Progress{p, Resume(place)} {
			if _, err := Open(t.Context(), s.source, p); !errors.Is(err, ErrDiverged) {
				t.Errorf("behind %s: %v", reset, err)
			}
		}
		s.want(s.changes("INSERT INTO t VALUES (5)"), "insert t {id=5}")
	})
}

// awaitNextSecond waits until the server's oldest log was begun in an earlier second.
func (s *server) awaitNextSecond(t *testing.T) {
	t.Helper()
	await(t, func() bool {
		c, err := s.source.connect(t.Context())
		check(t, err)
		defer c.close()
		now, err := c.clock()
		check(t, err)
		begun, err := c.begun()
		check(t, err)
		return now.After(begun)
	})
}

// logs are the names of the server's log files.
func (s *server) logs() (names []string) {
	rows, err := s.db.Query("SHOW BINARY LOGS")
	check(s.t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	check(s.t, err)
	for rows.Next() {
		var name string
		to := []any{&name}
		for range columns[1:] {
			to = append(to, new(any))
		}
		check(s.t, rows.Scan(to...))
		names = append(names, name)
	}
	check(s.t, rows.Err())
	return names
}

// TestFailover: a replica goes on where the server was left.
func TestFailover(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		args := []string{"--log-slave-updates=ON", "--server-id=77", "--gtid-strict-mode=ON"}
		if !s.mariaDB {
			args = args[1:2]
		}
		f := flavours[0]
		if s.mariaDB {
			f = flavours[1]
		}
		r := newServer(t, f, f.another(t, args...).Server)
		r.exec("DROP DATABASE " + r.schema)
		if !s.mariaDB {
			_, err := r.admin.Exec("RESET BINARY LOGS AND GTIDS")
			check(t, err)
		} else {
			_, err := r.admin.Exec("RESET MASTER")
			check(t, err)
		}
		r.awaitNextSecond(t)
		for _, q := range r.Replicates(s.Server) {
			_, err := r.admin.Exec(q)
			check(t, err)
		}
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		s.exec("INSERT INTO t VALUES (1)")
		s.want(s.read(p), "insert t {id=1}")
		s.exec("INSERT INTO t VALUES (2)")
		until := s.written()
		await(t, func() bool {
			there, err := Written(t.Context(), r.source)
			check(t, err)
			return there.Covers(until)
		})
		s.Kill()
		r.schema = s.schema
		_, err := r.admin.Exec("INSERT INTO " + s.schema + ".t VALUES (3)")
		check(t, err)
		r.want(r.read(p), "insert t {id=2}", "insert t {id=3}")
	})
}

// TestCutOff: the end of a connection, by whoever, is an error, and another stream goes on.
func TestCutOff(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		cut := func(name string, how func()) {
			t.Helper()
			stream := s.open(p)
			for {
				e, err := stream.Next()
				check(t, err)
				if _, ok := e.(*Heartbeat); ok {
					break
				}
			}
			how()
			for err := error(nil); err == nil; {
				if _, err = stream.Next(); errors.Is(err, ErrPurged) {
					t.Errorf("%s: %v", name, err)
				}
			}
			stream.Close()
		}
		cut("kill", func() {
			var id int
			check(t, s.db.QueryRow("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'").Scan(&id))
			s.exec(fmt.Sprintf("KILL %d", id))
		})
		s.exec("INSERT INTO t VALUES (1)")
		s.want(s.read(p), "insert t {id=1}")
		cut("a server that hangs", func() { s.Pause() })
		s.Resume()
		cut("a server that crashes", func() { s.Kill() })
		check(t, s.Start(t.Context()))
		s.exec("INSERT INTO t VALUES (2)")
		s.want(s.read(p), "insert t {id=2}")
		cut("a server that stops", func() { s.Shutdown() })
	})
}

// TestTwo: followers of one server don't end each other's streams.
func TestTwo(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		var progress []*Progress
		var streams []*Stream
		for range 3 {
			p := NewProgress(s.now())
			progress, streams = append(progress, p), append(streams, s.open(p))
		}
		s.exec("INSERT INTO t VALUES (1)")
		until := s.written()
		for i, p := range progress {
			s.want(s.collect(streams[i], p, until), "insert t {id=1}")
		}
	})
}

// await waits for a condition.
func await(t *testing.T, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !met(); {
		if time.Now().After(deadline) {
			t.Fatal("it doesn't come")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
