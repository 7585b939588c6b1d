package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// newScratch makes the place for gathered rows, with connections of its own.
// close drops what is left and closes them. REQUIRES: the store is open, whose
// lock keeps a second process from this data_dir and so from its scratch tables.
func newScratch(cfg *config.Config, dial map[catalog.ShardID]shard.Config, ring *wire.Ring, h *health, reg prometheus.Registerer, log *slog.Logger) (sc *proxy.Scratch, closeAll func(context.Context), err error) {
	instance, err := scratchInstance(cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}
	options := shard.Options{Max: proxy.ScratchConnections, IdleMax: 4, Logger: log}
	o := proxy.ScratchOptions{
		Instance: instance, Pools: map[catalog.ShardID]*shard.Pool{},
		MaxRows: cfg.GatherMaxRows, MaxBytes: cfg.GatherMaxBytes, Logger: log, Metrics: reg,
	}
	var pools []*shard.Pool
	for id, c := range dial {
		pool := shard.New(c, options)
		o.Pools[id], pools = pool, append(pools, pool)
	}
	if cfg.Scratch != nil {
		to := shardConfig(*cfg.Scratch)
		to.Ring = ring
		o.Server = shard.New(h.judge(to, cfg.ShardTimeout, nil), options)
		pools = append(pools, o.Server)
	}
	sc = proxy.NewScratch(o)
	return sc, func(ctx context.Context) {
		sc.Close(ctx)
		for _, p := range pools {
			_ = p.Close(ctx)
		}
	}, nil
}

const scratchInstanceFile = "scratch-instance"

// scratchInstance is the name that this data_dir's scratch tables bear. It
// outlives the process, so that the next one knows what to sweep.
func scratchInstance(dir string) (string, error) {
	path := filepath.Join(dir, scratchInstanceFile)
	kept, err := os.ReadFile(path)
	if err == nil {
		id := strings.TrimSpace(string(kept))
		if raw, err := hex.DecodeString(id); err == nil && len(raw) == 4 {
			return id, nil
		}
		return "", fmt.Errorf("%s holds no instance (8 hexadecimal digits): remove it, and drop the tables shunt_scratch.g_* on the shards", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read scratch instance: %w", err)
	}
	var raw [4]byte
	_, _ = rand.Read(raw[:]) // it never fails
	id := hex.EncodeToString(raw[:])
	if err := writeSynced(path, id+"\n"); err != nil {
		return "", fmt.Errorf("write scratch instance: %w", err)
	}
	return id, nil
}
