package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// rightProbes fail for want of a right (1044, 1142, 1227), or for want of what
// they name; none of them changes anything. Trying, unlike SHOW GRANTS, sees
// through roles and grants on patterns.
var rightProbes = []struct{ right, sql string }{
	{"CREATE", "CREATE TABLE shunt_scratch.shunt_check LIKE shunt_scratch.shunt_check_none"},
	{"CREATE TEMPORARY TABLES", "CREATE TEMPORARY TABLE shunt_scratch.shunt_check (a INT)"},
	{"DROP", "DROP TABLE shunt_scratch.shunt_check_none"},
	{"INSERT", "INSERT INTO shunt_scratch.shunt_check_none VALUES (1)"},
	{"SELECT", "SELECT 1 FROM shunt_scratch.shunt_check_none"},
}

// lackingRights says which of the rights that docs/install.md asks for a shard's account
// lacks, and what fails for it. Of the clients' own statements only that they may read is known.
func lackingRights(ctx context.Context, sh config.Shard, schemas []config.Schema) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	db, err := openDB(sh.Addr, sh.User, sh.Password, "", sh.TLS.Client())
	var conn *sql.Conn
	if err == nil {
		defer db.Close()
		conn, err = db.Conn(ctx)
	}
	var ends bool
	if err == nil {
		defer conn.Close()
		ends, err = mayEndConnections(ctx, conn)
	}
	if err != nil {
		return []string{fmt.Sprintf("the account's rights can't be told: %v", err)}
	}
	denied := func(statement string) bool {
		_, err := conn.ExecContext(ctx, statement)
		refused, ok := errors.AsType[*mysql.MySQLError](err)
		return ok && slices.Contains([]uint16{mysqlerr.DBAccessDenied, mysqlerr.TableAccessDenied, mysqlerr.SpecificAccessDenied}, refused.Number)
	}
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err == nil && !strings.Contains(version, "MariaDB") {
		switch {
		case denied("SELECT 1 FROM performance_schema.data_lock_waits LIMIT 1"):
			notes = append(notes, "the account lacks SELECT on performance_schema.data_lock_waits: deadlocks over several shards last for innodb_lock_wait_timeout")
		case denied("SELECT 1 FROM performance_schema.data_locks LIMIT 1"), denied("SELECT 1 FROM performance_schema.threads LIMIT 1"):
			notes = append(notes, "the account lacks SELECT on performance_schema.data_locks or threads: deadlocks over several shards last for innodb_lock_wait_timeout while a statement has a value that is no text")
		}
	}
	for _, x := range schemas {
		if denied("SELECT 1 FROM " + catalog.QuoteName(x.Name) + ".shunt_check_none") {
			notes = append(notes, fmt.Sprintf("the account has no rights on %s.*: all that clients do there fails", x.Name))
		}
	}
	var lacking []string
	for _, p := range rightProbes {
		if denied(p.sql) {
			lacking = append(lacking, p.right)
		}
	}
	if len(lacking) > 0 {
		notes = append(notes, fmt.Sprintf("the account lacks %s on shunt_scratch.*: queries that no shard can answer alone will fail, and that another Shunt has served in between can't be noticed", strings.Join(lacking, ", ")))
	}
	lacking = nil
	if denied("SELECT 1 FROM information_schema.INNODB_TRX LIMIT 1") {
		lacking = append(lacking, "PROCESS")
	}
	if !ends {
		lacking = append(lacking, "CONNECTION_ADMIN (MariaDB: CONNECTION ADMIN)")
	}
	if len(lacking) > 0 {
		notes = append(notes, fmt.Sprintf("the account lacks %s on *.*: what an earlier account's connections still do can't be seen or ended", strings.Join(lacking, ", ")))
	}
	return notes
}

// mayEndConnections can't be tried without a connection to end. A role may bring
// the right.
func mayEndConnections(ctx context.Context, conn *sql.Conn) (bool, error) {
	rows, err := conn.QueryContext(ctx, "SHOW GRANTS")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var grant string
		if err := rows.Scan(&grant); err != nil {
			return false, err
		}
		of, on, global := strings.Cut(grant, " ON ")
		if !global {
			return true, rows.Err() // a role
		}
		if strings.HasPrefix(on, "*.*") && (strings.Contains(of, "ALL PRIVILEGES") || strings.Contains(of, "SUPER") ||
			strings.Contains(of, "CONNECTION_ADMIN") || strings.Contains(of, "CONNECTION ADMIN")) {
			return true, rows.Err()
		}
	}
	return false, rows.Err()
}
