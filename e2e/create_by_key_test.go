package e2e

import (
	"fmt"
	"testing"
)

// TestCreateByKey: a new table is where its primary key says, as a server has made that, however it was written.
func TestCreateByKey(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE source (a VARCHAR(8), b INT, PRIMARY KEY (a(8)))")
		for i, table := range []struct {
			columns string
			spread  bool
		}{
			{"(a VARCHAR(191) NOT NULL, b INT, PRIMARY KEY (a(191)))", true},
			{"(a VARCHAR(191), b INT, PRIMARY KEY (b, a(191)))", true},
			{"(b INT, a CHAR(9), PRIMARY KEY (`a`(9)))", true},
			{"(a BINARY(16), b INT, PRIMARY KEY (A(16)))", true},
			{"(a VARBINARY(16), b INT, CONSTRAINT c PRIMARY KEY USING BTREE (a(16)))", true},
			{"(a VARCHAR(20) CHARACTER SET latin1, b INT, PRIMARY KEY (a(20)))", true},
			{"(a VARCHAR(20), b INT, PRIMARY KEY (a(19)))", false},
			{"(a VARCHAR(20), b INT, PRIMARY KEY (b, a(19)))", false},
			{"(a TEXT, b INT, PRIMARY KEY (a(20)))", false},
			{"(a VARCHAR(20), b INT, UNIQUE KEY (a(20)))", false},
			{"(a VARCHAR(20), b INT)", false},
			{"LIKE source", true},
			{"(a VARCHAR(9), b INT, PRIMARY KEY (a(9))) AS SELECT 'x' AS a, 1 AS b", true},
		} {
			name := fmt.Sprintf("t%d", i)
			for _, create := range []string{"CREATE TABLE ", "CREATE TABLE IF NOT EXISTS "} {
				mustExec(t, c, create+name+" "+table.columns)
			}
			on := 0
			for _, srv := range p.servers {
				on += len(mustRows(t, onShard(t, srv, p.schema), "SHOW TABLES LIKE '"+name+"'"))
			}
			if expected := map[bool]int{true: len(p.servers), false: 1}[table.spread]; on != expected {
				t.Errorf("%s is on %d shards, want %d", table.columns, on, expected)
			}
			mustExec(t, c, "INSERT INTO "+name+" (a, b) VALUES ('p', 2), ('q', 3), ('r', 4)")
			want(t, c, "SELECT b FROM "+name+" WHERE a LIKE 'q%'", "b", "3") // BINARY(16) has more bytes
			mustExec(t, c, "ALTER TABLE "+name+" ADD COLUMN n INT DEFAULT 5")
			mustExec(t, c, "CREATE INDEX i ON "+name+" (b)")
			mustExec(t, c, "UPDATE "+name+" SET n = 6 WHERE b = 3")
			want(t, c, "SELECT COUNT(*) AS c FROM "+name+" WHERE n = 6", "c", "1")
			mustExec(t, c, "TRUNCATE TABLE "+name)
			want(t, c, "SELECT COUNT(*) AS c FROM "+name, "c", "0")
			mustExec(t, c, "DROP TABLE "+name)
			for _, srv := range p.servers {
				if left := mustRows(t, onShard(t, srv, p.schema), "SHOW TABLES LIKE '"+name+"'"); len(left) > 0 {
					t.Errorf("%s is left on a shard", table.columns)
				}
			}
		}
	})
}
