package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// conversations are tables with virtual columns, whose shards' logs are followed.
func conversations(t *testing.T, f *flavour, how setup) (p *process) {
	t.Helper()
	how.servers = f.own(t, 3, f.binlogs()...)
	how.tables = []string{"conversations: {shard_key: id}", "messages: {shard_key: id}"}
	p = start(t, f, how)
	for _, sql := range append([]string{createMessages, insertMessages}, createConversations...) {
		mustExec(t, p.db(), sql)
	}
	return p
}

// What makes their tables.
const createMessages = "CREATE TABLE messages (id BIGINT PRIMARY KEY, conversation_id BIGINT, deleted INT NOT NULL DEFAULT 0, size INT, price DECIMAL(10,2), sent DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3) INVISIBLE, note VARCHAR(40) CHARACTER SET latin1 DEFAULT 'é' INVISIBLE, KEY (conversation_id))"

var (
	insertMessages      = "INSERT INTO messages VALUES " + rowsFor(200, func(i int) string { return fmt.Sprintf("(%d, %d, %d, %d, %d.25)", i, i%15, i%3, i%7, i) })
	createConversations = []string{
		"CREATE TABLE conversations (id BIGINT PRIMARY KEY, title VARCHAR(50), user_id BIGINT)",
		"INSERT INTO conversations VALUES " + rowsFor(20, func(i int) string { return fmt.Sprintf("(%d, 't%d', %d)", i, i, i%5) }),
	}
)

// virtuals are columns of conversations, by name.
var virtuals = map[string]string{
	"total_messages": "(SELECT COUNT(*) FROM messages m WHERE m.conversation_id = conversations.id)",
	"last_msg_id":    "(SELECT MAX(m.id) FROM messages m WHERE m.conversation_id = conversations.id AND m.deleted = 0)",
	"total_price":    "(SELECT SUM(m.price) FROM messages m WHERE m.conversation_id = conversations.id)",
	"least_size":     "(SELECT MIN(size) FROM messages WHERE conversation_id = conversations.id)",
	"last_sent":      "(SELECT MAX(m.sent) FROM messages m WHERE m.conversation_id = conversations.id)",
	"last_note":      "(SELECT m.note FROM messages m WHERE m.conversation_id = conversations.id ORDER BY m.id DESC LIMIT 1)",
	"first_price":    "(SELECT price FROM messages WHERE conversation_id = conversations.id AND deleted = 0 ORDER BY id LIMIT 1)",
	"shown":          "(SELECT COUNT(*) FROM messages m WHERE m.conversation_id = conversations.id AND NOT m.deleted AND m.size IN (1, 2, 3) AND m.price IS NOT NULL)",
	"sizes":          "(SELECT COUNT(size) FROM messages WHERE conversation_id = conversations.id AND (deleted = 0 OR deleted = 2))",
}

func createVirtuals(t *testing.T, p *process) {
	t.Helper()
	for name, query := range virtuals {
		mustExec(t, p.db(), "CREATE VIRTUAL COLUMN "+name+" ON conversations AS "+query)
	}
	virtualsReady(t, p)
}

func virtualsReady(t *testing.T, p *process) { columnsReady(t, p, len(virtuals)) }

// columnsReady waits for so many virtual columns.
func columnsReady(t *testing.T, p *process, n int) {
	t.Helper()
	db := p.db()
	eventually(t, "the virtual columns are ready", func() bool {
		ready := 0
		for _, r := range mustRows(t, db, "SHOW VIRTUAL COLUMNS") {
			if r["Status"] == "ready" {
				ready++
			}
		}
		return ready == n
	})
}

// sameVirtuals compares the virtual columns of all conversations with their queries.
func sameVirtuals(t *testing.T, p *process, db queryer) {
	t.Helper()
	var names, queries []string
	for name, query := range virtuals {
		names, queries = append(names, name), append(queries, query+" AS "+name)
	}
	is := mustRows(t, db, "SELECT id, "+strings.Join(names, ", ")+" FROM conversations ORDER BY id")
	of := mustRows(t, p.db(), "SELECT id, "+strings.Join(queries, ", ")+" FROM conversations ORDER BY id")
	if fmt.Sprint(is) != fmt.Sprint(of) {
		t.Fatalf("virtual columns\n%v\nand their queries\n%v", is, of)
	}
}

