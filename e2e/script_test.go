package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/generate"
)

// A script is a file of statements that are compared between Shunt and a plain
// server. Each ends with a line's last semicolon. Lines that begin with -- and:
//
//	@hash COLUMN, @reference, @single SHARD, @anywhere   placement of the table made last
//	@virtual NAME COLUMN,..                              its virtual index
//	only: mysql                                          the next statement is for one flavour;
//	                                                     at the top, the file is
//	params: [1, "a"]                                     the next one is prepared
//	check: sorted=1,2 ordered total limited fold=3 ...   what of its answer is determined; else all
//	                                                     rows, in order if there is an ORDER BY at its end
//	refused                                              the next one is refused over several shards
//	own                                                  the next one is Shunt's own or speaks of shards:
//	                                                     it succeeds, and is not compared
//	include: NAME                                        testdata/NAME.sql comes first
//	kind: TEXT                                           for docs/sql.md
//
// are read; other comments are not. The string 'corpus', which names locks, becomes a name of the run's own: locks are
// of the whole server, on which other runs are as well. The names `corpus_a` and
// `corpus_b` become those of the run's schema and of a second one, which the script makes.
type script struct {
	name       string
	only       string
	placements []string // "users: {shard_key: id}"
	statements []scripted
}

type scripted struct {
	sql      string
	only     string
	prepared bool
	params   []any
	check    generate.Check
	refused  bool
	own      bool
	// virtual are the indexes to make after a CREATE TABLE.
	virtual []string
	line    int
}

func (s *scripted) read() bool {
	word, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(s.sql, "( \n")), " ")
	switch strings.TrimSpace(word) {
	case "SELECT", "WITH", "TABLE", "VALUES", "SHOW", "DESCRIBE", "DESC", "EXPLAIN":
		return true
	}
	return false
}

func readScript(path string) (*script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	s := &script{name: strings.TrimSuffix(filepath.Base(path), ".sql")}
	next := scripted{}
	table := ""
	for i, line := range strings.Split(string(text), "\n") {
		comment, isComment := strings.CutPrefix(line, "-- ")
		if !isComment || next.sql != "" {
			if next.sql == "" {
				if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "--") {
					continue
				}
				next.line = i + 1
			}
			next.sql += line + "\n"
			body, ends := strings.CutSuffix(strings.TrimRight(line, " "), ";")
			if !ends {
				continue
			}
			next.sql = strings.TrimSuffix(next.sql, line+"\n") + body
			if fields := strings.Fields(next.sql); len(fields) > 2 && strings.EqualFold(fields[0], "create") && strings.EqualFold(fields[1], "table") {
				table, _, _ = strings.Cut(fields[2], "(")
			}
			if next.check.Items == nil && !next.check.Limited && !next.check.Ordered {
				next.check.Total = orderedAtEnd(next.sql)
			}
			next.check.Condition = generate.HasCondition(next.sql)
			s.statements = append(s.statements, next)
			next = scripted{}
			continue
		}
		word, rest, _ := strings.Cut(comment, " ")
		fields := strings.Fields(rest)
		switch word {
		case "@hash":
			s.placements = append(s.placements, fmt.Sprintf("%s: {shard_key: %s}", table, fields[0]))
		case "@reference", "@anywhere":
			s.placements = append(s.placements, fmt.Sprintf("%s: {placement: %s}", table, word[1:]))
		case "@single":
			s.placements = append(s.placements, fmt.Sprintf("%s: {placement: single, shard: %s}", table, fields[0]))
		case "@virtual":
			last := &s.statements[len(s.statements)-1]
			last.virtual = append(last.virtual, fmt.Sprintf("CREATE VIRTUAL INDEX %s ON %s (%s)", fields[0], table, strings.ReplaceAll(fields[1], ",", ", ")))
		case "only:":
			if i < 3 {
				s.only = fields[0]
			} else {
				next.only = fields[0]
			}
		case "refused":
			next.refused = true
		case "own":
			next.own = true
		case "include:":
			other, err := readScript(filepath.Join(filepath.Dir(path), "..", fields[0]+".sql"))
			if err != nil {
				return nil, err
			}
			s.placements, s.statements = other.placements, other.statements
		case "params:":
			next.prepared = true
			if rest != "" {
				if err := json.Unmarshal([]byte(rest), &next.params); err != nil {
					return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
				}
			}
			for j, p := range next.params {
				// A JSON number without a point was an integer.
				if f, ok := p.(float64); ok && f == float64(int64(f)) && !strings.Contains(rest, ".") {
					next.params[j] = int64(f)
				}
			}
		case "check:":
			if next.check, err = readCheck(fields); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
			}
		}
	}
	if strings.TrimSpace(next.sql) != "" {
		return nil, fmt.Errorf("%s: the last statement doesn't end", path)
	}
	return s, nil
}

