package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/seat"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
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

It ends with 0 once the server is in use, and with 1 where it can't be, and says why.`
}

// replacement takes servers into use that answer for shards, or for homes, in place of others, of which
// they may lack the last moments, as replicas that were promoted do. No member serves meanwhile.
//
//	1 nobody is on the other shards
//	2 homes that are new: their life rises, and all their indexes are marked on all shards (home.NewLife):
//	  an entry or a mark may be lacking
//	3 shards that are new: all indexes are marked there, since its rows may be of before what was removed;
//	4 then its life rises, and its epoch over all that is known of it (seat.Renew)
//
// A member starts when all of it is done: until 2 and 4 it refuses the server. So a crash in between does no
// harm, and all of it may be done again.
//
// Counter-example without 3 and 4: row 5 has k = 'old', then 'new', and a scan in epochs 9 and 10 removes
// ('old', s0). The replica lacks all of that, and is in epoch 8.
type replacement struct {
	cfg   *config.Config
	names []string
	out   func(format string, args ...any)

	homes  []*home.Home // by homesOf
	store  *shared.Store
	known  map[string]catalog.ShardID
	epochs map[catalog.ShardID]storage.Epoch
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
	r := &replacement{cfg: cfg, names: c.Names, epochs: map[catalog.ShardID]storage.Epoch{}, out: func(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }}
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
		all = append(all, homeName(at))
	}
	for _, name := range r.names {
		if !slices.Contains(all, name) {
			slices.Sort(all)
			return fmt.Errorf("no server is named %s: there are %s", name, strings.Join(slices.Compact(all), ", "))
		}
	}
	return nil
}

func homeName(at shared.Server) string { return cmp.Or(at.Name, at.Addr) }

func (r *replacement) is(name string) bool { return slices.Contains(r.names, name) }

func (r *replacement) close() {
	if r.store != nil {
		_ = r.store.Close()
		return
	}
	for _, h := range r.homes {
		_ = h.Close()
	}
}

func (r *replacement) do(ctx context.Context) error {
	cluster, err := r.openHomes(ctx)
	if err != nil {
		return err
	}
	if err := r.alone(ctx, cluster); err != nil {
		return err
	}
	if err := r.renewHomes(ctx); err != nil {
		return err
	}
	if err := r.renewShards(ctx, cluster); err != nil {
		return err
	}
	r.out("start the members: reads by virtual indexes go to all shards that lack a scan, until they have been scanned")
	return nil
}

// openHomes also reads what the shards are. The store's first server has it.
func (r *replacement) openHomes(ctx context.Context) (cluster string, err error) {
	for i, at := range homesOf(r.cfg) {
		open := home.Open
		if r.is(homeName(at)) {
			if there, err := home.Exists(ctx, at.Config); err != nil || !there {
				return "", cmp.Or(err, fmt.Errorf("%s at %s has no schema %s: it is no copy of the server that it replaces; take such a copy", homeName(at), at.Addr, catalog.StoreSchema))
			}
			open = home.OpenAny
		}
		at.Cluster = cluster
		h, err := open(ctx, at.Config)
		if errors.Is(err, home.ErrOtherServer) {
			return "", fmt.Errorf("%w: name %s, too, if it has been replaced", err, homeName(at))
		}
		if err != nil {
			return "", err
		}
		r.homes = append(r.homes, h)
		if i > 0 {
			continue
		}
		first, err := shared.Open(ctx, shared.Options{Home: h, Server: at.Name, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return "", err
		}
		if cluster, err = first.Cluster(""); err != nil {
			return "", err
		}
		r.known = first.Shards()
	}
	return cluster, nil
}

func (r *replacement) seat(sh config.Shard, cluster string) seat.Config {
	return seat.Config{Addr: sh.Addr, User: sh.User, Password: sh.Password, TLS: sh.TLS.Client(), Cluster: cluster, Shard: sh.Name}
}

// alone is step 1. It also reads the shards' epochs: those of new servers are higher than all that is
// known of them.
func (r *replacement) alone(ctx context.Context, name string) error {
	seats, names := map[catalog.ShardID]cluster.Seat{}, map[catalog.ShardID]string{}
	for _, sh := range r.cfg.Shards {
		id, known := r.known[sh.Name]
		if !known {
			return fmt.Errorf("shard %s has never served: add it behind this", sh.Name)
		}
		if r.is(sh.Name) {
			for _, h := range r.homes {
				e, err := h.Highest(ctx, id)
				if err != nil {
					return err
				}
				r.epochs[id] = max(r.epochs[id], e+1)
			}
			continue
		}
		s, err := seat.Open(ctx, r.seat(sh, name))
		if errors.Is(err, seat.ErrOtherServer) {
			return fmt.Errorf("%w: name %s, too, if it has been replaced", err, sh.Name)
		}
		if err != nil {
			return err
		}
		defer s.Close()
		seats[id], names[id] = s, sh.Name
		if r.epochs[id], _, err = s.Rows(ctx); err != nil {
			return err
		}
	}
	others := cluster.NewShared(cluster.Options{Seats: seats, ShardName: func(id catalog.ShardID) string { return names[id] }, Logger: slog.New(slog.DiscardHandler)})
	if err := others.Alone(ctx); err != nil {
		return fmt.Errorf("stop all members: %w", err)
	}
	return nil
}

// renewHomes is step 2.
func (r *replacement) renewHomes(ctx context.Context) error {
	for i, at := range homesOf(r.cfg) {
		if !r.is(homeName(at)) {
			continue
		}
		life, err := r.homes[i].Life(ctx)
		if err == nil {
			life++
			err = r.homes[i].NewLife(ctx, life, r.epochs)
		}
		if err != nil {
			return err
		}
		r.out("%s at %s is in use as a server of the store, in life %d", homeName(at), at.Addr, life)
	}
	return nil
}

// renewShards takes steps 3 and 4.
func (r *replacement) renewShards(ctx context.Context, name string) (err error) {
	homes := homesOf(r.cfg)
	r.store, err = shared.Open(ctx, shared.Options{Home: r.homes[0], Server: homes[0].Name, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for _, h := range r.homes[1:] {
		_ = h.Close()
	}
	if err := r.store.OpenHomes(ctx, name, homes[1:]); err != nil {
		return err
	}
	// A number may have been given that neither the home nor the shard remembers.
	if err := r.store.DoubtSequences(); err != nil {
		return err
	}
	for _, sh := range r.cfg.Shards {
		if !r.is(sh.Name) {
			continue
		}
		id := r.known[sh.Name]
		if err := r.store.Doubt(ctx, id, r.epochs[id]); err != nil {
			return err
		}
		life, err := seat.Renew(ctx, r.seat(sh, name), r.epochs[id])
		if err != nil {
			return err
		}
		r.out("%s at %s is in use as a shard, in life %d", sh.Name, sh.Addr, life)
	}
	return nil
}
