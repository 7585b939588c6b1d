package shared

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// # Partitions
//
// An index with partitions is several, each with a number, a home, generations, floors, gates and removals of its own. A key is
// in one of them, by its hash; a mark is in all. Each is by itself a store that keeps the promise for the keys that it has, so that
// nothing of the protocol is otherwise. What is of all of them:
//
//	the lookup of a range   asks all, as of one moment by rule removals; that of a key asks the one that has it
//	a scan                  opens all gates, and removes from each behind its own
//	a build, a move         is of all; the index is read once each has ended it
//
// Who calls Store knows of the index alone. Its record is of a kind of its own, and those of its partitions say that they are
// disabled: a Shunt of a version that knows of none adds every key to each of them, and reads by none.

// kindOf is the kind of an index's record.
func kindOf(d storage.IndexRecord) string {
	if len(d.Parts) > 0 {
		return kindPartitioned
	}
	return kindIndex
}

// partitionOf is which of n partitions has a key, as it is given or as it is kept. It stays so for ever.
func partitionOf(key []byte, n int) int {
	return int(xxhash.Sum64(key[:min(len(key), home.Uncut)]) % uint64(n))
}

// parts are an index's partitions; itself where it has none.
func (now *state) parts(id catalog.IndexID) []catalog.IndexID {
	if d := now.indexes[id]; len(d.Parts) > 0 {
		return d.Parts
	}
	return []catalog.IndexID{id}
}

// part is the partition that has a key of an index; itself where it has none.
func (now *state) part(id catalog.IndexID, key []byte) catalog.IndexID {
	if len(now.wholes) == 0 {
		return id
	}
	of := now.parts(id)
	return of[partitionOf(key, len(of))]
}

// whole is the index that a partition is of; itself where it is none.
func (now *state) whole(id catalog.IndexID) catalog.IndexID {
	if of, ok := now.wholes[id]; ok {
		return of
	}
	return id
}

// compose has the record of an index with partitions tell what these are.
//
// Rule opened in all: a build is open where all that it is to fill is. Counter-examples: one of two homes is given up, and comes
// back. The other one's partition has a generation open, so that a build is made for it, in vain, for ever; the one that was given
// up is never placed anew. Or the process ends between the two, behind DDL: only the first one's keys are made anew, and
// the index is read.
func (now *state) compose(d storage.IndexRecord) storage.IndexRecord {
	var homes, targets, formers []string
	d.Readable, d.HasBuild, d.Forsaken = true, false, false
	opened := !d.Opening
	d.ReadGeneration, d.BuildGeneration = 0, 0
	for _, id := range d.Parts {
		p := now.indexes[id]
		homes = append(homes, p.Home)
		if p.Target != "" {
			targets = append(targets, p.Target)
		}
		if p.Former != "" {
			formers = append(formers, p.Former)
		}
		d.Readable, d.HasBuild, d.Forsaken = d.Readable && p.Readable, d.HasBuild || p.HasBuild, d.Forsaken || p.Forsaken
		opened = opened && !p.Forsaken && (p.Readable || p.HasBuild)
		d.ReadGeneration += p.ReadGeneration
		// One that has ended the build counts as it did before, or the others' end would be another build's.
		d.BuildGeneration += max(p.ReadGeneration, p.BuildGeneration)
	}
	d.HasBuild = d.HasBuild && opened
	if !d.Readable {
		d.ReadGeneration = 0
	}
	if !d.HasBuild {
		d.BuildGeneration = 0
	}
	d.Home, d.Target, d.Former = storage.JoinNames(homes), storage.JoinNames(targets), storage.JoinNames(formers)
	return d
}

