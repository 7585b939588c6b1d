package seat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/storage"
)

// selfTable says what the server is: one row, with the version of the tables.
const selfTable = `CREATE TABLE IF NOT EXISTS self (
	one TINYINT UNSIGNED NOT NULL PRIMARY KEY,
	format INT UNSIGNED NOT NULL,
	needs INT UNSIGNED NOT NULL,
	cluster VARCHAR(255) NOT NULL,
	shard VARCHAR(255) NOT NULL,
	life BIGINT UNSIGNED NOT NULL,
	server VARCHAR(1024) NOT NULL)`

// needs is the lowest version that a Shunt has to know to use tables that this one has made.
const needs = 1

// steps make the other tables: step i brings them from version i to i + 1. A step may be done
// again, in part or whole: DDL has no transactions. It adds what members that don't know it can leave
// alone, as those of package home do.
var steps = [][]string{{
	`CREATE TABLE IF NOT EXISTS epoch (
		one TINYINT UNSIGNED NOT NULL PRIMARY KEY,
		epoch BIGINT UNSIGNED NOT NULL,
		since DATETIME(6) NOT NULL)`,
	`INSERT IGNORE INTO epoch VALUES (1, 1, UTC_TIMESTAMP(6))`,
	// told, adopted and catalog are never lowered.
	`CREATE TABLE IF NOT EXISTS members (
		join_no BIGINT UNSIGNED NOT NULL PRIMARY KEY,
		member BIGINT UNSIGNED NOT NULL,
		addr VARCHAR(255) NOT NULL,
		version VARCHAR(255) NOT NULL,
		told BIGINT UNSIGNED NOT NULL DEFAULT 0,
		adopted BIGINT UNSIGNED NOT NULL DEFAULT 0,
		catalog BIGINT UNSIGNED NOT NULL,
		opened INT UNSIGNED NOT NULL DEFAULT 0,
		fenced TINYINT UNSIGNED NOT NULL DEFAULT 0,
		since DATETIME(6) NOT NULL)`,
	// user and host are as the server lists them.
	`CREATE TABLE IF NOT EXISTS threads (
		note BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
		join_no BIGINT UNSIGNED NOT NULL,
		thread BIGINT UNSIGNED NOT NULL,
		user VARCHAR(255) NOT NULL,
		host VARCHAR(320) NOT NULL,
		KEY join_no (join_no))`,
}}

const tableOptions = ` ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`

// prepare makes the schema and its tables, or brings them to this version's form, and sees that
// they are the right server's. Where they are in that form it needs no rights but to read.
func prepare(ctx context.Context, c Config) (f flavour, err error) {
	db, _, err := connect(c, f, false)
	if err != nil {
		return f, err
	}
	defer db.Close()
	if f, err = askFlavour(ctx, db); err != nil {
		return f, err
	}
	if f.galera { // from here on with its settings
		if err := db.Close(); err != nil {
			return f, err
		}
		if db, _, err = connect(c, f, false); err != nil {
			return f, err
		}
		defer db.Close()
	}
	self, err := readSelf(ctx, db, c, f)
	if err == nil && self.format < len(steps) {
		if err = build(ctx, db, c, f); err == nil {
			self, err = readSelf(ctx, db, c, f)
		}
	}
	switch {
	case err != nil:
	case self.needs > len(steps):
		err = fmt.Errorf("schema %s is of version %d, which takes a Shunt that knows version %d, and this one knows them up to %d; start a newer version of Shunt: %w",
			c.Schema, self.format, self.needs, len(steps), storage.ErrFormat)
	case self.cluster != c.Cluster || self.shard != c.Shard:
		err = fmt.Errorf("it is shard %s of cluster %s: %w", self.shard, self.cluster, ErrOtherShard)
	case !self.same:
		err = fmt.Errorf("in use is %s: %w", self.server, ErrOtherServer)
	}
	return f, err
}

// self is the row of that table. format is 0 where there is none.
type self struct {
	format, needs          int
	cluster, shard, server string
	same                   bool
}

