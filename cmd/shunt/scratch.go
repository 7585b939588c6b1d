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

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/scratch"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// newScratch makes the place for gathered rows, with connections of its own.
// close drops what is left and closes them. REQUIRES: the store is open, whose
// lock keeps a second process from this data_dir and so from its scratch tables.
func newScratch(cfg *config.Config, dial map[catalog.ShardID]shard.Config, ring *wire.Ring, h *health, reg prometheus.Registerer, c cluster.Cluster, log *slog.Logger) (sc *scratch.Space, closeAll func(context.Context), err error) {
	instance, _, err := scratchInstance(cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}
	options := shard.Options{Max: scratch.Connections, IdleMax: 4, Logger: log}
	o := scratch.Options{
		Instance: instance, Life: c.Self(), Gone: c.Gone, Pools: map[catalog.ShardID]*shard.Pool{},
		MaxRows: cfg.GatherMaxRows, MaxBytes: cfg.GatherMaxBytes, Logger: log, Metrics: reg,
	}
	var pools []*shard.Pool
	for id, to := range dial {
		pool := shard.New(to, options)
		o.Pools[id], pools = pool, append(pools, pool)
	}
	if cfg.Scratch != nil {
		to := shardConfig(*cfg.Scratch)
		to.Ring = ring
		o.Server = shard.New(h.judge(to, cfg.ShardTimeout, nil), options)
		pools = append(pools, o.Server)
	}
	sc = scratch.New(o)
	return sc, func(ctx context.Context) {
		sc.Close(ctx)
		for _, p := range pools {
			_ = p.Close(ctx)
		}
	}, nil
}

const scratchInstanceFile = "scratch-instance"

// scratchInstance is the name that this data_dir's scratch tables bear. It
// outlives the process, so that the next one knows what to sweep. anew: there was none, or it was damaged.
func scratchInstance(dir string) (id string, anew bool, err error) {
	path := filepath.Join(dir, scratchInstanceFile)
	if id, err = readInstance(path); err == nil {
		return id, false, nil
	}
	if errors.Is(err, errDamaged) {
		slog.Warn("a file in data_dir is "+instanceLost, "file", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read scratch instance: %w", err)
	}
	var raw [4]byte
	_, _ = rand.Read(raw[:]) // it never fails
	id = hex.EncodeToString(raw[:])
	if err := writeSynced(path, id+"\n"); err != nil {
		return "", false, fmt.Errorf("write scratch instance: %w", err)
	}
	return id, true, nil
}

const instanceLost = "damaged and made anew; tables shunt_scratch.g_* that a dead process has left on the shards are not dropped"

func readInstance(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 4 {
		return "", errDamaged
	}
	return id, nil
}
