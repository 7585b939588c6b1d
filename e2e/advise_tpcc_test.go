package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tpcc is a small TPC-C: its tables and transactions, and a help desk that asks for customers of all warehouses.
type tpcc struct {
	t *testing.T
	r *rand.Rand
	// names are the customers', by the number of their last name.
	names []int
	order int
}

const (
	tpccWarehouses, tpccDistricts, tpccCustomers = 40, 2, 12 // customers of a district
	tpccItems                                    = 80
	tpccOrders                                   = tpccCustomers // of a district, when it is loaded
)

var tpccTables = []string{
	"warehouse (w_id INT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_city VARCHAR(20), w_state CHAR(2), w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2), PRIMARY KEY (w_id))",
	"district (d_w_id INT NOT NULL, d_id INT NOT NULL, d_name VARCHAR(10), d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id))",
	"customer (c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_first VARCHAR(16), c_middle CHAR(2), c_last VARCHAR(16), c_phone CHAR(16), c_credit CHAR(2), c_discount DECIMAL(4,4), " +
		"c_balance DECIMAL(12,2), PRIMARY KEY (c_w_id, c_d_id, c_id), KEY by_name (c_w_id, c_d_id, c_last), KEY (c_last), KEY (c_phone))",
	"history (h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL, h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME, h_amount DECIMAL(6,2), h_data VARCHAR(24))",
	"new_order (no_w_id INT NOT NULL, no_d_id INT NOT NULL, no_o_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
	"orders (o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_id INT NOT NULL, o_c_id INT, o_carrier_id INT, o_ol_cnt INT, o_all_local INT, o_entry_d DATETIME, PRIMARY KEY (o_w_id, o_d_id, o_id), " +
		"KEY by_customer (o_w_id, o_d_id, o_c_id))",
	"order_line (ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT, ol_supply_w_id INT, ol_delivery_d DATETIME, ol_quantity INT, ol_amount DECIMAL(6,2), " +
		"PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
	"item (i_id INT NOT NULL, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50), PRIMARY KEY (i_id))",
	"stock (s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT, s_ytd INT, s_order_cnt INT, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id))",
}

// tpccKeys are its foreign keys, by name.
var tpccKeys = map[string]string{
	"district_warehouse": "district ADD %s FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)",
	"customer_district":  "customer ADD %s FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)",
	"history_customer":   "history ADD %s FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
	"history_district":   "history ADD %s FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)",
	"new_order_orders":   "new_order ADD %s FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
	"orders_customer":    "orders ADD %s FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
	"order_line_orders":  "order_line ADD %s FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
	"stock_warehouse":    "stock ADD %s FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id)",
	"stock_item":         "stock ADD %s FOREIGN KEY (s_i_id) REFERENCES item (i_id)",
}

// refer adds the foreign keys, but for those of a name.
func (b *tpcc) refer(q queryer, without ...string) {
	b.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(tpccKeys)) {
		if !slices.Contains(without, name) {
			mustExec(b.t, q, "ALTER TABLE "+fmt.Sprintf(tpccKeys[name], "CONSTRAINT "+name))
		}
	}
}

func newTPCC(t *testing.T) *tpcc {
	b := &tpcc{t: t, r: rand.New(rand.NewPCG(1, 2)), order: tpccOrders}
	for range tpccWarehouses * tpccDistricts * tpccCustomers {
		// NURand(255, 0, 999) of the specification: some names have many customers.
		b.names = append(b.names, ((b.r.IntN(256)|b.r.IntN(1000))+123)%1000)
	}
	return b
}

// last is a customer's name, by where he is.
func (b *tpcc) last(w, d, c int) string {
	n := b.names[((w-1)*tpccDistricts+d-1)*tpccCustomers+c-1]
	syllables := strings.Fields("BAR OUGHT ABLE PRI PRES ESE ANTI CALLY ATION EING")
	return syllables[n/100] + syllables[n/10%10] + syllables[n%10]
}

func phone(w, d, c int) string { return fmt.Sprintf("0%06d%02d%06d", w*7919, d, c*31) }

