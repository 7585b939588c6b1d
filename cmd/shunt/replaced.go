package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/seat"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
	"github.com/shunt-sql/shunt/storage/shared"
)

type replacedCmd struct {
	Config string   `required:"" short:"c" help:"Configuration file, with the new address." placeholder:"shunt.yaml"`
	Names  []string `arg:"" name:"server" help:"Shards, or servers of the store, by name."`
}

func (replacedCmd) Help() string {
	return `Examples:

  shunt replaced --config shunt.yaml s1            # s1 has the replica's address now

The members go on serving meanwhile, unless it is the store's first server. Nobody may reach the former server any more.
It ends with 0 once the server is in use, and with 1 where it can't be, and says why.`
}

// replacement takes servers into use that answer for shards, or for homes, in place of others, of which
// they may lack the last moments, as replicas that were promoted do. Members may serve meanwhile, but where
// the store's first server is among them, which has what they share.
//
//	1 all leave the former servers of shards, and join none in an earlier life (cluster.Replace)
//	2 all indexes are marked on the shards, since their rows may be of before what was removed;
//	3 then the shards' lives rise, and their epochs over all that is known of them (seat.Renew)
//	4 homes: members give up the indexes that they have there. Where nobody serves, all of them are marked on
//	  all shards instead (home.NewLife): an entry or a mark may be lacking
//	5 then the homes' lives rise
//
// A member uses a shard from 3 on, and a home from 5 on: until then it refuses the server. So a crash in between does no
// harm, and all of it may be done again.
//
// Counter-examples. Without 1: see cluster.Replace. Without 2: row 5 has k = 'old', then 'new', and a scan in
// epochs 9 and 10 removes ('old', s0); the replica lacks all of that, and is in epoch 8. Marks instead of 4 while members
// serve: one knows that an entry is there, so that it needn't add it, which the replica lacks; the mark is cleared by a
// scan whose snapshot is of before what it writes. 4 before 3 where a shard is the home: an index is given up when all go
// by that, and nobody knows who is on a shard that doesn't answer.
type replacement struct {
	cfg   *config.Config
	names []string
	log   *slog.Logger
	out   func(format string, args ...any)

	cluster string
	store   *shared.Store
	board   board
	ids     map[string]catalog.ShardID
	// others are the members, as the shards tell that aren't replaced.
	others *cluster.Shared
	seats  map[catalog.ShardID]*seat.Seat
}

// Run is the command.
func (c *replacedCmd) Run(ctx context.Context, s streams) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if !cfg.Store.Shared() {
		return errors.New("store: local: a shard's new server is noticed by itself, see docs/operating.md")
	}
	r := &replacement{
		cfg: cfg, names: c.Names, seats: map[catalog.ShardID]*seat.Seat{},
		log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		out: func(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) },
	}
	if err := r.named(); err != nil {
		return err
	}
	defer r.close()
	return r.do(ctx)
}

func (r *replacement) named() error {
	var all []string
	for _, sh := range r.cfg.Shards {
		all = append(all, sh.Name)
	}
	for _, at := range homesOf(r.cfg) {
		all = append(all, at.Name)
	}
	for _, name := range r.names {
		if !slices.Contains(all, name) {
			slices.Sort(all)
			return fmt.Errorf("no server is named %s: there are %s", name, strings.Join(slices.Compact(all), ", "))
		}
	}
	return nil
}

func (r *replacement) is(name string) bool { return slices.Contains(r.names, name) }

func (r *replacement) close() {
	for _, s := range r.seats {
		_ = s.Close()
	}
	if r.store != nil {
		_ = r.store.Close()
	}
}

func (r *replacement) do(ctx context.Context) error {
	if err := r.openStore(ctx); err != nil {
		return err
	}
	if err := r.openSeats(ctx); err != nil {
		return err
	}
	first := homesOf(r.cfg)[0]
	if r.is(first.Name) {
		if err := r.others.Alone(ctx); err != nil {
			return fmt.Errorf("%s has what the members share, so stop all of them: %w", first.Name, err)
		}
		if err := r.renewHome(ctx, first); err != nil {
			return err
		}
	}
	for _, sh := range r.cfg.Shards {
		if r.is(sh.Name) {
			if err := r.renewShard(ctx, sh); err != nil {
				return err
			}
		}
	}
	for _, at := range homesOf(r.cfg)[1:] {
		if r.is(at.Name) {
			if err := r.takeHome(ctx, at); err != nil {
				return err
			}
		}
	}
	r.out("members whose configuration has another address now take SIGHUP; reads by virtual indexes go to all shards that lack a scan, until they have been scanned")
	return nil
}

// openStore also reads what the shards are.
func (r *replacement) openStore(ctx context.Context) error {
	homes := homesOf(r.cfg)
	for i, at := range homes {
		homes[i].Replaced = r.is(at.Name)
		if !homes[i].Replaced {
			continue
		}
		if err := promoted(ctx, shard.Config{Name: at.Name, Addr: at.Addr, User: at.User, Password: at.Password, TLS: at.TLS}); err != nil {
			return err
		}
		if there, err := home.Exists(ctx, at.Config); err != nil || !there {
			return cmp.Or(err, fmt.Errorf("%s at %s has no schema %s: it is no copy of the server that it replaces; take such a copy", at.Name, at.Addr, catalog.StoreSchema))
		}
	}
	open := home.Open
	if homes[0].Replaced {
		open = home.OpenAny
	}
	h, err := open(ctx, homes[0].Config)
	if err != nil {
		return r.too(err, homes[0].Name)
	}
	r.board = board{h}
	if r.store, err = shared.Open(ctx, shared.Options{Home: h, Server: homes[0].Name, Logger: r.log}); err != nil {
		return err
	}
	if r.cluster, err = r.store.Cluster(""); err != nil {
		return err
	}
	if err := r.store.OpenHomes(ctx, r.cluster, homes[1:]); err != nil {
		return fmt.Errorf("%w: name the server, too, if it has been replaced", err)
	}
	r.ids = r.store.Shards()
	return nil
}

