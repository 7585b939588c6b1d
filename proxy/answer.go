package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// sent is a statement that a shard is working on.
type sent struct {
	shard catalog.ShardID
	conn  *shard.Conn
}

// sendAll sends a statement to all its shards before any answer is read, so
// that they work side by side. On an error the ones that were sent to are returned
// as well. The client gets what there is while a shard is waited for.
func (s *session) sendAll(ctx context.Context, r request, b *planner.Bound) ([]sent, error) {
	out, err := s.borrowAll(ctx, b)
	if err != nil {
		return out, err
	}
	s.watch(out)
	return out, s.sendTo(ctx, r, b.Statements, out)
}

// borrowAll takes connections to a statement's shards, in the order of the shard
// numbers, in which every session takes them: no two wait for each other.
func (s *session) borrowAll(ctx context.Context, b *planner.Bound) ([]sent, error) {
	out := make([]sent, 0, len(b.Statements))
	for _, st := range b.Statements {
		conn, err := s.borrow(ctx, st.Shard)
		if err != nil {
			return out, err
		}
		out = append(out, sent{st.Shard, conn})
	}
	return out, nil
}

// sendTo sends a statement to some of its shards.
func (s *session) sendTo(ctx context.Context, r request, statements []planner.ShardStatement, to []sent) error {
	for i, st := range statements {
		// When the last has begun to answer the others mostly have, too.
		to[i].conn.Await = i == len(to)-1
		if err := s.send(ctx, to[i].conn, r, st); err != nil {
			return err
		}
	}
	return nil
}

// concatenate streams the rows of several shards to the client, one shard after the
// other as they begin to answer. A slow client stops the reading from the shards.
func (s *session) concatenate(ctx context.Context, r request, b *planner.Bound) (empty catalog.ShardSet, err error) {
	shards, err := s.sendAll(ctx, r, b)
	arrivals := arrivals{s: s, shards: shards}
	// A connection whose answer is not read to its end is broken, and closed by
	// the pool; one of a transaction must be read out to stay usable.
	defer func() {
		arrivals.close()
		for _, x := range shards {
			if x.conn != nil && x.conn.Busy() && s.keepsBusy(x.shard, x.conn) && !x.conn.Broken {
				s.readOut(x, nil)
			}
			s.giveBack(x.shard, x.conn)
		}
	}()
	if err != nil {
		return empty, err
	}
	columns := shard.Columns{Binary: s.binary}
	var status uint16
	var warnings int
	var found int64
	for n := range shards {
		i, err := arrivals.next()
		if err != nil {
			return empty, err
		}
		o := s.forwardOptions()
		o.Columns, o.SkipHeader, o.SkipEnd = &columns, n > 0, true
		sum, err := s.forwardPart(ctx, r, b.Statements[i], &shards[i], o)
		if err != nil {
			return empty, err
		}
		if sum.Err != nil {
			return empty, nil // the client has got it
		}
		if sum.Rows == 0 {
			empty.Add(shards[i].shard)
		}
		status |= sum.Status
		warnings += int(sum.Warnings)
		found += sum.Rows
	}
	s.last.warnings, s.found = nil, found // there is no LIMIT
	if warnings > 0 {
		for i, x := range shards {
			warnings -= s.addWarnings(ctx, x.conn, i == 0)
		}
	}
	status = status&^(sessionStatus|mysql.SERVER_MORE_RESULTS_EXISTS) | s.status() | s.more
	return empty, s.clientError(s.client.WriteEnd(status, uint16(min(max(warnings, 0), 1<<16-1))))
}

