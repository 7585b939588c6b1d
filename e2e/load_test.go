package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestLoadData: files in many formats, loaded through Shunt over four shards and
// into one server, give the same rows, counts and warnings.
func TestLoadData(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"people: {shard_key: id}", "counted: {shard_key: id}", "kinds: {placement: reference}"}})
		mustExec(t, onShard(t, p.servers[3], ""), "SET GLOBAL local_infile = 1")
		shunt, plain := p.conn(), plainServer(t, p.servers[3], p.schema+"_plain")
		both := map[string]queryer{"shunt": shunt, "plain": plain}
		for _, c := range both {
			mustExec(t, c, "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40), age INT, note BLOB, paid DECIMAL(8,2) NOT NULL DEFAULT 5)")
			mustExec(t, c, "CREATE TABLE counted (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))")
			mustExec(t, c, "CREATE TABLE kinds (id INT PRIMARY KEY, name VARCHAR(20))")
		}
		p.createIndex(shunt, "i_name", "people (name)")
		serial := 0
		load := func(content, statement string) {
			t.Helper()
			serial++
			statement = strings.Replace(statement, "FILE", "LOCAL INFILE "+localFile(t, content), 1)
			got := map[string]string{}
			for who, c := range both {
				got[who] = answer(t.Context(), c, statement)
				warnings := mustRows(t, c, "SHOW WARNINGS")
				tables := []string{"people", "counted", "kinds"}
				if serial <= 20 {
					got[who] += fmt.Sprintf(", %d warnings", len(warnings))
				} else {
					// Of random files: of several bad things in a row, all may be told.
					got[who] += fmt.Sprintf(", warnings: %v", len(warnings) > 0)
					tables = tables[1:]
				}
				for _, table := range tables {
					columns := map[string][]string{"people": {"id", "name", "age", "note", "paid"}, "counted": {"id", "name"}, "kinds": {"id", "name"}}[table]
					got[who] += fmt.Sprintf("\n%s %q", table, flat(mustRows(t, c, "SELECT "+strings.Join(columns, ", ")+" FROM "+table), columns...))
				}
			}
			if got["shunt"] != got["plain"] {
				t.Errorf("%s of %.500q\nshunt:  %.3000s\nserver: %.3000s", statement, content, got["shunt"], got["plain"])
			}
		}
		load("1\tann\t5\tx\t1.5\n2\tbob\t\\N\ty\\tz\t2\n", "LOAD DATA FILE INTO TABLE people")
		load("1\tagain\t5\tx\t1.5\n3\tcid\t7\tx\t9\n", "LOAD DATA FILE IGNORE INTO TABLE people")
		load("1\tnew\t6\tx\t1.5\n4\tdan\t7\tx\t9\n", "LOAD DATA FILE REPLACE INTO TABLE people")
		load("id,name\n10,\"a,b\"\n11,\"q\"\"q\"\n12,NULL\n13,\"NULL\"\n14,plain\"quote\n15,\"mid\"dle\"\n16,\"line\nbreak\"", "LOAD DATA FILE INTO TABLE people FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' IGNORE 1 LINES (id, name)")
		load("20;'x\\'y'|21;'\\0\\b\\n\\r\\t\\Z\\\\'|22;\\N|23;'\\N'|24;a\\|b|25;", "LOAD DATA FILE INTO TABLE people COLUMNS TERMINATED BY ';' ENCLOSED BY '\\'' LINES TERMINATED BY '|' (id, note)")
		load("junk >>30::a\r\nno start\r\n>>31::b\r\n>>32::c", "LOAD DATA FILE INTO TABLE people FIELDS TERMINATED BY '::' LINES STARTING BY '>>' TERMINATED BY '\\r\\n' (id, name)")
		load("40,a\\\n41,b\\,c\n", "LOAD DATA FILE INTO TABLE people FIELDS TERMINATED BY ',' ESCAPED BY '' (id, name)")
		load("50,few\n51,many,5,n,1,2,3\n52,end,5,n,1,\n", "LOAD DATA FILE INTO TABLE people FIELDS TERMINATED BY ','")
		load("60,notanumber,abc\n61,toolong"+strings.Repeat("x", 60)+",5\n62,empty,\n", "LOAD DATA FILE INTO TABLE people FIELDS TERMINATED BY ',' (id, name, age)")
		load("70,\xc3\xa4\xe2\x82\xac\n", "LOAD DATA FILE INTO TABLE people CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' (id, name)")
		load("71,\xe4\n", "LOAD DATA FILE INTO TABLE people CHARACTER SET latin1 FIELDS TERMINATED BY ',' (id, name)")
		load("72,\xe4\x00\xff\n", "LOAD DATA FILE INTO TABLE people CHARACTER SET binary FIELDS TERMINATED BY ',' (id, note)")
		load("", "LOAD DATA FILE INTO TABLE people")
		load("x", "LOAD DATA FILE INTO TABLE people IGNORE 5 LINES")
		load("a\nb\nc\n", "LOAD DATA FILE INTO TABLE counted (name)")
		load("\\N\td\n0\te\n50\tf\n\\N\tg\n", "LOAD DATA FILE INTO TABLE counted")
		load("1\ta\n2\tb\n2\tc\n", "LOAD DATA FILE INTO TABLE kinds")
		for i := range p.servers {
			want(t, p.shard(i), "SELECT id, name FROM kinds", "id name", "1 a", "2 b")
		}
		var big bytes.Buffer
		for i := range 20_000 {
			fmt.Fprintf(&big, "%d\tname %d\t%d\t%s\t%d.25\n", 1000+i, i, i%90, strings.Repeat("n", i%50), i%1000)
		}
		load(big.String(), "LOAD DATA FILE INTO TABLE people")

		// Random files: the reader of fields against the server's.
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		for range 40 {
			var b strings.Builder
			pieces := []string{`"`, `"`, `\`, ",", ",", "\n", "a", "bc", "N", `\N`, "NULL", "é", " "}
			for line := range 6 {
				b.WriteString(strconv.Itoa(100+line) + ",")
				for range rnd.IntN(7) {
					b.WriteString(pieces[rnd.IntN(len(pieces))])
				}
				b.WriteString("\n")
			}
			load(b.String(), "LOAD DATA FILE INTO TABLE kinds CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' ENCLOSED BY '\"'")
			mustExec(t, shunt, "DELETE FROM kinds")
			mustExec(t, plain, "DELETE FROM kinds")
		}

		// In a transaction it goes with it.
		mustExec(t, shunt, "BEGIN")
		mustExec(t, shunt, "LOAD DATA LOCAL INFILE "+localFile(t, "500\ta\n501\tb\n")+" INTO TABLE people (id, name)")
		want(t, shunt, "SELECT id FROM people WHERE id IN (500, 501)", "id", "500", "501")
		mustExec(t, shunt, "ROLLBACK")
		want(t, shunt, "SELECT id FROM people WHERE id IN (500, 501)", "id")
		// What can't be loaded leaves nothing, and the connection goes on.
		bad := localFile(t, strings.Repeat("7\n", 5000)+"nokey\n"+string(make([]byte, 3<<20)))
		_, err := shunt.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE "+bad+" INTO TABLE people (id)")
		wantError(t, err, 1235, "can't be placed")
		want(t, shunt, "SELECT id FROM people WHERE id = 7", "id")

		// With REPLACE a line that has too few or too many fields is an error to a strict
		// session, though it is LOCAL.
		for i, line := range []string{"600\tfew\n", "600\tmany\t5\tx\t1.5\tmore\n"} {
			file := localFile(t, "601\tok\t5\tx\t1.5\n"+line)
			for _, c := range both {
				_, err := c.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE "+file+" REPLACE INTO TABLE people")
				wantError(t, err, uint16(1261+i), "Row 2 ")
				want(t, c, "SELECT id FROM people WHERE id BETWEEN 600 AND 601", "id")
				mustExec(t, c, "SET @mode = @@sql_mode, sql_mode = ''")
				mustExec(t, c, "LOAD DATA LOCAL INFILE "+file+" REPLACE INTO TABLE people")
				mustExec(t, c, "SET sql_mode = @mode")
				mustExec(t, c, "DELETE FROM people WHERE id BETWEEN 600 AND 601")
			}
		}

		for _, refused := range []string{
			"LOAD DATA INFILE '/etc/passwd' INTO TABLE people",
			"LOAD DATA LOCAL INFILE 'x' INTO TABLE people PARTITION (p0)",
			"LOAD DATA LOCAL INFILE 'x' INTO TABLE people FIELDS TERMINATED BY ''",
			"LOAD XML LOCAL INFILE 'x' INTO TABLE people",
		} {
			_, err := shunt.ExecContext(t.Context(), refused)
			wantError(t, err, 1235, "")
		}
		want(t, shunt, "SELECT 1 AS one", "one", "1") // the connection is in step
	})
}

// TestLoadDataOfVanishedClient: half a file is none.
func TestLoadDataOfVanishedClient(t *testing.T) {
	const localFiles = 128 // CLIENT_LOCAL_FILES
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		for _, part := range []string{"1\ta@x\n2\tb@x\n", "3\tc@x\n4"} {
			client := dialPackets(t, p.addr, "empty", p.schema, localFiles)
			client.say(0x03, []byte("LOAD DATA LOCAL INFILE 'x' INTO TABLE people (id, email)"))
			if asked := client.packet(); string(asked) != "\xfbx" {
				t.Fatalf("asked for %q", asked)
			}
			client.write([]byte(part))
			client.nc.Close()
		}
		eventually(t, "both sessions have ended", func() bool {
			return strings.Count(p.log.String(), "session ended") == 2
		})
		want(t, c, "SELECT id FROM people", "id")
	})
}

// TestLoadDataOtherwise: files whose values depend on the session's sql_mode and on
// the kind of server.
func TestLoadDataOtherwise(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		mustExec(t, onShard(t, p.servers[3], ""), "SET GLOBAL local_infile = 1")
		both := map[string]queryer{"shunt": p.conn(), "plain": plainServer(t, p.servers[3], p.schema+"_plain")}
		addr := "VARBINARY(16)"
		if f.name == throwaway.MariaDB {
			addr = "INET6"
		}
		for _, c := range []struct{ mode, content, options string }{
			{"NO_BACKSLASH_ESCAPES", "1\ta\\\\b\ta\t\\N\n2\t\\\tb\t\\\n3\t\\N\tb\tx\n", ""},
			{"NO_BACKSLASH_ESCAPES", "1,a\\,b,b,x\n2,\\N,a,x\n", "FIELDS TERMINATED BY ',' ESCAPED BY '\\'"},
			{"", "1\ta\t\\N\tx\n2\tb\ta\tx\n", ""},                      // NULL for ENUM NOT NULL
			{"", "1\ta\ta\t::1\n2\tb\ta\t0123456789abcdef\n", "BINARY"}, // an address as text and as bytes
		} {
			charset, options := "utf8mb4", c.options
			if options == "BINARY" {
				charset, options = "binary", ""
			}
			got := map[string]string{}
			for who, q := range both {
				mustExec(t, q, "SET sql_mode = '"+c.mode+"'")
				mustExec(t, q, "CREATE TABLE things (id BIGINT PRIMARY KEY, name VARCHAR(40), kind ENUM('a','b') NOT NULL, addr "+addr+")")
				got[who] = answer(t.Context(), q, "LOAD DATA LOCAL INFILE "+localFile(t, c.content)+" INTO TABLE things CHARACTER SET "+charset+" "+options)
				got[who] += fmt.Sprintf(" %q", flat(mustRows(t, q, "SELECT id, name, kind, HEX(addr) AS h FROM things ORDER BY id"), "id", "name", "kind", "h"))
				mustExec(t, q, "DROP TABLE things")
			}
			if got["shunt"] != got["plain"] {
				t.Errorf("%q in mode %q\nshunt:  %s\nserver: %s", c.content, c.mode, got["shunt"], got["plain"])
			}
		}
		// A line that ends before the AUTO_INCREMENT column takes the next number in every mode.
		file := localFile(t, "a\nb\nc\t0\n")
		for _, q := range both {
			mustExec(t, q, "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
			mustExec(t, q, "CREATE TABLE numbered (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))")
			mustExec(t, q, "LOAD DATA LOCAL INFILE "+file+" INTO TABLE numbered (name, id)")
			want(t, q, "SELECT id = 0 AS z, name FROM numbered ORDER BY name", "z name", "0 a", "0 b", "1 c")
		}
		mustExec(t, both["shunt"], "SET NAMES binary")
		mustExec(t, both["shunt"], "SET collation_connection = utf16_bin")
		_, err := both["shunt"].ExecContext(t.Context(), "LOAD DATA LOCAL INFILE "+file+" INTO TABLE numbered (name, id)")
		wantError(t, err, 1235, "SET NAMES utf8mb4")
	})
}
