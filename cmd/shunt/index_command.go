package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

type indexCmd struct {
	List    indexListCmd    `cmd:"" help:"Virtual indexes, their state and what they are worth."`
	Check   indexCheckCmd   `cmd:"" help:"Compare an index with the rows; exit 1 if an entry is missing."`
	Rebuild indexRebuildCmd `cmd:"" help:"Build an index anew from the rows, and wait until it is ready."`
	Export  indexExportCmd  `cmd:"" help:"Print the statements that would make the indexes."`
}

func (indexCmd) Help() string {
	return `Examples:

  shunt index list 'app:secret@tcp(127.0.0.1:4000)/'
  shunt index check 'app:secret@tcp(127.0.0.1:4000)/' by_email shop.users
  shunt index rebuild 'app:secret@tcp(127.0.0.1:4000)/' by_email shop.users
  shunt index export 'app:secret@tcp(127.0.0.1:4000)/' > indexes.sql`
}

const showIndexes = "SHOW VIRTUAL INDEXES"

type indexListCmd struct{ clientFlags }

func (indexListCmd) Help() string {
	return `Examples:

  shunt index list 'app:secret@tcp(127.0.0.1:4000)/'
  shunt index list --json 'app:secret@tcp(127.0.0.1:4000)/' | jq .Status`
}

func (c *indexListCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, func(db *sql.DB) error {
		names, rows, err := asked(ctx, db, showIndexes)
		if err != nil {
			return err
		}
		return c.print(s.out, names, rows)
	})
}

// with calls a function with a connection.
func (c *clientFlags) with(ctx context.Context, do func(*sql.DB) error) error {
	db, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return do(db)
}

// namedIndex is the index of a command.
type namedIndex struct {
	Index string `arg:"" help:"Its name."`
	Table string `arg:"" help:"Its table: table, or schema.table."`
}

// on is how SQL names it.
func (n *namedIndex) on() string {
	table := catalog.QuoteName(n.Table)
	if schema, name, ok := strings.Cut(n.Table, "."); ok {
		table = catalog.QuoteTable(schema, name)
	}
	return catalog.QuoteName(n.Index) + " ON " + table
}

type indexCheckCmd struct {
	clientFlags
	namedIndex
}

func (indexCheckCmd) Help() string {
	return `Examples:

  shunt index check 'app:secret@tcp(127.0.0.1:4000)/' by_email shop.users

It ends with 1 where an entry is missing: rebuild the index. Its row was written on the shard behind Shunt's back, or it is a bug: report it.`
}

var errMissing = errors.New("entries are missing: reads by the index miss rows; rebuild it, and report it as a bug unless rows were written behind Shunt's back")

func (c *indexCheckCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, func(db *sql.DB) error {
		names, rows, err := asked(ctx, db, "CHECK VIRTUAL INDEX "+c.on())
		if err != nil {
			return err
		}
		if err := c.print(s.out, names, rows); err != nil {
			return err
		}
		for _, r := range rows {
			if r.number("Missing") > 0 {
				return errMissing
			}
		}
		return nil
	})
}

type indexRebuildCmd struct {
	clientFlags
	namedIndex
	Home []string `help:"The servers of the store that are to have it: one, or several in turns." placeholder:"NAME"`
}

func (indexRebuildCmd) Help() string {
	return `Examples:

  shunt index rebuild 'app:secret@tcp(127.0.0.1:4000)/' by_email shop.users

It ends with 0 once the index is ready, and with 1 where it couldn't be built.`
}

// rebuildPoll is how often a build is looked at.
const rebuildPoll = 500 * time.Millisecond

func (c *indexRebuildCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, func(db *sql.DB) error {
		statement := "REBUILD VIRTUAL INDEX " + c.on()
		if len(c.Home) > 0 {
			names := make([]string, len(c.Home))
			for i, name := range c.Home {
				names[i] = catalog.QuoteName(name)
			}
			statement += " HOME " + strings.Join(names, ", ")
		}
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
		return c.await(ctx, db, s)
	})
}

// await shows how far the build is until it is ready.
func (c *indexRebuildCmd) await(ctx context.Context, db *sql.DB, s streams) error {
	from := showIndexes + " FROM " + catalog.QuoteName(c.Table)
	if schema, name, ok := strings.Cut(c.Table, "."); ok {
		from = showIndexes + " FROM " + catalog.QuoteTable(schema, name)
	}
	p := s.progress()
	defer p.end()
	for {
		names, rows, err := asked(ctx, db, from)
		if err != nil {
			return err
		}
		var at told
		for _, r := range rows {
			if strings.EqualFold(r["Name"], c.Index) {
				at = r
			}
		}
		switch {
		case at == nil:
			return errors.New("it was dropped while it was built")
		case at["Status"] == "failed":
			return fmt.Errorf("the build has failed: %s", at["Error"])
		case at["Status"] != "building":
			p.end()
			return c.print(s.out, names, []told{at})
		}
		percent, _ := strconv.ParseInt(strings.TrimSuffix(at["Progress"], "%"), 10, 64)
		p.show(c.Index, percent, 100)
		select {
		case <-ctx.Done():
			return errors.New("interrupted: the build goes on; shunt index list shows it")
		case <-time.After(rebuildPoll):
		}
	}
}

type indexExportCmd struct {
	clientFlags
}

func (indexExportCmd) Help() string {
	return `Examples:

  shunt index export 'app:secret@tcp(127.0.0.1:4000)/' > indexes.sql`
}

func (c *indexExportCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, func(db *sql.DB) error {
		_, rows, err := asked(ctx, db, showIndexes)
		if err != nil {
			return err
		}
		for _, r := range rows {
			r["Statement"] = createStatement(r)
			if !c.JSON {
				if _, err := io.WriteString(s.out, r["Statement"]+";\n"); err != nil {
					return err
				}
			}
		}
		if c.JSON {
			return c.print(s.out, nil, rows)
		}
		return nil
	})
}

// quotedNames are those of a list with commas.
func quotedNames(list string) string {
	names := strings.Split(list, ",")
	for i, name := range names {
		names[i] = catalog.QuoteName(name)
	}
	return strings.Join(names, ", ")
}

// createStatement makes an index as it is. Its home isn't told: another Shunt may have none of the name.
func createStatement(r told) string {
	statement := fmt.Sprintf("CREATE VIRTUAL INDEX %s ON %s (%s)", catalog.QuoteName(r["Name"]), catalog.QuoteTable(r["Schema"], r["Table"]), quotedNames(r["Columns"]))
	if r["Include"] != "" {
		statement += " INCLUDE (" + quotedNames(r["Include"]) + ")"
	}
	if n := r["Partitions"]; n != "" && n != "1" {
		statement += " PARTITIONS " + n
	}
	return statement
}