// orderedAtEnd: an ORDER BY outside of parentheses.
func orderedAtEnd(sql string) bool {
	depth := 0
	upper := strings.ToUpper(sql)
	found := false
	for i := range upper {
		switch upper[i] {
		case '(':
			depth++
		case ')':
			depth--
		case 'O':
			found = found || depth == 0 && strings.HasPrefix(upper[i:], "ORDER BY")
		}
	}
	return found
}

var checkMarks = []struct {
	name string
	mark generate.Mark
}{
	{"fold", generate.Folded}, {"approximate", generate.Approximate}, {"loose", generate.Loose}, {"sorted", generate.Sorted},
}

func checkLine(c generate.Check) string {
	var b strings.Builder
	for _, f := range []struct {
		name string
		on   bool
	}{{"ordered", c.Ordered}, {"total", c.Total}, {"limited", c.Limited}} {
		if f.on {
			b.WriteString(" " + f.name)
		}
	}
	for _, m := range checkMarks {
		var at []string
		for i, x := range c.Items {
			if x&m.mark != 0 {
				at = append(at, strconv.Itoa(i+1))
			}
		}
		if at != nil {
			b.WriteString(" " + m.name + "=" + strings.Join(at, ","))
		}
	}
	if b.Len() == 0 {
		return " multiset"
	}
	return b.String()
}

func readCheck(words []string) (generate.Check, error) {
	c := generate.Check{Items: []generate.Mark{}}
	for _, w := range words {
		name, list, _ := strings.Cut(w, "=")
		switch name {
		case "ordered":
			c.Ordered = true
		case "total":
			c.Ordered, c.Total = true, true
		case "limited":
			c.Limited = true
		case "multiset":
		default:
			i := slices.IndexFunc(checkMarks, func(m struct {
				name string
				mark generate.Mark
			},
			) bool {
				return m.name == name
			})
			if i < 0 {
				return c, fmt.Errorf("unknown check %q", w)
			}
			for n := range strings.SplitSeq(list, ",") {
				at, err := strconv.Atoi(n)
				if err != nil {
					return c, fmt.Errorf("check %q: %w", w, err)
				}
				for len(c.Items) < at {
					c.Items = append(c.Items, generate.Item)
				}
				c.Items[at-1] |= checkMarks[i].mark
			}
		}
	}
	return c, nil
}

func paramList(params []any) string {
	b, err := json.Marshal(params)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestScripts compares the hand-written corpus, a file a topic, and the shrunk
// scripts of differences that there once were: over four shards with indexes on every
// kind of server, and each of the other ways on one.
func TestScripts(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		paths, err := filepath.Glob("testdata/*/*.sql")
		if err != nil || len(paths) == 0 {
			t.Fatalf("no scripts: %v", err)
		}
		if dir := os.Getenv("SHUNT_E2E_SCRIPTS"); dir != "" {
			if paths, err = filepath.Glob(dir); err != nil {
				t.Fatal(err)
			}
		}
		var scripts []*script
		for _, path := range paths {
			s, err := readScript(path)
			if err != nil {
				t.Fatal(err)
			}
			if s.only == "" || s.only == string(f.name) {
				scripts = append(scripts, s)
			}
		}
		servers, turn := f.servers(t), suite.Turn(t, 4)
		for _, shards := range []int{1, 2, 4} {
			p := start(t, f, setup{servers: servers[:shards], extra: scriptConfig(scripts, shards)})
			for i, s := range scripts {
				for _, indexes := range []bool{true, false} {
					if !indexes && (shards != 4 || !s.indexed()) {
						continue
					}
					name := fmt.Sprintf("%s over %d, indexes %v", s.name, shards, indexes)
					if (shards != 4 || !indexes) && !turn() {
						continue
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						r := &scriptRun{t: t, f: f, p: p, s: s, schema: scriptSchema(i, shards, indexes), several: shards > 1, indexes: indexes}
						r.run()
					})
				}
			}
		}
	})
}