// writeInTransaction sends a write within the session's transaction, which is
// the statement's own when implicit is true. A statement that fails on one
// shard is undone on the others, as one server would undo it.
func (s *session) writeInTransaction(ctx context.Context, r request, b *planner.Bound, implicit bool) error {
	tx := s.tx
	if err := tx.join(ctx, route(b)); err != nil {
		if implicit {
			_ = s.rollback(ctx)
		}
		return err
	}
	if err := s.mayWrite(tx.open, r, b, route(b)); err != nil {
		if implicit {
			_ = s.rollback(ctx)
		}
		return err
	}
	tx.wrote(b)
	several := len(b.Statements) > 1 || b.Gather != nil
	if several && !implicit {
		if err := tx.each(ctx, route(b), "SAVEPOINT "+statementSavepoint); err != nil {
			return err
		}
	}
	var returned *returnedRows
	if several && r.plan.Returning {
		returned = &returnedRows{}
	}
	r.inTurn = r.inTurn || several && s.proxy.deadlocks.feared(r.plan.Tables)
	ok, err := s.writeAll(ctx, r, b, several, returned)
	s.activity.settled()
	circle := several && tx.victim == errDeadlock
	if circle {
		s.proxy.deadlocks.fear(r.plan.Tables)
	}
	if implicit {
		if err != nil {
			_ = s.rollback(ctx)
			if circle && !r.again && b.Gather == nil && !s.activity.killed() {
				return errAgain
			}
			return err
		}
		if err := s.commit(ctx); err != nil {
			return err
		}
	} else if several && tx.failed == nil && tx.victim == nil {
		undo := "RELEASE SAVEPOINT " + statementSavepoint
		if err != nil {
			undo = "ROLLBACK TO SAVEPOINT " + statementSavepoint
		}
		if undoErr := tx.each(ctx, route(b), undo); undoErr != nil {
			return undoErr
		}
	}
	if err != nil || ok == nil {
		return err
	}
	if returned != nil {
		return s.answerReturned(returned, r.plan.Kind != planner.Delete, ok.Warnings)
	}
	return s.answerOK(*ok)
}

// errAgain: a statement that is a transaction of its own was rolled back for a deadlock
// over several shards, of which the client need not know.
var errAgain = errors.New("deadlock over several shards")

// statementSavepoint makes one statement over several shards atomic inside of
// a transaction.
const statementSavepoint = "shunt_statement"

