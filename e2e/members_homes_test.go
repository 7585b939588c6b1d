package e2e

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// storeOn is a store on servers by these names.
func storeOn(names []string, servers ...*throwaway.Server) string {
	var list []string
	for i, s := range servers {
		list = append(list, fmt.Sprintf("{name: %s, addr: '%s', user: %s, password: '%s'}", names[i], s.Addr(), s.User, s.Password))
	}
	return "store: {servers: [" + strings.Join(list, ", ") + "]}"
}

// homes are the servers of the virtual indexes by their names, with what they wait for.
func homes(t *testing.T, q queryer) map[string]string {
	t.Helper()
	of := map[string]string{}
	for _, r := range mustRows(t, q, "SHOW VIRTUAL INDEXES") {
		of[r["Name"]] = r["Home"]
		if r["Status"] != "ready" || r["Error"] != "NULL" && r["Error"] != "" {
			of[r["Name"]] += " " + r["Status"] + ": " + r["Error"]
		}
	}
	return of
}

func onHome(t *testing.T, q queryer, index, home string) {
	t.Helper()
	eventually(t, index+" is on "+home, func() bool { return homes(t, q)[index] == home })
}

// exact reports that a read goes to one shard.
func exact(t *testing.T, q queryer, where string) bool {
	t.Helper()
	return len(routeOf(t, q, "SELECT id FROM people WHERE "+where).shards) == 1
}

