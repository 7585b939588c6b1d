package e2e

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// way is a Shunt that the writers and readers of a contest go by.
type way struct {
	*process
	db *sql.DB
	n  int
	// disturbances is odd while something is done to it. away: no client begins anything there.
	disturbances atomic.Int64
	away         atomic.Bool
	// hand is held by who disturbs it.
	hand sync.Mutex
}

func (n *contest) wayBy(p *process) *way {
	db := p.db(func(c *mysql.Config) { c.ReadTimeout = cmp.Or(n.answerTime, 30*time.Second) })
	db.SetMaxIdleConns(writers + readers)
	return &way{process: p, db: db, n: len(n.ways)}
}

// disturb begins a disturbance; the function ends it.
func (w *way) disturb() (end func()) {
	w.disturbances.Add(1)
	return func() { w.disturbances.Add(1) }
}

// going is something that goes by a way, since so many disturbances.
type going struct {
	*way
	since int64
}

// wasDisturbed: or is.
func (g going) wasDisturbed() bool { return g.since%2 == 1 || g.disturbances.Load() != g.since }

// String is for the end of a statement.
func (g going) String() string {
	if g.n == 0 {
		return ""
	}
	return fmt.Sprintf(" (by member %d)", g.n)
}

// pick is a way for what comes next, without those given.
func (n *contest) pick(rnd *rand.Rand, without ...*way) going {
	at := rnd.IntN(len(n.ways))
	for k := range n.ways {
		w := n.ways[(at+k)%len(n.ways)]
		if !w.away.Load() && !slices.Contains(without, w) || len(n.ways) == 1 {
			at = w.n
			break
		}
	}
	return going{n.ways[at], n.ways[at].disturbances.Load()}
}

// seen looks for rows that were just acknowledged by another Shunt than they were written by: by virtual index, by
// key and by neither. Nobody else changes them.
func (w *writer) seen(by going, rows map[int]stored) {
	if len(w.ways) == 1 {
		return
	}
	ids := w.sorted(rows)
	id := ids[w.rnd.IntN(len(ids))]
	s := rows[id]
	conditions := []string{fmt.Sprintf("id = %d", id), fmt.Sprintf("id + 0 = %d", id)}
	if s.present {
		conditions = append(conditions, fmt.Sprintf("tenant = %d AND id = %d", s.tenant, id))
	}
	if s.email != "" {
		conditions = append(conditions, fmt.Sprintf("email = '%s' AND id = %d", s.email, id))
	}
	for _, condition := range conditions {
		other := w.pick(w.rnd, by.way)
		query := "SELECT tenant, id, COALESCE(email, '') AS email, city FROM people WHERE " + condition
		found, err := rowsOf(context.Background(), other.db, query)
		if err != nil {
			w.readFailed(context.Background(), other, query, err)
			continue
		}
		w.reads.Add(1)
		if other.way != by.way {
			w.crossed.Add(1)
		}
		var known []string
		if s.present {
			known = []string{fmt.Sprintf("%d %d %s %s", s.tenant, id, s.email, s.city)}
		}
		if got := flat(found, "tenant", "id", "email", "city"); !slices.Equal(got, known) {
			rows, at := w.direct(id)
			w.fail("%s%s finds %q, and %q was acknowledged%s; on the shards now: %+v at %s", query, other, got, known, by, rows[id], at[id])
		}
	}
}

// sorted are the ids of rows, so that the seed decides.
func (w *writer) sorted(rows map[int]stored) []int {
	ids := change{rows: rows}.ids()
	slices.Sort(ids)
	return ids
}

// endedOn waits until what runs on a shard for connections that are gone is over. By the valves it is known
// which these are: to look at the shard before a cut would leave out one that was made between.
func (n *contest) endedOn(k int, valves ...*throwaway.Valve) {
	live := func(x serverThread) bool {
		return slices.ContainsFunc(valves, func(v *throwaway.Valve) bool { return v.Live(x.port) })
	}
	gone := n.threads(k) // or not: it says so of one that something is under way from, too
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		gone = slices.DeleteFunc(gone, live)
		if len(gone) == 0 {
			return
		}
		if time.Since(began) > time.Minute {
			n.fail("connections that are gone are still there on s%d: %v", k, gone)
			return
		}
		now := n.threads(k)
		gone = slices.DeleteFunc(gone, func(x serverThread) bool { return !slices.Contains(now, x) })
	}
}

// serverThread is a connection of the proxy's as a shard has it.
type serverThread struct{ id, port string }

func (n *contest) threads(k int) (threads []serverThread) {
	var rows []row
	err := errors.New("not asked")
	for began := time.Now(); err != nil && time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		rows, err = rowsOf(context.Background(), n.shards[k], "SELECT id, host FROM information_schema.processlist WHERE user = '"+n.account+"'")
	}
	if err != nil {
		n.fail("list threads of s%d: %v", k, err)
	}
	for _, r := range rows {
		threads = append(threads, serverThread{r["id"], r["host"][strings.LastIndex(r["host"], ":")+1:]})
	}
	return threads
}
