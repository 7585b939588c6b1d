package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"
)

// ErrDiverged: a position says nothing of the log. A MariaDB server has written a GTID that doesn't follow its domain's last one
// (gtid_strict_mode is off), or the log was begun anew. The consumer scans and starts anew, as after ErrPurged.
var ErrDiverged = errors.New("the binary log isn't the one that was read")

// Position is a set of transactions: those that a log has up to some place. The zero Position has none.
// It is immutable.
type Position struct{ set mysql.GTIDSet }

// ParsePosition reads what a server writes: a MySQL GTID set (with tags or not) or a MariaDB GTID position,
// and so a single GTID of either.
func ParsePosition(text string) (Position, error) {
	text = strings.TrimSpace(text)
	parse := mysql.ParseMariadbGTIDSet
	switch {
	case text == "":
		return Position{}, nil
	case strings.Contains(text, ":"):
		parse = mysql.ParseMysqlGTIDSet
	}
	set, err := parse(strings.Join(strings.Fields(text), "")) // MySQL breaks lines
	if err != nil {
		return Position{}, fmt.Errorf("read position %q: %w", text, err)
	}
	return Position{set}, nil
}

// String is what ParsePosition reads.
func (p Position) String() string {
	if p.set == nil {
		return ""
	}
	return p.set.String()
}

// Covers reports whether all transactions of other are in p.
func (p Position) Covers(other Position) bool {
	if other.set == nil || other.set.IsEmpty() {
		return true
	}
	return p.set != nil && p.set.Contain(other.set)
}

// Plus is a position with all transactions of both.
func (p Position) Plus(other Position) Position {
	switch {
	case p.Covers(other):
		return p
	case p.set == nil:
		return other
	}
	sum := p.set.Clone()
	if of, ok := sum.(*mysql.MariadbGTIDSet); ok {
		// Rule each domain by itself: its last one counts. Counter-example: of 0-1-9,1-1-2 and 0-1-7,1-1-3 Update makes
		// 0-1-7,1-1-3, and who goes by that counts 0-1-8 twice.
		more, ok := other.set.(*mysql.MariadbGTIDSet)
		if !ok {
			return p // they are of servers of different kinds
		}
		for domain, last := range more.Sets {
			if was := of.Sets[domain]; was == nil || was.SequenceNumber < last.SequenceNumber {
				of.Sets[domain] = last.Clone()
			}
		}
		return Position{sum}
	}
	if err := sum.Update(other.String()); err != nil {
		return p
	}
	return Position{sum}
}

// Place is a position as it is kept for another time.
type Place struct {
	Position
	// There is when the server's log had the position, by the server's clock; zero: that isn't known.
	There time.Time
}

// ParsePlace reads a Place's String, or a position.
func ParsePlace(text string) (p Place, err error) {
	position, seconds, timed := strings.Cut(text, "@")
	if p.Position, err = ParsePosition(position); err != nil || !timed {
		return p, err
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return p, fmt.Errorf("read place %q: %w", text, err)
	}
	p.There = time.Unix(at, 0)
	return p, nil
}

// String is the position, and the time in seconds since 1970: 0-1-17@1764547200.
func (p Place) String() string {
	if p.There.IsZero() {
		return p.Position.String()
	}
	return p.Position.String() + "@" + strconv.FormatInt(p.There.Unix(), 10)
}

// Progress is how far a consumer has come. It outlives streams: one that is opened with it goes on from
// there. All methods may be called at once.
type Progress struct {
	mu    sync.Mutex
	at    Position // its set is changed in place
	there time.Time
	// clock is the server's time when a stream was opened, opened this process's.
	clock, opened time.Time
	waits         map[*wait]struct{}
	// came has a value where somebody has begun to wait since lull has looked.
	came chan struct{}
}

type wait struct {
	for_ Position
	done chan struct{}
}

// NewProgress starts at a position.
func NewProgress(from Position) *Progress {
	p := &Progress{waits: map[*wait]struct{}{}, came: make(chan struct{}, 1)}
	if from.set != nil {
		p.at.set = from.set.Clone()
	}
	return p
}

// Resume goes on from a place that was kept.
func Resume(from Place) *Progress {
	p := NewProgress(from.Position)
	p.there = from.There
	return p
}

