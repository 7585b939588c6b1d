package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// chunkRows is how many rows of a table are compared, and copied, at once.
const chunkRows = 5000

// copyText is how rows of a table are compared and copied.
type copyText struct {
	table string
	cols  []plan.GatherColumn
	read  []string
	// by is the column that cuts the table into chunks, "" for one chunk.
	by string
}

func newCopyText(t *catalog.Table) (*copyText, error) {
	x := &copyText{table: catalog.QuoteTable(t.Schema, t.Name)}
	var err error
	if x.cols, x.read, err = planner.CopyColumns(t); err != nil {
		return nil, err
	}
	if len(t.PrimaryKey) > 0 && planner.Whole(t.PrimaryKey[0]) {
		x.by = catalog.QuoteName(t.PrimaryKey[0].Name)
	}
	return x, nil
}

// where is the condition of the chunk of keys above one and up to another; nil: no bound.
func (x *copyText) where(above, upTo []byte) string {
	var and []string
	if above != nil {
		and = append(and, x.by+" > "+string(above))
	}
	if upTo != nil {
		and = append(and, x.by+" <= "+string(upTo))
	}
	if len(and) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(and, " AND ")
}

// first is what bounds the rows to some that come first.
func (x *copyText) first(rows int) string {
	if x.by == "" {
		return ""
	}
	return fmt.Sprintf(" ORDER BY %s LIMIT %d", x.by, rows)
}

// sum asks for what rows that are not the same hardly share: their number, and two sums of their
// hashes, one of which tells rows that are there twice.
func (x *copyText) sum(where string) string {
	texts := make([]string, len(x.read))
	for i, r := range x.read {
		texts[i] = "IFNULL(HEX(CONCAT(" + r + ")), '-')"
		if x.cols[i].Form == plan.FormBytes {
			texts[i] = "IFNULL(HEX(" + r + "), '-')"
		}
	}
	return "SELECT COUNT(*), BIT_XOR(CAST(CONV(LEFT(h, 16), 16, 10) AS UNSIGNED)), SUM(CAST(CONV(RIGHT(h, 12), 16, 10) AS UNSIGNED))" +
		" FROM (SELECT SHA2(CONCAT_WS(',', " + strings.Join(texts, ", ") + "), 256) AS h FROM " + x.table + where + ") AS hashes"
}

// copyAll is step 3.
func (j *newcomer) copyAll(ctx context.Context) error {
	tables := j.p.references()
	for n, t := range tables {
		j.say("copying reference tables: %s.%s, %d of %d", t.Schema, t.Name, n+1, len(tables))
		if _, err := j.copyUntilSame(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// copyUntilSame copies what differs until nothing does, or several times; changed: something did
// the last time.
func (j *newcomer) copyUntilSame(ctx context.Context, t *catalog.Table) (changed bool, err error) {
	for range joinRounds {
		if changed, err = j.copyTable(ctx, t); err != nil || !changed {
			break
		}
	}
	return changed, err
}

// copyTable makes the new shard's copy of a table as the first shard's; changed: some of it was not.
func (j *newcomer) copyTable(ctx context.Context, t *catalog.Table) (changed bool, err error) {
	x, err := newCopyText(t)
	if err != nil {
		return false, err
	}
	err = chunks(ctx, j.from, x, func(where string) error {
		same, err := j.sameChunk(ctx, x, where)
		if err != nil || same {
			return err
		}
		changed = true
		return j.copyChunk(ctx, x, where)
	})
	if err != nil {
		return changed, fmt.Errorf("copy %s.%s: %w", t.Schema, t.Name, err)
	}
	return changed, nil
}

// same reports whether both have the same rows of a table.
func (j *newcomer) same(ctx context.Context, t *catalog.Table) (bool, error) {
	x, err := newCopyText(t)
	if err != nil {
		return false, err
	}
	return j.sameChunk(ctx, x, "")
}

// chunks calls f with the condition of each chunk, as a shard's keys cut the table.
func chunks(ctx context.Context, from *shard.Conn, x *copyText, f func(where string) error) error {
	var above []byte
	for {
		var upTo []byte
		if x.by != "" {
			res, err := from.Query(ctx, fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT %d, 1", x.by, x.table, x.where(above, nil), x.by, chunkRows-1))
			if err != nil {
				return err
			}
			if len(res.Rows) > 0 {
				upTo = res.Rows[0][0]
			}
		}
		if err := f(x.where(above, upTo)); err != nil || upTo == nil {
			return err
		}
		above = upTo
	}
}

func (j *newcomer) sameChunk(ctx context.Context, x *copyText, where string) (bool, error) {
	var sums [2]string
	group, gctx := errgroup.WithContext(ctx)
	for i, conn := range []*shard.Conn{j.from, j.to} {
		group.Go(func() error {
			res, err := conn.Query(gctx, x.sum(where))
			if err == nil {
				sums[i] = sumText(res)
			}
			return err
		})
	}
	err := group.Wait()
	return err == nil && sums[0] == sums[1], err
}

// sumText is the answer to copyText.sum.
func sumText(res *shard.QueryResult) string { return string(bytes.Join(res.Rows[0], []byte(" "))) }

// emptySum is of no rows.
func emptySum(sum string) bool { return strings.HasPrefix(sum, "0 ") }

// copyChunk replaces a chunk of the new shard's copy, within one transaction. A row of another
// chunk that has one of its unique keys is of before: it goes, and is copied with its chunk.
func (j *newcomer) copyChunk(ctx context.Context, x *copyText, where string) error {
	if err := execAll(ctx, j.to, []string{"BEGIN", "DELETE FROM " + x.table + where}); err != nil {
		return err
	}
	names := make([]string, len(x.cols))
	for i := range x.cols {
		names[i] = catalog.QuoteName(x.cols[i].Name)
	}
	head := "REPLACE INTO " + x.table + " (" + strings.Join(names, ", ") + ") VALUES "
	var sql []byte
	flush := func() error {
		if len(sql) == 0 {
			return nil
		}
		_, err := j.to.Exec(ctx, string(sql))
		sql = sql[:0]
		return err
	}
	var failed error
	_, err := j.from.Stream(ctx, "SELECT "+strings.Join(x.read, ", ")+" FROM "+x.table+where, func(row [][]byte) error {
		if failed != nil {
			return nil //nolint:nilerr // the rest of the answer must be read
		}
		if len(sql) == 0 {
			sql = append(sql, head...)
		} else {
			sql = append(sql, ',')
		}
		if sql, failed = appendRow(sql, x.cols, row); failed == nil && len(sql) >= batchBytes {
			failed = flush()
		}
		return nil
	})
	if err = errors.Join(failed, err); err == nil {
		err = flush()
	}
	if err == nil {
		_, err = j.to.Exec(ctx, "COMMIT")
	}
	return err
}
