package cluster

import (
	"context"
	"errors"
)

// ErrStale is Board.Write's, where the version is another than was expected.
var ErrStale = errors.New("the shared records have been changed")

// Board is what all members share besides: records, turns, and questions. Its calls are durable as
// Seat's are.
type Board interface {
	Records
	Turns
	Asks
	// News is the version of the records, and whether a member has questions that it hasn't taken up. All ask
	// for it all the time. It may be forgotten.
	News(ctx context.Context, member string) (at Version, asked bool, err error)
}

// Version of the records. ID is random, so that two histories of the same length differ.
type Version struct {
	Number uint64
	ID     string
}

// Record has a name of its kind. Without a body it is none, or was removed.
type Record struct {
	Kind, Name string
	Version    uint64 // with which it was written
	Body       []byte // JSON
}

// Records that all go by.
type Records interface {
	// Read returns the version, and the records written behind since, of one moment. What
	// it has returned is never forgotten, either: a member tells its shards that it goes
	// by the version, and another one of the same number would seem to be adopted.
	Read(ctx context.Context, since uint64) (Version, []Record, error)
	// Write writes records as the next version, all or none. Where expect isn't 0 and
	// not the version, the error is ErrStale.
	Write(ctx context.Context, expect uint64, records ...Record) (version uint64, err error)
}

// Turns are had by one holder at a time.
type Turns interface {
	// TakeTurn reports that nobody had it. A holder is a word of up to 255 bytes.
	TakeTurn(ctx context.Context, name, holder string) (bool, error)
	// GiveTurn does nothing where somebody else has it.
	GiveTurn(ctx context.Context, name, holder string) error
	// Holder is "" where nobody is.
	Holder(ctx context.Context, name string) (string, error)
	// Held are the holders of all turns whose names begin with prefix, by name.
	Held(ctx context.Context, prefix string) (map[string]string, error)
	// TakeOver puts a holder in another's place, and reports that it had that place.
	TakeOver(ctx context.Context, name, from, to string) (bool, error)
}
