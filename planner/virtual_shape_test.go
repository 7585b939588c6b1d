package planner

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// virtualCatalog has conversations with two virtual columns.
func virtualCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	c := buildCatalog(t, 2, `
CREATE TABLE conversations (id BIGINT NOT NULL PRIMARY KEY, title VARCHAR(50));
-- @hash id
CREATE TABLE messages (id BIGINT NOT NULL PRIMARY KEY, conversation_id BIGINT);
-- @hash id
`)
	of, child := catalog.TableName{Schema: "shop", Name: "conversations"}, catalog.TableName{Schema: "shop", Name: "messages"}
	made := func(id uint32, name string, a catalog.Aggregate, argument, valueType string) *catalog.VirtualColumn {
		return &catalog.VirtualColumn{
			ID: id, Generation: 1, Of: of, Name: name, Key: "id", Child: child, ChildKey: "conversation_id", Aggregate: a, Argument: argument, ValueType: valueType,
			KeyType: "bigint", Where: catalog.ChildMark + ".`conversation_id` = " + catalog.ParentKeyMark, Status: catalog.Ready,
		}
	}
	c.WithVirtual([]*catalog.VirtualColumn{made(1, "total", catalog.CountRows, "", ""), made(2, "last", catalog.Max, "id", "bigint")})
	return c
}

// TestVirtualShape: a statement of a known shape has values put into it as one that is read by itself.
func TestVirtualShape(t *testing.T) {
	t.Parallel()
	cat, p := virtualCatalog(t), New()
	s := text.Settings{Schema: "shop", Charset: "utf8mb4"}
	for sql, shaped := range map[string]bool{
		"SELECT total FROM conversations WHERE id = 5":                                                        true,
		"SELECT title, total, last AS l, 'a ? b', 7 FROM conversations AS c WHERE c.id = 5 AND 'x' = 'y?'":    true,
		"SELECT total FROM conversations WHERE title = 'x' AND id = 17 LIMIT 3":                               true,
		"SELECT last + 1 FROM conversations WHERE id = 5 AND total > 3 ORDER BY total, last":                  true,
		"SELECT total FROM conversations WHERE id > 5":                                                        false,
		"SELECT total FROM conversations WHERE id = '5'":                                                      true,
		"SELECT total FROM conversations WHERE id = 5.0":                                                      true,
		"SELECT total FROM conversations WHERE id IN (5)":                                                     false,
		"SELECT * FROM conversations WHERE id = 5 AND total > 3":                                              false,
		"SELECT a.total FROM conversations a JOIN conversations b ON b.id = 6 WHERE a.id = 5 AND b.total = 1": false,
		"SELECT title FROM conversations WHERE id = 5":                                                        false,
	} {
		var sh Shape
		find := func() *VirtualShape {
			if !p.ReadShape(&sh, sql, &s) {
				t.Fatalf("%s has no shape", sql)
			}
			v, _ := p.FindVirtual(&sh, cat)
			return v
		}
		find() // is planned when it is met again
		v := find()
		if (v != nil) != shaped {
			t.Errorf("%s: shape %v, wanted %v", sql, v != nil, shaped)
		}
		if v == nil {
			continue
		}
		whole := p.Virtual(spoken.Read(sql, s, cat), nil)
		reads, ok := v.Reads(&sh)
		if !ok || fmt.Sprint(reads) != fmt.Sprint(whole.Reads) {
			t.Errorf("%s reads %v, by its shape %v", sql, whole.Reads, reads)
			continue
		}
		values, known := make([]catalog.VirtualHot, len(reads)), map[int]catalog.VirtualHot{}
		for i := range reads {
			values[i] = catalog.VirtualHot{Known: true, N: int64(40 + i), Value: fmt.Sprint(50 + i)}
			known[i] = values[i]
		}
		with := s
		with.Virtual = true
		if want := whole.Put(known); !v.Put(&sh, values, &with) || sh.Text() != want {
			t.Errorf("%s\nwith values\n%s\nby its shape\n%s", sql, want, sh.Text())
		}
		p.Find(&sh, cat)
		sh.Values()
		if rows := p.Find(&sh, cat); rows == nil {
			t.Errorf("%s has no plan", sh.Text())
		} else if b, ok := p.BindShape(rows, &sh, nil, 0); !ok || len(b.Statements) != 1 || b.Statements[0].SQL != sh.Text() {
			t.Errorf("%s is bound as %+v", sh.Text(), b)
		}
	}
}
