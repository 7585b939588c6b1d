package console

import (
	"sync"
	"time"
)

// pace says how fast counters grow. All who look share its samples, so that many cost no more than one.
type pace struct {
	mu          sync.Mutex
	now, before sample
}

// sample is what was counted at a time.
type sample struct {
	at       time.Time
	figures  figures
	traffic  []Traffic
	counters map[flow]uint64
}

// flow is between two nodes of the map: of statements from a table to a way of finding shards, or of parts from there to a shard.
type flow struct {
	schema, table, access string
	// shard is -1 for the former.
	shard int
}

const (
	// sampleAge is how old a sample may be that is shown, staleAge how old one that rates go by.
	sampleAge = 900 * time.Millisecond
	staleAge  = time.Minute
)

// look is the sample of now, and the rate at which counters have grown since the one before; nil where that is too old.
func (p *pace) look(x *site) (sample, func(now, before float64) float64, sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.now.at) > sampleAge {
		p.before, p.now = p.now, x.sample()
	}
	between := p.now.at.Sub(p.before.at)
	if p.before.at.IsZero() || between > staleAge {
		return p.now, nil, p.before
	}
	return p.now, func(now, before float64) float64 { return max(0, now-before) / between.Seconds() }, p.before
}

func (x *site) sample() sample {
	s := sample{at: time.Now(), figures: x.figures(), traffic: x.served.Traffic(), counters: map[flow]uint64{}}
	for _, t := range s.traffic {
		if len(t.Shards) == 0 {
			continue
		}
		for _, table := range t.Tables {
			s.counters[flow{table.Schema, table.Name, t.Access, -1}] += t.Calls
		}
		for _, sh := range t.Shards {
			s.counters[flow{"", "", t.Access, sh.Shard}] += sh.Parts
		}
	}
	return s
}
