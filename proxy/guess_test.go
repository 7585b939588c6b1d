package proxy

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// guessed is an index over a network that guesses one set of shards, and says another one.
type guessed struct {
	*observed
	guess, says catalog.ShardSet
	// guessing and confirms are called, by the session, as it guesses, and before it is told whether that holds.
	guessing, confirms func()

	mu                      sync.Mutex
	asked, guesses, confirm int
}

func (g *guessed) Removals() uint64 { return 0 }

func (g *guessed) answer(questions []plan.Question, with catalog.ShardSet) {
	for i := range questions {
		questions[i].Shards, questions[i].Within = with, true
	}
}

func (g *guessed) Ask(_ context.Context, questions []plan.Question) error {
	g.answer(questions, g.says)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return nil
}

func (g *guessed) Guess(questions []plan.Question) func(context.Context) bool {
	if g.guess.Empty() {
		return nil
	}
	g.answer(questions, g.guess)
	if g.guessing != nil {
		g.guessing()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.guesses++
	return func(context.Context) bool {
		g.mu.Lock()
		g.confirm++
		g.mu.Unlock()
		if g.confirms != nil {
			g.confirms()
		}
		return g.says.Minus(g.guess).Empty()
	}
}

// serveGuessed is a proxy before four shards, each of which answers its number.
func serveGuessed(t *testing.T, g *guessed) *fakes {
	t.Helper()
	g.observed = &observed{t: t}
	s := serve(t, 4, fakeOptions{}, func(o *Options) {
		o.Directory.Put(observedCatalog(o.Directory.Catalog().Shards, 1, "by_email"))
		o.Index = g
	})
	g.p = s.p
	for id, f := range s.shards {
		f.answer("SELECT city", fakeAnswer{columns: []string{"city"}, rows: [][]any{{fmt.Sprint("s", id)}}})
		f.answer("SELECT COUNT", fakeAnswer{columns: []string{"#n"}, rows: [][]any{{1}}})
	}
	return s
}

func shardsOf(ids ...catalog.ShardID) (set catalog.ShardSet) {
	for _, id := range ids {
		set.Add(id)
	}
	return set
}

// guessedReads are reads by an index, which one shard or several answer.
var guessedReads = []string{
	"SELECT city FROM people WHERE email = 'a@x'",
	"SELECT city FROM people WHERE email IN ('a@x', 'b@x') LIMIT 5",
	"SELECT city FROM people WHERE email = 'a@x' AND city > 'a'",
	"SELECT COUNT(*) FROM people WHERE email = 'a@x'",
}

// arrives waits until a shard has a statement, in a session's place.
func arrives(t *testing.T, f *fakeShard, begins string) {
	for end := time.Now().Add(10 * time.Second); f.count(begins) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("the shard doesn't get it: " + begins)
			return
		}
	}
}

// clients are connections of each protocol.
func clients(t *testing.T, s *fakes) map[string]*sql.Conn {
	t.Helper()
	by := map[string]*sql.Conn{}
	for protocol, interpolates := range map[string]bool{"text": true, "prepared": false} {
		c, err := s.open("root", "", func(c *mysqldriver.Config) { c.InterpolateParams = interpolates }).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		by[protocol] = c
	}
	return by
}

// TestGuessRight: a read is at its shards before the index has said which these are, and the client hears of it
// afterwards.
func TestGuessRight(t *testing.T) {
	t.Parallel()
	for _, shards := range []catalog.ShardSet{shardsOf(1), shardsOf(0, 2)} {
		for _, query := range guessedReads {
			for _, args := range [][]any{nil, {1}} {
				g := &guessed{guess: shards, says: shards}
				s := serveGuessed(t, g)
				begins := query[:len("SELECT city")]
				g.confirms = func() {
					for id := range shards.All {
						arrives(t, s.shards[id], begins)
					}
				}
				text := query
				if args != nil {
					text = strings.Replace(query, "WHERE", "WHERE 1 = ? AND", 1)
				}
				rows, err := rowsOf(t.Context(), s.conn(), text, args...)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				want := []string{"s1"}
				if shards.Len() == 2 {
					want = []string{"s0", "s2"}
				}
				if begins == "SELECT COUN" {
					want = []string{fmt.Sprint(shards.Len())}
				}
				if !slices.Equal(rows, want) {
					t.Errorf("%s: %v, want %v", text, rows, want)
				}
				if g.asked != 0 || g.guesses != 1 || g.confirm != 1 || s.metric("shunt_index_guesses_total", "right") != 1 {
					t.Errorf("%s: asked %d, guessed %d, confirmed %d times", text, g.asked, g.guesses, g.confirm)
				}
			}
		}
	}
}