// keptInMemory reads values by their key until these are kept, and compares them, and their types, with the durable ones.
func keptInMemory(t *testing.T, p *process, db *sql.DB) {
	t.Helper()
	const read = "SELECT title, total_messages, last_msg_id, total_price, last_sent, sizes, total_messages > 3 AS many FROM conversations WHERE id = %d ORDER BY total_messages"
	types := func(id int) (out []string) {
		rows, err := db.QueryContext(t.Context(), fmt.Sprintf(read, id))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.ColumnTypes()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range columns {
			out = append(out, c.Name()+" "+c.DatabaseTypeName())
		}
		return out
	}
	durable := types(3)
	values := func(id int) row { return mustRows(t, db, fmt.Sprintf(read, id))[0] }
	for _, id := range []int{3, 16, 4} { // 16 has no messages
		was := values(id)
		from := func() float64 { n, _ := p.metric("shunt_virtual_column_reads_total", `from="memory"`); return n }
		before := from()
		eventually(t, "the values are kept", func() bool {
			if is := values(id); fmt.Sprint(is) != fmt.Sprint(was) {
				t.Fatalf("kept in memory %v, durable %v", is, was)
			}
			return from() > before
		})
		mustExec(t, db, fmt.Sprintf("INSERT INTO messages VALUES (%d, %d, 0, 5, 2.50)", 700+id, id))
		sameVirtuals(t, p, db)
		if is := values(id); is["total_messages"] == was["total_messages"] {
			t.Errorf("it is still %v", is)
		}
	}
	before, _ := p.metric("shunt_virtual_column_reads_total", `from="memory"`)
	for _, id := range []int{3, 16, 4, 3} { // prepared: of these all values are kept
		rows, err := db.QueryContext(t.Context(), strings.Replace(read, "%d", "? AND ? = 'x'", 1), id, "x")
		if err != nil {
			t.Fatal(err)
		}
		var total, last, price, sent, sizes, many sql.NullString
		var title string
		for rows.Next() {
			if err := rows.Scan(&title, &total, &last, &price, &sent, &sizes, &many); err != nil {
				t.Fatal(err)
			}
		}
		rows.Close()
		was := values(id)
		for name, is := range map[string]sql.NullString{"total_messages": total, "last_msg_id": last, "total_price": price, "sizes": sizes, "many": many} {
			if !is.Valid {
				is.String = "NULL"
			}
			if is.String != was[name] {
				t.Errorf("conversation %d, prepared: %s is %s, as text %s", id, name, is.String, was[name])
			}
		}
		if sent.Valid != (was["last_sent"] != "NULL") {
			t.Errorf("conversation %d, prepared: last_sent is %v, as text %s", id, sent, was["last_sent"])
		}
	}
	if after, _ := p.metric("shunt_virtual_column_reads_total", `from="memory"`); after < before+8 {
		t.Errorf("%v of eight reads had kept values", after-before)
	}
	if kept := types(3); fmt.Sprint(kept) != fmt.Sprint(durable) {
		t.Errorf("kept values have the types %v, durable ones %v", kept, durable)
	}
}

