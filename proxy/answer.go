package proxy

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// concatenateWay is how a query of several shards is executed whose rows need no order.
var concatenateWay = &way{
	at:   bound,
	fits: func(*session, *request) bool { return true },
	execute: func(s *session, ctx context.Context, r *request) error {
		empty, err := s.concatenate(ctx, r)
		return s.observe(r, empty, err)
	},
}

// concatenate streams the rows of several shards to the client, one shard after the
// other as they begin to answer. A slow client stops the reading from the shards.
func (s *session) concatenate(ctx context.Context, r *request) (empty catalog.ShardSet, err error) {
	b := r.bound
	shards, err := s.sendAll(ctx, r)
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
	s.diag.clear()
	s.diag.setFound(found) // there is no LIMIT
	if warnings > 0 {
		for i, x := range shards {
			warnings -= s.diag.addShard(ctx, x.conn, i == 0)
		}
	}
	status = status&^(sessionStatus|mysql.SERVER_MORE_RESULTS_EXISTS) | s.status() | s.more
	return empty, s.clientError(s.client.WriteEnd(status, warningCount(warnings)))
}

var infoWarnings = regexp.MustCompile(`Warnings: \d+`)

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
