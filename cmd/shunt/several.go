package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// errSeveral: several Shunts have the shard, and this process has a store of its own. Which of
// the two came first doesn't matter, whoever is second sees the other, and ends:
//
//	one of several                        one alone
//	1 insert a row on the shard           1 take the locks (claims)
//	2 nobody holds the locks, or end      2 there is no row, or end
//
// Counter-example: 2 before 1 in one of them: both look, both find nobody, and each is behind the
// other's back.
var errSeveral = errors.New("several Shunts have the shard (" + catalog.StoreSchema + ".members has their rows, SHOW MEMBERS shows them): stop them all first; " +
	"the rows of one that has died are removed within a minute by another that runs")

// errUnseen: several Shunts may have the shard, and the account can't see that.
var errUnseen = errors.New("several Shunts have, or had, the shard by another account, and this one may not see whether they serve: GRANT SELECT ON " + catalog.StoreSchema +
	".* to it, or, where they are gone for good, drop schema " + catalog.StoreSchema)

// severalOn is how many rows a shard has of Shunts that have a store together.
func severalOn(ctx context.Context, conn *shard.Conn) (rows int, err error) {
	res, err := conn.Query(ctx, "SELECT COUNT(*) FROM "+catalog.StoreSchema+".members")
	refused, ok := errors.AsType[*shard.ServerError](err)
	switch {
	case ok && (refused.Code == mysqlerr.NoSuchTable || refused.Code == mysqlerr.BadDB):
		return 0, nil
	case ok && (refused.Code == mysqlerr.DBAccessDenied || refused.Code == mysqlerr.TableAccessDenied):
		// Whether it is there is told to who has PROCESS; an account without that sees none.
		for _, tables := range []string{"INNODB_TABLES", "INNODB_SYS_TABLES"} { // MySQL's, MariaDB's
			res, err := conn.Query(ctx, "SELECT 1 FROM information_schema."+tables+" WHERE NAME = '"+catalog.StoreSchema+"/members'")
			if err == nil && len(res.Rows) > 0 {
				return 0, errUnseen
			}
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(res.Rows[0][0]))
}

// alone is the error that a Shunt with a store of its own serves a shard.
type alone struct{ *holder }

func (a alone) Error() string {
	return fmt.Sprintf("a Shunt with a store of its own (store: local) serves it: connection %s of %s from %s; stop it first, or give both the same store", a.thread, a.account, a.host)
}

// lookForAlone is an error where a Shunt with a store of its own has one of the locks.
func lookForAlone(ctx context.Context, conn *shard.Conn, name string, locks []string, log *slog.Logger) error {
	res, err := conn.Query(ctx, ofEach(locks, usedBy))
	if refused, ok := errors.AsType[*shard.ServerError](err); ok && slices.Contains(locklessCodes, refused.Code) {
		log.Warn("the server takes no locks by name: a Shunt with a store of its own before the same shards would not be noticed", "shard", name, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, cell := range res.Rows[0] {
		if cell != nil {
			h, err := (&claim{name: name}).holder(ctx, conn, string(cell))
			if err != nil {
				return err
			}
			return alone{h}
		}
	}
	return nil
}

// aloneOnShards looks for them on all shards that answer.
func aloneOnShards(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	for _, sh := range cfg.Shards {
		if err := aloneOn(ctx, cfg, sh, log); err != nil {
			return err
		}
	}
	return nil
}

func aloneOn(ctx context.Context, cfg *config.Config, sh config.Shard, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := shard.Dial(ctx, shardConfig(sh), false)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if other, ok := errors.AsType[alone](lookForAlone(ctx, conn, sh.Name, lockNames(cfg), log)); ok {
		return fmt.Errorf("shard %s at %s: %w", sh.Name, sh.Addr, other)
	}
	return nil
}

// severalSeat is a seat on a shard that no Shunt with a store of its own serves.
type severalSeat struct {
	*laterSeat
	shard   func() config.Shard
	locks   []string
	records *records
	log     *slog.Logger
}

// Join is cluster.Seat's.
func (s severalSeat) Join(ctx context.Context, who cluster.Identity, version uint64) (join uint64, err error) {
	if join, err = s.laterSeat.Join(ctx, who, version); err != nil {
		return 0, err
	}
	if err := s.look(ctx); err != nil {
		// Nothing was registered under it.
		if _, failed := s.SetFenced(ctx, join); failed == nil {
			_ = s.Remove(ctx, join) // else others do
		}
		return 0, err
	}
	return join, nil
}

// look is an error where a Shunt with a store of its own has the shard, or has placed its rows
// otherwise.
func (s severalSeat) look(ctx context.Context) error {
	sh := s.shard()
	conn, err := shard.Dial(ctx, shardConfig(sh), false)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := direct(ctx, conn); err != nil {
		return err
	}
	if err := lookForAlone(ctx, conn, sh.Name, s.locks, s.log); err != nil {
		return err
	}
	if err := s.records.fits(ctx, sh.Name, conn); err != nil && !errors.Is(err, errSeveral) {
		return fmt.Errorf("%w; what this start has kept of its slots is in schema %s: drop that before the next, while no Shunt runs", err, catalog.StoreSchema)
	}
	return nil
}

// direct is an error where the connection isn't the server's own.
//
// Counter-example: a proxy that has few connections to the server for many clients. A member is fenced, by the end of
// the threads that it has noted; what it has sent goes on over another one's.
func direct(ctx context.Context, conn *shard.Conn) error {
	res, err := conn.Query(ctx, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	if id := string(res.Rows[0][0]); id != strconv.FormatUint(uint64(conn.ThreadID), 10) {
		return fmt.Errorf("the server has connection %d as number %s, as behind a proxy that speaks MySQL: several Shunts need connections of their own, so give the server's address", conn.ThreadID, id)
	}
	return nil
}

// directTo is direct of a server that isn't connected to; nil where it doesn't answer.
func directTo(ctx context.Context, sh config.Shard) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := shard.Dial(ctx, shardConfig(sh), false)
	if err != nil {
		return nil // others tell
	}
	defer conn.Close()
	return direct(ctx, conn)
}

// quiet waits until each statement of the account's that runs now has ended: of a Shunt that has died,
// one may still be under way.
func quiet(ctx context.Context, conn *shard.Conn, name string, log *slog.Logger) error {
	var waits []uint32
	for first := true; ; first = false {
		list, err := conn.Processes(ctx, false)
		if err != nil {
			return err
		}
		user := ""
		for _, p := range list {
			if p.ID == conn.ThreadID {
				user = p.User
			}
		}
		var running []uint32
		for _, p := range list {
			if p.User == user && p.ID != conn.ThreadID && p.Command != "Sleep" && !strings.HasPrefix(p.Command, "Binlog Dump") {
				running = append(running, p.ID)
			}
		}
		if first {
			waits = running
		}
		waits = slices.DeleteFunc(waits, func(id uint32) bool { return !slices.Contains(running, id) })
		if len(waits) == 0 {
			return nil
		}
		if first {
			log.Info("waiting for what the shard runs of an earlier process", "shard", name, "connections", waits)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