// fastInTransaction: a fast read in a transaction has a kept value, until the transaction has written.
func fastInTransaction(t *testing.T, p *process) {
	t.Helper()
	one := p.conn()
	mustExec(t, one, "SET shunt_virtual_columns = 'fast'")
	mustExec(t, one, "BEGIN")
	const query = "SELECT total_messages FROM conversations WHERE id = %d"
	rows := func(id int) int {
		n, err := strconv.Atoi(mustRows(t, one, fmt.Sprintf(query, id))[0]["total_messages"])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	fromMemory := func() float64 { n, _ := p.metric("shunt_virtual_column_reads_total", `from="memory"`); return n }
	before, n := fromMemory(), 0
	eventually(t, "a value is kept that fast reads want", func() bool { n = rows(6); return fromMemory() > before })
	want(t, p.db(), fmt.Sprintf(query, 6), "total_messages", strconv.Itoa(n))
	mustExec(t, one, "INSERT INTO messages VALUES (66001, 6, 0, 1, 1)")
	before = fromMemory()
	if is := rows(6); is != n+1 || fromMemory() > before {
		t.Errorf("behind its own INSERT a transaction reads %d, before it %d", is, n)
	}
	mustExec(t, one, "ROLLBACK")
}

// TestVirtualColumns: virtual columns have the values of their queries at each read, wherever they are named.
func TestVirtualColumns(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := conversations(t, f, setup{})
		db := p.db()
		createVirtuals(t, p)
		sameVirtuals(t, p, db)
		status, page := p.ask("/columns", map[string]string{"Authorization": "Bearer " + httpToken})
		for _, want := range []string{"total_price on " + p.schema + ".conversations", `badge good">ready`, "SUM(", "CHECK VIRTUAL COLUMN `total_price` ON `" + p.schema + "`.`conversations`;"} {
			if status != http.StatusOK || !strings.Contains(page, want) {
				t.Errorf("the console's page has no %q: %d %s", want, status, page)
			}
		}
		writes := []string{
			"INSERT INTO messages VALUES (1001, 3, 0, 5, 1.50), (1002, 4, 0, NULL, NULL), (1003, NULL, 0, 1, 1)",
			"UPDATE messages SET conversation_id = 7 WHERE id = 1001",
			"UPDATE messages SET deleted = 1 WHERE conversation_id = 7",
			"UPDATE messages SET price = price * 2, size = size + 1 WHERE conversation_id < 5",
			"DELETE FROM messages WHERE conversation_id = 9",
			"REPLACE INTO messages VALUES (20, 2, 0, 9, 3.33), (1002, 5, 0, 1, 1)",
			"DELETE FROM messages WHERE size = 0",
			"UPDATE messages SET note = CONCAT('ü', id) WHERE id % 3 = 0",
			"UPDATE messages SET note = NULL WHERE id % 7 = 0",
			"DELETE FROM messages WHERE id > 190",
			"INSERT INTO messages SELECT id + 5000, conversation_id, deleted, size, price FROM messages WHERE conversation_id = 1",
			"UPDATE messages SET conversation_id = conversation_id + 1 WHERE id > 5000",
		}
		for _, sql := range writes {
			mustExec(t, db, sql)
			sameVirtuals(t, p, db)
		}
		for i, s := range p.servers { // behind Shunt's back
			mustExec(t, onShard(t, s, p.schema), fmt.Sprintf("INSERT INTO messages VALUES (%d, 3, 0, 1, 1), (%d, 11, 0, 2, 2)", 90000+i*10, 90001+i*10))
			sameVirtuals(t, p, db)
		}
		tx := p.conn()
		mustExec(t, tx, "BEGIN")
		mustExec(t, tx, "INSERT INTO messages VALUES (2001, 3, 0, 5, 1.50)")
		n := mustRows(t, db, "SELECT total_messages FROM conversations WHERE id = 3")[0]["total_messages"]
		want(t, tx, "SELECT total_messages - "+n+" AS n FROM conversations WHERE id = 3", "n", "1")
		mustExec(t, tx, "ROLLBACK")
		sameVirtuals(t, p, db)

		direct := onShard(t, p.servers[0], p.schema)
		for _, end := range []string{"XA COMMIT 'x'", "XA ROLLBACK 'x'"} {
			one, err := direct.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{"XA START 'x'", "INSERT INTO messages SELECT MAX(id) + 100, 3, 0, 1, 1 FROM messages", "XA END 'x'", "XA PREPARE 'x'"} {
				mustExec(t, one, sql)
			}
			sameVirtuals(t, p, db)
			mustExec(t, one, end)
			one.Close()
			sameVirtuals(t, p, db)
		}
		virtualsReady(t, p)
		sameVirtuals(t, p, db)

		total, last, price := virtuals["total_messages"], virtuals["last_msg_id"], virtuals["total_price"]
		for _, q := range [][2]string{
			{"SELECT SUM(total_messages) AS a, MAX(last_msg_id) AS b FROM conversations", "SELECT SUM(" + total + ") AS a, MAX(" + last + ") AS b FROM conversations"},
			{"SELECT user_id, SUM(total_price) AS a FROM conversations GROUP BY user_id ORDER BY user_id", "SELECT user_id, SUM(" + price + ") AS a FROM conversations GROUP BY user_id ORDER BY user_id"},
			{"SELECT id FROM conversations WHERE total_messages > 14 ORDER BY total_messages DESC, id LIMIT 5", "SELECT id FROM conversations WHERE " + total + " > 14 ORDER BY " + total + " DESC, id LIMIT 5"},
			{"SELECT total_messages AS a, COUNT(*) AS n FROM conversations GROUP BY total_messages HAVING a > 3 ORDER BY 1", "SELECT " + total + " AS a, COUNT(*) AS n FROM conversations GROUP BY a HAVING a > 3 ORDER BY 1"},
			{
				"SELECT c.id, d.last_msg_id FROM conversations c JOIN (SELECT id, last_msg_id FROM conversations) d ON c.id = d.id WHERE c.least_size IS NULL ORDER BY c.id",
				"SELECT id, " + last + " AS last_msg_id FROM conversations WHERE " + virtuals["least_size"] + " IS NULL ORDER BY id",
			},
			{
				"SELECT c.id FROM conversations c WHERE EXISTS (SELECT 1 FROM conversations d WHERE d.id = c.id AND c.total_messages > 14 AND d.total_messages < 100) ORDER BY id",
				"SELECT id FROM conversations WHERE " + total + " > 14 ORDER BY id",
			},
		} {
			if is, of := mustRows(t, db, q[0]), mustRows(t, db, q[1]); len(is) == 0 || fmt.Sprint(is) != fmt.Sprint(of) {
				t.Errorf("%s: %v, and by its queries %v", q[0], is, of)
			}
		}
		keptInMemory(t, p, db)
		fastInTransaction(t, p)
		for i := 1; i < 15; i++ { // prepared
			var name, title string
			rows, err := db.QueryContext(t.Context(), "SELECT title, total_messages FROM conversations WHERE id = ?", i)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				if err := rows.Scan(&title, &name); err != nil {
					t.Fatal(err)
				}
			}
			rows.Close()
			want(t, db, fmt.Sprintf("SELECT COUNT(*) AS n FROM messages WHERE conversation_id = %d", i), "n", name)
			mustExec(t, db, fmt.Sprintf("INSERT INTO messages VALUES (%d, %d, 0, 1, 1)", 3000+i, i))
		}
		for name := range virtuals {
			mustExec(t, db, "CONSOLIDATE VIRTUAL COLUMN "+name+" ON conversations")
			want(t, db, "CHECK VIRTUAL COLUMN "+name+" ON conversations", "Wrong", "0")
		}
		mustExec(t, db, "CREATE VIEW busy AS SELECT id, title, total_messages AS n FROM conversations WHERE id = 3")
		mustExec(t, db, "CREATE VIEW others AS SELECT id FROM conversations")
		mustExec(t, db, "ALTER VIEW others AS SELECT id, total_messages FROM conversations WHERE total_messages > 0")
		views := func() {
			t.Helper()
			for _, q := range [][2]string{
				{"SELECT n FROM busy", "SELECT COUNT(*) AS n FROM messages WHERE conversation_id = 3"},
				{"SELECT SUM(total_messages) AS n FROM others", "SELECT SUM(" + total + ") AS n FROM conversations"},
			} {
				if is, of := mustRows(t, db, q[0]), mustRows(t, db, q[1]); fmt.Sprint(is) != fmt.Sprint(of) {
					t.Errorf("%s: %v, and by its query %v", q[0], is, of)
				}
			}
			for _, view := range []string{"busy", "others"} {
				if text := fmt.Sprint(mustRows(t, db, "SHOW CREATE VIEW "+view)); strings.Contains(text, "shunt_virtual") {
					t.Errorf("Shunt's own tables are in a view: %s", text)
				}
			}
		}
		views()
		mustExec(t, onShard(t, p.servers[1], p.schema), "INSERT INTO messages VALUES (70001, 3, 0, 1, 1)")
		views()
		mustExec(t, db, "REBUILD VIRTUAL COLUMN total_messages ON conversations")
		views()
		sameVirtuals(t, p, db)
		virtualsReady(t, p)
		sameVirtuals(t, p, db)
		if _, err := db.ExecContext(t.Context(), "SELECT * FROM shunt_virtual.columns"); err == nil {
			t.Error("Shunt's own schema is open")
		}
		if rows := mustRows(t, db, "SELECT * FROM conversations WHERE id = 3"); len(rows[0]) != 3 {
			t.Errorf("SELECT * has %v", rows)
		}

		p.stop()
		for i, s := range p.servers {
			mustExec(t, onShard(t, s, p.schema), fmt.Sprintf("INSERT INTO messages VALUES (%d, 3, 0, 1, 1), (%d, 11, 0, 2, 2)", 80000+i*10, 80001+i*10))
		}
		p.run()
		db = p.db()
		sameVirtuals(t, p, db)
		virtualsReady(t, p)
		sameVirtuals(t, p, db)
		if strings.Contains(p.log.String(), "a virtual column is ready") != true {
			t.Error("nothing was built")
		}
		for name := range virtuals {
			want(t, db, "CHECK VIRTUAL COLUMN "+name+" ON conversations", "Wrong", "0")
			mustExec(t, db, "DROP VIRTUAL COLUMN "+name+" ON conversations")
		}
		if rows := mustRows(t, db, "SHOW VIRTUAL COLUMNS"); len(rows) != 0 {
			t.Errorf("still there: %v", rows)
		}
	})
}

