package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/storage"
)

// steps make the tables: step i brings them from version i to i + 1. A step may be done again, in
// part or whole, where it was interrupted: DDL has no transactions.
//
// Members of several versions serve together while they are upgraded one after the other: the first
// new one makes the step, and older ones go on, and start again. So a step adds what those that don't
// know it can leave alone. One that they can't needs all of them gone first, and a higher needs.
var steps = [][]string{{
	// A key is as in key.go. epoch is never lowered.
	`CREATE TABLE IF NOT EXISTS heads (
		idx INT UNSIGNED NOT NULL PRIMARY KEY,
		readable INT UNSIGNED NOT NULL DEFAULT 0,
		building INT UNSIGNED NOT NULL DEFAULT 0,
		generations INT UNSIGNED NOT NULL DEFAULT 0,
		life BIGINT UNSIGNED NOT NULL,
		removals BIGINT UNSIGNED NOT NULL DEFAULT 0,
		marked BIGINT UNSIGNED NOT NULL DEFAULT 0)`,
	`CREATE TABLE IF NOT EXISTS shards (
		idx INT UNSIGNED NOT NULL,
		shard TINYINT UNSIGNED NOT NULL,
		floor BIGINT UNSIGNED NOT NULL DEFAULT 0,
		gate BIGINT UNSIGNED NOT NULL DEFAULT 0,
		PRIMARY KEY (idx, shard))`,
	`CREATE TABLE IF NOT EXISTS marks (
		idx INT UNSIGNED NOT NULL,
		shard TINYINT UNSIGNED NOT NULL,
		known VARBINARY(1000) NOT NULL,
		epoch BIGINT UNSIGNED NOT NULL,
		PRIMARY KEY (idx, shard, known))`,
	`CREATE TABLE IF NOT EXISTS entries (
		idx INT UNSIGNED NOT NULL,
		generation INT UNSIGNED NOT NULL,
		k VARBINARY(3000) NOT NULL,
		shard TINYINT UNSIGNED NOT NULL,
		epoch BIGINT UNSIGNED NOT NULL,
		PRIMARY KEY (idx, generation, k, shard))`,
	`CREATE TABLE IF NOT EXISTS garbage (
		idx INT UNSIGNED NOT NULL,
		generation INT UNSIGNED NOT NULL,
		PRIMARY KEY (idx, generation))`,
	`CREATE TABLE IF NOT EXISTS head (
		one TINYINT UNSIGNED NOT NULL PRIMARY KEY,
		version BIGINT UNSIGNED NOT NULL,
		id VARCHAR(32) NOT NULL)`,
	"INSERT IGNORE INTO head VALUES (1, 0, '')",
	`CREATE TABLE IF NOT EXISTS seen (
		one TINYINT UNSIGNED NOT NULL PRIMARY KEY,
		n BIGINT UNSIGNED NOT NULL)`,
	"INSERT IGNORE INTO seen VALUES (1, 0)",
	`CREATE TABLE IF NOT EXISTS records (
		kind VARBINARY(64) NOT NULL,
		name VARBINARY(1024) NOT NULL,
		version BIGINT UNSIGNED NOT NULL,
		body LONGTEXT,
		PRIMARY KEY (kind, name),
		KEY (version))`,
	`CREATE TABLE IF NOT EXISTS turns (
		name VARBINARY(255) NOT NULL PRIMARY KEY,
		holder VARBINARY(255) NOT NULL,
		since DATETIME(6) NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS asks (
		ask BIGINT UNSIGNED NOT NULL,
		member VARBINARY(255) NOT NULL,
		body LONGBLOB NOT NULL,
		taken TINYINT UNSIGNED NOT NULL DEFAULT 0,
		answer LONGBLOB,
		since DATETIME(6) NOT NULL,
		PRIMARY KEY (ask, member),
		KEY (member, taken))`,
	`CREATE TABLE IF NOT EXISTS jobs (
		id BIGINT UNSIGNED NOT NULL PRIMARY KEY AUTO_INCREMENT,
		work VARBINARY(767) NOT NULL,
		alone VARBINARY(767) NOT NULL,
		waits VARBINARY(767),
		runs VARBINARY(767),
		swallows TINYINT UNSIGNED NOT NULL DEFAULT 0,
		body LONGTEXT NOT NULL,
		created DATETIME(6) NOT NULL,
		attempts INT UNSIGNED NOT NULL DEFAULT 0,
		not_before DATETIME(6),
		claimed_by VARBINARY(255) NOT NULL DEFAULT '',
		claimed_until DATETIME(6),
		checkpoint LONGTEXT,
		progress DOUBLE NOT NULL DEFAULT 0,
		error LONGTEXT,
		UNIQUE KEY (waits),
		UNIQUE KEY (runs))`,
	`CREATE TABLE IF NOT EXISTS numbers (
		schema_name VARBINARY(256) NOT NULL,
		table_name VARBINARY(256) NOT NULL,
		next BIGINT UNSIGNED NOT NULL DEFAULT 0,
		started TINYINT UNSIGNED NOT NULL DEFAULT 0,
		restart TINYINT UNSIGNED NOT NULL DEFAULT 0,
		doubted TINYINT UNSIGNED NOT NULL DEFAULT 0,
		late INT UNSIGNED NOT NULL DEFAULT 0,
		restarts BIGINT UNSIGNED NOT NULL,
		doubts BIGINT UNSIGNED NOT NULL DEFAULT 0,
		PRIMARY KEY (schema_name, table_name))`,
}, {
	`CREATE TABLE IF NOT EXISTS places (
		shard TINYINT UNSIGNED NOT NULL PRIMARY KEY,
		place LONGTEXT NOT NULL)`,
}}

