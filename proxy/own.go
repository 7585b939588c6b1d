package proxy

import (
	"context"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// own is a statement that Shunt answers itself. All that Shunt knows of one stands in its
// struct: a new one is a file with the struct, and a line in ownStatements.
type own struct {
	// form are its words, and what follows them: see planner.New. Those of planner's constants a
	// server has too.
	form string
	// open: a SHOW also for those who have not all rights, from whose rows is left out what they
	// may not see.
	open bool
	// changes: it is none for who may only read.
	changes bool
	// tells: a SELECT without a table, after which SHOW WARNINGS tells of it, as on a server.
	tells bool
	// keepsFound: FOUND_ROWS() is what it was before.
	keepsFound bool
	// columns are those of its rows, for PREPARE too; nil: it is answered with OK.
	columns func(*session, *plan.Admin) []wire.Column
	do      func(*session, context.Context, *plan.Admin) ([][]any, error)
	// warns are its warnings; nil: SHOW WARNINGS tells what it did before.
	warns func(*session, *plan.Admin) [][][]byte
}

// ownStatements are all of them. Of those with the same first words the first that fits is it.
var ownStatements = []*own{
	showShards, showShardConnections, showMembers, showVirtualIndexes, showMaintenanceJobs, explainRoute,
	showStatistics, flushStatistics, showAdvice,
	createVirtualColumn, dropVirtualColumn, rebuildVirtual, consolidate, checkVirtual, showVirtualColumns,
	createVirtualIndex, dropVirtualIndex, alterPartitions, disableVirtualIndex, enableVirtualIndex, rebuildVirtualIndex, checkVirtualIndex,
	showProcesslist, showGrants, kill, tellSession, showCount, showWarnings, showErrors,
}

// ownForms are the forms of all of them, for the planner.
func ownForms() []string {
	var forms []string
	for _, o := range ownStatements {
		forms = append(forms, o.form)
	}
	return forms
}

func ownByForm() map[string]*own {
	m := make(map[string]*own, len(ownStatements))
	for _, o := range ownStatements {
		m[o.form] = o
	}
	return m
}

// opens reports whether SHOW and these words, in lower case, is open to who has not all rights.
func (p *Proxy) opens(show string) bool {
	for _, o := range p.own {
		if words, ok := strings.CutPrefix(o.form, "SHOW "); ok && o.open {
			words, _, _ = strings.Cut(words, " [")
			if w := strings.ToLower(words); w == show || strings.HasPrefix(show, w+" ") {
				return true
			}
		}
	}
	return false
}

// answerOwn executes a statement of Shunt's own.
func (s *session) answerOwn(ctx context.Context, a *plan.Admin) error {
	o := s.proxy.own[a.Form]
	rows, err := o.do(s, ctx, a)
	switch {
	case err != nil:
		return err
	case o.columns == nil:
		return s.answerOK(wire.OK{})
	}
	var warnings [][][]byte
	if o.warns != nil {
		warnings = o.warns(s, a)
	}
	if err := s.answerWarned(o.columns(s, a), rows, warningCount(len(warnings))); err != nil {
		return err
	}
	if warnings != nil {
		s.diag.replace(warnings...)
	}
	if !o.keepsFound {
		s.diag.findAnswered()
	}
	return nil
}

// always are columns that are the same for every client; a leading # makes an integer one.
func always(names ...string) func(*session, *plan.Admin) []wire.Column {
	cols := columns(names...)
	return func(*session, *plan.Admin) []wire.Column { return cols }
}

// columns makes column definitions; a leading # makes an integer one.
func columns(names ...string) []wire.Column {
	cols := make([]wire.Column, len(names))
	for i, n := range names {
		if num, ok := strings.CutPrefix(n, "#"); ok {
			cols[i] = wire.IntColumn(num)
		} else {
			cols[i] = wire.TextColumn(n)
		}
	}
	return cols
}

func percent(f float64) string { return fmt.Sprintf("%.0f%%", f*100) }

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