// TestGuessWrong: of a guess that was wrong the client hears nothing, whatever the shards that were guessed
// do with it.
func TestGuessWrong(t *testing.T) {
	t.Parallel()
	shards := []catalog.ShardSet{shardsOf(1), shardsOf(0, 2), shardsOf(1, 2)}
	for name, does := range map[string]func(*fakeShard, <-chan struct{}){
		"answers": func(*fakeShard, <-chan struct{}) {},
		"fails": func(f *fakeShard, _ <-chan struct{}) {
			f.answer("SELECT", fakeAnswer{err: mysqlerr.New(mysqlerr.DivisionByZero, "of the wrong shard")})
		},
		"is dead": func(f *fakeShard, _ <-chan struct{}) { f.die() },
		"is slow": func(f *fakeShard, over <-chan struct{}) {
			f.answer("SELECT", fakeAnswer{columns: []string{"city"}, until: over})
		},
		"has much": func(f *fakeShard, _ <-chan struct{}) {
			rows := make([][]any, 5000)
			for i := range rows {
				rows[i] = []any{strings.Repeat("x", 100)}
			}
			f.answer("SELECT", fakeAnswer{columns: []string{"city"}, rows: rows})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, says := range shards {
				for _, query := range guessedReads {
					over := make(chan struct{})
					g := &guessed{guess: shardsOf(3), says: says}
					s := serveGuessed(t, g)
					by := clients(t, s)
					for _, c := range by {
						answers(t, c, "SELECT city FROM people", "s0", "s1", "s2", "s3") // there are connections
					}
					does(s.shards[3], over)
					for protocol, c := range by {
						text := strings.Replace(query, "WHERE", "WHERE 1 = ? AND", 1)
						rows, err := rowsOf(t.Context(), c, text, 1)
						var want []string
						for id := range says.All {
							want = append(want, fmt.Sprint("s", id))
						}
						if strings.Contains(query, "COUNT") {
							want = []string{fmt.Sprint(says.Len())}
						}
						if slices.Sort(rows); err != nil || !slices.Equal(rows, want) {
							t.Errorf("%s, %s: %v %v, want %v", text, protocol, rows, err, want)
						}
						if warnings, err := rowsOf(t.Context(), c, "SHOW WARNINGS"); err != nil || len(warnings) > 0 {
							t.Errorf("%s, %s: warnings %v %v", text, protocol, warnings, err)
						}
					}
					close(over)
				}
			}
		})
	}
}

// TestGuessKilled: a read that was killed where it didn't belong isn't begun again.
func TestGuessKilled(t *testing.T) {
	t.Parallel()
	g := &guessed{guess: shardsOf(3), says: shardsOf(1)}
	s := serveGuessed(t, g)
	c, other := s.conn(), s.conn()
	g.confirms = func() {
		arrives(t, s.shards[3], "SELECT city")
		if _, err := other.ExecContext(t.Context(), fmt.Sprint("KILL QUERY ", s.idOf("SELECT city"))); err != nil {
			t.Error(err)
		}
	}
	fails(t, c, guessedReads[0], mysqlerr.QueryInterrupted, "interrupted")
	if n := s.shards[1].count("SELECT city"); n != 0 {
		t.Errorf("it was sent %d times where it belongs", n)
	}
}

