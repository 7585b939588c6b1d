package planner

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/text"
)

// readAlike reads a statement by the shapes of before, which must give what reading it anew does. Comments around it
// make no other statement of it.
func readAlike(t *testing.T, p *Planner, sh *Shape, sql string, s *text.Settings) (ok bool) {
	t.Helper()
	var anew, whole Shape
	head, rest, tail := withoutComments(sql)
	ok = anew.Read(rest, s)
	// A comment within another one at the end is the one exception.
	if with := whole.Read(sql, s); with != ok && (ok || tail == "") || head+rest+tail != sql {
		t.Fatalf("%q: read: %v, without its comments %q: %v", sql, with, rest, ok)
	}
	for i := range whole.literals {
		l := whole.literals[i]
		l.start, l.end = l.start-uint32(len(head)), l.end-uint32(len(head))
		if ok && l != anew.literals[i] {
			t.Fatalf("%q: read as %+v, without its comments %+v", sql, whole.literals, anew.literals)
		}
	}
	if got := p.ReadShape(sh, sql, s); got != ok {
		t.Fatalf("%q: recalled: %v, read: %v", sql, got, ok)
	}
	if ok && (sh.hash != anew.hash || sh.sql != rest || sh.Text() != sql || !slices.Equal(sh.literals, anew.literals)) {
		t.Fatalf("%q: recalled as %+v, read as %+v", sql, sh.literals, anew.literals)
	}
	return ok
}

// TestRecall: a statement that is nearly one of before is read as it would be by itself.
func TestRecall(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cat := buildCatalog(t, 4, worldDDL)
	ansi, plain := shapeSettings, shapeSettings
	ansi.ANSIQuotes, plain.NoBackslashEscapes = true, true
	settings := []*text.Settings{&shapeSettings, &ansi, &plain}
	texts := []string{
		"SELECT * FROM u WHERE id = 5", "SELECT * FROM u WHERE id = -5 AND b = 'x''y'", `SELECT * FROM u WHERE b = "x\"y" LIMIT 10, 20`,
		"SELECT id FROM u WHERE a IN (1, -2, 3.5) AND b BETWEEN 'a' AND 'b' ORDER BY a LIMIT 3", "UPDATE u SET b = 'x', a = 3 WHERE id = 7",
		"INSERT INTO u (id, a, b) VALUES (1, -2, 'x'), (2, 3, 'y')", "DELETE FROM u WHERE a - 5 = 3 /* c */ AND id = 1-2", "SELECT a FROM u WHERE id=5and a=6", "/* a */ SELECT a FROM u WHERE b = '/*' AND id = 5 /*traceparent='00-5'*/",
	}
	const bytes = "0123456789-.'\"`\\ \nax,()=/*;?\x80"
	p := New()
	shapes := make([]Shape, len(settings))
	recalls := 0
	for range 200_000 {
		sql := []byte(texts[random.IntN(len(texts))])
		for range random.IntN(4) {
			switch at := random.IntN(len(sql) + 1); random.IntN(3) {
			case 0:
				sql = slices.Insert(sql, at, bytes[random.IntN(len(bytes))])
			case 1:
				if at < len(sql) {
					sql[at] = bytes[random.IntN(len(bytes))]
				}
			default:
				if at < len(sql) {
					sql = slices.Delete(sql, at, at+1)
				}
			}
		}
		i := random.IntN(len(settings))
		sh := &shapes[i]
		if !readAlike(t, p, sh, string(sql), settings[i]) {
			continue
		}
		if sh.plan != nil {
			recalls++
		}
		p.Find(sh, cat)
	}
	if recalls < 1000 {
		t.Errorf("only %d statements were recalled", recalls)
	}
}

// TestCommentsAround: statements that differ in comments around them have one plan, and the shards get these.
func TestCommentsAround(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, worldDDL)
	p := New()
	var sh Shape
	sent := func(sql string) []string {
		t.Helper()
		if !p.ReadShape(&sh, sql, &shapeSettings) {
			t.Fatalf("%s has no shape", sql)
		}
		rows := p.Find(&sh, cat)
		if rows == nil {
			return nil // it is planned when it comes again
		}
		sh.Values()
		b, ok := p.BindShape(rows, &sh, nil, 0)
		if !ok {
			t.Fatalf("%s isn't bound", sql)
		}
		var texts []string
		for _, st := range b.Statements {
			texts = append(texts, st.SQL)
		}
		return slices.Compact(texts)
	}
	for _, c := range []struct{ head, sql, tail, want string }{
		{"", "SELECT a FROM u WHERE id = 5", " /*traceparent='%d'*/", ""},
		{"/* %d */", " SELECT a FROM u WHERE id = 6", "", ""},
		{"/* %d */", " SELECT a FROM u ORDER BY a LIMIT 3, 2 ", "/* b */", " SELECT a FROM u ORDER BY a LIMIT 5 "},
	} {
		before := p.CachedPlans()
		for i := range 10 {
			head, tail := strings.ReplaceAll(c.head, "%d", fmt.Sprint(i)), strings.ReplaceAll(c.tail, "%d", fmt.Sprint(i))
			want := []string{head + cmp.Or(c.want, c.sql) + tail}
			if got := sent(head + c.sql + tail); i > 1 && !slices.Equal(got, want) {
				t.Errorf("sent\n%q\nnot\n%q", got, want)
			}
		}
		if made := p.CachedPlans() - before; made != 1 {
			t.Errorf("%s: %d plans", c.sql, made)
		}
	}
	for _, hint := range []string{"/* shunt: shard=s1 */", "/*!80000 FOR UPDATE */", "/*+ x */"} {
		for _, sql := range []string{hint + "SELECT a FROM u WHERE id = 5", "SELECT a FROM u WHERE id = 5 " + hint} {
			if p.ReadShape(&sh, sql, &shapeSettings) {
				t.Errorf("%s has a shape", sql)
			}
		}
	}
}
