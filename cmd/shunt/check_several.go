package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
	"github.com/shunt-sql/shunt/storage/shared"
)

// severalProbes are rightProbes of the schema that several Shunts share.
var severalProbes = []struct{ right, sql string }{
	{"CREATE", "CREATE TABLE shunt_store.shunt_check LIKE shunt_store.shunt_check_none"},
	{"SELECT", "SELECT 1 FROM shunt_store.shunt_check_none"},
	{"INSERT", "INSERT INTO shunt_store.shunt_check_none VALUES (1)"},
	{"UPDATE", "UPDATE shunt_store.shunt_check_none SET a = 1"},
	{"DELETE", "DELETE FROM shunt_store.shunt_check_none"},
}

// lackingRight is an error that names the rights without which a Shunt can't be one of several.
type lackingRight []string

func (l lackingRight) Error() string {
	of := strings.Join(l, ", ")
	return fmt.Sprintf("the account lacks %s on %s.*, which several Shunts need (store): GRANT %s ON %s.* TO it, see docs/several.md", of, catalog.StoreSchema, of, catalog.StoreSchema)
}

// lackingSeveral is a lackingRight, or another error, as for a node of a cluster lackingCluster's.
func lackingSeveral(ctx context.Context, sh config.Shard) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	db, err := openDB(sh.Addr, sh.User, sh.Password, "", sh.TLS.Client())
	if err != nil {
		return err
	}
	defer db.Close()
	var lacking lackingRight
	for _, p := range severalProbes {
		_, err := db.ExecContext(ctx, p.sql)
		_, answered := errors.AsType[*mysql.MySQLError](err)
		switch {
		case deniedRight(err):
			lacking = append(lacking, p.right)
		case err != nil && !answered:
			return err
		}
	}
	switch {
	case len(lacking) > 0:
		return lacking
	case len(sh.Nodes) > 0:
		return lackingCluster(ctx, db)
	}
	return nil
}

// unfit says of each server that answers why it can't be one of several Shunts', whatever the words of its own would
// be: for a right that is lacking, or a proxy before it.
func unfit(ctx context.Context, cfg *config.Config) error {
	type server struct {
		config.Shard
		told string
	}
	var servers []server
	for _, at := range cfg.Store.Servers {
		servers = append(servers, server{at, "store: server at " + at.Addr})
	}
	for _, sh := range cfg.Shards {
		servers = append(servers, server{sh, "shard " + sh.Name + " at " + sh.Addr})
	}
	errs := make([]error, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() {
			if lacks, ok := errors.AsType[lackingRight](lackingSeveral(ctx, s.Shard)); ok {
				errs[i] = fmt.Errorf("%s: %w", s.told, lacks)
			} else if err := directTo(ctx, s.Shard); err != nil {
				errs[i] = fmt.Errorf("%s: %w", s.told, err)
			}
		})
	}
	asking.Wait()
	return errors.Join(errs...)
}

// allLackingSeveral asks all shards, and the servers of the store, that answer. Of a cluster one node must; of the others that
// don't notes tell.
func allLackingSeveral(ctx context.Context, cfg *config.Config) (notes []string, errs []error) {
	if !cfg.Store.Shared() {
		return nil, nil
	}
	for _, at := range cfg.Store.Servers {
		var down []error
		nodes := append([]string{at.Addr}, at.Nodes...)
		for _, addr := range nodes {
			node := at
			node.Addr = addr
			if r := reach(ctx, node); r.err != nil {
				down = append(down, fmt.Errorf("store: server at %s: %w", addr, r.err))
			} else if err := errors.Join(lackingSeveral(ctx, node), directTo(ctx, node)); err != nil {
				errs = append(errs, fmt.Errorf("store: server at %s: %w", addr, err))
			}
		}
		if len(down) == len(nodes) {
			errs = append(errs, down...)
			continue
		}
		for _, err := range down {
			notes = append(notes, err.Error())
		}
	}
	for _, sh := range cfg.Shards {
		if err := errors.Join(lackingSeveral(ctx, sh), directTo(ctx, sh)); err != nil {
			if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
				err = refused
			}
			errs = append(errs, fmt.Errorf("shard %s at %s: %w", sh.Name, sh.Addr, err))
		}
	}
	return notes, errs
}

// lackingCluster is an error that names the right without which a node of a cluster can't say who is of that.
func lackingCluster(ctx context.Context, db *sql.DB) error {
	var version string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	table := "performance_schema.replication_group_members"
	if isMariaDB(version) {
		table = "mysql.wsrep_cluster_members"
	}
	if _, err := db.ExecContext(ctx, "SELECT 1 FROM "+table+" LIMIT 1"); deniedRight(err) {
		return fmt.Errorf("the account lacks SELECT on %s, which tells who is of the cluster: GRANT SELECT ON %s TO it", table, table)
	}
	return nil
}

// deniedRight reports that the account lacks one.
func deniedRight(err error) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains([]uint16{mysqlerr.DBAccessDenied, mysqlerr.TableAccessDenied, mysqlerr.SpecificAccessDenied}, refused.Number)
}

// volatileHomes notes servers of the store that may lose what they have acknowledged.
func volatileHomes(ctx context.Context, cfg *config.Config) (notes []string) {
	if !cfg.Store.Shared() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for _, at := range homesOf(cfg) {
		if why, err := home.Volatile(ctx, at.Config); err == nil && why != "" {
			notes = append(notes, fmt.Sprintf("store: server %s: %s: when its machine loses power, reads by virtual indexes may miss rows", at.Name, why))
		}
	}
	return notes
}

// servesHere reports that a member has the configuration's address.
func servesHere(ctx context.Context, cfg *config.Config) bool {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for _, sh := range cfg.Shards {
		db, err := openDB(sh.Addr, sh.User, sh.Password, "", sh.TLS.Client())
		if err != nil {
			continue
		}
		var n int
		err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+catalog.StoreSchema+".members WHERE addr = ?", toldAddr(cfg)).Scan(&n)
		_ = db.Close()
		if err == nil && n > 0 {
			return true
		}
	}
	return false
}

// sharedToCheck is a copy, without entries, of what several Shunts have kept; there is none before their
// first start, which begins with what data_dir has.
func sharedToCheck(ctx context.Context, cfg *config.Config) (to *storage.Store, done func(), damage, err error) {
	at := homesOf(cfg)[0]
	there, err := home.Exists(ctx, at.Config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("store: %w", err)
	}
	if !there {
		return storeToCheck(cfg)
	}
	quiet := slog.New(slog.DiscardHandler)
	h, err := home.Open(ctx, at.Config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("store: %w", err)
	}
	from, err := shared.Open(ctx, shared.Options{Home: h, Server: at.Name, Logger: quiet})
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("store: %w", err), h.Close())
	}
	defer from.Close()
	if to, err = storage.Open(storage.Options{InMemory: true, LookupCache: -1, Logger: quiet}); err != nil {
		return nil, nil, nil, err
	}
	if err := takeOver(to, from); err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("store: %w", err), to.Close())
	}
	return to, func() { _ = to.Close() }, nil, nil
}
