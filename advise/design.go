package advise

import (
	"maps"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// Placement is where a table's rows are. Key is Hash's shard key.
type Placement struct {
	Placement catalog.Placement
	Key       string
}

// spreads reports that rows are on several shards, each on one.
func (p Placement) spreads() bool {
	return p.Placement == catalog.Hash || p.Placement == catalog.Anywhere
}

// Index is a virtual index.
type Index struct {
	Table   catalog.TableName
	Name    string
	Columns []string
}

// Design places tables and has virtual indexes. Tables that it doesn't name are by hash of their
// primary keys.
type Design struct {
	Placements map[catalog.TableName]Placement
	Indexes    []Index
}

func nameOf(t *catalog.Table) catalog.TableName {
	return catalog.TableName{Schema: t.Schema, Name: t.Name}
}

// place is a catalog in which some tables are placed by a design; its other tables are base's. What
// triggers and foreign keys refer to is base's too: routes don't go by it.
func (d *Design) place(base *catalog.Catalog, tables []*catalog.Table, indexed func(*catalog.Table) []*catalog.Index) *catalog.Catalog {
	over := *base
	over.Schemas = maps.Clone(base.Schemas)
	own := map[string]*catalog.Schema{}
	for _, t := range tables {
		p, ok := d.Placements[nameOf(t)]
		if !ok {
			continue
		}
		for key, s := range over.Schemas {
			if s.Name != t.Schema {
				continue
			}
			if own[key] == nil {
				copied := *s
				copied.Tables = maps.Clone(s.Tables)
				own[key], over.Schemas[key] = &copied, &copied
			}
			for name, known := range own[key].Tables {
				if nameOf(known) == nameOf(t) {
					own[key].Tables[name] = placed(base, known, p, indexed)
				}
			}
		}
	}
	return &over
}

func placed(base *catalog.Catalog, t *catalog.Table, p Placement, indexed func(*catalog.Table) []*catalog.Index) *catalog.Table {
	at := *t
	at.Placement, at.ShardKey, at.Shards, at.Indexes, at.Named = p.Placement, nil, base.All, nil, true
	switch p.Placement {
	case catalog.Hash:
		at.ShardKey = t.Column(p.Key)
	case catalog.Single:
		at.Shards = catalog.Only(base.Shards[0].ID)
	case catalog.Reference, catalog.Anywhere:
	}
	for _, ix := range indexed(t) {
		if !p.spreads() || len(ix.Columns) == 1 && strings.EqualFold(ix.Columns[0].Name, p.Key) {
			continue
		}
		over := *ix
		over.Table = &at
		at.Indexes = append(at.Indexes, &over)
	}
	return &at
}

// keyable reports a column that rows can be placed or found by.
func keyable(cat *catalog.Catalog, c *catalog.Column) bool {
	if c == nil || c.Generated && c.Virtual {
		return false
	}
	_, err := plan.CodecOf(cat, c)
	return err == nil
}
