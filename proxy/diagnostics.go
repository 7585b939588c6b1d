package proxy

import (
	"bytes"
	"context"
	"slices"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// diagnostics are what a session tells of its statements: SHOW WARNINGS and SHOW ERRORS,
// ROW_COUNT(), FOUND_ROWS() and LAST_INSERT_ID(). A pooled connection's are other sessions' too, so
// they are read off it right after the statement, before it goes back.
type diagnostics struct {
	// warnings are rows of SHOW WARNINGS.
	warnings [][][]byte
	// over and report are what SHOW WARNINGS has above and below the error that the statement ends with.
	over, report [][][]byte
	// failed is the code of the error that a shard has answered the statement with, 0 for none. told:
	// the client has got it.
	failed uint16
	told   bool
	// insertID is LAST_INSERT_ID(). given: a row has got it since givenIn began. It may be what it was
	// before: two tables count alike.
	insertID uint64
	given    bool
	// rows is what ROW_COUNT() tells, and changed what it will tell the next statement.
	rows, changed int64
	// found is what FOUND_ROWS() tells; answered are the rows that Shunt itself has
	// answered the statement with, -1 for none.
	found    int64
	answered int
	// spliced are the FOUND_ROWS() whose value stands in the statement.
	spliced int
}

// begin says that a statement begins, whose outcome is not known yet: an error
// and rows count as -1, an OK as the rows that it changed.
func (d *diagnostics) begin() {
	d.rows, d.changed, d.answered = d.changed, -1, -1
	d.over = nil
}

// sending says that a statement is about to be sent to shards, none of which has failed yet.
func (d *diagnostics) sending() { d.failed = 0 }

// fail notes an error that a shard has answered.
func (d *diagnostics) fail(code uint16, message string) {
	d.told, d.failed, d.given = true, code, false
	d.replace(condition("Error", code, message))
}

// refused notes that Shunt answers with an error of a server's, which has got nothing.
func (d *diagnostics) refused(code uint16) { d.failed = code }

// untold forgets a shard's error, which the client doesn't get: what failed is done again.
func (d *diagnostics) untold() { d.told, d.failed = false, 0 }

// unanswered says that the client has got no answer yet: the statement begins, or goes another way.
func (d *diagnostics) unanswered() { d.told = false }

// keepAnswered has what runs until undo tell the client nothing.
func (d *diagnostics) keepAnswered() (undo func()) {
	told := d.told
	return func() { d.told = told }
}

// end notes the error that the statement ends with. Whatever some shards had done before it was
// undone.
func (d *diagnostics) end(code uint16, message string) {
	d.changed = -1
	d.replace(slices.Concat(d.over, [][][]byte{condition("Error", code, message)}, d.report)...)
	d.over, d.report = nil, nil
}

// below has SHOW WARNINGS tell a row below the error that the statement will end with.
func (d *diagnostics) below(row [][]byte) { d.report = append(d.report, row) }

// above has SHOW WARNINGS tell rows above that error, which a server has told as the last of them.
func (d *diagnostics) above(rows [][][]byte) {
	if last := len(rows) - 1; last > 0 && string(rows[last][0]) == "Error" {
		d.over = rows[:last]
	}
}

// ok notes the rows that an OK tells of.
func (d *diagnostics) ok(affected uint64) { d.changed = int64(affected) }

// answers notes the rows that Shunt itself answers.
func (d *diagnostics) answers(rows int) { d.answered = rows }

// clear forgets all warnings.
func (d *diagnostics) clear() { d.warnings = nil }

// replace has SHOW WARNINGS tell these rows.
func (d *diagnostics) replace(rows ...[][]byte) { d.warnings = rows }

// add has SHOW WARNINGS tell these rows behind those that it has.
func (d *diagnostics) add(rows ...[][]byte) { d.warnings = append(d.warnings, rows...) }

// warn adds to what SHOW WARNINGS tells of the statement.
func (d *diagnostics) warn(code uint16, message string) { d.add(condition("Warning", code, message)) }

// count is how many warnings an answer tells of.
func (d *diagnostics) count() uint16 { return warningCount(len(d.warnings)) }

// keepBefore has SHOW WARNINGS tell what it did before the statement, if that has warned of nothing.
func (d *diagnostics) keepBefore(before [][][]byte) {
	if len(d.warnings) == 0 {
		d.replace(before...)
	}
}

// forget is clear, if nothing is told but what was before the statement.
func (d *diagnostics) forget(before [][][]byte) {
	if len(before) > 0 && len(d.warnings) > 0 && &before[0] == &d.warnings[0] {
		d.clear()
	}
}

// reword changes the messages.
func (d *diagnostics) reword(message func(string) string) {
	for _, w := range d.warnings {
		if len(w) > 2 {
			w[2] = []byte(message(string(w[2])))
		}
	}
}

// leaveOut has SHOW WARNINGS tell less: each of these rows once.
func (d *diagnostics) leaveOut(rows [][][]byte) {
	kept := slices.Clone(d.warnings)
	for _, row := range rows {
		if i := slices.IndexFunc(kept, func(w [][]byte) bool { return slices.EqualFunc(w, row, bytes.Equal) }); i >= 0 {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	d.warnings = kept
}

// has reports whether SHOW WARNINGS tells a row already.
func (d *diagnostics) has(row [][]byte) bool {
	return slices.ContainsFunc(d.warnings, func(told [][]byte) bool {
		return slices.EqualFunc(told, row, bytes.Equal)
	})
}

// read replaces what SHOW WARNINGS tells by what a connection's does, as far as it can be asked.
func (d *diagnostics) read(ctx context.Context, conn *shard.Conn) {
	if res, err := conn.Query(ctx, "SHOW WARNINGS"); err == nil {
		d.warnings = res.Rows
	}
}

// keep notes what later statements may ask about, of an answer that a shard has given.
func (d *diagnostics) keep(ctx context.Context, conn *shard.Conn, sum *shard.Summary) {
	if sum.LastInsertID != 0 {
		d.insertID = sum.LastInsertID
	}
	if sum.Err != nil {
		return // fail has noted it
	}
	d.clear()
	if sum.Warnings > 0 && !conn.Broken {
		d.read(ctx, conn)
	}
}

// addShard adds the warnings that a shard has of its part of a read. What is of the text
// only the first shard tells; it returns how many the others have of that.
func (d *diagnostics) addShard(ctx context.Context, conn *shard.Conn, first bool) (again int) {
	res, err := conn.Query(ctx, "SHOW WARNINGS")
	if err != nil {
		return 0
	}
	for _, w := range res.Rows {
		if !first && len(w) > 2 && (ofText(codeOf(w)) || codeOf(w) == invalidText && d.has(w)) {
			again++
		} else {
			d.add(w)
		}
	}
	return again
}

// addNew adds the warnings of a shard that no other has given, of the codes that are wanted; nil: all.
func (d *diagnostics) addNew(ctx context.Context, conn *shard.Conn, wanted func(code uint16) bool) {
	res, err := conn.Query(ctx, "SHOW WARNINGS")
	if err != nil {
		return // it shows at the next statement
	}
	for _, w := range res.Rows {
		if !d.has(w) && (wanted == nil || wanted(codeOf(w))) {
			d.add(w)
		}
	}
}

// addPart adds the n warnings that a shard has of its part of a write, and
// returns how many of them count. rows are the part's. first: it is the first shard,
// which alone tells of what is of the text. skipped: the row was left out, and the error
// that says why is a warning.
func (d *diagnostics) addPart(ctx context.Context, conn *shard.Conn, n uint16, rows []int, first, skipped bool) uint16 {
	if n == 0 {
		return 0
	}
	res, err := conn.Query(ctx, "SHOW WARNINGS")
	if err != nil {
		return n
	}
	if skipped {
		n = uint16(len(res.Rows))
	}
	for _, w := range res.Rows {
		if skipped {
			w[0] = []byte("Warning")
		}
		if !first && ofText(codeOf(w)) {
			n--
			continue
		}
		if len(w) > 2 {
			w[2] = []byte(ofRows(string(w[2]), rows))
		}
		d.add(w)
	}
	return n
}

// ofRow makes the warnings of a statement of one row, the nth of the client's, those of that
// row. What is of the text only the first tells; it returns how many were left out for that.
func (d *diagnostics) ofRow(n int) (left uint16) {
	kept := d.warnings[:0]
	for _, w := range d.warnings {
		if n > 0 && ofText(codeOf(w)) {
			left++
			continue
		}
		w[len(w)-1] = []byte(ofRow(string(w[len(w)-1]), n))
		kept = append(kept, w)
	}
	d.warnings = kept
	return left
}

// giveNew is give for an id that a connection tells: that it was told before is none of a row's.
func (d *diagnostics) giveNew(id uint64) {
	if id != 0 && id != d.insertID {
		d.give(id)
	}
}

// give notes that a row has got an id.
func (d *diagnostics) give(id uint64) { d.insertID, d.given = id, true }

// givenIn executes one of several statements of ours. For all of them LAST_INSERT_ID() is what it
// was before; given: id is what a row got.
func (d *diagnostics) givenIn(do func() error) (id uint64, given bool, err error) {
	before := d.insertID
	d.given = false
	err = do()
	id, given = d.insertID, d.given
	d.insertID = before
	return id, given, err
}

// learnID notes what a write has made of LAST_INSERT_ID(). It comes last: to ask leaves
// no warnings, and no FOUND_ROWS().
func (d *diagnostics) learnID(ctx context.Context, conn *shard.Conn, r *request, sum shard.Summary) {
	b := r.bound
	id, ask := sum.LastInsertID, r.givesID
	if id == 0 {
		// DELETE FROM t WHERE id = LAST_INSERT_ID(5) sets it all the same.
		ask = asksID(r, r.sql) && setsID(r.sql)
		if !ask {
			return
		}
	}
	if b.Generated != nil || b.Given && !b.Counted && !spoken.NamesInsertID(r.sql) {
		return
	}
	if ask {
		if asked, told, err := askID(ctx, conn); err == nil && told {
			id = asked
		}
	}
	if !ask || id != d.insertID {
		d.give(id)
	}
}

// setID has LAST_INSERT_ID() tell an id that no row has got.
func (d *diagnostics) setID(id uint64) { d.insertID = id }

// find notes what one server's answer says of FOUND_ROWS().
func (d *diagnostics) find(ctx context.Context, conn *shard.Conn, f plan.FoundRows, sum *shard.Summary) {
	if n, ok := foundIn(ctx, conn, f, sum); ok {
		d.found = n
	}
}

// findAnswered notes the rows that Shunt itself has answered.
func (d *diagnostics) findAnswered() {
	if d.answered >= 0 {
		d.found = int64(d.answered)
	}
}

func (d *diagnostics) setFound(n int64) { d.found = n }

// keepFound has FOUND_ROWS() be what it is now once undo is called: what runs until then is none of
// the client's statements.
func (d *diagnostics) keepFound() (undo func()) {
	found := d.found
	return func() { d.found = found }
}