// needs is the lowest version that a Shunt has to know to use tables that this one has made.
const needs = 1

// homeTable holds what is known of the whole: one row.
const homeTable = `CREATE TABLE IF NOT EXISTS home (
	one TINYINT UNSIGNED NOT NULL PRIMARY KEY,
	version INT UNSIGNED NOT NULL,
	needs INT UNSIGNED NOT NULL,
	cluster VARCHAR(255) NOT NULL,
	life BIGINT UNSIGNED NOT NULL,
	server VARCHAR(1024) NOT NULL)`

const options = ` ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`

// Exists reports whether a home is there: Open has made its tables.
func Exists(ctx context.Context, c Config) (bool, error) {
	c = c.complete()
	f, err := askFlavour(ctx, c)
	if err != nil {
		return false, err
	}
	db, _, err := connect(c, f, "")
	if err != nil {
		return false, err
	}
	defer db.Close()
	version, err := versionOf(ctx, db, "`"+strings.ReplaceAll(c.Schema, "`", "``")+"`")
	return version > 0, err
}

// prepare makes the schema and its tables, or brings them to this version's form. Where they are
// in it already that needs no rights but to read.
func prepare(ctx context.Context, c Config, f flavour) error {
	db, _, err := connect(c, f, "")
	if err != nil {
		return err
	}
	defer db.Close()
	name := "`" + strings.ReplaceAll(c.Schema, "`", "``") + "`"
	if version, err := versionOf(ctx, db, name); err != nil {
		return err
	} else if version >= len(steps) {
		return checkCluster(ctx, db, c, name)
	}
	// One at a time: the lock, the schema in use and the DDL are one connection's.
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('shunt_store.home', 60)").Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errors.New("another one has been making the tables for a minute")
	}
	for _, q := range []string{
		"CREATE DATABASE IF NOT EXISTS " + name + " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "USE " + name,
		homeTable + options,
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("make schema %s: %w", c.Schema, err)
		}
	}
	if _, err := conn.ExecContext(ctx, "INSERT IGNORE INTO home SELECT 1, 0, 0, ?, 1, "+f.server, c.Cluster); err != nil {
		return fmt.Errorf("say what the server is: %w", err)
	}
	if err := checkCluster(ctx, conn, c, name); err != nil {
		return err
	}
	version, err := versionOf(ctx, conn, name)
	if err != nil {
		return err
	}
	for ; version < len(steps); version++ {
		for _, q := range steps[version] {
			if strings.HasPrefix(q, "CREATE TABLE") {
				q += options
			}
			if _, err := conn.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("bring schema %s to version %d: %w", c.Schema, version+1, err)
			}
		}
		if _, err := conn.ExecContext(ctx, "UPDATE home SET version = ?, needs = GREATEST(needs, ?)", version+1, needs); err != nil {
			return fmt.Errorf("bring schema %s to version %d: %w", c.Schema, version+1, err)
		}
	}
	return nil
}

// checkCluster: the home is the caller's.
func checkCluster(ctx context.Context, on runs, c Config, name string) error {
	var cluster string
	if err := on.QueryRowContext(ctx, "SELECT cluster FROM "+name+".home").Scan(&cluster); err != nil {
		return fmt.Errorf("read whose home it is: %w", err)
	}
	if cluster != c.Cluster {
		return fmt.Errorf("it is of cluster %q, not %q: %w", cluster, c.Cluster, ErrOtherCluster)
	}
	return nil
}

// versionOf is the tables' version, 0 where there is none. It may be a later one than this process
// knows, if that is to be used by this one, too.
func versionOf(ctx context.Context, on runs, name string) (version int, err error) {
	least := 0
	err = on.QueryRowContext(ctx, "SELECT version, needs FROM "+name+".home").Scan(&version, &least)
	switch n := errorNumber(err); {
	case errors.Is(err, sql.ErrNoRows) || n == 1146 || n == 1049: // ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read the version of schema %s: %w", name, err)
	case least > len(steps):
		return 0, fmt.Errorf("schema %s is of version %d, which takes a Shunt that knows version %d, and this one knows them up to %d; start a newer version of Shunt: %w",
			name, version, least, len(steps), storage.ErrFormat)
	}
	return version, nil
}
