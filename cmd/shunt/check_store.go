package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/storage"
)

// storeToCheck opens what data_dir has kept, or an empty store where there is nothing yet:
// a copy that may be written to, and that a Shunt which serves doesn't keep from being read.
// damage is why the copy had to be made anew, as serve makes the store anew.
func storeToCheck(cfg *config.Config) (store *storage.Store, done func(), damage, err error) {
	quiet := slog.New(slog.DiscardHandler)
	if !storage.Exists(cfg.DataDir) {
		store, err = storage.Open(storage.Options{InMemory: true, LookupCache: -1, Logger: quiet})
		return store, func() { _ = store.Close() }, nil, err
	}
	// Tables come and go while it is copied.
	for range 5 {
		if damage = storage.Damage(cfg.DataDir); damage != nil {
			break
		}
		store, done, damage = openCopy(cfg, quiet, false)
		if !errors.Is(damage, fs.ErrNotExist) && !errors.Is(damage, storage.ErrUnreadable) {
			return store, done, nil, damage
		}
	}
	store, done, err = openCopy(cfg, quiet, true)
	return store, done, damage, err
}

func openCopy(cfg *config.Config, log *slog.Logger, records bool) (_ *storage.Store, done func(), err error) {
	dir, err := os.MkdirTemp("", "shunt-check-")
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if err := storage.Copy(cfg.DataDir, dir, records); err != nil {
		return nil, nil, fmt.Errorf("read data_dir %s: %w", cfg.DataDir, err)
	}
	store, err := storage.Open(storage.Options{Dir: dir, LookupCache: -1, Logger: log})
	if err != nil {
		return nil, nil, fmt.Errorf("read a copy of data_dir %s: %w", cfg.DataDir, err)
	}
	return store, func() {
		_ = store.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// lostFiles are the files of data_dir beside the store that serve makes anew, and what follows from it.
func lostFiles(cfg *config.Config) (notes []string) {
	lost := func(path, follows string, err error) {
		if errors.Is(err, errDamaged) {
			notes = append(notes, fmt.Sprintf("file %s is damaged (%v): shunt serve sets it aside: %s", path, err, follows))
		} else if errors.Is(err, fs.ErrNotExist) {
			notes = append(notes, fmt.Sprintf("file %s is missing: %s", path, follows))
		}
	}
	if known, err := knownServers(cfg, nil); err == nil {
		lost(known.file.path, serversLost, known.damage)
	}
	path := filepath.Join(cfg.DataDir, scratchInstanceFile)
	if _, err := readInstance(path); errors.Is(err, errDamaged) {
		notes = append(notes, fmt.Sprintf("file %s is %s", path, instanceLost))
	}
	if !cfg.Store.Shared() && storage.Exists(cfg.DataDir) {
		records := recordsIn(cfg.DataDir)
		_, err := records.read()
		lost(records.path, recordsLost, err)
	}
	return notes
}

// checkPorts reports whether the ports can be had. REQUIRES: no Shunt serves by this configuration.
func checkPorts(ctx context.Context, cfg *config.Config) error {
	listeners, err := listen(ctx, cfg)
	closeAll(listeners)
	http, httpErr := listenHTTP(cfg)
	if http != nil {
		_ = http.Close()
	}
	return errors.Join(err, httpErr)
}

// checkFirst is what `shunt check` says of schemas and placements, before the first start makes
// data_dir: one that was refused would leave behind a slot map and records of what it was refused for.
func checkFirst(ctx context.Context, cfg *config.Config) error {
	if storage.Exists(cfg.DataDir) {
		return nil // its checks are made with the store that there is
	}
	if there, err := sharedThere(ctx, cfg); there && err == nil {
		return nil // by what several Shunts have kept
	}
	store, done, _, err := storeToCheck(cfg)
	if err != nil {
		return err
	}
	defer done()
	if err := storeElsewhere(ctx, cfg, store); err != nil {
		return err
	}
	reached := make([]reachedShard, len(cfg.Shards))
	var asked sync.WaitGroup
	for i, sh := range cfg.Shards {
		asked.Go(func() { reached[i] = reach(ctx, sh) })
	}
	asked.Wait()
	_, failures := checkSchemas(ctx, cfg, reached, store, nil)
	return errors.Join(slices.DeleteFunc(failures, func(err error) bool { return errors.Is(err, errUnread) })...)
}