// each calls do with an index's partitions, or with itself.
func (s *Store) each(id catalog.IndexID, do func(catalog.IndexID) error) error {
	for _, part := range s.state.Load().parts(id) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// entriesOfParts has entries be of the partitions that have their keys.
func (now *state) entriesOfParts(entries []storage.Entry) []storage.Entry {
	if len(now.wholes) == 0 {
		return entries
	}
	out := slices.Clone(entries)
	for i := range out {
		out[i].Index = now.part(out[i].Index, out[i].Key)
	}
	return out
}

// marksOfParts has marks be of all partitions.
func (now *state) marksOfParts(marks []storage.Mark) []storage.Mark {
	if len(now.wholes) == 0 {
		return marks
	}
	var out []storage.Mark
	for _, m := range marks {
		for _, m.Index = range now.parts(m.Index) {
			out = append(out, m)
		}
	}
	return out
}

// marksOfWholes is the reverse, of marks as they are read.
func (now *state) marksOfWholes(marks []storage.Mark) []storage.Mark {
	if len(now.wholes) == 0 {
		return marks
	}
	var out []storage.Mark
	for _, m := range marks {
		m.Index = now.whole(m.Index)
		if !slices.ContainsFunc(out, func(have storage.Mark) bool {
			return have.Index == m.Index && have.Shard == m.Shard && have.Logged == m.Logged && slices.EqualFunc(have.Known, m.Known, bytes.Equal)
		}) {
			out = append(out, m)
		}
	}
	return out
}

// split has questions about indexes with partitions be asked of these. fold puts the answers together.
func (now *state) split(questions []storage.Question) (asked []storage.Question, fold func()) {
	if len(now.wholes) == 0 {
		return questions, func() {}
	}
	ends := make([]int, len(questions))
	for i, q := range questions {
		if q.Ranged {
			for _, q.Index = range now.parts(q.Index) {
				asked = append(asked, q)
			}
		} else {
			q.Index = now.part(q.Index, q.Key)
			asked = append(asked, q)
		}
		ends[i] = len(asked)
	}
	return asked, func() {
		from := 0
		for i, to := range ends {
			questions[i] = folded(questions[i].Index, asked[from:to])
			from = to
		}
	}
}

// folded is the answer of all partitions.
func folded(of catalog.IndexID, answers []storage.Question) storage.Question {
	q := answers[0]
	q.Index = of
	for _, a := range answers[1:] {
		if q.Err == nil {
			q.Err = a.Err
		}
		q.Within = q.Within && a.Within
		q.Found.Shards = q.Found.Shards.Union(a.Found.Shards)
		q.Found.Floors = laterFloors{q.Found.Floors, a.Found.Floors}
	}
	return q
}

// laterFloors are the later ones of two.
type laterFloors [2]storage.Floors

// Floor implements storage.Floors.
func (f laterFloors) Floor(id catalog.ShardID) (e storage.Epoch) {
	for _, of := range f {
		if of != nil {
			e = max(e, of.Floor(id))
		}
	}
	return e
}

// walked is what a walk over a partition has come to.
type walked struct {
	key   []byte
	pairs []storage.ShardEpoch
}

// inOrder calls fn with what walks over the partitions give, in the order of the keys. A key that its partition isn't for is left
// out: an older version has added it to all.
func inOrder(walks []func(fn func(key []byte, pairs []storage.ShardEpoch) (more bool)) error, fn func(key []byte, pairs []storage.ShardEpoch) (more bool)) error {
	if len(walks) == 1 {
		return walks[0](fn)
	}
	errs := make([]error, len(walks))
	heads, next := make([]*walked, len(walks)), make([]func() (walked, bool), len(walks))
	advance := func(i int) {
		if w, ok := next[i](); ok {
			heads[i] = &w
		} else {
			heads[i] = nil
		}
	}
	for i, walk := range walks {
		var stop func()
		next[i], stop = iter.Pull(func(yield func(walked) bool) {
			errs[i] = walk(func(key []byte, pairs []storage.ShardEpoch) bool {
				return partitionOf(key, len(walks)) != i || yield(walked{key, pairs})
			})
		})
		defer stop()
		advance(i)
	}
	for {
		least := -1
		for i, h := range heads {
			if errs[i] != nil {
				return errs[i]
			}
			if h != nil && (least < 0 || bytes.Compare(h.key, heads[least].key) < 0) {
				least = i
			}
		}
		if least < 0 {
			return nil
		}
		if !fn(heads[least].key, heads[least].pairs) {
			return nil
		}
		advance(least)
	}
}

// openGates opens those of all partitions. Their epoch is the latest: a scan that is late in one of them is so in all.
func (s *Store) openGates(parts []catalog.IndexID, open func(catalog.IndexID) (storage.Gate, error)) (all storage.Gate, err error) {
	if len(parts) == 1 {
		return open(parts[0])
	}
	all.Sole = true
	for _, id := range parts {
		g, err := open(id)
		if err != nil {
			return all, err
		}
		all.Epoch, all.Sole = max(all.Epoch, g.Epoch), all.Sole && g.Sole
		all.Parts = append(all.Parts, g)
	}
	return all, nil
}

// retirements are what a scan takes away from each partition.
func (now *state) retirements(r storage.Retirement) ([]storage.Retirement, error) {
	parts := now.parts(r.Index)
	if len(parts) == 1 {
		return []storage.Retirement{r}, nil
	}
	if len(r.Gate.Parts) != len(parts) {
		return nil, fmt.Errorf("the scan knows nothing of partitions: %w", storage.ErrSuperseded)
	}
	of := make([]storage.Retirement, len(parts))
	for i, id := range parts {
		of[i] = r
		of[i].Index, of[i].Gate, of[i].Keys = id, r.Gate.Parts[i], nil
	}
	for _, k := range r.Keys {
		i := partitionOf(k, len(parts))
		of[i].Keys = append(of[i].Keys, k)
	}
	return slices.DeleteFunc(of, func(r storage.Retirement) bool { return len(r.Keys) == 0 && !r.Marks }), nil
}

// spread gives homes to the partitions of a new index of a table: those asked for in turns, else one to each as far as there are
// some, the best one first. n 0: as many as are asked for.
func (s *Store) spread(now *state, of catalog.TableName, n int, asked string) ([]string, error) {
	names := storage.SplitNames(asked)
	if n = cmp.Or(n, len(names)); len(names) > n {
		return nil, tooMany(len(names), n)
	}
	if asked == "" {
		best, err := s.choose(now, of, "")
		if err != nil {
			return nil, err
		}
		names = []string{best}
		for _, p := range s.homes() {
			if p.name == best {
				continue
			}
			if name, err := s.choose(now, of, p.name); err == nil {
				names = append(names, name)
			}
		}
		n = min(n, len(names))
	}
	homes := make([]string, n)
	for i := range homes {
		var err error
		if homes[i], err = s.choose(now, of, names[i%len(names)]); err != nil {
			return nil, err
		}
	}
	return homes, nil
}

func tooMany(homes, partitions int) error {
	return fmt.Errorf("%d servers are named for %d partitions", homes, partitions)
}

// ErrPartitions: an index of a shared store keeps the number of partitions that it was created with.
var ErrPartitions = errors.New("where several Shunts have one store, an index keeps its number of partitions: create one with another number beside it, and then drop this one")
