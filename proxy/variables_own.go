package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// ownVariables are session variables about the connection between the client and
// its server, which is Shunt: it obeys them itself, and no shard connection gets
// them. Times are in seconds.
type ownVariables struct {
	wait, interactive, netRead, netWrite int64
	// readFrom is where reads outside of transactions go: readFromUser, ...
	readFrom int64
	// noMetadata is resultset_metadata = NONE: the client is sent no definitions of
	// columns. Shunt itself needs the shards'.
	noMetadata bool
	limit      selectLimit
	// virtualColumns is shunt_virtual_columns, indexReads shunt_index_reads.
	virtualColumns, indexReads freshness
}

// metadata is resultset_metadata.
func (v *ownVariables) metadata() string {
	if v.noMetadata {
		return "NONE"
	}
	return "FULL"
}

// assignMetadata is SET resultset_metadata, of a MySQL.
func (s *session) assignMetadata(next *settings, literal string) error {
	switch strings.ToUpper(literal) {
	case "NONE", "0":
		if s.client.Capabilities&gomysql.CLIENT_OPTIONAL_RESULTSET_METADATA == 0 {
			return mysqlerr.New(mysqlerr.ClientDoesNotSupport, "The client doesn't support optional metadata transfer")
		}
		next.own.noMetadata = true
	case "FULL", "1", "DEFAULT":
		next.own.noMetadata = false
	default:
		return mysqlerr.Newf(mysqlerr.WrongValueForVar, "Variable 'resultset_metadata' can't be set to the value of '%s'", literal)
	}
	return nil
}

// Timeouts toward clients, where a session has not SET its own.
type Timeouts struct {
	// Wait is how long a client may be idle, Interactive how long one that said
	// in its handshake that a human uses it.
	Wait, Interactive time.Duration
	// NetRead bounds the wait for the rest of something that a client has begun
	// to send, NetWrite that for it to take an answer.
	NetRead, NetWrite time.Duration
	// Query ends a statement that reads; 0: never.
	Query time.Duration
	// Commit is how long a shard's server may take to commit until it counts as stalled; 0: for ever.
	Commit time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	for _, d := range []struct {
		at        *time.Duration
		otherwise time.Duration
	}{{&t.Wait, 8 * time.Hour}, {&t.Interactive, 8 * time.Hour}, {&t.NetRead, 30 * time.Second}, {&t.NetWrite, time.Minute}} {
		if *d.at <= 0 {
			*d.at = d.otherwise
		}
	}
	return t
}

// ownDefaults are a fresh session's. As on a server, wait_timeout of an
// interactive client is interactive_timeout.
func (p *Proxy) ownDefaults(capabilities uint32) ownVariables {
	t := p.timeouts.Load()
	v := ownVariables{wait: seconds(t.Wait), interactive: seconds(t.Interactive), netRead: seconds(t.NetRead), netWrite: seconds(t.NetWrite), readFrom: readFromUser}
	if capabilities&gomysql.CLIENT_INTERACTIVE != 0 {
		v.wait = v.interactive
	}
	return v
}

func seconds(d time.Duration) int64 { return max(int64(d/time.Second), 1) }

func (v *ownVariables) named(name string) *int64 {
	switch name {
	case "wait_timeout":
		return &v.wait
	case "interactive_timeout":
		return &v.interactive
	case "net_read_timeout":
		return &v.netRead
	case "net_write_timeout":
		return &v.netWrite
	}
	return nil
}

// maxTimeout is a year, the servers' limit.
const maxTimeout = 31_536_000

// assignOwn is SET of one of them. A value out of bounds is cut off with a
// warning, as servers do.
func (s *session) assignOwn(next *settings, name, value, literal string) error {
	if strings.EqualFold(literal, "default") {
		defaults := s.proxy.ownDefaults(0)
		*next.own.named(name) = *defaults.named(name)
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		return mysqlerr.Newf(mysqlerr.WrongTypeForVar, "Incorrect argument type to variable '%s'", name)
	}
	if cut := min(max(n, 1), maxTimeout); cut != n {
		s.diag.warn(mysqlerr.TruncatedWrongValue, fmt.Sprintf("Truncated incorrect %s value: '%d'", name, n))
		n = cut
	}
	*next.own.named(name) = n
	return nil
}

// mariaDB reports which server the shards are, and so Shunt to its clients.
func (s *session) mariaDB() bool {
	return strings.Contains(strings.ToLower(s.catalog().ServerVersion), "mariadb")
}

// obey takes the session's settings over into its connection. REQUIRES: called
// whenever own has changed.
func (s *session) obey() {
	s.client.SetWriteTimeout(time.Duration(s.settings.own.netWrite) * time.Second)
	s.client.SetReadTimeout(time.Duration(s.settings.own.netRead) * time.Second)
	s.client.NoMetadata = s.settings.own.noMetadata
}

// errIdle is what MySQL tells a client that it closes the connection of for being
// idle. MariaDB tells nothing.
var errIdle = mysqlerr.New(mysqlerr.ClientInteractionTimeout, "The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout for configuring this behavior.")

// expire wakes the session if its client has been idle for too long, so that it
// ends; it rolls back what is open. A transaction doesn't keep it.
func (s *session) expire(now time.Time) {
	a := &s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting && a.client != nil && a.patience > 0 && now.Sub(a.since) >= a.patience {
		a.expired = true
		_ = a.client.SetReadDeadline(longAgo)
	}
}

var longAgo = time.Unix(1, 0)
