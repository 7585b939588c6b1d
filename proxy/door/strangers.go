package door

import (
	"log/slog"
	"sync"
	"time"
)

// strangersLogged bounds the lines of a second about connections that nobody has
// logged in by: any machine that reaches the port can make thousands, and so
// gigabytes of log in a day.
const strangersLogged = 10

// Strangers logs what such connections come to.
type Strangers struct {
	mu     sync.Mutex
	second int64
	lines  int
	// unlogged are those since the last line.
	unlogged int
}

// Info logs one.
func (x *Strangers) Info(log *slog.Logger, msg string, err error) {
	if unlogged, ok := x.may(time.Now()); ok {
		if unlogged > 0 {
			log = log.With("not_logged_before", unlogged)
		}
		log.Info(msg, "error", err)
	}
}

// may reports whether there may be a line now, and how many there weren't before it.
func (x *Strangers) may(now time.Time) (unlogged int, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := now.Unix(); s != x.second {
		x.second, x.lines = s, 0
	}
	if x.lines == strangersLogged {
		x.unlogged++
		return 0, false
	}
	x.lines++
	unlogged, x.unlogged = x.unlogged, 0
	return unlogged, true
}
