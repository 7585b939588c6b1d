package seat

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/storage"
)

var (
	// ErrOtherServer: another server answers for the shard than the one that was taken in
	// use.
	ErrOtherServer = errors.New("another server than the one in use; one that has taken over is put in use by shunt replaced")
	// ErrOtherShard: the server is another shard, or of another cluster.
	ErrOtherShard = errors.New("the server belongs to something else")
	// ErrNoThread: the server doesn't list the thread that is to be noted.
	ErrNoThread = errors.New("the server lists no such thread: a proxy in between?")
	// ErrBlind: the account can't see whether another one's threads have ended.
	ErrBlind = errors.New("threads of another account can't be seen without the right PROCESS")
)

// Config says which server it is, and as whom to go there.
type Config struct {
	// Addr is host:port, or the path of a socket.
	Addr           string
	User, Password string
	// TLS, if set, is demanded.
	TLS *tls.Config
	// Cluster and Shard name what the server is to be.
	Cluster, Shard string
	// Schema holds the tables; "": shunt_store.
	Schema string
	// Connections bounds those open at a time; 0: 8.
	Connections int
	// Dial is how long a connection may take to be made, and Answer a statement until
	// something comes of its answer; 0: 10 s. A call that gets none returns an error.
	Dial, Answer time.Duration

	// unchecked: whatever server of the shard answers.
	unchecked bool
}

// DefaultSchema is the schema that holds the tables.
const DefaultSchema = "shunt_store"

// Seat is one shard's.
type Seat struct {
	db *sql.DB
	by connector
	// connections bounds those open at a time.
	connections int
	// user is this account's, as the server lists it, and sees all: it has PROCESS.
	user string
	all  bool
	link linking
}

var _ cluster.Seat = (*Seat)(nil)

// Open connects, and makes the tables where they are not. The errors are ErrOtherServer,
// ErrOtherShard, storage.ErrFormat where a newer version of Shunt has made the tables, or
// others.
func Open(ctx context.Context, c Config) (*Seat, error) {
	c = c.complete()
	s, err := open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open what shard %s (%s) keeps of the members: %w", c.Shard, c.Addr, err)
	}
	return s, nil
}

// OpenAny is Open of whatever server of the shard answers, which may be another one than that in use: to see what it has,
// and for Renew, which takes it in use.
func OpenAny(ctx context.Context, c Config) (*Seat, error) {
	c.unchecked = true
	return Open(ctx, c)
}

func (c Config) complete() Config {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Connections == 0 {
		c.Connections = 8
	}
	if c.Dial == 0 {
		c.Dial = 10 * time.Second
	}
	if c.Answer == 0 {
		c.Answer = 10 * time.Second
	}
	return c
}

func open(ctx context.Context, c Config) (*Seat, error) {
	f, err := prepare(ctx, c)
	if err != nil && (!c.unchecked || !errors.Is(err, ErrOtherServer)) {
		return nil, err
	}
	db, by, err := connect(c, f, true)
	if err != nil {
		return nil, err
	}
	s := &Seat{db: db, by: by, connections: c.Connections}
	if err := s.see(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// see finds out whom the server lists this account as, and whether it sees others.
func (s *Seat) see(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var own uint64
	err = conn.QueryRowContext(ctx, `SELECT CONNECTION_ID(), EXISTS (SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'PROCESS'
		AND GRANTEE = CONCAT("'", SUBSTRING_INDEX(CURRENT_USER(), '@', 1), "'@'", SUBSTRING_INDEX(CURRENT_USER(), '@', -1), "'"))`).Scan(&own, &s.all)
	if err != nil {
		return err
	}
	listed, err := list(ctx, conn)
	if err != nil {
		return err
	}
	t, ok := listed[own]
	if !ok {
		return ErrNoThread
	}
	s.user = t.User
	return nil
}

// Readdress has connections from now on go elsewhere, or as somebody else, and ends those that nobody uses.
func (s *Seat) Readdress(c Config) error {
	to, err := base(c.complete(), true)
	if err != nil {
		return err
	}
	s.by.to.Store(&to)
	s.db.SetMaxIdleConns(0)
	s.db.SetMaxIdleConns(s.connections)
	s.link.close()
	return nil
}

// Close closes the connections.
func (s *Seat) Close() error {
	s.link.close()
	return s.db.Close()
}

// Life is that of the server's which was taken in use last, as far as the server knows.
func (s *Seat) Life(ctx context.Context) (life uint64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT life FROM self").Scan(&life)
	return life, err
}

// Advance is cluster.Seat's.
func (s *Seat) Advance(ctx context.Context) (storage.Epoch, error) {
	res, err := s.db.ExecContext(ctx, "UPDATE epoch SET epoch = LAST_INSERT_ID(epoch + 1)")
	if err != nil {
		return 0, err
	}
	e, err := res.LastInsertId()
	return storage.Epoch(e), err
}

// Raise is cluster.Seat's.
func (s *Seat) Raise(ctx context.Context, e storage.Epoch) error {
	_, err := s.db.ExecContext(ctx, "UPDATE epoch SET epoch = GREATEST(epoch, ?)", uint64(e))
	return err
}

// Join is cluster.Roll's.
func (s *Seat) Join(ctx context.Context, who cluster.Identity, catalog uint64) (join uint64, err error) {
	// A server that counted would give the same number twice once it was put back.
	join = rand.Uint64N(1<<63-1) + 1
	err = s.linked(ctx, join, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "INSERT INTO members (join_no, member, addr, version, catalog, since) VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
			join, who.ID, cut(who.Addr), cut(who.Version), catalog)
		return err
	})
	if err != nil {
		return 0, err
	}
	return join, nil
}

