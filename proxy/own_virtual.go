package proxy

import (
	"context"
	"fmt"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

var (
	createVirtualColumn = &own{
		form: "CREATE VIRTUAL COLUMN <index> AS <statement>", changes: true,
		do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
			return nil, s.createVirtualColumn(ctx, a)
		},
	}
	dropVirtualColumn = ofVirtualColumn("DROP VIRTUAL COLUMN <index>", VirtualColumns.Drop)
	rebuildVirtual    = ofVirtualColumn("REBUILD VIRTUAL COLUMN <index>", VirtualColumns.Rebuild)
	consolidate       = ofVirtualColumn("CONSOLIDATE VIRTUAL COLUMN <index>", VirtualColumns.Consolidate)
	checkVirtual      = &own{
		form: "CHECK VIRTUAL COLUMN <index>", columns: always("Column", "#Checked", "#Wrong"),
		do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
			v, err := s.virtualColumn(a)
			if err != nil {
				return nil, err
			}
			checked, wrong, err := s.proxy.opts.Virtual.Check(ctx, v.ID)
			if err != nil {
				return nil, s.virtualError(v, err)
			}
			return [][]any{{v.Name, int64(checked), int64(wrong)}}, nil
		},
	}
	showVirtualColumns = &own{
		form:    "SHOW VIRTUAL COLUMNS",
		columns: always("Schema", "Table", "Name", "Expression", "Status", "#Progress", "#Hot", "#Kept", "Hit_rate", "Consolidated", "Lag", "Error"),
		do: func(s *session, _ context.Context, _ *plan.Admin) (rows [][]any, _ error) {
			if s.proxy.opts.Virtual == nil {
				return nil, nil
			}
			for _, v := range s.proxy.opts.Virtual.Rows() {
				var consolidated, rate any
				if v.HitRate >= 0 {
					rate = fmt.Sprintf("%.3f", v.HitRate)
				}
				if !v.Consolidated.IsZero() {
					consolidated = v.Consolidated.UTC().Format("2006-01-02 15:04:05")
				}
				rows = append(rows, []any{v.Of.Schema, v.Of.Name, v.Name, v.Expression, string(v.Status), int64(v.Progress), int64(v.Hot), int64(v.Kept), rate, consolidated, lagText(v.Lag), nullable(v.Error)})
			}
			return rows, nil
		},
	}
)

// ofVirtualColumn is a statement about a virtual column that exists.
func ofVirtualColumn(form string, do func(VirtualColumns, context.Context, uint32) error) *own {
	return &own{
		form: form, changes: true,
		do: func(s *session, ctx context.Context, a *plan.Admin) ([][]any, error) {
			v, err := s.virtualColumn(a)
			if err != nil {
				return nil, err
			}
			if err := do(s.proxy.opts.Virtual, ctx, v.ID); err != nil {
				return nil, s.virtualError(v, err)
			}
			return nil, nil
		},
	}
}

func (s *session) virtualError(v *catalog.VirtualColumn, err error) error {
	return mysqlerr.Newf(mysqlerr.UnknownError, "virtual column %s: %v; SHOW VIRTUAL COLUMNS tells its state", v.Name, err)
}

func (s *session) createVirtualColumn(ctx context.Context, a *plan.Admin) error {
	t, err := s.tableForIndex(ctx, a.Index.Table)
	switch {
	case err != nil:
		return err
	case s.proxy.opts.Virtual == nil:
		return refuse("virtual columns are not supported here")
	case t.IsView:
		return refuse("a virtual column on the view %s is not supported: make it on its table", t.Name)
	case t.Column(a.Index.Name) != nil, s.virtualOf(t, a.Index.Name) != nil:
		return mysqlerr.Newf(mysqlerr.DupFieldName, "Duplicate column name '%s'", a.Index.Name)
	}
	settings := s.settings.planning
	v, err := s.proxy.planner.DefineVirtual(t, a.Index.Name, a.Explain, settings, s.catalog())
	if err != nil {
		return err
	}
	if err := s.proxy.opts.Virtual.Create(ctx, v); err != nil {
		return s.virtualError(v, err)
	}
	return nil
}

// virtualOf is a table's virtual column by name, whatever its state; nil if none.
func (s *session) virtualOf(t *catalog.Table, name string) *catalog.VirtualColumn {
	return s.catalog().VirtualColumn(catalog.TableName{Schema: t.Schema, Name: t.Name}, name)
}

// virtualColumn is the one that a statement names, be its table there or not.
func (s *session) virtualColumn(a *plan.Admin) (*catalog.VirtualColumn, error) {
	of := a.Index.Table
	if of.Schema == "" {
		of.Schema = s.settings.schema
	}
	if s.proxy.opts.Virtual != nil {
		for _, v := range s.proxy.opts.Virtual.Rows() {
			c := &catalog.Catalog{LowerCaseNames: s.catalog().LowerCaseNames, Virtual: &catalog.Virtual{Columns: []*catalog.VirtualColumn{v.VirtualColumn}}}
			if c.VirtualColumn(of, a.Index.Name) != nil {
				return v.VirtualColumn, nil
			}
		}
	}
	return nil, mysqlerr.Newf(mysqlerr.BadField, "Unknown virtual column '%s' of '%s.%s'; SHOW VIRTUAL COLUMNS lists them", a.Index.Name, of.Schema, of.Name)
}
