package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// servers knows which server each shard was last, and refuses connections that
// a mistaken address leads elsewhere: rows would be looked for where they are
// not, or be found twice, and nothing would tell.
//
//	s0: addr of B    B was s1 until now: two addresses have been exchanged
//	s1: addr of A
//
//	s0: addr of A
//	s1: addr of A    one server twice, its rows too; B's rows are gone
//
// A server that was no shard before is another matter: a replica that has taken
// over, or one restored from a backup. It may lack the last changes of the one
// before, and so has rows whose index entries are gone:
//
//	A     row 5 is email = 'old'; entry (old, s0)
//	A     UPDATE ... SET email = 'new' WHERE id = 5; later a scan removes (old, s0)
//	B     takes over without that UPDATE: row 5 is email = 'old'
//
// So before its first connection is used, what the indexes have of the shard is
// taken for unknown (replaced), and connections to the old server are cut off. So it is with a
// shard of which it isn't known which server it was: the file is damaged or gone, or the shard is new.
//
// So an address behind which several servers take turns is no shard's.
type servers struct {
	file keptFile[string]
	log  *slog.Logger
	// damage is why what the file had isn't known.
	damage error
	// seated: of a shard whose server isn't known, others know it (cluster/seat). A member may begin with an
	// empty data_dir, and its shards aren't replaced.
	seated bool
	// life is a shard's, as it was heard last; an error where the server that was heard isn't in use any more. nil: it has
	// none.
	life func(name string) (uint64, error)
	// replaced is told of a shard that has another server than before; renewed: shunt replaced has taken that in
	// use. Its error keeps the server from being used.
	replaced func(name string, renewed bool) error

	mu sync.Mutex
	// was has the shards' servers by name, those of earlier lives too: see known.
	was map[string]string
	// is has what each shard's address led to in this life.
	is map[string]server
	// shards of the configuration.
	shards map[string]bool
}

// server is what a connection tells of its server.
type server struct {
	id      string
	version string
	mariaDB bool
	addr    string
}

// serversFile may be removed by an operator who has moved the rows himself.
const serversFile = "servers.json"

// knownServers changes nothing.
func knownServers(cfg *config.Config, log *slog.Logger) (*servers, error) {
	s := &servers{
		file: keptFile[string]{filepath.Join(cfg.DataDir, serversFile), func(sum string) string { return sum }}, log: log, seated: cfg.Store.Shared(),
		is: map[string]server{}, shards: map[string]bool{}, replaced: func(string, bool) error { return nil },
	}
	for _, sh := range cfg.Shards {
		s.shards[sh.Name] = true
	}
	var err error
	switch s.was, err = s.file.read(); {
	case errors.Is(err, errDamaged):
		s.damage, s.seated = err, false
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read which server each shard was: %w", err)
	}
	return s, nil
}

const serversLost = "which server each shard was isn't known, so reads by virtual indexes go to each until it has been scanned"

// heal sets a damaged file aside.
func (s *servers) heal() error {
	if s.damage == nil {
		return nil
	}
	return setAside(s.file.path, serversLost, s.damage, s.log)
}

// admit is the Admit of a shard's connections. alone is called with one that leads to
// another server than before, when those of before must go: a shard is one server.
func (s *servers) admit(of shard.Config, alone func(*shard.Conn)) func(context.Context, *shard.Conn) error {
	return func(ctx context.Context, c *shard.Conn) error {
		to, err := askServer(ctx, c)
		if _, refused := errors.AsType[*shard.ServerError](err); refused {
			return nil // it has no name of its own (before MariaDB 10.11): nothing to compare
		}
		if err != nil {
			return err
		}
		to.addr = of.Current().Addr
		return s.judge(of.Name, to, func() { alone(c) }, c.Accept)
	}
}

// while calls fn while no server is judged.
func (s *servers) while(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn()
}

// identityQuery asks for what tells servers apart. No part does so alone: copied
// data directories share a UUID, cloned machines a name, and a container may
// get the network card of one that has ended. Taken for another one than
// before, a server is merely new.
func identityQuery(mariaDB bool) string {
	own := "@@server_uuid"
	if mariaDB {
		own = "@@server_uid"
	}
	return "SELECT CONCAT_WS(' ', " + own + ", @@hostname, @@port, @@datadir)"
}

func askServer(ctx context.Context, c *shard.Conn) (server, error) {
	res, err := c.Query(ctx, identityQuery(c.MariaDB))
	if err != nil {
		return server{}, err
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
		return server{}, fmt.Errorf("ask which server it is: %d rows", len(res.Rows))
	}
	return server{id: string(res.Rows[0][0]), version: c.ServerVersion, mariaDB: c.MariaDB}, nil
}

// judge says why a server can't be the shard, or takes it for it. alone is called if
// the shard had another before. It comes before replaced: a scan over a connection to
// the old server must not end, with a snapshot of it that is younger than the marks. taken is called
// before another server is judged.
func (s *servers) judge(name string, to server, alone, taken func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mistaken(name, to); err != nil {
		return err
	}
	was, before := s.known(name)
	life := before
	if s.life != nil {
		heard, err := s.life(name)
		if err != nil {
			return err
		}
		life = max(before, heard)
	}
	if was != to.id && (was != "" || !s.seated) {
		alone()
		if err := s.replaced(name, was != "" && life > before); err != nil {
			return fmt.Errorf("another server than before, and the virtual indexes can't be told: %w", err)
		}
		if was != "" {
			s.log.Warn("the shard has another server than before; reads by virtual indexes go to it until it has been scanned", "shard", name, "addr", to.addr, "was", was, "is", to.id)
		}
	}
	s.is[name] = to
	taken()
	if was == to.id && life == before {
		return nil
	}
	s.know(name, to.id, life)
	if err := s.file.write(s.was); err != nil {
		s.log.Warn("which server the shard is can't be kept: at the next start exchanged addresses would not be noticed", "shard", name, "error", err)
	}
	return nil
}

// lifeMark is before the life that a server was known in, where that isn't the first one.
const lifeMark = " in life "

// known is which server a shard was, in which life.
func (s *servers) known(name string) (id string, life uint64) {
	id, text, _ := strings.Cut(s.was[name], lifeMark)
	life, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		life = 1
	}
	return id, life
}

func (s *servers) know(name, id string, life uint64) {
	if life > 1 {
		id += lifeMark + strconv.FormatUint(life, 10)
	}
	s.was[name] = id
}

// mistaken says why a server can't be the shard.
func (s *servers) mistaken(name string, to server) error {
	own, _ := s.known(name)
	for _, other := range slices.Sorted(maps.Keys(s.shards)) {
		if other == name {
			continue
		}
		is, known := s.is[other]
		was, _ := s.known(other)
		switch {
		case known && is.id == to.id:
			return fmt.Errorf("this is the server of shard %s (%s): expected a server each", other, is.addr)
		case was == to.id && own != to.id:
			return fmt.Errorf("this is the server that was shard %s: expected that of %s; put the addresses right (or, if its rows were moved, remove %s and start again)", other, name, s.file.path)
		case known && is.mariaDB != to.mariaDB:
			return fmt.Errorf("runs %s but shard %s runs %s: expected all MySQL or all MariaDB, since they compare text differently", to.version, other, is.version)
		}
	}
	return nil
}
