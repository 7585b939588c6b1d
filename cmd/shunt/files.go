package main

import (
	"fmt"
	"log/slog"
	"syscall"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

// ownFiles are open files beside the connections: the store's, listeners, HTTP.
const ownFiles = 256

// enoughFiles refuses to start where the store alone may want more open files than
// the process may have: it would try for ever to write, even when it is to stop.
func enoughFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur >= ownFiles {
		return nil //nolint:nilerr // who can't be told a limit has none
	}
	return fmt.Errorf("the process may have only %d open files (ulimit -n): expected at least %d for the index store, and one for each connection", limit.Cur, ownFiles)
}

// withinFiles lowers the number of clients to what the process may have open files
// for, beside the shards' connections and the store. Without files the store can't
// be written, and writes are refused until the next start.
func withinFiles(clients int, cfg *config.Config, log *slog.Logger) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return clients
	}
	servers := len(cfg.Shards)
	for _, sh := range cfg.Shards {
		servers += len(sh.Replicas)
	}
	room := clientsWithin(int(min(limit.Cur, 1<<30)), servers*cfg.ShardConnections)
	if clients <= room {
		return clients
	}
	log.Warn("fewer clients than max_connections can be served: the process may open too few files (ulimit -n)",
		"files", limit.Cur, "max_connections", clients, "clients", room)
	return room
}

// clientsWithin leaves the shards' connections what they may need, but half at most:
// most pools never fill.
func clientsWithin(files, shardConnections int) int {
	rest := max(files-ownFiles, files/2)
	return max(rest-min(shardConnections, rest/2), 1)
}
