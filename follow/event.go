package follow

import (
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Event is what a Stream gives, in this order of a transaction: a *Begin, any number of *Rows, *Unknown
// and *Schema, a *Commit. A *Heartbeat comes between transactions. An event and all that it points to is
// valid until the next one is asked for.
type Event interface{ event() }

// Begin is a transaction's beginning. One that was cut off by the end of a stream comes again, whole.
type Begin struct {
	GTID string // as the server writes it, in session tracking and in @@last_gtid too
	// At is when the transaction was committed on the server that is followed (MySQL, microseconds) or
	// when its first statement began (MariaDB, seconds).
	At time.Time
}

// Commit is a transaction's end. It is consumed when the next event is asked for: then Progress has it.
// The transaction may not be visible on the server yet. Of an XA transaction the rows come when it
// is prepared; its XA COMMIT, or ROLLBACK, is a transaction of its own without rows.
type Commit struct {
	GTID string
	At   time.Time
	// XA: it is a part of an XA transaction.
	XA bool
	of gtid
}

// Heartbeat says that the server has had nothing new for a while.
type Heartbeat struct{}

// Unknown says that rows of a table were changed, or may have been, in a way that the log doesn't tell:
// its consumer has to look at the whole table. Table "" are all tables of the schema, Schema "" all schemas.
type Unknown struct {
	Schema, Table string
	Why           string
}

// Schema says that tables were defined anew: created, altered, renamed, dropped. Where that could have
// changed rows an Unknown follows; not where a table is gone with its rows. A table "" are all of the schema.
type Schema struct {
	Tables []catalog.TableName
	// Gone: they were dropped, or have other names. What has such a name now is another table.
	Gone bool
}

func (*Begin) event()     {}
func (*Commit) event()    {}
func (*Heartbeat) event() {}
func (*Rows) event()      {}
func (*Unknown) event()   {}
func (*Schema) event()    {}
