package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMembersPlaceAlike: who would place rows otherwise than the members that serve doesn't serve
// beside them, whether it starts so or its configuration is changed, and the error says what
// differs. Alone it may. TestMembersSchemasChanged has what may change beside them.
func TestMembersPlaceAlike(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 3), tables: []string{"people: {shard_key: id}", "later: {shard_key: id}"}, extra: "store: {shards: true}",
		})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, city BIGINT)")
		mustExec(t, p.db(), "CREATE TABLE lone (x INT)")
		q := p.beside()
		for _, change := range [][2]string{
			{"people: {shard_key: id}", "people: {shard_key: city}"},
			{"people: {shard_key: id}", "people: {placement: anywhere}"},
		} {
			q.edit(change[0], change[1])
			if err := q.launch(); err == nil {
				for id := range 20 { // what it would do
					mustExec(t, q.db(), fmt.Sprintf("REPLACE INTO people VALUES (%d, %d)", id, id*7))
					want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE id = %d", id), "id", fmt.Sprint(id))
				}
				t.Errorf("one with %q serves beside one with %q", change[1], change[0])
				q.stop()
			} else if !strings.Contains(err.Error(), p.schema+".") || !strings.Contains(err.Error(), "start them with the same") {
				t.Errorf("with %q: %v", change[1], err)
			}
			q.edit(change[1], change[0])
		}
		// What isn't there yet is placed as they place it.
		for _, change := range [][2]string{{"later: {shard_key: id}", "later: {placement: reference}"}, {"      later: {shard_key: id}\n", ""}} {
			q.edit(change[0], change[1])
			q.run()
			if log := q.log.String(); !strings.Contains(log, "this one begins by theirs") || !strings.Contains(log, p.schema+".later: hash of id") {
				t.Errorf("with %q it says\n%s", change[1], log)
			}
			mustExec(t, q.db(), "CREATE TABLE later (id BIGINT PRIMARY KEY)")
			mustExec(t, q.db(), "INSERT INTO later VALUES (1)")
			want(t, p.db(), "SELECT id FROM later WHERE id = 1", "id", "1")
			mustExec(t, p.db(), "DROP TABLE later")
			q.stop()
			if change[1] == "" {
				q.edit("      people:", change[0]+"      people:")
			} else {
				q.edit(change[1], change[0])
			}
		}
		lines := shardLines(t, q)
		q.edit(lines[1]+lines[2], lines[2]+lines[1])
		if err := q.launch(); err == nil || !strings.Contains(err.Error(), "s0, s2, s1") {
			t.Errorf("with another order: %v", err)
		}
		q.edit(lines[2]+lines[1], lines[1]+lines[2])

		q.run()
		changed := func() {
			t.Helper()
			p.reload("later: {shard_key: id}", "later: {placement: reference}")
		}
		changed()
		eventually(t, "it waits for the other member", func() bool {
			return strings.Contains(p.log.Tail(5), "waits_for") && strings.Contains(p.log.Tail(5), port(q))
		})
		mustExec(t, p.db(), "CREATE TABLE later (id BIGINT PRIMARY KEY)")
		for id := range 20 {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO later VALUES (%d)", id))
			want(t, q.db(), fmt.Sprintf("SELECT id FROM later WHERE id = %d", id), "id", fmt.Sprint(id))
		}
		mustExec(t, p.db(), "DROP TABLE later")
		q.stop()
		p.edit("later: {placement: reference}", "later: {shard_key: id}")
		changed()
		if log := p.log.Tail(5); !strings.Contains(log, "reload: done") {
			t.Errorf("alone it says\n%s", log)
		}
		q.run() // with what was so before
		q.reload("later: {shard_key: id}", "later: {placement: reference}")
		mustExec(t, q.db(), "CREATE TABLE later (id BIGINT PRIMARY KEY)")
		mustExec(t, q.db(), "INSERT INTO later VALUES (1)")
		want(t, p.db(), "SELECT id FROM later", "id", "1")

		// Those that have died are in nobody's way.
		p.kill()
		q.kill()
		q.edit("later: {placement: reference}", "later: {placement: reference}\n      more: {shard_key: id}")
		q.run()
		want(t, q.db(), "SELECT id FROM later", "id", "1")
		q.stop()
		// A version that writes keys otherwise finds none.
		store := onShard(t, p.servers[0], "shunt_store")
		mustExec(t, store, "UPDATE records SET body = REPLACE(body, 'keys of encoding', 'keys of encoding 9')")
		if err := q.launch(); err == nil || !strings.Contains(err.Error(), "doesn't write") {
			t.Errorf("with other keys: %v", err)
		}
		mustExec(t, store, "UPDATE records SET body = REPLACE(body, 'keys of encoding 9', 'keys of encoding')")
	})
}

// shardLines are the lines of the shards in a configuration.
func shardLines(t *testing.T, p *process) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "- {name: s") {
			lines = append(lines, line)
		}
	}
	if len(lines) < 2 {
		t.Fatalf("the configuration has the shards %q", lines)
	}
	return lines
}
