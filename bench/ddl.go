package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// threeServers do what Shunt has them do, by a program that knows nothing: the first one, then the others at once.
const threeServers = "three servers"

// oneServer is the yardstick of cases that compare several shards with one server.
const oneServer = "one server"

// ddlShards are behind Shunt when DDL is measured.
const ddlShards = 3

// ddlOthers are how many tables of another schema are beside the ones that are changed.
var ddlOthers = []int{0, 10_000}

// ddlCycles is how often a half of a round does each statement.
const ddlCycles = 10

// ddlSteps are what a migration tool sends; the foreign key is of the table to another.
var ddlSteps = []struct{ name, text string }{
	{"create", "CREATE TABLE made (id INT PRIMARY KEY, a VARCHAR(100) NOT NULL, b INT, c DATETIME, KEY (b))"},
	{"alter", "ALTER TABLE made ADD COLUMN d VARCHAR(50) NOT NULL DEFAULT 'x'"},
	{"foreign_key", "ALTER TABLE made ADD CONSTRAINT made_b FOREIGN KEY (b) REFERENCES parent (id)"},
	{"drop", "DROP TABLE made"},
}

func ddlCase(others int, step string) string { return fmt.Sprintf("ddl/%d/%s", others, step) }

// ownStage are the cases that start servers of their own.
func (b *bench) ownStage(ctx context.Context) (results []*series, err error) {
	for _, rows := range swappedRows {
		if !b.only.MatchString(contentionCase(rows)) {
			continue
		}
		s, err := b.contention(ctx, rows)
		if results, err = b.keep(ctx, results, s, err); err != nil {
			return nil, err
		}
	}
	for _, others := range ddlOthers {
		if !b.only.MatchString(ddlCase(others, "")) {
			continue
		}
		cases, err := b.ddl(ctx, others)
		if results, err = b.keepAll(ctx, results, cases, err); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// twoStages are Shunt before some servers, and one server.
func (b *bench) twoStages(ctx context.Context, servers int, schemas string, args ...string) (s *stage, targets []target, err error) {
	if s, err = b.newStage(ctx, servers, 0, args...); err != nil {
		return nil, nil, err
	}
	one, err := b.newStage(ctx, 1, 0, args...)
	if err != nil {
		s.stop()
		return nil, nil, err
	}
	s.onStop(one.stop)
	shunt, err := s.startShunt(ctx, b.program(), schemas)
	if err != nil {
		s.stop()
		return nil, nil, err
	}
	server := straight(one.servers[0])
	server.name = oneServer
	s.servers = append(s.servers, one.servers...)
	return s, []target{server, *shunt}, nil
}

// ddl measures each step on a table of one schema, beside the tables of another.
func (b *bench) ddl(ctx context.Context, others int) (cases []*series, err error) {
	s, targets, err := b.twoStages(ctx, ddlShards, "{changed: {tables: {parent: {placement: reference}}, default: {placement: hash}}}")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	conns := map[string][]*sql.Conn{}
	connect := func(t target, to, schema string) error {
		db, err := openDB(t, "", true)
		if err != nil {
			return err
		}
		s.onStop(func() { db.Close() })
		conn, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		conns[to] = append(conns[to], conn)
		for _, q := range []string{"CREATE DATABASE IF NOT EXISTS " + schema, "USE " + schema, "CREATE TABLE parent (id INT PRIMARY KEY)"} {
			if _, err := conn.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("%s: %s: %w", to, q, err)
			}
		}
		return nil
	}
	for _, t := range targets {
		if err := connect(t, t.name, "changed"); err != nil {
			return nil, err
		}
	}
	for _, server := range s.servers[:ddlShards] {
		if err := connect(straight(server), threeServers, "straight"); err != nil {
			return nil, err
		}
	}
	targets = append(targets, target{name: threeServers})
	if err := fillOthers(ctx, s.servers, others); err != nil {
		return nil, err
	}
	if others > 0 { // Shunt is told of them
		if _, err := conns[ours][0].ExecContext(ctx, "CREATE DATABASE told"); err != nil {
			return nil, fmt.Errorf("create database: %w", err)
		}
	}
	for _, step := range ddlSteps {
		c := &series{name: ddlCase(others, step.name), base: oneServer, halves: map[string][]half{}}
		for _, t := range targets {
			c.targets = append(c.targets, t.name)
		}
		cases = append(cases, c)
	}
	for round := range b.rounds + 1 { // the first one warms up
		inTurn := slices.Clone(targets)
		if round%2 == 1 {
			slices.Reverse(inTurn)
		}
		for _, t := range inTurn {
			halves, err := ddlHalf(ctx, t, conns[t.name])
			if err != nil {
				return cases, fmt.Errorf("%s: %w", t.name, err)
			}
			for i, c := range cases {
				if round > 0 {
					c.halves[t.name] = append(c.halves[t.name], halves[i])
				}
			}
		}
	}
	for _, c := range cases {
		fmt.Fprintln(b.out, c.line())
	}
	return cases, nil
}

// onAll executes a statement on the first connection, then on the others at once.
func onAll(ctx context.Context, conns []*sql.Conn, text string) error {
	if _, err := conns[0].ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	errs := make([]error, len(conns))
	var all sync.WaitGroup
	for i, conn := range conns[1:] {
		all.Go(func() { _, errs[i] = conn.ExecContext(ctx, text) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ddlHalf does the steps in turn, and returns what each took.
func ddlHalf(ctx context.Context, t target, conns []*sql.Conn) (halves []half, err error) {
	took := make([][]time.Duration, len(ddlSteps))
	halves = make([]half, len(ddlSteps))
	for range ddlCycles {
		for i, step := range ddlSteps {
			before, err := t.cpuTime()
			if err != nil {
				return nil, err
			}
			start := time.Now()
			if err := onAll(ctx, conns, step.text); err != nil {
				return nil, err
			}
			took[i] = append(took[i], time.Since(start))
			after, err := t.cpuTime()
			if err != nil {
				return nil, err
			}
			halves[i].cpu += (after - before) / ddlCycles
		}
	}
	for i := range halves {
		slices.Sort(took[i])
		at := func(share float64) time.Duration { return took[i][int(share*float64(len(took[i])-1))] }
		halves[i].p50, halves[i].p95, halves[i].p99 = at(0.5), at(0.95), at(0.99)
		halves[i].statements = float64(time.Second) / float64(halves[i].p50)
	}
	return halves, nil
}

// fillOthers makes tables of another schema straight on servers.
func fillOthers(ctx context.Context, servers []*throwaway.Server, n int) error {
	const clients = 8
	var all sync.WaitGroup
	failures := make(chan error, len(servers)*clients)
	for _, server := range servers {
		db, err := openDB(straight(server), "", true)
		if err != nil {
			return err
		}
		defer db.Close()
		if _, err := db.ExecContext(ctx, "CREATE DATABASE others"); err != nil {
			return fmt.Errorf("create database: %w", err)
		}
		for client := range clients {
			all.Go(func() {
				for i := client; i < n; i += clients {
					if _, err := db.ExecContext(ctx, fmt.Sprintf("CREATE TABLE others.t%d (id INT PRIMARY KEY, name VARCHAR(100), n INT, at DATETIME, KEY (n))", i)); err != nil {
						failures <- fmt.Errorf("create table: %w", err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	close(failures)
	return <-failures
}