// too helps where a server was replaced that isn't named.
func (r *replacement) too(err error, name string) error {
	if errors.Is(err, home.ErrOtherServer) || errors.Is(err, seat.ErrOtherServer) {
		return fmt.Errorf("%w: name %s, too, if it has been replaced", err, name)
	}
	return err
}

func (r *replacement) seat(sh config.Shard) seat.Config { return *seatAt(sh, r.cluster) }

// openSeats connects to the shards that aren't replaced.
func (r *replacement) openSeats(ctx context.Context) error {
	seats, names := map[catalog.ShardID]cluster.Seat{}, map[catalog.ShardID]string{}
	for _, sh := range r.cfg.Shards {
		id, known := r.ids[sh.Name]
		if !known {
			return fmt.Errorf("shard %s has never served: add it behind this", sh.Name)
		}
		if r.is(sh.Name) {
			if err := promoted(ctx, shardConfig(sh)); err != nil {
				return err
			}
			continue
		}
		s, err := seat.Open(ctx, r.seat(sh))
		if err != nil {
			return r.too(err, sh.Name)
		}
		r.seats[id], seats[id], names[id] = s, s, sh.Name
	}
	r.others = cluster.NewShared(cluster.Options{
		Seats: seats, Board: r.board, Identity: cluster.Identity{Version: version}, Logger: r.log,
		ShardName: func(id catalog.ShardID) string { return names[id] },
	})
	return nil
}

// renewShard takes a shard through 1 to 3.
func (r *replacement) renewShard(ctx context.Context, sh config.Shard) error {
	id := r.ids[sh.Name]
	s, err := seat.OpenAny(ctx, r.seat(sh))
	if err != nil {
		return err
	}
	defer s.Close()
	life, err := s.Life(ctx)
	if err != nil {
		return err
	}
	inUse, err := cluster.LifeInUse(ctx, r.board, id)
	if err != nil {
		return err
	}
	life = max(life, inUse) + 1
	if err := r.others.Replace(ctx, id, life); err != nil {
		return err
	}
	// Of one that serves already, members may have rows.
	there := cluster.NewShared(cluster.Options{Seats: map[catalog.ShardID]cluster.Seat{id: s}, Board: r.board, Logger: r.log, ShardName: func(catalog.ShardID) string { return sh.Name }})
	if err := there.Clear(ctx); err != nil {
		return err
	}
	e, err := r.store.Highest(ctx, id)
	if err != nil {
		return err
	}
	// A number may have been given that neither the home nor the shard remembers.
	if err := errors.Join(r.store.DoubtSequences(), r.store.Doubt(ctx, id, e+1)); err != nil {
		return err
	}
	if err := seat.Renew(ctx, r.seat(sh), life, e+1); err != nil {
		return err
	}
	r.out("%s at %s is in use as a shard, in life %d", sh.Name, sh.Addr, life)
	return nil
}

// takeHome is step 4: it waits until no index is on a home, or nobody serves.
func (r *replacement) takeHome(ctx context.Context, at shared.Server) error {
	h, err := r.store.Server(at.Name)
	if err != nil {
		return err
	}
	for told := false; ; told = true {
		if err := r.store.Refresh(ctx); err != nil {
			return err
		}
		if len(r.store.On(at.Name)) == 0 || r.others.Alone(ctx) == nil {
			return r.renewHome(ctx, at)
		}
		if used, err := h.InUse(ctx); err != nil || used {
			if err == nil {
				r.out("%s at %s is in use as a server of the store", at.Name, at.Addr)
			}
			return err
		}
		if !told {
			r.out("waiting until the members have given up the virtual indexes on %s, 10 s after it went away; or stop all members, and the indexes are kept", at.Name)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(givenUpPause):
		}
	}
}

// givenUpPause is between two looks.
const givenUpPause = 500 * time.Millisecond

// renewHome is step 5.
func (r *replacement) renewHome(ctx context.Context, at shared.Server) error {
	epochs := map[catalog.ShardID]storage.Epoch{}
	for _, id := range r.ids {
		var err error
		if s := r.seats[id]; s != nil {
			epochs[id], _, err = s.Rows(ctx)
		} else if epochs[id], err = r.store.Highest(ctx, id); err == nil {
			epochs[id]++ // Renew begins a later one
		}
		if err != nil {
			return err
		}
	}
	h, err := r.store.Server(at.Name)
	if err != nil {
		return err
	}
	life, err := h.Life(ctx)
	if err == nil {
		life++
		err = h.NewLife(ctx, life, epochs)
	}
	if err != nil {
		return err
	}
	r.out("%s at %s is in use as a server of the store, in life %d", at.Name, at.Addr, life)
	return nil
}

// promoted is an error where a server still is a replica.
//
// Counter-example: it applies what it had received and not applied, behind the scan that found no row with a key.
func promoted(ctx context.Context, at shard.Config) error {
	conn, err := shard.Dial(ctx, at, false)
	if err != nil {
		return err
	}
	defer conn.Close()
	source, err := replica.Source(ctx, conn)
	if err == nil && source != "" {
		err = fmt.Errorf("%s at %s still replicates from %s: once it has applied all that it has, STOP REPLICA, and RESET REPLICA ALL", at.Name, at.Addr, source)
	}
	return err
}