// TestHomes: two virtual indexes lie on two servers. While one of these is away, reads by its index
// go to all shards and writes that need new entries there are refused, and the other index is as
// exact as ever; then one moves to the other's server, under writes by two Shunts; and one whose
// server is lost is made anew elsewhere.
func TestHomes(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4)
		first, second := servers[2], servers[3]
		p := start(t, f, setup{
			servers: servers[:2], tables: []string{"people: {shard_key: id}"},
			extra: storeOn([]string{"h1", "h2"}, first, second),
		})
		other := p.beside()
		other.run()
		db, late := p.db(), other.db()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), phone VARCHAR(50), age INT)")
		for i := range 20 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x', 't%d', 1)", i, i, i))
		}
		p.createIndex(db, "idx_email", "people(email)")
		p.createIndex(db, "idx_phone", "people(phone) HOME h2")
		onHome(t, db, "idx_email", "h1")
		onHome(t, db, "idx_phone", "h2")
		_, err := db.ExecContext(t.Context(), "CREATE VIRTUAL INDEX idx_age ON people (age) HOME h3")
		wantError(t, err, 1105, "h3: no such server of the store, which has h1, h2")
		for _, q := range []queryer{db, late} {
			eventually(t, "reads go by both indexes", func() bool { return exact(t, q, "email = 'p7@x'") && exact(t, q, "phone = 't7'") })
			// Over both homes, as of one moment.
			for i := range 20 {
				want(t, q, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x' OR phone = 't%d'", i, i), "id", strconv.Itoa(i))
				want(t, q, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x' AND phone = 't%d'", i, i), "id", strconv.Itoa(i))
			}
		}
		for _, away := range []struct {
			home              *throwaway.Server
			name              string
			out, in           string // columns whose index is there, or on the other server
			outValue, inValue string
		}{
			{second, "h2", "phone", "email", "t%d", "p%d@x"},
			{first, "h1", "email", "phone", "p%d@x", "t%d"},
		} {
			away.home.Kill()
			_, err := db.ExecContext(t.Context(), "UPDATE people SET "+away.out+" = 'new' WHERE id = 3") // first: in 10 s its indexes are given up
			wantError(t, err, 1429, away.name+" ("+away.home.Addr()+")")
			for i := range 20 {
				want(t, db, "SELECT id FROM people WHERE "+away.out+" = '"+fmt.Sprintf(away.outValue, i)+"'", "id", strconv.Itoa(i))
			}
			if where := away.in + " = '" + fmt.Sprintf(away.inValue, 3) + "'"; !exact(t, db, where) {
				t.Errorf("%s is away, and reads by %s are wide", away.name, away.in)
			}
			if where := away.out + " = '" + fmt.Sprintf(away.outValue, 3) + "'"; exact(t, db, where) {
				t.Errorf("%s is away, and reads by %s go to one shard", away.name, away.out)
			}
			mustExec(t, db, "UPDATE people SET "+away.in+" = 'new' WHERE id = 3")
			want(t, db, "SELECT id FROM people WHERE "+away.in+" = 'new'", "id", "3")
			mustExec(t, db, "UPDATE people SET age = age + 1 WHERE id = 3")
			if err := away.home.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "entries can be made again", func() bool {
				_, err := db.ExecContext(t.Context(), "UPDATE people SET "+away.out+" = 'back' WHERE id = 3")
				return err == nil
			})
			eventually(t, "reads are exact again", func() bool { return exact(t, db, away.out+" = 'back'") })
			mustExec(t, db, "UPDATE people SET email = 'p3@x', phone = 't3' WHERE id = 3")
		}

		// It moves while rows get other keys, by both, who know that all are there again.
		for _, q := range []queryer{db, late} {
			eventually(t, "entries can be made on both homes", func() bool {
				_, err := q.ExecContext(t.Context(), "UPDATE people SET email = 'again@x', phone = 'again' WHERE id = 3")
				return err == nil
			})
			mustExec(t, q, "UPDATE people SET email = 'p3@x', phone = 't3' WHERE id = 3")
		}
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for n, q := range []queryer{db, late} {
			writers.Go(func() {
				reader := []queryer{late, db}[n]
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					id := 2*(i%8) + n
					value := fmt.Sprintf("m%d-%d", n, i)
					if _, err := q.ExecContext(t.Context(), fmt.Sprintf("UPDATE people SET phone = '%s' WHERE id = %d", value, id)); err != nil {
						t.Error(err)
						return
					}
					rows, err := rowsOf(t.Context(), reader, "SELECT id FROM people WHERE phone = '"+value+"'")
					if err != nil || len(rows) != 1 || rows[0]["id"] != strconv.Itoa(id) {
						t.Errorf("%s is lost: %v %v", value, rows, err)
						return
					}
				}
			})
		}
		for _, to := range []string{"h1", "h2", "h1"} {
			mustExec(t, db, "REBUILD VIRTUAL INDEX idx_phone ON people HOME '"+to+"'")
			onHome(t, db, "idx_phone", to)
		}
		close(stop)
		writers.Wait()
		p.settled(db)
		for _, r := range mustRows(t, db, "CHECK VIRTUAL INDEX idx_phone ON people") {
			if r["Missing"] != "0" {
				t.Errorf("%v", r)
			}
		}
		eventually(t, "reads by the index that was moved are exact", func() bool { return exact(t, late, "phone = 't19'") })
		has := onShard(t, second, "shunt_store")
		left := func(table string) (n int) {
			if err := has.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		eventually(t, "the server that was left has nothing of it", func() bool {
			return left("heads") == 0 && left("entries") == 0
		})

		// One that is lost with its server.
		mustExec(t, db, "REBUILD VIRTUAL INDEX idx_phone ON people HOME h2")
		onHome(t, db, "idx_phone", "h2")
		second.Kill()
		want(t, late, "SELECT id FROM people WHERE phone = 't19'", "id", "19")
		mustExec(t, db, "REBUILD VIRTUAL INDEX idx_phone ON people HOME h1")
		onHome(t, db, "idx_phone", "h1")
		mustExec(t, late, "INSERT INTO people VALUES (100, 'p100@x', 't100', 1)")
		eventually(t, "reads by it are exact", func() bool { return exact(t, db, "phone = 't100'") })
		if err := second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, db, "SELECT id FROM people WHERE phone = 't100'", "id", "100")
		eventually(t, "what it had is removed", func() bool { return left("heads") == 0 })
	})
}

// TestHomeAdded: a server is added to the store while one member after the other is restarted; it gets
// indexes as soon as all have it. One that has some isn't left out.
func TestHomeAdded(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		one, two := storeOn([]string{"h1"}, servers[1]), storeOn([]string{"h1", "h2"}, servers[1], servers[2])
		p := start(t, f, setup{servers: servers[:1], tables: []string{"people: {shard_key: id}"}, extra: one})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), phone VARCHAR(50))")
		mustExec(t, p.db(), "INSERT INTO people VALUES (1, 'a@x', 't1')")
		q := p.beside()
		q.edit(one, two)
		q.run()
		_, err := q.db().ExecContext(t.Context(), "CREATE VIRTUAL INDEX idx_phone ON people (phone) HOME h2")
		wantError(t, err, 1105, "that all have: restart member ")
		q.createIndex(q.db(), "idx_email", "people(email)")
		p.stop()
		p.edit(one, two)
		p.run()
		p.createIndex(p.db(), "idx_phone", "people(phone) HOME h2")
		onHome(t, q.db(), "idx_email", "h1")
		onHome(t, q.db(), "idx_phone", "h2")
		p.stop()
		p.edit(two, one)
		if err := p.launch(); err == nil || !strings.Contains(err.Error(), "lacks server h2 of the store, which has virtual indexes") || !strings.Contains(err.Error(), "idx_phone ON") {
			t.Errorf("without it: %v", err)
		}
		mustExec(t, q.db(), "REBUILD VIRTUAL INDEX idx_phone ON people HOME h1")
		onHome(t, q.db(), "idx_phone", "h1")
		eventually(t, "it may be left out", func() bool { return p.launch() == nil })
		want(t, p.db(), "SELECT id FROM people WHERE phone = 't1'", "id", "1")
		p.createIndex(q.db(), "idx_both", "people(email, phone)")
		onHome(t, p.db(), "idx_both", "h1")
	})
}

