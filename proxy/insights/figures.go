package insights

import (
	"time"
	"unsafe"
)

// figures are those of all executions of a shape.
type figures struct {
	calls, errors          uint64
	total, longest         time.Duration
	partsTotal             time.Duration
	partLongest            time.Duration
	rows, affected, copied int64
	parts, waits, vain     uint64
	waited                 time.Duration
	first, last            int64 // nanoseconds since 1970
	plan, access           string
	lastError              uint16
	sample                 string // of the longest one
	whole, part            histogram
	shards                 []shardFigures
}

// shardFigures are those of a shard's parts.
type shardFigures struct {
	shard          int
	parts          uint64
	total, longest time.Duration
}

// observe counts an execution, and returns the bytes that it takes.
func (f *figures) observe(e *Execution) (grown int) {
	f.calls++
	f.total += e.Took
	if e.Took > f.longest {
		f.longest = e.Took
		if e.Sample != "" {
			grown = len(e.Sample) - len(f.sample)
			f.sample = e.Sample
		}
	}
	if f.whole.observe(e.Took) {
		grown += octaveBytes
	}
	f.rows += e.Rows
	f.last = e.Ended.UnixNano()
	if f.first == 0 {
		f.first = f.last
	}
	if e.Code != 0 {
		f.errors++
		f.lastError = e.Code
	}
	if e.Plan != "" {
		if f.plan != e.Plan {
			f.plan = e.Plan
		}
		if f.access != e.Access {
			f.access = e.Access
		}
	}
	for i := range e.Parts {
		grown += f.observePart(i, &e.Parts[i])
	}
	if e.Affected|e.Copied|int64(e.Waits)|int64(e.Vain) != 0 {
		f.affected += e.Affected
		f.copied += e.Copied
		f.waits += uint64(e.Waits)
		f.waited += e.Waited
		f.vain += uint64(e.Vain)
	}
	return grown
}

// observePart counts the ith part of an execution.
func (f *figures) observePart(i int, p *Part) (grown int) {
	f.parts++
	f.partsTotal += p.Took
	f.partLongest = max(f.partLongest, p.Took)
	if f.part.observe(p.Took) {
		grown = octaveBytes
	}
	before := cap(f.shards)
	s := f.shard(i, p.Shard)
	grown += (cap(f.shards) - before) * int(unsafe.Sizeof(*s))
	s.parts++
	s.total += p.Took
	s.longest = max(s.longest, p.Took)
	return grown
}

// shard are the figures of a shard, which are the ith for a statement that always goes to the same.
func (f *figures) shard(i, shard int) *shardFigures {
	if i < len(f.shards) && f.shards[i].shard == shard {
		return &f.shards[i]
	}
	for j := range f.shards {
		if f.shards[j].shard == shard {
			return &f.shards[j]
		}
	}
	f.shards = append(f.shards, shardFigures{shard: shard})
	return &f.shards[len(f.shards)-1]
}

// grown are the bytes that it takes beside itself.
func (f *figures) grown() int {
	return len(f.sample) + (len(f.whole.counts)+len(f.part.counts))*octaveBytes + cap(f.shards)*int(unsafe.Sizeof(shardFigures{}))
}

// add counts what another shape has.
func (f *figures) add(x *figures) {
	f.calls += x.calls
	f.errors += x.errors
	f.total += x.total
	f.longest = max(f.longest, x.longest)
	f.partsTotal += x.partsTotal
	f.partLongest = max(f.partLongest, x.partLongest)
	f.rows += x.rows
	f.affected += x.affected
	f.copied += x.copied
	f.parts += x.parts
	f.waits += x.waits
	f.waited += x.waited
	f.vain += x.vain
	if f.first == 0 || x.first > 0 && x.first < f.first {
		f.first = x.first
	}
	f.last = max(f.last, x.last)
	f.whole.add(&x.whole)
	f.part.add(&x.part)
	for i := range x.shards {
		from := &x.shards[i]
		to := f.shard(i, from.shard)
		to.parts += from.parts
		to.total += from.total
		to.longest = max(to.longest, from.longest)
	}
}

// Row are the figures of a shape.
type Row struct {
	ID           uint64
	Schema, Text string
	// LastError is the code of the last of Errors.
	Calls, Errors uint64
	LastError     uint16
	// Whole are the times of statements, Part those of shards' parts.
	Whole, Part            Times
	Rows, Affected, Copied int64
	// Parts is how many shards' parts there were. Waits and Waited are of connections.
	Parts, Waits, Vain uint64
	Waited             time.Duration
	// Plan and Access are the last ones.
	Plan, Access string
	// Sample is the longest one's text with its values, where samples are taken.
	Sample      string
	First, Last time.Time
	Shards      []ShardRow
}

// Times tell of many times.
type Times struct{ Total, P50, P95, P99, P999, Max time.Duration }

// ShardRow are the figures of a shard's parts.
type ShardRow struct {
	Shard      int
	Parts      uint64
	Total, Max time.Duration
}

func (f *figures) row() Row {
	r := Row{
		Calls: f.calls, Errors: f.errors, LastError: f.lastError, Rows: f.rows, Affected: f.affected, Copied: f.copied,
		Whole: Times{Total: f.total, Max: f.longest}, Part: Times{Total: f.partsTotal, Max: f.partLongest},
		Parts: f.parts, Waits: f.waits, Vain: f.vain, Waited: f.waited, Plan: f.plan, Access: f.access, Sample: f.sample,
		First: time.Unix(0, f.first), Last: time.Unix(0, f.last),
	}
	for _, s := range f.shards {
		r.Shards = append(r.Shards, ShardRow{s.shard, s.parts, s.total, s.longest})
	}
	return r
}

func (t *Times) percentiles(h *histogram) {
	q := h.quantiles(0.5, 0.95, 0.99, 0.999)
	for i := range q {
		q[i] = min(q[i], t.Max)
	}
	t.P50, t.P95, t.P99, t.P999 = q[0], q[1], q[2], q[3]
}
