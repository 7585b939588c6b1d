package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// streamCase reads a GiB in one answer: rows of a KiB.
const (
	streamCase  = "stream/1GiB"
	streamTable = "big"
	streamRows  = 1 << 20
	streamRow   = 1 << 10
)

// fillStream makes the table through Shunt, and its rows on the server.
func fillStream(ctx context.Context, proxy target, server *throwaway.Server) error {
	admin, err := openDB(proxy, "sbtest", false)
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.ExecContext(ctx, fmt.Sprintf("CREATE TABLE %s (id BIGINT PRIMARY KEY, v VARCHAR(%d) CHARACTER SET latin1 NOT NULL)", streamTable, streamRow)); err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	db, err := openDB(straight(server), "sbtest", false)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	statements := []string{"SET sql_log_bin = 0", fmt.Sprintf("INSERT INTO %s VALUES (0, REPEAT('x', %d))", streamTable, streamRow)}
	for n := 1; n < streamRows; n *= 2 {
		statements = append(statements, fmt.Sprintf("INSERT INTO %[1]s SELECT id + %[2]d, v FROM %[1]s", streamTable, n))
	}
	// The first to read it all shouldn't be one that is measured.
	statements = append(statements, "DO (SELECT SUM(LENGTH(v)) FROM "+streamTable+")")
	for _, q := range statements {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("fill %s: %w", streamTable, err)
		}
	}
	return nil
}

// stream reads the whole table. A statement is a row here.
func stream(ctx context.Context, t target) (h half, err error) {
	db, err := openDB(t, "sbtest", false)
	if err != nil {
		return h, err
	}
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return h, fmt.Errorf("connect: %w", err)
	}
	before, err := t.cpuTime()
	if err != nil {
		return h, err
	}
	start := time.Now()
	rows, err := db.QueryContext(ctx, "SELECT v FROM "+streamTable)
	if err != nil {
		return h, fmt.Errorf("stream: %w", err)
	}
	defer rows.Close()
	var v sql.RawBytes
	n := 0
	for rows.Next() {
		if err := rows.Scan(&v); err != nil {
			return h, fmt.Errorf("stream: %w", err)
		}
		if len(v) == streamRow {
			n++
		}
	}
	if err := rows.Err(); err != nil {
		return h, fmt.Errorf("stream: %w", err)
	}
	took := time.Since(start)
	after, err := t.cpuTime()
	if n != streamRows {
		return h, fmt.Errorf("stream: %d rows of %d bytes instead of %d", n, streamRow, streamRows)
	}
	h.statements, h.cpu = streamRows/took.Seconds(), (after-before)/streamRows
	return h, err
}
