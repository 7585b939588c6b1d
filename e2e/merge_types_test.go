package e2e

import (
	"fmt"
	"testing"
)

// TestMergeOtherwise: where the shards' answers are not of the types that a merge
// was planned for, the tables are looked at again, and the client sees nothing of
// it.
func TestMergeOtherwise(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{tables: []string{"prices: {shard_key: id}"}})
		both := []queryer{g.shunt, g.plain}
		for _, c := range both {
			mustExec(t, c, "CREATE TABLE prices (id INT NOT NULL PRIMARY KEY, p DOUBLE(10,2), n INT)")
			mustExec(t, c, "INSERT INTO prices VALUES "+rowsFor(40, func(i int) string { return fmt.Sprintf("(%d, %d.%02d, %d)", i, (i*37)%50, i, i*91%40) }))
		}
		g.same("SELECT n, id FROM prices WHERE id > ? ORDER BY n, id LIMIT 12", 3)
		// Behind Shunt's back one shard has wider integers: the binary protocol's rows
		// differ. It looks at the tables then, and says so.
		mustExec(t, g.p.shard(1), "ALTER TABLE prices MODIFY n BIGINT")
		_, err := rowsOf(t.Context(), g.shunt, "SELECT n, id FROM prices WHERE id > ? ORDER BY n, id LIMIT 12", 3)
		wantError(t, err, 1235, "disagree")
		for i := range 3 {
			mustExec(t, g.p.shard(i), "ALTER TABLE prices MODIFY n BIGINT")
		}
		mustExec(t, g.plain, "ALTER TABLE prices MODIFY n BIGINT")
		// All have another type, which no order can be told of: DOUBLE(10,2) shows two
		// digits.
		mustExec(t, g.shunt, "CREATE TABLE sums (id INT NOT NULL PRIMARY KEY, n INT)")
		mustExec(t, g.plain, "CREATE TABLE sums (id INT NOT NULL PRIMARY KEY, n INT)")
		wantRoute(t, g.shunt, "SELECT n, id FROM sums ORDER BY n, id", 3, "scatter")
		for i := range 3 {
			mustExec(t, g.p.shard(i), "ALTER TABLE sums MODIFY n DOUBLE(10,2)")
		}
		mustExec(t, g.plain, "ALTER TABLE sums MODIFY n DOUBLE(10,2)")
		for i := range 3 {
			mustExec(t, g.p.shard(i), fmt.Sprintf("INSERT INTO sums VALUES (%d, 2.%d), (%d, 1.5%d)", i, 3-i, i+10, i))
			mustExec(t, g.plain, fmt.Sprintf("INSERT INTO sums VALUES (%d, 2.%d), (%d, 1.5%d)", i, 3-i, i+10, i))
		}
		eventually(t, "the shards agree", func() bool { // it may have looked meanwhile
			return execError(t, g.shunt, "SELECT n, id FROM sums ORDER BY n, id") == nil
		})
		g.same("SELECT n, id FROM sums ORDER BY n, id")
		g.same("SELECT n, id FROM sums WHERE id > ? ORDER BY n DESC, id LIMIT 3", 0)
	})
}

// TestAlikeAgain: tables about which the shards disagreed when they were read are
// looked at once more before a statement is refused for that.
func TestAlikeAgain(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"prices: {shard_key: id}"}, unchecked: true})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE prices (id INT NOT NULL PRIMARY KEY, p INT, n INT)")
		copies, insert := "SELECT a.id FROM prices a JOIN prices b ON b.n = a.n WHERE a.id < 3 AND b.id > 2", "REPLACE INTO prices VALUES (1, 1, 7), (2, 2, 7), (3, 3, 7)"
		for range 4 { // soon behind its start and DDL it looks by itself
			mustExec(t, p.shard(1), "ALTER TABLE prices MODIFY n BIGINT FIRST")
			wantError(t, execError(t, c, "SELECT nothing FROM prices"), 1054, "nothing") // has it look
			eventually(t, "the difference is seen", func() bool {
				return execError(t, c, "EXPLAIN ROUTE "+copies) != nil
			})
			wantError(t, execError(t, c, copies), 1235, "disagree")
			wantError(t, execError(t, c, insert), 1235, "disagree")
			for i := range p.servers {
				mustExec(t, p.shard(i), "ALTER TABLE prices MODIFY n BIGINT AFTER p")
			}
			eventually(t, "the shards agree", func() bool { // it looks once a second
				return execError(t, c, insert) == nil
			})
			want(t, c, copies, "id", "1", "2")
		}
	})
}