func (b *tpcc) fill(q queryer) {
	b.t.Helper()
	for _, table := range tpccTables {
		mustExec(b.t, q, "CREATE TABLE "+table)
	}
	insert := func(table string, n int, row func(w, d, i int) string) {
		b.t.Helper()
		var rows []string
		for w := 1; w <= tpccWarehouses; w++ {
			for d := 1; d <= tpccDistricts; d++ {
				for i := 1; i <= n; i++ {
					rows = append(rows, "("+row(w, d, i)+")")
				}
			}
		}
		mustExec(b.t, q, "INSERT IGNORE INTO "+table+" VALUES "+strings.Join(rows, ", "))
	}
	insert("warehouse", 1, func(w, _, _ int) string {
		return fmt.Sprintf("%d, 'w%d', 'street', 'city', 'st', '123456789', 0.1, 300000", w, w)
	})
	insert("district", 1, func(w, d, _ int) string { return fmt.Sprintf("%d, %d, 'd%d', 0.1, 30000, %d", w, d, d, tpccOrders+1) })
	insert("customer", tpccCustomers, func(w, d, c int) string {
		return fmt.Sprintf("%d, %d, %d, 'first%d', 'OE', '%s', '%s', 'GC', 0.1, -10", w, d, c, c, b.last(w, d, c), phone(w, d, c))
	})
	insert("history", tpccCustomers, func(w, d, c int) string { return fmt.Sprintf("%d, %d, %d, %d, %d, NOW(), 10, 'data'", c, d, w, d, w) })
	insert("orders", tpccOrders, func(w, d, o int) string {
		return fmt.Sprintf("%d, %d, %d, %d, NULL, 3, 1, NOW()", w, d, o, 1+o*7%tpccCustomers)
	})
	insert("new_order", tpccOrders, func(w, d, o int) string { return fmt.Sprintf("%d, %d, %d", w, d, o) })
	insert("order_line", 3*tpccOrders, func(w, d, i int) string {
		return fmt.Sprintf("%d, %d, %d, %d, %d, %d, NULL, 5, 1", w, d, 1+(i-1)/3, 1+(i-1)%3, 1+i*13%tpccItems, w)
	})
	insert("stock", tpccItems, func(w, _, i int) string { return fmt.Sprintf("%d, %d, 50, 0, 0, 'data'", w, i) })
	mustExec(b.t, q, "INSERT INTO item VALUES "+rowsFor(tpccItems, func(i int) string { return fmt.Sprintf("(%d, 'item%d', 9.5, 'data')", i, i) }))
	for _, table := range tpccTables {
		name, _, _ := strings.Cut(table, " ")
		mustRows(b.t, q, "ANALYZE TABLE "+name)
	}
}

