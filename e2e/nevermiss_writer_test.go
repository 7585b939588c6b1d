package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// writer changes its own rows in every way, and keeps its ledger.
type writer struct {
	*contest
	w   int
	l   *ledger
	rnd *rand.Rand
}

// change is a statement and what the rows hold once it is acknowledged.
type change struct {
	query string
	args  []any
	rows  map[int]stored
	// affected is the number of affected rows; -1 where it may vary.
	affected int
}

func (c change) ids() (ids []int) {
	for id := range c.rows {
		ids = append(ids, id)
	}
	return ids
}

func (w *writer) run(ctx context.Context) {
	for ; ctx.Err() == nil; breathe() {
		w.still.RLock()
		switch w.rnd.IntN(8) {
		case 0:
			w.transaction(true)
		case 1:
			w.transaction(false)
		case 2:
			w.savepoint()
		case 3:
			if w.numbered != nil {
				w.count()
			}
			w.statement(w.next(w.rows()))
		default:
			w.statement(w.next(w.rows()))
		}
		w.still.RUnlock()
	}
	// What a kill left open is settled by now.
	w.resolve()
}

// rows is the writer's picture of its rows: it alone changes them.
func (w *writer) rows() map[int]stored {
	picture := map[int]stored{}
	for id, c := range w.l.view() {
		picture[id] = c.stored
	}
	return picture
}

// statement runs one change with autocommit.
func (w *writer) statement(c change) {
	// The writer's own context is not the test's end: a statement in flight is
	// waited for.
	w.l.begin(c.ids()...)
	by := w.pick(w.rnd)
	result, err := by.db.ExecContext(context.Background(), c.query, c.args...)
	w.tell(c.ids(), "%s %v: %v", c.query, c.args, err)
	w.finish(by, c, result, err)
}

func (w *writer) finish(by going, c change, result sql.Result, err error) {
	if err != nil {
		w.failed(by, c.query, err)
		w.resolve()
		return
	}
	w.writes.Add(1)
	if n, err := result.RowsAffected(); err == nil && c.affected >= 0 && int(n) != c.affected {
		w.fail("%s %v: %d rows affected, want %d", c.query, c.args, n, c.affected)
	}
	w.l.settle(c.rows)
	w.seen(by, c.rows)
}

// failed reports errors that neither a kill nor a lock conflict explains.
func (w *writer) failed(by going, query string, err error) {
	if !w.explained(by, err) {
		w.fail("%s%s: %v", query, by, err)
	}
	if connectionLost(err) {
		w.awaitSettled()
	}
}

// resolve reads on the shards what became of the rows that are pending.
func (w *writer) resolve() {
	var pending []int
	for id, c := range w.l.view() {
		if c.pending {
			pending = append(pending, id)
		}
	}
	if len(pending) == 0 {
		return
	}
	w.awaitSettled()
	if w.ended != nil {
		w.ended()
	}
	found, _ := w.direct(pending...)
	rows := map[int]stored{}
	for _, id := range pending {
		rows[id] = found[id]
		w.tell([]int{id}, "found %+v", found[id])
	}
	w.l.settle(rows)
}

// transaction runs some changes and commits them, or rolls them back: then no
// reader may see a difference, and the ledger says so by staying as it is.
func (w *writer) transaction(commit bool) {
	ctx := context.Background()
	by := w.pick(w.rnd)
	conn, err := by.db.Conn(ctx)
	if err != nil {
		w.failed(by, "connect", err)
		return
	}
	defer conn.Close()
	exec := func(query string, args ...any) bool {
		_, err := conn.ExecContext(ctx, query, args...)
		if err != nil {
			w.failed(by, query, err)
		}
		return err == nil
	}
	picture := w.rows()
	changed := map[int]stored{}
	if !exec("BEGIN") {
		return
	}
	ok := true
	for range 1 + w.rnd.IntN(4) {
		c := w.next(picture)
		if commit {
			// From here to the end nobody knows which state a reader sees.
			w.l.begin(c.ids()...)
		}
		ok = exec(c.query, c.args...)
		if w.tell(c.ids(), "in a transaction to be committed (%v): %s %v: %v", commit, c.query, c.args, ok); !ok {
			break
		}
		for id, s := range c.rows {
			picture[id], changed[id] = s, s
			if w.outages && !s.present {
				// A COMMIT that fails on its shard brings it back. Were it inserted for another tenant, by another
				// shard that commits, it would be there twice.
				delete(picture, id)
			}
		}
		w.checkOwn(conn, picture, c)
	}
	if !ok || !commit {
		// After an error the transaction may be gone with its connection.
		w.tell(change{rows: changed}.ids(), "ROLLBACK: %v", exec("ROLLBACK"))
		w.resolve()
		w.transactions.Add(1)
		return
	}
	done := exec("COMMIT")
	if w.tell(change{rows: changed}.ids(), "COMMIT: %v", done); done {
		w.l.settle(changed)
		w.transactions.Add(1)
		w.seen(by, changed)
	}
	// Begun but not changed, or a commit that was lost.
	w.resolve()
}