// TestVirtualLogsAnew: while Shunt is stopped the shards' binary logs are begun anew, and more is written than there was. Values
// are those of the rows, at once.
func TestVirtualLogsAnew(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := conversations(t, f, setup{})
		createVirtuals(t, p)
		for name := range virtuals {
			mustExec(t, p.db(), "CONSOLIDATE VIRTUAL COLUMN "+name+" ON conversations")
		}
		if code := p.stop(); code != 0 {
			t.Fatalf("exit status %d", code)
		}
		for i, s := range p.servers {
			db := onShard(t, s, p.schema)
			mustExec(t, db, resetLogs(f.name))
			for k := range 300 {
				mustExec(t, db, fmt.Sprintf("INSERT INTO messages VALUES (%d, %d, 0, 1, 1)", 10_000+1000*i+k, k%15))
			}
		}
		p.run()
		sameVirtuals(t, p, p.conn())
		virtualsReady(t, p)
		sameVirtuals(t, p, p.conn())
	})
}

// TestVirtualReplaced: a shard's primary dies, and a replica takes over that lacks its last changes, while Shunt runs, and while
// it is stopped. Values are those of the rows that there are.
func TestVirtualReplaced(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 5, append(f.binlogs(), "--log-slave-updates", "--relay-log=relay")...)
		v := valveTo(t, servers[0])
		p := start(t, f, setup{
			servers: servers[:3], addrs: []string{v.Addr(), servers[1].Addr(), servers[2].Addr()}, extra: "shard_timeout: 2s",
			tables: []string{"conversations: {shard_key: id}", "messages: {shard_key: id}"},
		})
		for _, sql := range append([]string{createMessages, insertMessages}, createConversations...) {
			mustExec(t, p.db(), sql)
		}
		createVirtuals(t, p)
		failsOver := func(to *throwaway.Server, while func(lead func())) {
			t.Helper()
			from := onShard(t, p.servers[0], p.schema)
			on := func(statements ...string) {
				t.Helper()
				for _, sql := range statements {
					if f.name == throwaway.MariaDB {
						sql = strings.ReplaceAll(sql, "REPLICA", "SLAVE")
					}
					mustExec(t, onShard(t, to, ""), sql)
				}
			}
			on(to.Replicates(p.servers[0])...)
			mustExec(t, from, "INSERT INTO messages VALUES (40000, 3, 0, 1, 1)")
			eventually(t, "the replica has what there is", func() bool {
				rows, err := rowsOf(t.Context(), onShard(t, to, ""), "SELECT 1 AS n FROM `"+p.schema+"`.messages WHERE id = 40000")
				return err == nil && len(rows) == 1
			})
			on("STOP REPLICA")
			for k := range 100 {
				mustExec(t, from, fmt.Sprintf("INSERT INTO messages VALUES (%d, %d, 0, 1, 1)", 50_000+k, k%15))
			}
			mustExec(t, from, "DELETE FROM messages WHERE id < 20 OR id = 40000")
			for name := range virtuals {
				mustExec(t, p.db(), "CONSOLIDATE VIRTUAL COLUMN "+name+" ON conversations")
			}
			sameVirtuals(t, p, p.db())
			while(func() {
				p.servers[0].Kill()
				on("RESET REPLICA ALL")
				v.Lead(to.Addr())
				v.Cut()
			})
			p.servers[0] = to
			eventually(t, "the shard serves", func() bool {
				_, err := rowsOf(t.Context(), p.db(), "SELECT COUNT(*) FROM messages")
				return err == nil
			})
			sameVirtuals(t, p, p.conn())
			virtualsReady(t, p)
			sameVirtuals(t, p, p.conn())
			mustExec(t, p.db(), "INSERT INTO messages VALUES (70000, 3, 0, 1, 1)")
			sameVirtuals(t, p, p.conn())
			mustExec(t, p.db(), "DELETE FROM messages WHERE id IN (40000, 70000)")
		}
		failsOver(servers[3], func(lead func()) { lead() })
		failsOver(servers[4], func(lead func()) {
			if code := p.stop(); code != 0 {
				t.Fatalf("exit status %d", code)
			}
			lead()
			p.run()
		})
	})
}

