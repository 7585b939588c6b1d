package proxy

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// LAST_INSERT_ID() is the session's, and pooled connections have others' of their own:
// one is told before a statement that asks for it, and asked after one that may have
// set it where the answer doesn't say.

// asksID reports whether a text may ask for the last insert id.
func asksID(r *request, sql string) bool {
	if r.plan.AsksNoID && sql == r.sql {
		return false
	}
	return spoken.NamesInsertID(sql)
}

// setsID reports whether a text may set LAST_INSERT_ID(), as LAST_INSERT_ID(n) does.
func setsID(sql string) bool {
	return spoken.NamesInsertID(sql) && settingID.MatchString(sql)
}

var settingID = regexp.MustCompile(`(?i)last_insert_id\s*\(\s*[^\s)]`)

// tellID gives a connection the session's.
func tellID(ctx context.Context, conn *shard.Conn, id uint64) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("SET LAST_INSERT_ID = %d", id))
	return err
}

// askID returns a connection's; told is false where it says nothing that could be one.
func askID(ctx context.Context, conn *shard.Conn) (id uint64, told bool, err error) {
	res, err := conn.Query(ctx, "SELECT LAST_INSERT_ID()")
	if err != nil || len(res.Rows) != 1 {
		return 0, false, err
	}
	id, malformed := strconv.ParseUint(string(res.Rows[0][0]), 10, 64)
	return id, malformed == nil, nil
}

// mayGiveID reports whether the id in the answer of a write may be one that its rows
// give. Its connection is told the session's before then, and asked afterwards.
//
// Counter-example: INSERT INTO t (id) VALUES (7) answers with 7, while LAST_INSERT_ID()
// stays what it was.
func mayGiveID(r *request) bool {
	b := r.bound
	switch r.plan.Kind {
	case plan.Insert, plan.Replace, plan.Other:
	default:
		return false
	}
	return b.Generated == nil && !b.Counted && !b.Given && slices.ContainsFunc(r.plan.Tables, func(t *catalog.Table) bool {
		return slices.ContainsFunc(t.Columns, func(c *catalog.Column) bool { return c.AutoIncrement })
	})
}

// assignInsertID is SET LAST_INSERT_ID. No shard's connection keeps it: each statement
// that asks is told before.
func assignInsertID(next *settings, value string) error {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil && !strings.HasPrefix(value, "-") {
		return mysqlerr.New(mysqlerr.WrongTypeForVar, "Incorrect argument type to variable 'last_insert_id'")
	}
	next.insertID = &n
	return nil
}