func readSelf(ctx context.Context, db *sql.DB, c Config, f flavour) (s self, err error) {
	err = db.QueryRowContext(ctx, "SELECT format, needs, cluster, shard, server, server = "+f.server+" FROM "+quote(c.Schema)+".self").
		Scan(&s.format, &s.needs, &s.cluster, &s.shard, &s.server, &s.same)
	refused, _ := errors.AsType[*mysql.MySQLError](err)
	if errors.Is(err, sql.ErrNoRows) || refused != nil && (refused.Number == 1146 || refused.Number == 1049) { // ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR
		return self{}, nil
	}
	return s, err
}

// build makes what is missing, one at a time.
func build(ctx context.Context, db *sql.DB, c Config, f flavour) error {
	return alone(ctx, db, func(conn *sql.Conn) error {
		all := []string{
			"CREATE DATABASE IF NOT EXISTS " + quote(c.Schema) + " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "USE " + quote(c.Schema), selfTable + tableOptions,
		}
		for _, q := range all {
			if _, err := conn.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("make schema %s: %w", c.Schema, err)
			}
		}
		if _, err := conn.ExecContext(ctx, "INSERT IGNORE INTO self SELECT 1, 0, 0, ?, ?, 1, "+f.server, c.Cluster, c.Shard); err != nil {
			return fmt.Errorf("say what the server is: %w", err)
		}
		var version int
		if err := conn.QueryRowContext(ctx, "SELECT format FROM self").Scan(&version); err != nil {
			return err
		}
		for ; version < len(steps); version++ {
			for _, q := range steps[version] {
				if q[:6] == "CREATE" {
					q += tableOptions
				}
				if _, err := conn.ExecContext(ctx, q); err != nil {
					return fmt.Errorf("bring schema %s to version %d: %w", c.Schema, version+1, err)
				}
			}
			if _, err := conn.ExecContext(ctx, "UPDATE self SET format = ?, needs = GREATEST(needs, ?)", version+1, needs); err != nil {
				return fmt.Errorf("bring schema %s to version %d: %w", c.Schema, version+1, err)
			}
		}
		return nil
	})
}

// alone runs fn on one connection while nobody else does so.
func alone(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('shunt_store.seat', 60)").Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errors.New("another one has been making the tables for a minute")
	}
	err = fn(conn)
	_, unlock := conn.ExecContext(ctx, "DO RELEASE_LOCK('shunt_store.seat')")
	return errors.Join(err, unlock)
}

// Renew takes the server in use that answers now, in a life, and in an epoch that is later than above, and
// later than those that the server knows of. Where that server is in use in that life already, or in a later one, nothing
// happens. REQUIRES: nobody uses the server that was in use before, and none joins one in an earlier life.
func Renew(ctx context.Context, c Config, life uint64, above storage.Epoch) error {
	c = c.complete()
	_, err := prepare(ctx, c)
	if err == nil || errors.Is(err, ErrOtherServer) {
		err = renew(ctx, c, life, above)
	}
	if err != nil {
		return fmt.Errorf("take shard %s (%s) in use: %w", c.Shard, c.Addr, err)
	}
	return nil
}

func renew(ctx context.Context, c Config, life uint64, above storage.Epoch) error {
	db, _, err := connect(c, flavour{}, false)
	if err != nil {
		return err
	}
	defer db.Close()
	f, err := askFlavour(ctx, db)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	schema := quote(c.Schema)
	var had uint64
	var same bool
	if err := tx.QueryRowContext(ctx, "SELECT life, server = "+f.server+" FROM "+schema+".self FOR UPDATE").Scan(&had, &same); err != nil {
		return err
	}
	switch {
	case had >= life && !same:
		return fmt.Errorf("it has been in life %d: %w", had, ErrOtherServer)
	case had >= life:
		return nil
	}
	// What the rows of members stand for ran on the former server.
	for _, q := range []string{"DELETE FROM " + schema + ".members", "DELETE FROM " + schema + ".threads"} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+schema+".epoch SET epoch = GREATEST(epoch, ?) + 1", uint64(above)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+schema+".self SET life = ?, server = "+f.server, life); err != nil {
		return err
	}
	return tx.Commit()
}
