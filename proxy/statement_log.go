package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/insights"
)

// StatementLog says which statements are logged, a line of JSON each.
type StatementLog struct {
	// File is a path, or "stderr".
	File string
	// Slow is how long one has to take, 0 for all. Share of these are logged: from 0 to 1.
	Slow  time.Duration
	Share float64
	// Literals: they are logged as the client has sent them, else by their shape.
	Literals bool
}

// statementLog is a StatementLog that may be replaced while statements are logged.
type statementLog struct {
	// wanted is nil where none is.
	wanted atomic.Pointer[StatementLog]

	mu sync.Mutex
	to io.WriteCloser
	// failed: the last line couldn't be written, which has been told.
	failed bool
}

// SetStatementLog replaces the log, nil for none, and opens its file anew: as SIGHUP asks for that
// is behind a rotation. After an error the one before goes on.
func (p *Proxy) SetStatementLog(l *StatementLog) error {
	var to io.WriteCloser
	switch {
	case l == nil:
	case l.File == "stderr":
		to = keptOpen{os.Stderr}
	default:
		f, err := os.OpenFile(l.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open the log of statements: %w", err)
		}
		to = f
	}
	log := &p.statementLog
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.to != nil {
		_ = log.to.Close()
	}
	log.to, log.failed = to, false
	log.wanted.Store(l)
	return nil
}

type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// write writes a line. err is told once, until a line could be written again.
func (l *statementLog) write(line []byte) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		return nil
	}
	_, err = l.to.Write(line)
	before := l.failed
	if l.failed = err != nil; before {
		return nil
	}
	return err
}

// loggedStatement is a line of the log.
type loggedStatement struct {
	Time       time.Time    `json:"time"` // when it was answered
	TookMS     float64      `json:"took_ms"`
	Statement  string       `json:"statement"`
	Digest     string       `json:"digest"`
	Schema     string       `json:"schema,omitempty"`
	User       string       `json:"user"`
	Client     string       `json:"client"`
	Connection uint32       `json:"connection"`
	Trace      string       `json:"trace,omitempty"`
	Route      string       `json:"route,omitempty"`
	Access     string       `json:"access,omitempty"`
	Error      uint16       `json:"error,omitempty"`
	Rows       int64        `json:"rows_sent"`
	Affected   int64        `json:"rows_affected"`
	Copied     int64        `json:"rows_copied,omitempty"`
	Waits      int          `json:"waits,omitempty"`
	WaitMS     float64      `json:"wait_ms,omitempty"`
	Vain       int          `json:"lookups_in_vain,omitempty"`
	Shards     []loggedPart `json:"shards,omitempty"`
}

type loggedPart struct {
	Shard  string  `json:"shard"`
	Thread uint32  `json:"thread"` // in the shard's list of processes
	TookMS float64 `json:"took_ms"`
}

// wants reports whether a statement that took so long is logged.
func (l *StatementLog) wants(took time.Duration) bool {
	return took >= l.Slow && (l.Share >= 1 || rand.Float64() < l.Share)
}

// logStatement logs the statement that has been measured, and what its trace is, if any.
func (s *session) logStatement(l *StatementLog, o *measured, trace string) {
	line := loggedStatement{
		Time: o.Ended.UTC(), TookMS: inMillis(o.Took), Digest: digestID(insights.ID(o.settings.Schema, o.digest())), Schema: o.settings.Schema, User: s.client.User, Client: s.client.Host, Connection: s.client.ID, Trace: trace,
		Route: o.Plan, Access: o.Access, Error: o.Code, Rows: o.Rows, Affected: o.Affected, Copied: o.Copied,
		Waits: o.Waits, WaitMS: inMillis(o.Waited), Vain: o.Vain,
	}
	if l.Literals {
		line.Statement = s.loggedText(o, maxLogged)
	} else {
		line.Statement = o.digest()
	}
	c := s.proxy.opts.Directory.Catalog()
	for _, p := range o.Parts {
		line.Shards = append(line.Shards, loggedPart{c.ShardName(catalog.ShardID(p.Shard)), p.Thread, inMillis(p.Took)})
	}
	b, err := json.Marshal(line)
	if err == nil {
		err = s.proxy.statementLog.write(append(b, '\n'))
	}
	if err != nil {
		s.log.Error("statements are not logged", "file", l.File, "error", err)
	}
}

func inMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// maxLogged bounds the bytes of a text in the log.
const maxLogged = 16 << 10

// loggedText is the statement with its values, up to some bytes.
func (s *session) loggedText(o *measured, most int) string {
	text := o.sql
	if o.prepared != nil {
		if with, err := s.textOf(text).WithValues(s.paramValues(s.room.params, nil)); err == nil {
			text = with
		}
	}
	return text[:min(len(text), most)]
}