// TestVirtualTablesAnew: values of virtual columns go with the rows of tables that are dropped, renamed or emptied, as a
// dump that is restored has it, through Shunt or directly on a shard.
func TestVirtualTablesAnew(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := conversations(t, f, setup{})
		db := p.conn()
		createVirtuals(t, p)
		const (
			drop = "DROP TABLE IF EXISTS messages"
			one  = "INSERT INTO messages VALUES (1, 3, 0, 5, 1.50), (2, 3, 1, 6, 2.50), (3, 4, 0, 7, 3)"
			more = "INSERT INTO messages VALUES (11, 3, 0, 5, 1.50), (12, 5, 1, 6, 2.50), (13, 5, 0, 7, 3)"
		)
		all := func(statements ...string) func() {
			return func() {
				for _, sql := range statements {
					mustExec(t, db, sql)
				}
			}
		}
		onShards := func(statements ...string) func() {
			return func() {
				for _, s := range p.servers {
					for _, sql := range statements {
						mustExec(t, onShard(t, s, p.schema), sql)
					}
				}
			}
		}
		for _, ddl := range []struct {
			what string
			do   func()
		}{
			{"DROP", all(drop, createMessages, one)},
			{"DROP of the parent", all("DROP TABLE conversations", more, createConversations[0], createConversations[1])},
			{"RENAME", all("RENAME TABLE messages TO others", createMessages, one)},
			{"TRUNCATE", all("TRUNCATE TABLE messages", more)},
			{"DROP on the shards", onShards(drop, createMessages)},
			{"DROP DATABASE", all(one, "DROP DATABASE "+p.schema, "CREATE DATABASE "+p.schema, "USE "+p.schema, createConversations[0], createConversations[1], createMessages, more)},
		} {
			t.Log(ddl.what)
			ddl.do()
			sameVirtuals(t, p, db)
			virtualsReady(t, p)
			sameVirtuals(t, p, db)
			for _, name := range []string{"total_messages", "last_note"} {
				want(t, db, "CHECK VIRTUAL COLUMN "+name+" ON conversations", "Wrong", "0")
			}
		}
		mustExec(t, db, drop)
		failsWith(t, db, "SELECT SUM(total_messages) FROM conversations", 1146, "messages")
	})
}
