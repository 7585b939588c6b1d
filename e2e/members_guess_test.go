package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestMembersGuess: reads are sent to the shards where their rows were before, and find them all the same where
// another member has moved them since; and the client gets nothing of what the former shards have.
func TestMembersGuess(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"people: {shard_key: id}", "places: {placement: reference}"}, extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		mover, reader := p.db(), q.conn()
		mustExec(t, mover, "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), phone VARCHAR(50), city VARCHAR(50))")
		mustExec(t, mover, "CREATE TABLE places (city VARCHAR(50) PRIMARY KEY, land VARCHAR(50))")
		p.createIndex(mover, "idx_email", "people(email) HOME s0")
		p.createIndex(mover, "idx_phone", "people(phone) HOME s1")
		for _, column := range []string{"email", "phone"} {
			eventually(t, "reads go by the indexes", func() bool {
				return strings.Contains(routeOf(t, reader, "SELECT city FROM people WHERE "+column+" = 'a'").access, "index:idx_"+column)
			})
		}
		p.settled(mover)
		guesses := func(outcome string) float64 {
			n, _ := q.metric("shunt_index_guesses_total", `outcome="`+outcome+`"`)
			return n
		}
		id := 0
		for i, statement := range []string{
			"SELECT city AS v FROM people WHERE email = %[1]s",
			"SELECT city AS v FROM people WHERE email = %[1]s LIMIT 1",
			"SELECT city AS v FROM people WHERE email IN (%[1]s, %[2]s) ORDER BY city LIMIT 1",
			"SELECT MAX(city) AS v FROM people WHERE email = %[1]s OR phone = %[2]s",
			"SELECT a.city AS v FROM people a JOIN people b ON a.id = b.id WHERE a.email = %[1]s AND b.phone = %[2]s",
			"SELECT people.city AS v FROM people LEFT JOIN places ON people.city = places.city WHERE email = %[1]s",
			"SELECT city AS v, REPEAT('x', 3000000) AS much FROM people WHERE email = %[1]s",
		} {
			for _, prepared := range []bool{false, true} {
				email, phone := fmt.Sprintf("e%d-%t@x", i, prepared), fmt.Sprintf("p%d-%t", i, prepared)
				find := func() {
					t.Helper()
					text, args := fmt.Sprintf(statement, "'"+email+"'", "'"+phone+"'"), []any(nil)
					if prepared {
						text, args = fmt.Sprintf(statement, "?", "?"), []any{email, phone}[:strings.Count(statement, "%[")]
					}
					rows := mustRows(t, reader, text, args...)
					if len(rows) != 1 || rows[0]["v"] != fmt.Sprint("c", id) {
						t.Fatalf("%s %v: %d rows, not the one that was written", text, args, len(rows))
					}
				}
				move := func() {
					t.Helper()
					mustExec(t, mover, fmt.Sprintf("DELETE FROM people WHERE id = %d", id))
					id++
					mustExec(t, mover, fmt.Sprintf("INSERT INTO people VALUES (%d, '%s', '%s', 'c%[1]d')", id, email, phone))
				}
				id++
				mustExec(t, mover, fmt.Sprintf("INSERT INTO people VALUES (%d, '%s', '%s', 'c%[1]d')", id, email, phone))
				right := guesses("right")
				eventually(t, statement+" is guessed", func() bool {
					find()
					return guesses("right") > right
				})
				wrong := guesses("wrong")
				eventually(t, statement+" is guessed in vain", func() bool {
					move()
					find()
					return guesses("wrong") > wrong
				})
				mustExec(t, mover, fmt.Sprintf("DELETE FROM people WHERE id = %d", id))
			}
		}
		p.check()
	})
}