// writeAll sends a write and joins the answers. With one shard its answer is
// forwarded as it is, and nil returned; else the joined one is returned to be
// sent when nothing can fail any more. returned, if not nil, gets the rows that the
// shards answer.
func (s *session) writeAll(ctx context.Context, r request, b *planner.Bound, several bool, returned *returnedRows) (*wire.OK, error) {
	if b.SameTime && several {
		undo, err := s.sameTime(ctx, route(b))
		if err != nil {
			return nil, err
		}
		defer undo()
	}
	shards, err := s.borrowAll(ctx, b)
	// asked are the shards that have got the statement.
	//
	// Rule first copy: the shards of a reference table are asked after the first one has
	// answered. Who has locked rows there meets nobody on the others. Counter-example:
	// two sessions UPDATE the same row; each is the first on a shard, and waits on another.
	asked := len(shards)
	if b.Access == "reference" || r.inTurn {
		asked = min(asked, 1)
	}
	if err == nil {
		err = s.sendTo(ctx, r, b.Statements[:asked], shards[:asked])
	}
	var joined wire.OK
	var first error
	hold, told := several || holdsID(b) || r.plan.Calls, false
	ids := map[catalog.ShardID]uint64{}
	var infos []string
	s.last.warnings = nil
	var found int64
	finds := false
	if err != nil {
		first = err
	}
	for i, x := range shards {
		if i == asked && first == nil {
			if asked = len(shards); r.inTurn {
				asked = i + 1
			}
			first = s.sendTo(ctx, r, b.Statements[i:asked], shards[i:asked])
		}
		if !x.conn.Busy() {
			continue // not sent to
		}
		rows := b.Statements[i].Rows
		o := s.forwardOptions()
		o.HoldOK, o.HoldErr = hold, several
		dst := s.client
		if several {
			dst = nil
		}
		var sum shard.Summary
		if returned != nil {
			sum, err = returned.read(x.conn, rows, s.binary, b.Access != "reference" || i == 0)
		} else {
			sum, err = x.conn.Forward(dst, shard.Result, o)
		}
		skipped := several && s.skips(r, b, i, sum.Err)
		if skipped {
			sum = shard.Summary{Status: x.conn.Status, Warnings: 1}
		}
		if err := s.forwarded(x.shard, sum, err); err != nil {
			first = errors.Join(first, err)
			continue
		}
		if sum.Err != nil {
			if several && first == nil {
				first = sqlError{sum.Err.Code, sum.Err.State, fmt.Sprintf("%s (on shard %s; nothing was changed on any)", ofRows(sum.Err.Message, rows), s.catalog().ShardName(x.shard))}
			}
			hold, told = several, !several // the client has got the error of one alone
			continue
		}
		joined.Affected += sum.Affected
		// Every shard warns of its copy of the same rows.
		tells := b.Access != "reference" || x.shard == shards[0].shard
		if tells {
			joined.Warnings += sum.Warnings
		}
		if ids[x.shard] = sum.LastInsertID; joined.LastInsertID == 0 {
			joined.LastInsertID = sum.LastInsertID
		}
		if sum.Info == "" && b.Access != "reference" && (r.plan.Kind == planner.Insert || r.plan.Kind == planner.Replace) {
			// A server says nothing of one row; joined with others it counts.
			duplicates := max(sum.Affected, 1) - 1
			if sum.Affected == 0 && r.plan.Ignores() {
				duplicates = 1
			}
			sum.Info = fmt.Sprintf("Records: 1  Duplicates: %d  Warnings: %d", duplicates, sum.Warnings)
		}
		infos = append(infos, sum.Info)
		if sum.Warnings > 0 && tells {
			if res, err := x.conn.Query(ctx, "SHOW WARNINGS"); err == nil {
				if skipped {
					joined.Warnings += uint16(len(res.Rows)) - sum.Warnings
				}
				for _, w := range res.Rows {
					if skipped {
						w[0] = []byte("Warning")
					}
					if x.shard != shards[0].shard && len(w) > 1 && ofText(string(w[1])) {
						joined.Warnings--
						continue
					}
					if len(w) > 2 {
						w[2] = []byte(ofRows(string(w[2]), rows))
					}
					s.last.warnings = append(s.last.warnings, w)
				}
			}
		}
		// After SHOW WARNINGS: to ask leaves none of these.
		if n, ok := foundIn(ctx, x.conn, r.found, sum); ok && (b.Access != "reference" || !finds) {
			if finds = true; n == noFound || found == noFound {
				found = noFound
			} else {
				found += n
			}
		}
		s.learnID(ctx, x.conn, r, b, sum)
	}
	first = errors.Join(first, returned.whole())
	if byRow(s.last.warnings); finds && first == nil {
		s.found = found
	}
	if first == nil && !told && (r.plan.Returning || r.plan.Calls) {
		if first = s.returnedID(ctx, r, b, shards); first != nil && !several {
			first = fmt.Errorf("%w: %w", errHalfAnswered, first)
		}
		for _, x := range shards {
			if err := s.takeOver(ctx, x.conn, r.plan.Sets); err != nil {
				first = errors.Join(first, s.shardError(x.shard, err))
			}
		}
	} else if first == nil && !told && b.Generated != nil {
		joined.LastInsertID, first = s.inserted(ctx, b, shards, ids)
	}
	if b.Access == "reference" && len(shards) > 0 {
		// Every shard changed its copy of the same rows.
		joined.Affected /= uint64(len(shards))
		infos = infos[:min(1, len(infos))]
	}
	joined.Info = infoWarnings.ReplaceAllString(joinInfo(infos), fmt.Sprintf("Warnings: %d", joined.Warnings))
	if !hold {
		return nil, first
	}
	return &joined, first
}

// skips reports that a row which a shard has refused is to be left out, with a
// warning, as if the shard had got more of the statement's rows: MariaDB's INSERT
// IGNORE looks over a CHECK that fails (each JSON column has one) in a statement
// of several rows only.
func (s *session) skips(r request, b *planner.Bound, n int, e *shard.ServerError) bool {
	part := r.part || len(b.Statements) > 1 && b.Statements[n].Rows != nil
	return e != nil && e.Code == 4025 && part && s.mariaDB() && r.plan.Ignores()
}

var atRow = regexp.MustCompile(` at row (\d+)(?: \(on shard .*)?$`)

