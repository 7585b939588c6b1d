package proxy

import (
	"context"
	"slices"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// returnedRows are those that a write over several shards answers (RETURNING). They
// are kept until all shards have written: what fails answers none.
type returnedRows struct {
	definitions [][]byte
	first       *shard.Rows
	rows        []returnedRow
	bytes       int
}

// returnedRow is a row's packet; at is the place of the inserted row in the client's
// statement.
type returnedRow struct {
	at     int
	packet []byte
}

// read takes one shard's answer; places are those of its rows in the client's
// statement, nil where they have none. keep is false for a copy of rows that another
// shard has answered.
func (r *returnedRows) read(conn *shard.Conn, places []int, binary, keep bool) (shard.Summary, error) {
	rows, err := conn.Rows()
	if err != nil || rows.Summary.Err != nil {
		sum := rows.Summary
		sum.Clean = true
		return sum, err
	}
	if r.first == nil {
		r.first, r.definitions = rows, rows.Definitions
	} else if !sameColumns(r.first, rows, binary) {
		err = shard.ErrColumns
	}
	from := len(r.rows)
	for n := 0; ; n++ {
		p, readErr := rows.Next()
		if readErr != nil || p == nil {
			if err == nil || readErr != nil {
				err = readErr
			}
			break
		}
		if r.bytes += len(p); err == nil && keep && r.bytes <= maxReturned { // else the connection's rest is read for its next use
			r.rows = append(r.rows, returnedRow{n, slices.Clone(p)})
		}
	}
	// With IGNORE some rows are left out, nobody says which: then the shard's order.
	if came := r.rows[from:]; len(came) == len(places) {
		for i := range came {
			came[i].at = places[i]
		}
	}
	sum := rows.Summary
	sum.Clean = true // nothing has gone to the client
	return sum, err
}

// whole is the error of rows that are too many to be kept.
func (r *returnedRows) whole() error {
	if r == nil || r.bytes <= maxReturned {
		return nil
	}
	return errReturned
}

// maxReturned bounds the rows of a RETURNING that are held at a time.
const maxReturned = 128 << 20

var errReturned = mysqlerr.New(mysqlerr.TooBigSelect, "RETURNING answers too much over several shards: change fewer rows at a time")

// answerReturned answers the rows in the order of the client's statement.
func (s *session) answerReturned(r *returnedRows, inOrder bool, warnings uint16) error {
	if inOrder {
		slices.SortStableFunc(r.rows, func(a, b returnedRow) int { return a.at - b.at })
	}
	if err := s.writeDefinitions(r.definitions); err != nil {
		return err
	}
	for _, row := range r.rows {
		if err := s.client.WritePacket(row.packet); err != nil {
			return s.clientError(err)
		}
	}
	return s.clientError(s.client.WriteEnd(s.status()|s.more, warnings))
}

// returnsID: an INSERT or REPLACE that answers rows, or a CALL, and may have set
// LAST_INSERT_ID() of its connection.
func (r *request) returnsID() bool {
	return r.plan.Calls || r.plan.Returning && r.plan.Kind != plan.Delete && slices.ContainsFunc(r.plan.Tables, func(t *catalog.Table) bool {
		return slices.ContainsFunc(t.Columns, func(c *catalog.Column) bool { return c.AutoIncrement })
	})
}

// returnedID settles LAST_INSERT_ID() behind RETURNING, whose answer doesn't tell
// it.
func (s *session) returnedID(ctx context.Context, r *request, answered []sent) error {
	b := r.bound
	if !r.returnsID() {
		return nil
	}
	if b.Generated != nil {
		first, err := s.firstInserted(ctx, b.Generated, answered)
		if err != nil {
			return err
		}
		if first > 0 {
			s.diag.give(first)
			return nil
		}
		return s.computedID(ctx, b, answered)
	}
	for _, x := range answered {
		if x.conn.Broken { // its transaction has ended, which is told
			continue
		}
		id, told, err := askID(ctx, x.conn)
		if err != nil {
			return s.shardError(x.shard, err)
		}
		if told && id != 0 {
			s.diag.giveNew(id)
			break
		}
	}
	return nil
}