// checkOwn: inside of its transaction a writer finds its own changes by index.
func (w *writer) checkOwn(conn *sql.Conn, picture map[int]stored, c change) {
	for id, s := range c.rows {
		if !s.present || s.email == "" {
			continue
		}
		query := fmt.Sprintf("SELECT id FROM people WHERE email = '%s'", s.email)
		rows, err := rowsOf(context.Background(), conn, query)
		if err != nil {
			return // the next statement says why
		}
		var wanted []string
		for other, o := range picture {
			if o.present && o.email == s.email {
				wanted = append(wanted, fmt.Sprint(other))
			}
		}
		slices.Sort(wanted)
		if got := flat(rows, "id"); !slices.Equal(got, wanted) {
			w.fail("in its own transaction, after %s (row %d): %s finds %v, want %v", c.query, id, query, got, wanted)
		}
		return
	}
}

// savepoint commits one change and undoes another.
func (w *writer) savepoint() {
	ctx := context.Background()
	by := w.pick(w.rnd)
	conn, err := by.db.Conn(ctx)
	if err != nil {
		w.failed(by, "connect", err)
		return
	}
	defer conn.Close()
	picture := w.rows()
	kept := w.next(picture)
	maps.Copy(picture, kept.rows)
	undone := w.next(picture)
	w.l.begin(kept.ids()...)
	for _, s := range []change{{query: "BEGIN"}, kept, {query: "SAVEPOINT sp"}, undone, {query: "ROLLBACK TO SAVEPOINT sp"}, {query: "COMMIT"}} {
		_, err := conn.ExecContext(ctx, s.query, s.args...)
		if w.tell(append(kept.ids(), undone.ids()...), "with a savepoint: %s %v: %v", s.query, s.args, err); err != nil {
			w.failed(by, s.query, err)
			if !connectionLost(err) {
				if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
					w.failed(by, "ROLLBACK", err)
				}
			}
			w.resolve()
			return
		}
	}
	w.l.settle(kept.rows)
	w.transactions.Add(1)
	w.seen(by, kept.rows)
}