// Place is Position as it can be kept.
func (p *Progress) Place() Place {
	at := p.Position()
	p.mu.Lock()
	defer p.mu.Unlock()
	return Place{at, p.there}
}

// open notes that the log has the position now, by the server's clock.
func (p *Progress) open(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock, p.opened = now, time.Now()
	if now.After(p.there) {
		p.there = now
	}
}

// Position is what has been consumed.
func (p *Progress) Position() Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.set == nil {
		return Position{}
	}
	return Position{p.at.set.Clone()}
}

// Passed reports whether all transactions of other have been consumed.
func (p *Progress) Passed(other Position) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at.Covers(other)
}

// Wait returns when all transactions of other have been consumed, or with ctx's error.
func (p *Progress) Wait(ctx context.Context, other Position) error {
	p.mu.Lock()
	if p.at.Covers(other) {
		p.mu.Unlock()
		return nil
	}
	w := &wait{other, make(chan struct{})}
	p.waits[w] = struct{}{}
	p.mu.Unlock()
	select {
	case p.came <- struct{}{}:
	default:
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.waits, w)
		p.mu.Unlock()
		return ctx.Err()
	}
}

// lull returns after some time, or as soon as somebody waits.
func (p *Progress) lull(d time.Duration) {
	p.mu.Lock()
	waits := len(p.waits) > 0
	p.mu.Unlock()
	if waits || d <= 0 {
		return
	}
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-p.came:
	case <-over.C:
	}
}

// advance adds a transaction, and when it was committed: as it says, which a session can choose (SET timestamp), and not later
// than now.
func (p *Progress) advance(g gtid, at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := g.addTo(&p.at); err != nil {
		return err
	}
	if now := p.clock.Add(time.Since(p.opened)); at.After(now) {
		at = now
	}
	if at.After(p.there) {
		p.there = at
	}
	p.wake()
	return nil
}

// wake ends the waits that are over. Callers hold mu.
func (p *Progress) wake() {
	for w := range p.waits {
		if p.at.Covers(w.for_) {
			close(w.done)
			delete(p.waits, w)
		}
	}
}

// gtid names a transaction: MySQL's by source, tag and number, MariaDB's by domain, server and number.
type gtid struct {
	mariaDB        bool
	source         uuid.UUID
	tag            mysql.Tag
	domain, server uint32
	number         uint64
}

func (g gtid) String() string {
	switch {
	case g.mariaDB:
		return fmt.Sprintf("%d-%d-%d", g.domain, g.server, g.number)
	case g.tag != mysql.Tag{}:
		return fmt.Sprintf("%s:%s:%d", g.source, g.tag, g.number)
	default:
		return fmt.Sprintf("%s:%d", g.source, g.number)
	}
}

func (g gtid) addTo(p *Position) error {
	if !g.mariaDB {
		if p.set == nil {
			set := mysql.NewMysqlGTIDSet()
			p.set = &set
		}
		set, ok := p.set.(*mysql.MysqlGTIDSet)
		if !ok {
			return fmt.Errorf("position %s is not MySQL's", p)
		}
		set.AddGTIDWithTag(g.source, g.tag, int64(g.number))
		return nil
	}
	if p.set == nil {
		p.set = &mysql.MariadbGTIDSet{Sets: map[uint32]*mysql.MariadbGTID{}}
	}
	set, ok := p.set.(*mysql.MariadbGTIDSet)
	if !ok {
		return fmt.Errorf("position %s is not MariaDB's", p)
	}
	if last := set.Sets[g.domain]; last != nil && last.SequenceNumber >= g.number {
		return fmt.Errorf("%w: GTID %s comes after %s of the same domain", ErrDiverged, g, last)
	}
	set.Sets[g.domain] = &mysql.MariadbGTID{DomainID: g.domain, ServerID: g.server, SequenceNumber: g.number}
	return nil
}

// Pass says that a transaction, and what came before it in the log, has been consumed: for who consumes without a Stream.
func (p *Progress) Pass(transaction string) error {
	at, err := ParsePosition(transaction)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = p.at.Plus(at)
	p.wake()
	return nil
}
