package proxy

import (
	"cmp"
	"context"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

var (
	createVirtualIndex = &own{
		form: "CREATE VIRTUAL INDEX <index> <columns> [INCLUDE <included>] [PARTITIONS <partitions>] [HOME <homes>]", changes: true,
		do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
			return nil, s.createVirtualIndex(ctx, a.Index, a.Homes)
		},
	}
	dropVirtualIndex = &own{
		form: "DROP VIRTUAL INDEX <index>", changes: true,
		do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
			ix, err := s.virtualIndex(ctx, a.Index)
			if err != nil {
				if ix = s.orphan(a.Index); ix == nil {
					return nil, err
				}
			}
			return nil, s.proxy.opts.Admin.DropIndex(ctx, ix)
		},
	}
	alterPartitions = ofIndex("ALTER VIRTUAL INDEX <index> PARTITIONS <partitions>", func(ctx context.Context, admin IndexAdmin, ix *catalog.Index, a *plan.Admin) error {
		return admin.Repartition(ctx, ix, a.Index.Partitions)
	})
	disableVirtualIndex = ofIndex("ALTER VIRTUAL INDEX <index> DISABLE", func(ctx context.Context, admin IndexAdmin, ix *catalog.Index, _ *plan.Admin) error {
		return admin.EnableIndex(ctx, ix, false)
	})
	enableVirtualIndex = ofIndex("ALTER VIRTUAL INDEX <index> ENABLE", func(ctx context.Context, admin IndexAdmin, ix *catalog.Index, _ *plan.Admin) error {
		return admin.EnableIndex(ctx, ix, true)
	})
	rebuildVirtualIndex = ofIndex("REBUILD VIRTUAL INDEX <index> [HOME <homes>]", func(ctx context.Context, admin IndexAdmin, ix *catalog.Index, a *plan.Admin) error {
		return admin.RebuildIndex(ctx, ix, a.Homes)
	})
	checkVirtualIndex = &own{
		form: "CHECK VIRTUAL INDEX <index>", columns: always("Index", "Shard", "#Checked", "#Missing", "#Stale"),
		do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
			ix, err := s.virtualIndex(ctx, a.Index)
			if err != nil {
				return nil, err
			}
			rows, err := s.proxy.opts.Admin.CheckIndex(ctx, ix)
			var out [][]any
			for _, r := range rows {
				out = append(out, []any{ix.Name, s.catalog().ShardName(r.Shard), r.Checked, r.Missing, r.Stale})
			}
			return out, err
		},
	}
)

// ofIndex is a statement that changes an index that exists.
func ofIndex(form string, change func(context.Context, IndexAdmin, *catalog.Index, *plan.Admin) error) *own {
	return &own{
		form: form, changes: true,
		do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
			ix, err := s.virtualIndex(ctx, a.Index)
			if err != nil {
				return nil, err
			}
			return nil, change(ctx, s.proxy.opts.Admin, ix, a)
		},
	}
}

func (s *session) createVirtualIndex(ctx context.Context, ix plan.VirtualIndex, homes []string) error {
	t, err := s.tableForIndex(ctx, ix.Table)
	if err != nil {
		return err
	}
	if t.Index(ix.Name) != nil {
		return mysqlerr.Newf(mysqlerr.DupKeyName, "Duplicate key name '%s'", ix.Name)
	}
	for _, column := range ix.Columns {
		if t.Column(column) == nil {
			return mysqlerr.Newf(mysqlerr.KeyColumnDoesNotExist, "Key column '%s' doesn't exist in table", column)
		}
	}
	for _, column := range ix.Include {
		if t.Column(column) == nil {
			return mysqlerr.Newf(mysqlerr.BadField, "Unknown column '%s' in 'INCLUDE'", column)
		}
	}
	return s.proxy.opts.Admin.CreateIndex(ctx, t, ix, homes)
}

// tableForIndex finds the table of a statement about virtual indexes. A table
// that the catalog does not have is looked for on the shards once, since it may
// have been made behind Shunt's back.
func (s *session) tableForIndex(ctx context.Context, name catalog.TableName) (*catalog.Table, error) {
	t, err := s.indexedTable(ctx, name)
	if err == nil && t.Temporary {
		return nil, refuse("a virtual index on the temporary table %s is not supported: its rows are on one shard", t.Name)
	}
	return t, err
}

func (s *session) indexedTable(ctx context.Context, name catalog.TableName) (*catalog.Table, error) {
	schema := name.Schema
	if schema == "" {
		schema = s.settings.schema
	}
	if schema == "" {
		return nil, errNoDatabase
	}
	find := func() *catalog.Table {
		if t := s.catalog().Table(schema, name.Name); t != nil && len(t.Columns) > 0 {
			return t
		}
		return nil
	}
	if t := find(); t != nil {
		return t, nil
	}
	if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
		return nil, err
	}
	if t := find(); t != nil {
		return t, nil
	}
	return nil, mysqlerr.Newf(mysqlerr.NoSuchTable, "Table '%s.%s' doesn't exist", schema, name.Name)
}

func (s *session) virtualIndex(ctx context.Context, v plan.VirtualIndex) (*catalog.Index, error) {
	t, err := s.tableForIndex(ctx, v.Table)
	if err != nil {
		return nil, err
	}
	if ix := t.Index(v.Name); ix != nil {
		return ix, nil
	}
	return nil, mysqlerr.Newf(mysqlerr.KeyDoesNotExist, "Virtual index '%s' doesn't exist in table '%s.%s'; SHOW VIRTUAL INDEXES lists them", v.Name, t.Schema, t.Name)
}

// orphan is an index whose table, or a column of it, is gone, by its names alone; nil if
// there is none.
func (s *session) orphan(v plan.VirtualIndex) *catalog.Index {
	c, schema := s.catalog(), cmp.Or(v.Table.Schema, s.settings.schema)
	same := func(a, b string) bool { return a == b || c.LowerCaseNames && strings.EqualFold(a, b) }
	for _, r := range s.proxy.opts.Admin.IndexRows() {
		if same(r.Schema, schema) && same(r.Table, v.Table.Name) && strings.EqualFold(r.Name, v.Name) {
			return &catalog.Index{Name: r.Name, Table: &catalog.Table{Schema: r.Schema, Name: r.Table}}
		}
	}
	return nil
}
