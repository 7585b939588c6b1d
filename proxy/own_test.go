package proxy

import (
	"os"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestOwnStatements: the planner knows each by its words, and PREPARE tells the columns of all that
// have rows.
func TestOwnStatements(t *testing.T) {
	t.Parallel()
	plans, cat := planner.New(ownForms()...), &catalog.Catalog{ServerVersion: "9.7.4", All: catalog.Only(0)}
	part := strings.NewReplacer("<index>", "i ON t", "<table>", "t", "<columns>", "(a)", "<included>", "(a)", "<partitions>", "4", "<homes>", "s1, s2", "<pattern>", "'%a%'", "<order>", "Calls DESC", "<limit>", "5", "<statement>", "SELECT 1", "FROM|IN", "IN", "[", "", "]", "")
	s := &session{proxy: &Proxy{own: ownByForm()}}
	for _, o := range ownStatements {
		sql := part.Replace(o.form)
		switch o.form {
		case spoken.Kill:
			sql = "KILL 5"
		case spoken.TellSession:
			sql = "SELECT CONNECTION_ID()"
		case spoken.ShowCount:
			sql = "SHOW COUNT(*) WARNINGS"
		}
		planned, err := plans.Plan(sql, text.Settings{Schema: "shop", Charset: "utf8mb4"}, cat)
		a, ok := planned.(*plan.Admin)
		if err != nil || !ok || s.proxy.own[a.Form] != o {
			t.Errorf("%s: %T %+v, %v", sql, planned, planned, err)
		}
		words, show := strings.CutPrefix(sql, "SHOW ")
		if shows := show || strings.HasPrefix(sql, "EXPLAIN") || strings.HasPrefix(sql, "CHECK") || strings.HasPrefix(sql, "SELECT"); shows != (o.columns != nil) {
			t.Errorf("%s: has columns: %t", sql, !shows)
		}
		words, _, _ = strings.Cut(strings.ToLower(words), "(")
		if s.proxy.opens(words) != o.open || s.proxy.opens("x"+words) {
			t.Errorf("%s: open is %t", sql, s.proxy.opens(words))
		}
	}
}

// TestOwnStatementsAreTold: each is in the documents, among the statements that these and the golden plans
// are made from, and among those that are tried against servers.
func TestOwnStatementsAreTold(t *testing.T) {
	t.Parallel()
	for _, o := range ownStatements {
		switch o.form {
		case spoken.ShowProcesslist, spoken.ShowGrants, spoken.Kill, spoken.TellSession, spoken.ShowCount, spoken.ShowWarnings, spoken.ShowErrors:
			continue // a server has them too
		}
		words := strings.TrimSpace(o.form[:strings.IndexAny(o.form+"<", "<[")])
		document, tried := "../docs/virtual-indexes.md", "../e2e/testdata/corpus/own.sql"
		if strings.Contains(words, "VIRTUAL COLUMN") { // for which logs are followed
			document, tried = "../docs/virtual-columns.md", "../e2e/virtual_test.go"
		}
		for path, has := range map[string]string{
			"../planner/golden_test.go":     `"` + o.form + `"`,
			tried:                           words,
			document:                        words,
			"../planner/testdata/admin.txt": words,
		} {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), has) {
				t.Errorf("%s has no %s", path, has)
			}
		}
	}
}