// TestGuessStale: what the index has said while the catalog changed counts for nothing.
func TestGuessStale(t *testing.T) {
	t.Parallel()
	for _, query := range guessedReads {
		g := &guessed{guess: shardsOf(1, 3), says: shardsOf(1)}
		s := serveGuessed(t, g)
		g.confirms = func() {
			if d := s.p.opts.Directory; d.Catalog().Version == 1 {
				d.Put(observedCatalog(d.Catalog().Shards, 2, "by_email"))
				g.guess, g.says = catalog.ShardSet{}, shardsOf(2)
			}
		}
		want := "s2"
		if strings.Contains(query, "COUNT") {
			want = "1"
		}
		answers(t, s.conn(), query, want)
	}
}

// TestNoGuess: what has an effect, or goes by what its connection has, or is in a transaction, is sent only
// where it belongs, once.
func TestNoGuess(t *testing.T) {
	t.Parallel()
	for _, statements := range [][]string{
		{"SELECT city FROM people WHERE email = 'a@x' FOR UPDATE"},
		{"SELECT city FROM people WHERE email = 'a@x' FOR SHARE"},
		{"SELECT city, @n FROM people WHERE email = 'a@x'"},
		{"SELECT city, @@session.sql_mode FROM people WHERE email = 'a@x'"},
		{"SELECT city, SLEEP(0) FROM people WHERE email = 'a@x'"},
		{"SELECT city, BENCHMARK(1, 1) FROM people WHERE email = 'a@x'"},
		{"SELECT city, next_number() FROM people WHERE email = 'a@x'"},
		{"SELECT city, shop.abs(1) FROM people WHERE email = 'a@x'"},
		{"SELECT city, `abs`(1) FROM people WHERE email = 'a@x'"},
		{"SELECT city, LAST_INSERT_ID(5) FROM people WHERE email = 'a@x'"},
		{"SELECT SQL_CALC_FOUND_ROWS city FROM people WHERE email = 'a@x'"},
		{"UPDATE people SET city = 'b' WHERE email = 'a@x'"},
		{"DELETE FROM people WHERE email = 'a@x'"},
		{"BEGIN", "SELECT city FROM people WHERE email = 'a@x'"},
		{"SET autocommit = 0", "SELECT city FROM people WHERE email = 'a@x'"},
		{"SET TRANSACTION READ ONLY", "SELECT city FROM people WHERE email = 'a@x'"},
		{"LOCK TABLES people READ", "SELECT city FROM people WHERE email = 'a@x'"},
	} {
		t.Run(strings.Join(statements, "; "), func(t *testing.T) {
			t.Parallel()
			g := &guessed{guess: shardsOf(3), says: shardsOf(1)}
			s := serveGuessed(t, g)
			c := s.conn()
			for _, statement := range statements {
				if _, err := rowsOf(t.Context(), c, statement); err != nil {
					t.Log(err) // it may be refused
				}
			}
			if g.guesses != 0 {
				t.Error("it is guessed where it goes")
			}
		})
	}
}

// TestGuessHeldBack: a client gets nothing while a guess isn't confirmed, however much the shard has answered.
func TestGuessHeldBack(t *testing.T) {
	t.Parallel()
	g := &guessed{guess: shardsOf(1), says: shardsOf(1)}
	s := serveGuessed(t, g)
	rows := make([][]any, 20000)
	for i := range rows {
		rows[i] = []any{strings.Repeat("x", 100)}
	}
	s.shards[1].answer("SELECT city", fakeAnswer{columns: []string{"city"}, rows: rows})
	// written is what the client has got, or will have.
	written := func() (n int64) {
		s.p.sessions.mu.Lock()
		defer s.p.sessions.mu.Unlock()
		for of := range s.p.sessions.open {
			n += of.client.Writer().Total()
		}
		return n
	}
	var before, early int64
	g.guessing = func() { before = written() }
	g.confirms = func() {
		arrives(t, s.shards[1], "SELECT city")
		early = written() - before
	}
	got, err := rowsOf(t.Context(), s.conn(), guessedReads[0])
	if err != nil || len(got) != len(rows) || early != 0 {
		t.Errorf("%d rows (%v), %d bytes before the guess was confirmed", len(got), err, early)
	}
}