// TestHomeLost: the indexes of a server that is away for long are given up, so that writes go on, and are
// made anew when it is back.
func TestHomeLost(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 4)
		p := start(t, f, setup{
			servers: servers[:2], tables: []string{"people: {shard_key: id}"},
			extra: storeOn([]string{"h1", "h2"}, servers[2], servers[3]),
		})
		other := p.beside()
		other.run()
		db, late := p.db(), other.db()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		for i := range 20 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
		}
		mustExec(t, db, "CREATE VIRTUAL INDEX idx_email ON people (email) HOME h2")
		onHome(t, db, "idx_email", "h2")
		servers[3].Kill()
		_, err := db.ExecContext(t.Context(), "INSERT INTO people VALUES (100, 'new@x')")
		wantError(t, err, 1429, "h2 (")
		for n, q := range []queryer{db, late} {
			eventually(t, "writes go on", func() bool {
				_, err := q.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'new%d@x')", 100+n, n))
				return err == nil
			})
		}
		for _, q := range []queryer{db, late} {
			for _, value := range []string{"new0@x", "new1@x"} {
				want(t, q, "SELECT COUNT(*) AS n FROM people WHERE email = '"+value+"'", "n", "1")
			}
		}
		if at := homes(t, db)["idx_email"]; !strings.Contains(at, "h2 building: its server h2 is away") {
			t.Errorf("it is told as %s", at)
		}
		if err := servers[3].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"new0@x", "new1@x", "p3@x"} { // what it has is of before
			want(t, late, "SELECT COUNT(*) AS n FROM people WHERE email = '"+value+"'", "n", "1")
		}
		eventually(t, "it is made anew", func() bool { return homes(t, db)["idx_email"] == "h2" })
		eventually(t, "reads are exact", func() bool {
			return len(routeOf(t, late, "SELECT id FROM people WHERE email = 'new1@x'").shards) == 1
		})
		for _, r := range mustRows(t, db, "CHECK VIRTUAL INDEX idx_email ON people") {
			if r["Missing"] != "0" {
				t.Errorf("%v", r)
			}
		}
	})
}

