package proxy

import (
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// tries remembers DDL that was done on some shards and failed on others, so that
// the same statement can be sent again and goes only to those that lack it. What
// else changes the same schema, or a shard alone, forgets it:
//
//	CREATE TABLE t (..)   done on s0, s1; s2 is down
//	DROP TABLE t
//	CREATE TABLE t (..)   must go to all of them
type tries struct {
	mu   sync.Mutex
	open map[string]*try
}

// try is one statement and the shards it is done on.
type try struct {
	key     string
	schemas map[string]bool
	at      time.Time
	// done are the shards that have it. unknown are those whose connection broke
	// in between: there "already exists" means that they have it.
	done, unknown catalog.ShardSet
}

// tryAgainWithin is how long a statement is known as one that failed.
const tryAgainWithin = 24 * time.Hour

// begin returns what is known of a statement, and forgets the others that its
// schemas had.
func (t *tries) begin(schema, sql string, d *planner.DDL) *try {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := &try{key: schema + "\x00" + strings.TrimSpace(sql), schemas: map[string]bool{strings.ToLower(d.Schema): true}, at: time.Now()}
	for i, name := range d.Tables {
		now.schemas[strings.ToLower(name.Schema)] = true
		if i < len(d.Renamed) {
			now.schemas[strings.ToLower(d.Renamed[i].Schema)] = true
		}
	}
	delete(now.schemas, "")
	for key, was := range t.open {
		same := false
		for s := range was.schemas {
			same = same || now.schemas[s]
		}
		switch {
		case time.Since(was.at) > tryAgainWithin:
			delete(t.open, key)
		case key == now.key:
			now = was
		case same:
			delete(t.open, key)
		}
	}
	return now
}

// end keeps a statement that failed somewhere, and is done elsewhere or may be.
func (t *tries) end(x *try, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, x.key)
	if failed == 0 || x.done.Empty() && x.unknown.Empty() {
		return
	}
	if t.open == nil {
		t.open = map[string]*try{}
	}
	x.at = time.Now()
	t.open[x.key] = x
}

// forget forgets all of them.
func (t *tries) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.open)
}

// alreadyDone are the errors of DDL that is done a second time.
func alreadyDone(code uint16) bool {
	switch code {
	case 1007, 1008, // database exists, doesn't
		1050, 1051, 1146, codeNoView, // table or view exists, doesn't
		1060, 1061, 1068, 1091, 1826, 3822, // column, key, primary key, can't drop, foreign key, check
		1304, 1305, 1359, 1360, 1537, 1539: // procedure, trigger, event
		return true
	}
	return false
}