// cut shortens what is for people to what the columns hold.
func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), 255)], "") }

// Beat is cluster.Roll's.
func (s *Seat) Beat(ctx context.Context, join uint64) (b cluster.Beat, err error) {
	err = s.linked(ctx, join, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, "SELECT e.epoch, s.life, m.fenced <=> 0 FROM epoch e JOIN self s LEFT JOIN members m ON m.join_no = ?", join).Scan(&b.Epoch, &b.Life, &b.Here)
	})
	return b, err
}

// Tell is cluster.Roll's.
func (s *Seat) Tell(ctx context.Context, join uint64, told cluster.Told) error {
	_, err := s.db.ExecContext(ctx, "UPDATE members SET told = GREATEST(told, ?), adopted = GREATEST(adopted, ?), catalog = GREATEST(catalog, ?), opened = ? WHERE join_no = ?",
		uint64(told.Epoch), uint64(told.Adopted), told.Catalog, told.Open, join)
	return err
}

// Least is cluster.Roll's.
func (s *Seat) Least(ctx context.Context) (e storage.Epoch, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT LEAST(e.epoch, COALESCE((SELECT MIN(told) FROM members), e.epoch)) FROM epoch e").Scan(&e)
	return e, err
}

// Rows is cluster.Roll's.
func (s *Seat) Rows(ctx context.Context) (epoch storage.Epoch, all []cluster.Row, err error) {
	// The epoch's row is there without a member, too.
	rows, err := s.db.QueryContext(ctx, `SELECT e.epoch, m.join_no IS NOT NULL, COALESCE(m.join_no, 0), COALESCE(m.member, 0), COALESCE(m.addr, ''),
		COALESCE(m.version, ''), COALESCE(m.told, 0), COALESCE(m.adopted, 0), COALESCE(m.catalog, 0), COALESCE(m.opened, 0), COALESCE(m.fenced, 0),
		IS_USED_LOCK(CONCAT('`+linkLock+`', COALESCE(m.join_no, 0))) IS NOT NULL, COALESCE(m.since, e.since), (SELECT COUNT(*) FROM threads t WHERE t.join_no = m.join_no)
		FROM epoch e LEFT JOIN members m ON TRUE ORDER BY m.since, m.join_no`)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r cluster.Row
		var there bool
		if err := rows.Scan(&epoch, &there, &r.Join, &r.ID, &r.Addr, &r.Version, &r.Epoch, &r.Adopted, &r.Catalog, &r.Open, &r.Fenced, &r.Linked, &r.Since, &r.Connections); err != nil {
			return 0, nil, err
		}
		if there {
			all = append(all, r)
		}
	}
	return epoch, all, rows.Err()
}

// SetFenced is cluster.Fencing's.
func (s *Seat) SetFenced(ctx context.Context, join uint64) (bool, error) {
	res, err := s.db.ExecContext(ctx, "UPDATE members SET fenced = 1 WHERE join_no = ? AND fenced = 0", join)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// Remove is cluster.Fencing's.
func (s *Seat) Remove(ctx context.Context, join uint64) error {
	if _, err := s.db.ExecContext(ctx, "DELETE FROM members WHERE join_no = ? AND fenced = 1", join); err != nil {
		return err
	}
	// A join's row is there before its notes, and no number comes again.
	_, err := s.db.ExecContext(ctx, "DELETE t FROM threads t LEFT JOIN members m ON m.join_no = t.join_no WHERE m.join_no IS NULL")
	return err
}
