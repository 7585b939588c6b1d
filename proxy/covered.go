package proxy

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// Answers keeps those of reads by covering indexes.
type Answers interface {
	// Get is the one that is kept for a key, if it is current: has all that was acknowledged before; fast: that the shards'
	// logs have told.
	Get(key []byte, fast bool) (value any, ok bool)
	// Begin is called before the indexes are asked; nil: the answer of the read that follows can't be kept.
	Begin(indexes []*catalog.Index) Fill
}

// Fill is a read whose answer may be kept.
type Fill interface {
	// On says, before it is sent, by which keys it is; false: its answer can't be kept.
	On(ix *catalog.Index, keys [][]byte) bool
	// Keep keeps the answer; size is the value's.
	Keep(key []byte, value any, size int)
}

// keptAnswer is what is kept of an answer.
type keptAnswer struct {
	packets []byte
	rows    int64
	access  string
	// found is what FOUND_ROWS() tells then, where it counts.
	found  int64
	counts bool
}

// covering is a session's room for its reads by covering indexes.
type covering struct {
	key []byte
	// digest is that of fingerprint and schema.
	digest              [sha256.Size]byte
	fingerprint, schema string
}

// untold reports whether the client is to be told, with an answer, of what its session has changed.
func (s *session) untold() bool {
	c := &s.changes
	return s.tracks() && (c.schema || c.state || c.transaction || len(c.variables) > 0 || s.settings.tracked.transaction != infoOff)
}

// coverable reports whether a kept answer would do for a statement.
//
// Rule nothing of one's own: inside of a transaction a read sees its own changes, and its snapshot.
//
// Rule committed: a read that sees what isn't committed is none of them. Counter-example: it is kept, and then rolled back,
// of which no log tells.
func (s *session) coverable(p *plan.Rows) bool {
	return len(p.Covering) > 0 && s.proxy.opts.Answers != nil && p.Repeatable && s.tx == nil && s.settings.autocommit && s.tableLocks == nil &&
		s.temporary == nil && s.setStatement == nil && !s.wantsReplicas() && !s.seesUncommitted() && s.settings.once == (characteristics{}) && !s.settings.own.limit.on &&
		s.more == 0 && !s.untold()
}

// covered answers a statement by what is kept; done is false where that isn't current. Then its answer may be.
func (s *session) covered(r *request) (done bool, err error) {
	if !r.sent || r.storing != nil || r.current != nil || s.settings.planning.Virtual || !s.coverable(r.plan) {
		return false, nil
	}
	if !s.coverKey(r) {
		return false, nil
	}
	value, ok := s.proxy.opts.Answers.Get(s.covering.key, s.fastIndexes())
	if !ok {
		r.fill = s.proxy.opts.Answers.Begin(r.plan.Covering)
		return false, nil
	}
	k := value.(*keptAnswer)
	s.diag.sending()
	s.diag.clear()
	if k.counts {
		s.diag.setFound(k.found)
	}
	s.measured.Rows += k.rows
	s.measured.Plan, s.measured.Access = "covered", k.access
	if err := s.client.WriteCopied(k.packets); err != nil {
		return true, s.clientError(err)
	}
	s.ended(outcome{"covered", accessLabel(k.access)}, r.start)
	return true, nil
}

// coverKey makes the key of a statement: all that its answer depends on, but for rows; false: on more.
func (s *session) coverKey(r *request) bool {
	c := &s.covering
	if c.fingerprint != s.settings.fingerprint || c.schema != s.settings.schema {
		c.fingerprint, c.schema = s.settings.fingerprint, s.settings.schema
		c.digest = sha256.Sum256([]byte(c.fingerprint + separator + c.schema))
	}
	k := append(c.key[:0], c.digest[:]...)
	k, ok := s.client.Form(k)
	k = binary.LittleEndian.AppendUint16(k, s.status())
	k = binary.LittleEndian.AppendUint64(k, r.plan.Catalog.Version)
	k = binary.AppendUvarint(k, uint64(len(r.sql)))
	k = append(k, r.sql...)
	if r.prepared != nil {
		k = append(k, 1)
		for i := range r.params {
			p := &r.params[i]
			flags := byte(0)
			for n, set := range []bool{p.Unsigned, p.Null, p.Long} {
				if set {
					flags |= 1 << n
				}
			}
			k = append(k, p.Type, flags)
			k = binary.AppendUvarint(k, uint64(len(p.Data)))
			k = append(k, p.Data...)
		}
	}
	c.key = k
	return ok
}

// maxKept bounds the bytes of an answer that is kept.
const maxKept = 64 << 10

// keeping executes a read by do, and keeps its answer if it may.
func (s *session) keeping(r *request, do func() error) error {
	b := r.bound
	if c := b.Covered; c == nil || b.System != nil || !r.fill.On(c.Index, c.Keys) {
		return do()
	}
	rows := s.measured.Rows
	s.client.Copy(maxKept)
	err := do()
	packets, whole := s.client.Copied()
	counts := r.found.Op != plan.FoundKept
	if err != nil || !whole || s.diag.told || len(s.diag.warnings) > 0 || counts && s.diag.found == noFound {
		return err
	}
	k := &keptAnswer{slices.Clone(packets), s.measured.Rows - rows, b.Access, s.diag.found, counts}
	r.fill.Keep(s.covering.key, k, len(k.packets)+100)
	return nil
}

// coveringTables are those that have covering indexes: a hinted statement, or a procedure, may change rows of any.
func (s *session) coveringTables() (tables []*catalog.Table) {
	for t := range s.catalog().Tables() {
		if slices.ContainsFunc(t.Indexes, func(ix *catalog.Index) bool { return len(ix.Include) > 0 }) {
			tables = append(tables, t)
		}
	}
	return tables
}