// TestPartitions: a virtual index lies on three servers, each value on one. Reads by a value, a list and a range are exact by either of
// two Shunts, and find what the other has just written. While one of the servers is away its values' reads are wide, and no others;
// the index moves, and is lost and made anew, under writes.
func TestPartitions(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 5)
		names := []string{"h1", "h2", "h3"}
		p := start(t, f, setup{servers: servers[:2], tables: []string{"people: {shard_key: id}"}, extra: storeOn(names, servers[2:]...)})
		other := p.beside()
		other.run()
		dbs := []*sql.DB{p.db(), other.db()}
		mustExec(t, dbs[0], "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), age INT, KEY (email))")
		const rows = 40
		mustExec(t, dbs[0], "INSERT INTO people VALUES "+rowsFor(rows, func(i int) string { return fmt.Sprintf("(%d, 'p%d@x', %[1]d)", i, i) }))
		p.createIndex(dbs[0], "idx_email", "people(email) PARTITIONS 3")
		row := mustRows(t, dbs[1], "SHOW VIRTUAL INDEXES")[0]
		if row["Partitions"] != "3" || len(strings.Split(row["Home"], ", ")) != 3 || row["Entries"] != strconv.Itoa(rows) {
			t.Errorf("%v", row)
		}
		for _, at := range servers[2:] {
			if r := mustRows(t, onShard(t, at, "shunt_store"), "SELECT COUNT(*) AS n FROM entries")[0]; r["n"] == "0" || r["n"] == strconv.Itoa(rows) {
				t.Errorf("%s entries are on %s", r["n"], at.Addr())
			}
		}
		_, err := dbs[0].ExecContext(t.Context(), "ALTER VIRTUAL INDEX idx_email ON people PARTITIONS 2")
		wantError(t, err, 1235, "keeps its number of partitions")
		for n, db := range dbs {
			reader := dbs[1-n]
			eventually(t, "reads go by it", func() bool { return exact(t, reader, "email = 'p7@x'") })
			mustExec(t, db, fmt.Sprintf("INSERT INTO people VALUES (%d, 'new%[1]d@x', 1)", 100+n))
			want(t, reader, fmt.Sprintf("SELECT id FROM people WHERE email = 'new%d@x'", 100+n), "id", strconv.Itoa(100+n))
			// Computed by the shard: all of the index's partitions are marked.
			mustExec(t, db, fmt.Sprintf("UPDATE people SET email = CONCAT('moved', id, '@x') WHERE id = %d", 100+n))
			want(t, reader, fmt.Sprintf("SELECT id FROM people WHERE email = 'moved%d@x'", 100+n), "id", strconv.Itoa(100+n))
			want(t, reader, "SELECT COUNT(*) AS n FROM people WHERE email IN ('p1@x', 'p2@x', 'p3@x', 'p4@x', 'p5@x')", "n", "5")
			want(t, reader, "SELECT COUNT(*) AS n FROM people WHERE email LIKE 'p1%'", "n", "11")
			want(t, reader, "SELECT COUNT(*) AS n FROM people WHERE email BETWEEN 'p30@x' AND 'p33@x'", "n", "4")
		}
		p.settled(dbs[0])
		eventually(t, "ranges are exact", func() bool { return exact(t, dbs[1], "email BETWEEN 'p30@x' AND 'p30@y'") })

		// One server is away: each of its values is found on all shards, and none of the others'.
		servers[4].Kill()
		var refused, exacts int
		for i := 1; i <= rows; i++ {
			_, err := dbs[0].ExecContext(t.Context(), fmt.Sprintf("UPDATE people SET email = 'away%d@x' WHERE id = %[1]d", i))
			at := fmt.Sprintf("p%d@x", i)
			if err == nil {
				at = fmt.Sprintf("away%d@x", i)
			} else {
				wantError(t, err, 1429, "h3 ("+servers[4].Addr()+")")
				refused++
			}
			want(t, dbs[1], "SELECT id FROM people WHERE email = '"+at+"'", "id", strconv.Itoa(i))
			if exact(t, dbs[1], "email = '"+at+"'") {
				exacts++
			}
		}
		if refused == 0 || refused == rows || exacts == 0 || exacts == rows {
			t.Errorf("of %d writes %d were refused, and %d reads go to one shard", rows, refused, exacts)
		}
		eventually(t, "it is given up there, and writes go on", func() bool {
			_, err := dbs[1].ExecContext(t.Context(), "UPDATE people SET email = CONCAT('given', id) WHERE id <= 40")
			return err == nil
		})
		for i := 1; i <= rows; i++ {
			want(t, dbs[0], fmt.Sprintf("SELECT id FROM people WHERE email = 'given%d'", i), "id", strconv.Itoa(i))
		}
		mustExec(t, dbs[0], "REBUILD VIRTUAL INDEX idx_email ON people HOME h1, h2")
		onHome(t, dbs[1], "idx_email", "h1, h2, h1")
		for i := 1; i <= rows; i++ {
			want(t, dbs[1], fmt.Sprintf("SELECT id FROM people WHERE email = 'given%d'", i), "id", strconv.Itoa(i))
		}
		if err := servers[4].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "nothing is left where it was", func() bool {
			return mustRows(t, onShard(t, servers[4], "shunt_store"), "SELECT (SELECT COUNT(*) FROM heads) + (SELECT COUNT(*) FROM entries) AS n")[0]["n"] == "0"
		})
		_, err = dbs[0].ExecContext(t.Context(), "REBUILD VIRTUAL INDEX idx_email ON people HOME h1, h2, h3, h1")
		wantError(t, err, 1105, "4 servers are named for 3 partitions")
		eventually(t, "h3 takes it again", func() bool {
			_, err := dbs[0].ExecContext(t.Context(), "REBUILD VIRTUAL INDEX idx_email ON people HOME h3, h1, h2")
			return err == nil
		})
		onHome(t, dbs[1], "idx_email", "h3, h1, h2")
		p.settled(dbs[0])
		for _, r := range mustRows(t, dbs[1], "CHECK VIRTUAL INDEX idx_email ON people") {
			if r["Missing"] != "0" || r["Stale"] != "0" {
				t.Errorf("%v", r)
			}
		}
		eventually(t, "reads are exact", func() bool { return exact(t, dbs[1], "email = 'given39'") })
	})
}
