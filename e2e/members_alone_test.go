package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMembersAndAlone: a Shunt with a store of its own and several with one together are never
// behind each other's back: neither starts beside the other, and each finds what the other has
// written before.
func TestMembersAndAlone(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		alone := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}", "counted: {shard_key: id}"}, extra: "store: local"})
		member := alone.beside()
		member.edit("store: local", "store: {shards: true}")
		id := func(p *process) { // 1062 where a number is given twice
			t.Helper()
			mustExec(t, p.db(), "INSERT INTO counted (who) VALUES ('x'), ('y'), ('z')")
		}
		finds := func(p *process, email, as string) {
			t.Helper()
			want(t, p.db(), "SELECT id FROM people WHERE email = '"+email+"'", "id", as)
		}

		mustExec(t, alone.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		mustExec(t, alone.db(), "CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(10))")
		for _, row := range []string{"1, 'a@x'", "2, 'b@x'", "3, 'c@x'", "4, 'd@x'", "5, 'e@x'", "6, 'f@x'"} {
			mustExec(t, alone.db(), "INSERT INTO people VALUES ("+row+")")
		}
		alone.createIndex(alone.db(), "idx_email", "people(email)")
		id(alone)
		member.refuses("a Shunt with a store of its own (store: local) serves it: connection ")
		if left := mustRows(t, onShard(t, servers[0], ""), "SHOW DATABASES LIKE 'shunt\\_store'"); len(left) != 0 {
			t.Errorf("the start that was refused leaves a schema behind")
		}
		alone.stop()

		member.run()
		alone.refuses("several Shunts have the shard (shunt_store.members has their rows")
		if out, code := shunt(t, "check", "--config", alone.config); code != 1 || !strings.Contains(out, "several Shunts have the shard") {
			t.Errorf("check: status %d\n%s", code, out)
		}
		member.createIndex(member.db(), "idx_email", "people(email)")
		member.settled(member.db())
		id(member)
		mustExec(t, member.db(), "UPDATE people SET email = 'member1@x' WHERE id = 1")
		mustExec(t, member.db(), "UPDATE people SET email = 'member2@x' WHERE id = 2")
		member.stop()
		alone.run()
		finds(alone, "member1@x", "1")
		finds(alone, "member2@x", "2")
		id(alone)
		for _, row := range []string{"1", "2", "3", "4", "5", "6"} {
			mustExec(t, alone.db(), "UPDATE people SET email = 'alone"+row+"@x' WHERE id = "+row)
		}
		alone.stop()

		// The record of a Shunt that serves other schemas is none of the members' business.
		other := onShard(t, servers[0], "")
		mustExec(t, other, "CREATE TABLE shunt_scratch.owner_0123456789abcdef_1b_2 (a INT PRIMARY KEY)")
		mustExec(t, other, "CREATE TABLE shunt_scratch.owner_serial_1b_2 (serial BIGINT UNSIGNED PRIMARY KEY)")
		member.run()
		if left := mustRows(t, other, "SELECT TABLE_NAME AS t FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shunt_scratch' AND TABLE_NAME LIKE 'owner%'"); len(left) != 2 {
			t.Errorf("left: %v", left)
		}
		mustExec(t, other, "DROP TABLE shunt_scratch.owner_0123456789abcdef_1b_2, shunt_scratch.owner_serial_1b_2")
		for _, row := range []string{"1", "2", "3", "4", "5", "6"} {
			finds(member, "alone"+row+"@x", row)
		}
		id(member)
		member.settled(member.db())
		finds(member, "alone3@x", "3")
		if route := routeOf(t, member.db(), "SELECT id FROM people WHERE email = 'alone3@x'"); len(route.shards) != 1 {
			t.Errorf("the shards were scanned, and the lookup goes to %v", route.shards)
		}
		member.stop()

		// One that has died is in the way until another has removed its rows.
		member.run()
		member.kill()
		alone.refuses("the rows of one that has died are removed within a minute by another that runs")
		member.run()
		eventually(t, "the dead one's rows are gone", func() bool { return len(mustRows(t, member.db(), "SHOW MEMBERS")) == 1 })
		member.stop()
		alone.run()
		finds(alone, "alone5@x", "5")
	})
}

// refuses starts a process that is to end with an error.
func (p *process) refuses(told string) {
	t := p.t
	t.Helper()
	exited, err := p.spawn()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-exited:
	case <-time.After(time.Minute):
		t.Fatal("it serves, or waits")
	}
	if text := p.log.Tail(6); p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, told) {
		t.Errorf("status %d, want 1 and %q:\n%s", p.cmd.ProcessState.ExitCode(), told, text)
	}
}

// TestStoreElsewhere: a Shunt without any knowledge of how rows are placed doesn't begin where others
// know, who had their store on another server.
func TestStoreElsewhere(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		store := fmt.Sprintf("store: {servers: [{addr: '%s', user: %s, password: '%s'}]}", servers[2].Addr(), servers[2].User, servers[2].Password)
		member := start(t, f, setup{servers: servers[:2], tables: []string{"people: {shard_key: id}"}, extra: store})
		mustExec(t, member.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY)")
		mustExec(t, member.db(), "INSERT INTO people VALUES (1), (2), (3)")
		member.stop()
		alone := member.beside()
		alone.edit(store, "store: local")
		const told = "several Shunts with a store on another server (store: servers) have served shard s0"
		for range 2 {
			alone.refuses(told)
		}
		if out, code := shunt(t, "check", "--config", alone.config); code != 1 || !strings.Contains(out, told) {
			t.Errorf("check: status %d\n%s", code, out)
		}
		for _, srv := range servers[:2] {
			mustExec(t, onShard(t, srv, ""), "DROP DATABASE shunt_store")
		}
		alone.run()
		want(t, alone.db(), "SELECT COUNT(*) AS n FROM people", "n", "3")
		alone.stop()
		member.run()
	})
}