func (s *script) indexed() bool {
	return slices.ContainsFunc(s.statements, func(x scripted) bool { return x.virtual != nil })
}

func scriptSchema(i, shards int, indexes bool) string {
	return fmt.Sprintf("script%d_%d_%v", i, shards, indexes)
}

func scriptConfig(scripts []*script, shards int) string {
	var b strings.Builder
	b.WriteString("schemas:\n")
	for i, s := range scripts {
		for _, indexes := range []bool{true, false} {
			fmt.Fprintf(&b, "  %s:\n    tables:", scriptSchema(i, shards, indexes))
			if len(s.placements) == 0 {
				b.WriteString(" {}")
			}
			b.WriteString("\n")
			seen := map[string]bool{}
			for _, p := range s.placements {
				if !seen[p] {
					b.WriteString("      " + p + "\n")
				}
				seen[p] = true
			}
		}
	}
	return b.String()
}

type scriptRun struct {
	t                *testing.T
	f                *flavour
	p                *process
	s                *script
	schema           string
	several, indexes bool
}

func (r *scriptRun) run() {
	t := r.t
	srv := r.f.servers(t)[3]
	plainSchema := r.schema + "_plain"
	connect := func(addr, user, password, schema string) *side {
		c, err := dialWire(addr, user, password, "")
		if err != nil {
			t.Fatal(err)
		}
		s := &side{wireConn: c, schema: schema}
		for _, sql := range []string{"CREATE DATABASE " + schema, "USE " + schema} {
			if o := s.do(sql, nil, false); o.broken != nil || o.code != 0 {
				t.Fatalf("%s: %s", sql, o)
			}
		}
		t.Cleanup(func() {
			c.do("ROLLBACK", nil, false)
			c.do("DROP DATABASE IF EXISTS "+schema, nil, false)
			c.do("DROP DATABASE IF EXISTS "+schema+"_b", nil, false)
			c.Close()
		})
		return s
	}
	do := func(s *side, st scripted) *reply {
		named := strings.NewReplacer("`corpus_a`", s.schema, "`corpus_b`", s.schema+"_b")
		return s.do(named.Replace(st.sql), st.params, st.prepared)
	}
	plain := connect(srv.Addr(), srv.User, srv.Password, plainSchema)
	shunt := connect(r.p.addr, "app", "secret", r.schema)
	for _, st := range r.s.statements {
		if st.only != "" && st.only != string(r.f.name) {
			continue
		}
		st.sql = strings.ReplaceAll(st.sql, "'corpus'", "'"+r.schema+"'")
		got := do(shunt, st)
		if r.several && st.refused != got.refused() {
			t.Errorf("%s:%d: refused %v, want %v: %s\n%s", r.s.name, st.line, got.refused(), st.refused, st.sql, got)
		}
		if got.refused() {
			continue
		}
		if st.own {
			if got.broken != nil || got.code != 0 {
				t.Errorf("%s:%d: %s\n%s", r.s.name, st.line, st.sql, got)
			}
			if err := shunt.ready(); err != nil {
				t.Error(err)
			}
			continue
		}
		want := do(plain, st)
		for _, f := range want.fields {
			f.Name = bytes.ReplaceAll(f.Name, []byte(plainSchema), []byte(r.schema))
		}
		for _, row := range want.rows {
			for i := range row {
				row[i].text = strings.ReplaceAll(row[i].text, plainSchema, r.schema)
			}
		}
		if d := compareReplies(got, want, st.check, !st.read()); d.class != "" && !d.minor() {
			t.Errorf("%s:%d: %s: %s\n%s\n shunt: %s\n plain: %s", r.s.name, st.line, d.class, d.detail, st.sql, got, want)
			return // what follows would differ for the same reason
		}
		if r.indexes {
			if err := shunt.index(st.virtual); err != nil {
				t.Fatal(err)
			}
		}
	}
}