// run executes transactions, in the specification's shares, and asks as many times as the help desk does.
func (b *tpcc) run(q queryer, transactions int) {
	b.t.Helper()
	read := func(format string, args ...any) { b.t.Helper(); mustRows(b.t, q, fmt.Sprintf(format, args...)) }
	exec := func(format string, args ...any) { b.t.Helper(); mustExec(b.t, q, fmt.Sprintf(format, args...)) }
	for n := range transactions {
		w, d, c := 1+b.r.IntN(tpccWarehouses), 1+b.r.IntN(tpccDistricts), 1+b.r.IntN(tpccCustomers)
		exec("BEGIN")
		switch n % 25 {
		default: // 11 of 25
			b.newOrder(read, exec, w, d, c)
		case 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21:
			b.payment(read, exec, w, d, c)
		case 2: // order status
			read("SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, c)
			read("SELECT MAX(o_id) AS o FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d", w, d, c)
			read("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, 1+b.r.IntN(tpccOrders))
		case 12:
			for d := range tpccDistricts {
				b.delivery(read, exec, w, d+1)
			}
		case 24: // stock level
			read("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", w, d)
			read("SELECT COUNT(DISTINCT s_i_id) AS n FROM order_line, stock WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id < %d AND ol_o_id >= %d AND s_w_id = %d AND s_i_id = ol_i_id AND s_quantity < 15",
				w, d, tpccOrders, tpccOrders-20, w)
		}
		exec("COMMIT")
		if n%2 == 0 {
			read("SELECT c_w_id, c_d_id, c_id FROM customer WHERE c_phone = '%s'", phone(w, d, c))
			read("SELECT c_w_id, c_d_id, c_id, c_first FROM customer WHERE c_last = '%s'", b.last(w, d, c))
		}
	}
}

func (b *tpcc) newOrder(read, exec func(string, ...any), w, d, c int) {
	b.order++
	lines := 3 + b.r.IntN(3)
	read("SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = %d AND c_w_id = w_id AND c_d_id = %d AND c_id = %d", w, d, c)
	read("SELECT d_next_o_id, d_tax FROM district WHERE d_id = %d AND d_w_id = %d FOR UPDATE", d, w)
	exec("UPDATE district SET d_next_o_id = %d WHERE d_id = %d AND d_w_id = %d", b.order+1, d, w)
	exec("INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (%d, %d, %d, %d, NOW(), %d, 1)", b.order, d, w, c, lines)
	exec("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (%d, %d, %d)", b.order, d, w)
	for line := 1; line <= lines; line++ {
		item, from := 1+b.r.IntN(tpccItems), w
		if b.r.IntN(100) == 0 {
			from = 1 + b.r.IntN(tpccWarehouses)
		}
		read("SELECT i_price, i_name, i_data FROM item WHERE i_id = %d", item)
		read("SELECT s_quantity, s_data FROM stock WHERE s_i_id = %d AND s_w_id = %d FOR UPDATE", item, from)
		exec("UPDATE stock SET s_quantity = %d, s_ytd = s_ytd + 5, s_order_cnt = s_order_cnt + 1 WHERE s_i_id = %d AND s_w_id = %d", 10+b.r.IntN(90), item, from)
		exec("INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount) VALUES (%d, %d, %d, %d, %d, %d, 5, 47.5)", b.order, d, w, line, item, from)
	}
}

// payment is of a customer of another warehouse at times, by name in three of five.
func (b *tpcc) payment(read, exec func(string, ...any), w, d, c int) {
	exec("UPDATE warehouse SET w_ytd = w_ytd + 10 WHERE w_id = %d", w)
	read("SELECT w_street_1, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = %d", w)
	exec("UPDATE district SET d_ytd = d_ytd + 10 WHERE d_w_id = %d AND d_id = %d", w, d)
	read("SELECT d_name FROM district WHERE d_w_id = %d AND d_id = %d", w, d)
	cw := w
	if b.r.IntN(100) < 15 {
		cw = 1 + b.r.IntN(tpccWarehouses)
	}
	if b.r.IntN(5) < 3 {
		read("SELECT c_id FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first", cw, d, b.last(cw, d, c))
	}
	read("SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d FOR UPDATE", cw, d, c)
	exec("UPDATE customer SET c_balance = c_balance - 10 WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", cw, d, c)
	exec("INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (%d, %d, %d, %d, %d, NOW(), 10, 'data')", d, cw, c, d, w)
}

func (b *tpcc) delivery(read, exec func(string, ...any), w, d int) {
	o := 1 + b.r.IntN(tpccOrders)
	read("SELECT MIN(no_o_id) AS o FROM new_order WHERE no_d_id = %d AND no_w_id = %d", d, w)
	exec("DELETE FROM new_order WHERE no_o_id = %d AND no_d_id = %d AND no_w_id = %d", o, d, w)
	read("SELECT o_c_id FROM orders WHERE o_id = %d AND o_d_id = %d AND o_w_id = %d", o, d, w)
	exec("UPDATE orders SET o_carrier_id = 3 WHERE o_id = %d AND o_d_id = %d AND o_w_id = %d", o, d, w)
	exec("UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_o_id = %d AND ol_d_id = %d AND ol_w_id = %d", o, d, w)
	read("SELECT SUM(ol_amount) AS n FROM order_line WHERE ol_o_id = %d AND ol_d_id = %d AND ol_w_id = %d", o, d, w)
	exec("UPDATE customer SET c_balance = c_balance + 5 WHERE c_id = %d AND c_d_id = %d AND c_w_id = %d", 1+b.r.IntN(tpccCustomers), d, w)
}

// TestAdviseTPCC: TPC-C runs on one server, and is advised what all know to be right for it. The advice is followed, and what
// then runs goes to as many shards as was estimated. The Shunt that serves has nothing to add, until an index is gone.
func TestAdviseTPCC(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		server := f.own(t, 1, "--performance-schema=ON")[0]
		schema := newSchemaName(t)
		root := onShard(t, server, "")
		mustExec(t, root, "CREATE DATABASE "+schema)
		app, b := onShard(t, server, schema), newTPCC(t)
		b.fill(app)
		b.refer(app)
		one, err := app.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		mustExec(t, root, "TRUNCATE performance_schema.events_statements_summary_by_digest")
		b.run(one, 100)
		a := follow(t, f, server, schema, b.fill)
		for table, want := range map[string]string{
			"warehouse": "w_id", "district": "d_w_id", "customer": "c_w_id", "new_order": "no_w_id", "orders": "o_w_id", "order_line": "ol_w_id", "stock": "s_w_id", "item": "reference",
			"history": "h_c_w_id",
		} {
			if a.placed[table] != want {
				t.Errorf("%s: %s, want %s", table, a.placed[table], want)
			}
		}
		var indexes []string
		for _, x := range a.report.Indexes {
			indexes = append(indexes, x.Table+" "+strings.Join(x.Columns, ",")+" by "+x.Basis)
		}
		if slices.Sort(indexes); !slices.Equal(indexes, []string{"customer c_last by sample", "customer c_phone by sample"}) {
			t.Errorf("indexes %q", indexes)
		}
		if r := a.report; r.Shares["refused"]+r.Shares["unread"]+r.Shares["copied"] > 0 {
			for _, x := range r.Statements {
				if x.Route == "refused" || x.Route == "unread" || x.Route == "copied" {
					t.Errorf("%s: %s: %s", x.Route, x.Digest, x.Reason)
				}
			}
		}
		if broken := a.report.Broken; len(broken) != 1 || broken[0].Table != "history" || strings.Join(broken[0].Columns, ",") != "h_w_id,h_d_id" {
			t.Errorf("broken keys %v", broken) // a customer pays at another warehouse, too
		}
		b.refer(a.db, "history_district")
		allKnown(t, a.db)
		through, err := a.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer through.Close()
		mustExec(t, through, "FLUSH STATEMENT STATISTICS")
		b.run(through, 100)
		a.measured(t, through)
		calls, shards := 0.0, 0.0
		for _, r := range mustRows(t, through, "SHOW STATEMENT STATISTICS") {
			switch verb, _, _ := strings.Cut(r["Statement"], " "); verb {
			case "SELECT", "INSERT", "UPDATE", "DELETE":
				calls += float(t, r["Calls"])
				shards += float(t, r["Calls"]) * float(t, r["Shards"])
			}
		}
		alike(t, "shards of a statement", a.report.Reached, shards/calls)
		if rows := mustRows(t, through, "SHOW INDEX ADVICE"); len(rows) > 0 {
			t.Errorf("advice was followed, and then there is %v", rows)
		}
		for _, x := range a.report.Indexes {
			mustExec(t, through, "DROP VIRTUAL INDEX "+x.Name+" ON "+x.Table)
		}
		mustExec(t, through, "FLUSH STATEMENT STATISTICS")
		b.run(through, 50)
		served := mustRows(t, through, "SHOW INDEX ADVICE")
		if len(served) != len(a.report.Indexes) {
			t.Errorf("without the indexes is advised %v", served)
		}
		for _, r := range served {
			i := slices.IndexFunc(a.report.Indexes, func(x advisedIndex) bool {
				return x.Table == r["Table"] && strings.Join(x.Columns, ", ") == r["Columns"]
			})
			if i < 0 || r["Basis"] != "sample" {
				t.Errorf("advised %v", r)
				continue
			}
			alike(t, "shards of a key by both advisors", float(t, r["Fan_out"]), a.report.Indexes[i].FanOut)
		}
	})
}