// next invents a change, given what the rows hold.
func (w *writer) next(rows map[int]stored) change {
	var present, absent []int
	for id, s := range rows {
		if s.present {
			present = append(present, id)
		} else {
			absent = append(absent, id)
		}
	}
	// Maps have no order: the seed shall decide.
	slices.Sort(present)
	slices.Sort(absent)
	pick := func(ids []int) int { return ids[w.rnd.IntN(len(ids))] }
	e := email(w.w, w.rnd.IntN(emailsPerWriter))
	city := cities[w.rnd.IntN(len(cities))]
	tenant := w.w*tenantsPerOwner + w.rnd.IntN(tenantsPerOwner)
	if len(present) == 0 || len(absent) > 0 && w.rnd.IntN(4) == 0 {
		return w.insert(absent, tenant, e, city)
	}
	id := pick(present)
	old := rows[id]
	if len(absent) == 0 {
		return change{fmt.Sprintf("DELETE FROM people WHERE tenant = %d AND id = %d", old.tenant, id), nil, map[int]stored{id: {}}, 1}
	}
	where := fmt.Sprintf(" WHERE tenant = %d AND id = %d", old.tenant, id)
	one := func(s stored) map[int]stored { return map[int]stored{id: s} }
	changed := func(email, city string) stored { return stored{true, old.tenant, email, city} }
	switch w.rnd.IntN(15) {
	case 0: // literal
		return change{fmt.Sprintf("UPDATE people SET email = '%s', n = n + 1", e) + where, nil, one(changed(e, old.city)), 1}
	case 1: // prepared
		return change{"UPDATE people SET email = ?, city = ?, n = n + 1 WHERE tenant = ? AND id = ?", []any{e, city, old.tenant, id}, one(changed(e, city)), 1}
	case 2: // an expression that Shunt can't compute
		at := strings.Index(e, "-")
		return change{fmt.Sprintf("UPDATE people SET email = CONCAT('%s', LOWER('%s')), n = n + 1", e[:at], strings.ToUpper(e[at:])) + where, nil, one(changed(e, old.city)), 1}
	case 3: // one column of a composite key
		return change{fmt.Sprintf("UPDATE people SET city = '%s', n = n + 1", city) + where, nil, one(changed(old.email, city)), 1}
	case 4: // to NULL: out of the index
		return change{"UPDATE people SET email = NULL, n = n + 1" + where, nil, one(changed("", old.city)), 1}
	case 5: // on duplicate key: the row is there
		return change{fmt.Sprintf("INSERT INTO people (tenant, id, email, city) VALUES (%d, %d, 'unused', 'unused') ON DUPLICATE KEY UPDATE email = '%s', n = n + 1",
			old.tenant, id, e), nil, one(changed(e, old.city)), -1}
	case 6: // on duplicate key with the row's own values, perhaps new
		n := pick(append(absent, id))
		s := stored{true, tenant, e, city}
		if n == id {
			s.tenant = old.tenant
		}
		return change{fmt.Sprintf("INSERT INTO people (tenant, id, email, city) VALUES (%d, %d, '%s', '%s') ON DUPLICATE KEY UPDATE email = VALUES(email), city = VALUES(city), n = n + 1",
			s.tenant, n, e, city), nil, map[int]stored{n: s}, -1}
	case 7: // replace
		return change{fmt.Sprintf("REPLACE INTO people (tenant, id, email) VALUES (%d, %d, '%s')", old.tenant, id, e), nil, one(changed(e, "nowhere")), -1}
	case 8: // another primary key
		n := pick(absent)
		return change{fmt.Sprintf("UPDATE people SET id = %d", n) + where, nil, map[int]stored{id: {}, n: old}, 1}
	case 9: // delete
		return change{"DELETE FROM people" + where, nil, one(stored{}), 1}
	case 10, 11, 12: // by virtual index: all rows of an email
		if old.email == "" {
			return change{"DELETE FROM people" + where, nil, one(stored{}), 1}
		}
		all := map[int]stored{}
		for other, s := range rows {
			if s.present && s.email == old.email {
				all[other] = s
			}
		}
		if w.rnd.IntN(3) == 0 {
			for other := range all {
				all[other] = stored{}
			}
			return change{"DELETE FROM people WHERE email = ?", []any{old.email}, all, len(all)}
		}
		for other, s := range all {
			s.email = e
			all[other] = s
		}
		return change{fmt.Sprintf("UPDATE people SET email = '%s', n = n + 1 WHERE email = '%s'", e, old.email), nil, all, len(all)}
	default: // by another virtual index
		return change{fmt.Sprintf("UPDATE people SET email = '%s', n = n + 1 WHERE id = %d", e, id), nil, one(changed(e, old.city)), 1}
	}
}

func (w *writer) insert(absent []int, tenant int, e, city string) change {
	id := absent[w.rnd.IntN(len(absent))]
	switch w.rnd.IntN(4) {
	case 0: // several rows, over several shards
		c := change{rows: map[int]stored{}}
		var b strings.Builder
		b.WriteString("INSERT INTO people (email, id, tenant) VALUES ")
		for i, n := range absent[:min(len(absent), 2+w.rnd.IntN(5))] {
			if i > 0 {
				b.WriteString(", ")
			}
			s := stored{true, w.w*tenantsPerOwner + w.rnd.IntN(tenantsPerOwner), email(w.w, w.rnd.IntN(emailsPerWriter)), "nowhere"}
			fmt.Fprintf(&b, "('%s', %d, %d)", s.email, n, s.tenant)
			c.rows[n] = s
		}
		c.query, c.affected = b.String(), len(c.rows)
		return c
	case 1: // from another table of the same shard
		k := w.rnd.IntN(emailsPerWriter)
		return change{
			fmt.Sprintf("INSERT INTO people (tenant, id, email, city) SELECT tenant, %d, email, city FROM templates WHERE tenant = %d AND id = %d", id, tenant, k),
			nil,
			map[int]stored{id: {true, tenant, email(w.w, k), cities[k%len(cities)]}},
			1,
		}
	case 2: // prepared
		return change{"INSERT INTO people (tenant, id, email, city) VALUES (?, ?, ?, ?)", []any{tenant, id, e, city}, map[int]stored{id: {true, tenant, e, city}}, 1}
	default: // an expression
		return change{
			fmt.Sprintf("INSERT INTO people (tenant, id, email, city) VALUES (%d, %d, CONCAT('%s', ''), '%s')", tenant, id, e, city),
			nil,
			map[int]stored{id: {true, tenant, e, city}},
			1,
		}
	}
}