// ofRows makes a message about a row of a shard's part one about the client's row.
func ofRows(msg string, rows []int) string {
	m := atRow.FindStringSubmatchIndex(msg)
	if m == nil || rows == nil {
		return msg
	}
	if n, err := strconv.Atoi(msg[m[2]:m[3]]); err == nil && n > 0 && n <= len(rows) {
		return fmt.Sprintf("%s%d%s", msg[:m[2]], rows[n-1]+1, msg[m[3]:])
	}
	return msg
}

// byRow puts warnings of several shards in the order of their rows, if each is
// about one.
func byRow(warnings [][][]byte) {
	row := func(w [][]byte) int {
		if m := atRow.FindSubmatch(w[len(w)-1]); m != nil {
			n, _ := strconv.Atoi(string(m[1]))
			return n
		}
		return 0
	}
	for _, w := range warnings {
		if len(w) == 0 || row(w) == 0 {
			return
		}
	}
	slices.SortStableFunc(warnings, func(a, b [][]byte) int { return row(a) - row(b) })
}

// addWarnings adds those that a shard has of its part of a read. What is of the text
// only the first shard tells; it returns how many the others have of that.
func (s *session) addWarnings(ctx context.Context, conn *shard.Conn, first bool) (again int) {
	res, err := conn.Query(ctx, "SHOW WARNINGS")
	if err != nil {
		return 0
	}
	for _, w := range res.Rows {
		if !first && len(w) > 2 && (ofText(string(w[1])) || string(w[1]) == invalidText && s.warnedOf(w)) {
			again++
		} else {
			s.last.warnings = append(s.last.warnings, w)
		}
	}
	return again
}

// invalidText is the code of a warning of a literal whose bytes are no text, which
// every shard gives in the same words, or of a row's value.
const invalidText = "1300"

func (s *session) warnedOf(w [][]byte) bool {
	return slices.ContainsFunc(s.last.warnings, func(told [][]byte) bool {
		return slices.EqualFunc(told, w, bytes.Equal)
	})
}

// ofText reports a warning of a statement's text (deprecated syntax), which
// every shard that gets it gives.
func ofText(code string) bool { return code == "1287" || code == "1681" }

var infoWarnings = regexp.MustCompile(`Warnings: \d+`)

// sameTime gives the transaction's shards the same time for the statements that
// follow, until undo. A session that has SET timestamp has chosen one.
func (s *session) sameTime(ctx context.Context, shards catalog.ShardSet) (undo func(), err error) {
	if v, ok := s.settings.value("@@timestamp"); ok && !strings.EqualFold(v, "default") {
		return func() {}, nil
	}
	now := time.Now()
	sql := fmt.Sprintf("SET TIMESTAMP = %d.%06d", now.Unix(), now.Nanosecond()/1000)
	if err := s.tx.each(ctx, shards, sql); err != nil {
		return nil, err
	}
	tx := s.tx
	return func() {
		for id := range shards.All {
			conn := tx.conns[id]
			if conn == nil || conn.Broken || conn.Busy() {
				continue
			}
			if _, err := conn.Exec(ctx, "SET TIMESTAMP = DEFAULT"); err != nil {
				_ = s.shardError(id, err) // fails the transaction, or the connection is not used again
				conn.Broken = true
			}
		}
	}, nil
}

var infoNumbers = regexp.MustCompile(`\d+`)

// joinInfo adds up texts such as "Rows matched: 3  Changed: 1  Warnings: 0".
func joinInfo(infos []string) string {
	var text string
	var sums []uint64
	for _, info := range infos {
		numbers := infoNumbers.FindAllString(info, -1)
		if info == "" {
			continue
		}
		if text == "" {
			text, sums = info, make([]uint64, len(numbers))
		}
		if len(numbers) != len(sums) {
			return ""
		}
		for i, n := range numbers {
			v, _ := strconv.ParseUint(n, 10, 64)
			sums[i] += v
		}
	}
	parts := infoNumbers.Split(text, -1)
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(p)
		if i < len(sums) {
			b.WriteString(strconv.FormatUint(sums[i], 10))
		}
	}
	return b.String()
}
