package e2e

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/generate"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestGenerated sends the same generated statements to Shunt over 1, 2 and 4
// shards, with and without virtual indexes, and to one plain server: rows, their
// order as far as it is determined, types, names, affected rows, warnings and
// error codes must agree, and after writes the tables.
//
//	SHUNT_E2E_SEED         the first world's seed (default: always the same, so
//	                       that a change is told from chance; make differential
//	                       takes another each time)
//	SHUNT_E2E_STATEMENTS   how many statements (default 2500, about two minutes; 400 with -short)
//	SHUNT_E2E_FAILURES     how many differences to look for (default 3)
//	SHUNT_E2E_FAILURE_DIR  where the shrunk scripts go (default: the log only)
func TestGenerated(t *testing.T) {
	suite.Promise(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		n := envInt(t, "SHUNT_E2E_STATEMENTS", suite.Size(400, 2500))
		seed := uint64(envInt(t, "SHUNT_E2E_SEED", 30000))
		t.Logf("SHUNT_E2E_SEED=%d", seed)
		c := newComparison(t, f, 3)
		c.budget.Store(int64(n))
		c.perWorld = min(max(n/100, 300), 1500)
		c.failures.Store(int64(envInt(t, "SHUNT_E2E_FAILURES", 3)))
		var wg sync.WaitGroup
		var next atomic.Uint64
		for worker := range c.workers {
			wg.Go(func() {
				for c.budget.Load() > 0 && c.failures.Load() > 0 {
					c.world(worker, seed+next.Add(1)-1)
				}
			})
		}
		wg.Wait()
		c.report(t)
	})
}

// comparison is Shunt in all shapes beside one plain server.
type comparison struct {
	t        *testing.T
	flavour  *flavour
	workers  int
	variants []variant
	plain    *throwaway.Server
	// perWorld bounds the statements that one set of tables is used for: its
	// making costs as much as two hundred of them.
	perWorld int
	// budget of statements, and of differences, that are left.
	budget, failures atomic.Int64

	mu sync.Mutex
	// refusals counts statements that each reason refused somewhere.
	refusals           map[string]int
	minor              map[string]int
	reads, readRefused int
	writes, wroteNot   int
	failed, found      int
	worlds             int
	example            map[string]string
	seen               map[string]bool
}

// variant is one shape of Shunt.
type variant struct {
	name    string
	p       *process
	indexes bool
}

func (v variant) schema(worker int) string {
	state := "off"
	if v.indexes {
		state = "on"
	}
	return fmt.Sprintf("gen%d_%s_%d", len(v.p.servers), state, worker)
}

func plainSchema(worker int) string { return fmt.Sprintf("gen_plain_%d", worker) }

func newComparison(t *testing.T, f *flavour, workers int) *comparison {
	t.Helper()
	c := &comparison{
		t: t, flavour: f, workers: workers,
		refusals: map[string]int{}, minor: map[string]int{}, example: map[string]string{}, seen: map[string]bool{},
	}
	servers := f.servers(t)
	c.plain = servers[3]
	for _, shards := range []int{1, 2, 4} {
		var extra strings.Builder
		extra.WriteString("schemas:\n")
		for _, state := range []string{"on", "off"} {
			for w := range workers {
				fmt.Fprintf(&extra, "  gen%d_%s_%d:\n    tables:\n", shards, state, w)
				for _, p := range generate.Placements {
					if p.Rule != "" {
						fmt.Fprintf(&extra, "      %s: %s\n", p.Table, p.Rule)
					}
				}
			}
		}
		p := start(t, f, setup{
			servers: servers[:shards], extra: extra.String(),
			maintenance: "{delay: 200ms, scan_duty: 0.5, reconcile_every: 24h, workers: 2, audit: 0.02}",
		})
		for _, indexes := range []bool{true, false} {
			name := fmt.Sprintf("%d shards, indexes %v", shards, indexes)
			c.variants = append(c.variants, variant{name, p, indexes})
		}
	}
	t.Cleanup(func() {
		for i, srv := range servers {
			db, err := dialWire(srv.Addr(), srv.User, srv.Password, "")
			if err != nil {
				continue // it has nothing to clean up
			}
			for w := range workers {
				for _, v := range c.variants {
					db.do("DROP DATABASE IF EXISTS "+v.schema(w), nil, false)
				}
				if i == 3 {
					db.do("DROP DATABASE IF EXISTS "+plainSchema(w), nil, false)
				}
			}
			db.Close()
		}
	})
	return c
}

// side is one database under comparison.
type side struct {
	*wireConn
	variant *variant // nil: the plain server
	schema  string
}

// open makes an empty schema and connects to it.
func (c *comparison) open(worker int, v *variant) (*side, error) {
	s := &side{variant: v}
	addr, user, password := c.plain.Addr(), c.plain.User, c.plain.Password
	s.schema = plainSchema(worker)
	if v != nil {
		addr, user, password = v.p.addr, "app", "secret"
		s.schema = v.schema(worker)
	}
	var err error
	if s.wireConn, err = dialWire(addr, user, password, ""); err != nil {
		return nil, err
	}
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + s.schema, "CREATE DATABASE " + s.schema, "USE " + s.schema} {
		if o := s.do(sql, nil, false); o.broken != nil || o.code != 0 {
			s.Close()
			return nil, fmt.Errorf("%s: %s", sql, o)
		}
	}
	return s, nil
}

// index makes the virtual indexes, and returns when they are ready.
func (s *side) index(statements []string) error {
	for _, sql := range statements {
		if o := s.do(sql, nil, false); o.broken != nil || o.code != 0 {
			return fmt.Errorf("%s: %s", sql, o)
		}
	}
	if len(statements) == 0 {
		return nil
	}
	return s.ready()
}

// ready waits until the schema's virtual indexes are.
func (s *side) ready() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		o := s.do("SHOW VIRTUAL INDEXES", nil, false)
		if o.broken != nil || o.code != 0 {
			return fmt.Errorf("SHOW VIRTUAL INDEXES: %s", o)
		}
		ready := true
		for _, r := range o.rows {
			ready = ready && (r[0].text != s.schema || r[5].text == "ready" || r[5].text == "disabled")
		}
		if ready {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("virtual indexes are not ready: %s", o)
		}
	}
}

func (s *side) run(st generate.Statement) *reply {
	if st.Prepared {
		text, params := st.Node.Prepared()
		return s.do(text, params, true)
	}
	return s.do(st.SQL(), nil, false)
}

// table reads a whole table.
func (s *side) table(name string) *reply { return s.do("SELECT * FROM "+name, nil, false) }

// resync gives a table the rows that the plain server has, after a write that
// Shunt refused.
func (s *side) resync(plain *side, t *generate.Table, mode string) (err error) {
	// A table may hold what a strict mode doesn't take.
	if o := s.do("SET SESSION sql_mode = ''", nil, false); o.broken != nil || o.code != 0 {
		return fmt.Errorf("set sql_mode: %s", o)
	}
	defer func() {
		if o := s.do("SET SESSION sql_mode = "+mode, nil, false); err == nil && (o.broken != nil || o.code != 0) {
			err = fmt.Errorf("set sql_mode: %s", o)
		}
	}()
	rows := plain.table(t.Name)
	if rows.broken != nil || rows.code != 0 {
		return fmt.Errorf("read %s: %s", t.Name, rows)
	}
	if o := s.do("DELETE FROM "+t.Name, nil, false); o.broken != nil || o.code != 0 {
		return fmt.Errorf("empty %s: %s", t.Name, o)
	}
	insert := t.Insert(rowsOfReply(rows))
	if insert == nil {
		return nil
	}
	if o := s.do(insert.String(), nil, false); o.broken != nil || o.code != 0 {
		return fmt.Errorf("fill %s: %s", t.Name, o)
	}
	return nil
}

// rowsOfReply are the values of an answer, nil for NULL.
func rowsOfReply(o *reply) [][]*string {
	out := make([][]*string, len(o.rows))
	for i, r := range o.rows {
		out[i] = make([]*string, len(r))
		for j, c := range r {
			if !c.null {
				out[i][j] = &c.text
			}
		}
	}
	return out
}

// world runs the statements of one seed.
func (c *comparison) world(worker int, seed uint64) {
	defer func() { c.mu.Lock(); c.worlds++; c.mu.Unlock() }()
	plain, err := c.open(worker, nil)
	if err != nil {
		c.fatal("seed %d: plain server: %v", seed, err)
		return
	}
	defer plain.Close()
	sides := make([]*side, len(c.variants))
	errs := make([]error, len(c.variants))
	var wg sync.WaitGroup
	for i := range c.variants {
		wg.Go(func() { sides[i], errs[i] = c.open(worker, &c.variants[i]) })
	}
	wg.Wait()
	for i, s := range sides {
		if errs[i] != nil {
			c.fatal("seed %d: %s: %v", seed, c.variants[i].name, errs[i])
		} else {
			defer s.Close()
		}
	}
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return
	}
	w := generate.New(seed, generate.Dialect{MariaDB: c.flavour.name == "mariadb"})
	r := &worldRun{c: c, worker: worker, seed: seed, w: w, plain: plain, sides: sides}
	for _, st := range w.Setup() {
		if !r.statement(st) {
			return
		}
	}
	for i, v := range c.variants {
		if v.indexes && len(v.p.servers) > 1 {
			wg.Go(func() { errs[i] = sides[i].index(w.Virtual()) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			c.fatal("seed %d: %s: %v", seed, c.variants[i].name, err)
			return
		}
	}
	r.indexed = true
	for n := 0; n < c.perWorld || w.Open(); n++ {
		if c.failures.Load() <= 0 || c.budget.Add(-1) < 0 && !w.Open() {
			break
		}
		if !r.statement(w.Next()) {
			return
		}
		if n%40 == 39 && !w.Open() && !r.state() {
			return
		}
	}
	if w.Open() {
		return // its end is left to the connections'
	}
	if r.state() {
		r.entries()
	}
}

func (c *comparison) fatal(format string, args ...any) {
	c.t.Errorf(format, args...)
	c.failures.Add(-1)
}

// worldRun is one world under way.
type worldRun struct {
	c      *comparison
	worker int
	seed   uint64
	w      *generate.World
	plain  *side
	sides  []*side
	// history are the statements but for reads, for a script of a difference.
	history []generate.Statement
	indexed bool
	// since: writes since the tables were last compared.
	since int
}

// maxRows bounds the rows of a read that is compared.
const maxRows = 20_000

// statement runs one on all sides; false ends the world.
func (r *worldRun) statement(st generate.Statement) bool {
	c := r.c
	got := make([]*reply, len(r.sides))
	var want *reply
	var wg sync.WaitGroup
	if st.Kind == generate.Read {
		// A join of many tables without conditions may answer more than all sides
		// together can keep.
		if want = r.plain.run(st); len(want.rows) > maxRows {
			c.note(difference{"too many rows", fmt.Sprintf("%d rows", len(want.rows))}, st)
			return true
		}
		if want.code == 1030 { // what its storage engine says of a wrong plan
			c.note(difference{"the server's own error", want.message}, st)
			return true
		}
	} else {
		wg.Go(func() { want = r.plain.run(st) })
	}
	for i, s := range r.sides {
		wg.Go(func() { got[i] = s.run(st) })
	}
	wg.Wait()
	if st.Kind != generate.Read {
		r.history = append(r.history, st)
		r.since++
	}
	if st.Kind == generate.Schema && want.code != 0 {
		c.fatal("seed %d: the generator made a table that the server doesn't: %s: %s", r.seed, st.SQL(), want)
		return false
	}
	check := st.Node.Check()
	refused := map[string]bool{}
	for i, o := range got {
		if o.refused() && want.code != refusedCode {
			refused[o.message] = true
			if st.Kind != generate.Write && st.Kind != generate.Read {
				c.fatal("seed %d: %s: %s: %s", r.seed, c.variants[i].name, st.SQL(), o)
				return false
			}
			if st.Kind == generate.Write && want.code == 0 {
				for _, t := range r.w.Tables {
					if slices.Contains(st.Tables, t.Name) {
						if err := r.sides[i].resync(r.plain, t, r.w.Mode); err != nil {
							c.fatal("seed %d: %s: after %s: %v", r.seed, c.variants[i].name, st.SQL(), err)
							return false
						}
					}
				}
			}
			continue
		}
		d := compareReplies(o, want, check, st.Kind == generate.Write)
		if d.class == "" {
			continue
		}
		if o.code == 1030 && st.Kind == generate.Read { // see above: a plan of the shard's
			d = difference{serversOwn, o.message}
		}
		if d.class == "rows" && st.Kind == generate.Read {
			if by := r.serversOwn(r.sides[i], st, o, want, check); by != "" {
				d = difference{serversOwn, by + ": " + d.detail}
			}
		}
		if d.class == "order" && (unsorted(want, check) || reversed(want, st.SQL())) {
			d = difference{serversOwn, "rows that are not in their order: " + d.detail}
		}
		if d.class == "warnings" && (r.copiesInvalid(st, o, want) || onceAShard(o, want)) {
			d.class = namedWarning
		}
		if d.minor() {
			c.note(d, st)
			continue
		}
		r.differ(&c.variants[i], st, d, o, want)
		return false
	}
	c.count(st, want, refused)
	return true
}

// onceAShard: MySQL warns of NULLs once a column, each shard for itself (docs/limits.md).
func onceAShard(got, want *reply) bool {
	once := func(o *reply) []string {
		nulls := map[string]bool{}
		return slices.DeleteFunc(slices.Clone(o.warned), func(text string) bool {
			was := nulls[text]
			nulls[text] = strings.HasSuffix(text, "cannot be null")
			return was
		})
	}
	return len(got.warned) > len(want.warned) && slices.Equal(once(got), once(want))
}

// copiesInvalid: all that Shunt warns of more is of ENUMs and SETs whose rows an INSERT ... SELECT takes to other shards. An invalid
// value there is ” (docs/findings.md).
func (r *worldRun) copiesInvalid(st generate.Statement, got, want *reply) bool {
	if sql := st.SQL(); !strings.HasPrefix(sql, "INSERT") && !strings.HasPrefix(sql, "REPLACE") || !strings.Contains(sql, "SELECT") {
		return false
	}
	members := map[string]bool{}
	for _, t := range r.w.Tables {
		for _, c := range t.Columns {
			members[c.Name] = members[c.Name] || slices.Contains(st.Tables, t.Name) && c.Members != nil
		}
	}
	more := slices.DeleteFunc(slices.Clone(got.warned), func(text string) bool { return slices.Contains(want.warned, text) })
	return len(more) == len(got.warned)-len(want.warned) && !slices.ContainsFunc(more, func(text string) bool {
		_, column, _ := strings.Cut(text, "Data truncated for column '")
		column, _, _ = strings.Cut(column, "'")
		return !members[column]
	})
}

// serversOwn is a setting that should change no answer, and makes the plain server's the same as Shunt's, or Shunt's the same
// as the plain server's; "" where none does. Counter-examples to a plain server that is always right:
//
//	MySQL 9.7       SUM(?) beside SUM(DISTINCT ..), prepared: NULL now and then
//	                GROUP BY over a correlated NOT IN, by an antijoin: a group is missing
//	                GROUP BY of a constant of a merged derived table WITH ROLLUP, over no rows: the constant, not NULL
//	                GROUP_CONCAT of a constant table's row that a LEFT JOIN has made, without a hash join: '', not NULL
//	                ORDER BY with LIMIT of a join of CTEs that group: now and then in no order (unsorted)
//	                (latin1 text, TIME(3)) IN (('zed', '10:00:00')): no row without a key on the TIME
//	MariaDB 10.11   ORDER BY c1 DESC of groups beside a window that is ordered by c1: rising (reversed)
//	                HAVING SUM(DISTINCT ..) beside a window function, with a join buffer: no rows
func (r *worldRun) serversOwn(s *side, st generate.Statement, got, want *reply, check generate.Check) string {
	if st.Prepared {
		if st.Prepared = false; compareRows(got, r.plain.run(st), check).class == "" {
			return "as text"
		}
	}
	settings := []string{"optimizer_switch = 'default,semijoin=off'", "optimizer_switch = 'default,derived_merge=off'", "optimizer_switch = 'default,materialization=off'"}
	if r.c.flavour.name == throwaway.MySQL {
		settings = append(settings, "optimizer_switch = 'default,subquery_to_derived=on'", "optimizer_switch = 'default,block_nested_loop=off'")
	} else {
		settings = append(settings, "optimizer_switch = 'default,split_materialized=off'", "optimizer_switch = 'default,condition_pushdown_for_derived=off'", "join_cache_level = 0")
	}
	for _, x := range settings {
		name, _, _ := strings.Cut(x, " ")
		for on, other := range map[*side]*reply{r.plain: got, s: want} {
			set := on.do("SET SESSION "+x, nil, false)
			is := on.run(st)
			if o := on.do("SET SESSION "+name+" = DEFAULT", nil, false); set.code == 0 && o.code == 0 && compareRows(is, other, check).class == "" {
				return x
			}
		}
	}
	if is := r.withoutKeys(st); is != nil && compareRows(got, is, check).class == "" {
		return "without its keys"
	}
	return ""
}

// unsorted: none of the numbers that an answer is sorted by rises or falls from row to row.
func unsorted(o *reply, check generate.Check) bool {
	found := false
	for i, mark := range check.Items {
		if mark&generate.Sorted == 0 || i >= len(o.fields) {
			continue
		}
		switch o.fields[i].Type {
		case mysql.MYSQL_TYPE_NEWDECIMAL, mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_DOUBLE:
		default:
			return false // texts have the order of a collation
		}
		found = true
		rises, falls, last := true, true, math.Inf(-1) // as NULL
		for n, row := range o.rows {
			v := math.Inf(-1)
			if !row[i].null {
				var err error
				if v, err = strconv.ParseFloat(row[i].text, 64); err != nil {
					return false
				}
			}
			rises, falls = rises && (n == 0 || v >= last), falls && (n == 0 || v <= last)
			last = v
		}
		if rises || falls {
			return false
		}
	}
	return found
}

// firstOrder is what an outermost ORDER BY begins with: a column by its alias, and DESC.
var firstOrder = regexp.MustCompile(`ORDER BY c(\d+)( DESC| ASC)?(?:,[^()]*)?$`)

// reversed: the numbers that an answer is sorted by go the other way, and aren't all the same.
func reversed(o *reply, sql string) bool {
	m := firstOrder.FindStringSubmatch(sql)
	if m == nil {
		return false
	}
	i, err := strconv.Atoi(m[1])
	if err != nil || i < 1 || i > len(o.fields) {
		return false
	}
	falls, moves := m[2] == " DESC", false
	for n := 1; n < len(o.rows); n++ {
		x, err1 := strconv.ParseFloat(o.rows[n-1][i-1].text, 64)
		y, err2 := strconv.ParseFloat(o.rows[n][i-1].text, 64)
		if err1 != nil || err2 != nil || falls && y < x || !falls && y > x {
			return false
		}
		moves = moves || x != y
	}
	return moves
}

// withoutKeys is what the plain server answers that may use no key but the primary ones, as copies have no others; nil where
// there is none, or a transaction is open.
func (r *worldRun) withoutKeys(st generate.Statement) *reply {
	if r.w.Open() {
		return nil
	}
	invisible, visible := "INVISIBLE", "VISIBLE"
	if r.c.flavour.name == throwaway.MariaDB {
		invisible, visible = "IGNORED", "NOT IGNORED"
	}
	found := r.plain.do("SELECT DISTINCT table_name, index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name <> 'PRIMARY'", nil, false)
	if found.code != 0 || len(found.rows) == 0 {
		return nil
	}
	alter := func(to string) (failed bool) {
		for _, row := range found.rows {
			sql := fmt.Sprintf("ALTER TABLE `%s` ALTER INDEX `%s` %s", row[0].text, row[1].text, to)
			failed = failed || r.plain.do(sql, nil, false).code != 0
		}
		return failed
	}
	defer alter(visible)
	if alter(invisible) {
		return nil
	}
	return r.plain.run(st)
}

var numbers = regexp.MustCompile(`\b[a-z]?\d+\b`)

func (c *comparison) note(d difference, st generate.Statement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.minor[d.class]++
	if c.minor[d.class] <= 3 && d.class != "warnings of a read" {
		c.t.Logf("%s: %s: %s", d.class, d.detail, st.SQL())
	}
}

func (c *comparison) count(st generate.Statement, want *reply, refused map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch st.Kind {
	case generate.Read:
		c.reads++
		if len(refused) > 0 {
			c.readRefused++
		}
	case generate.Write:
		c.writes++
		if len(refused) > 0 {
			c.wroteNot++
		}
	default:
		return
	}
	if want.code != 0 {
		c.failed++
	} else if len(want.rows) > 0 || want.affected > 0 {
		c.found++
	}
	reasons := map[string]bool{}
	for message := range refused {
		reason := numbers.ReplaceAllString(message, "N")
		reason, _, _ = strings.Cut(reason, ": ")
		reasons[reason] = true
	}
	for reason := range reasons {
		c.refusals[reason]++
		if c.example[reason] == "" || len(st.SQL()) < len(c.example[reason]) {
			c.example[reason] = st.SQL()
		}
	}
}

// state compares all tables, as they are.
func (r *worldRun) state() bool {
	if r.since == 0 {
		return true
	}
	r.since = 0
	tables := func(s *side) []*reply {
		out := make([]*reply, len(r.w.Tables))
		for n, t := range r.w.Tables {
			out[n] = s.table(t.Name)
		}
		return out
	}
	var want []*reply
	got := make([][]*reply, len(r.sides))
	var wg sync.WaitGroup
	wg.Go(func() { want = tables(r.plain) })
	for i, s := range r.sides {
		wg.Go(func() { got[i] = tables(s) })
	}
	wg.Wait()
	for n, t := range r.w.Tables {
		want := want[n]
		for i := range r.sides {
			got := got[i][n]
			if d := compareReplies(got, want, generate.Check{}, false); d.class != "" && !d.minor() {
				d.class = "state"
				r.differ(&r.c.variants[i], generate.Statement{Node: generate.Verbatim("SELECT * FROM " + t.Name)}, d, got, want)
				return false
			}
		}
	}
	return true
}

// entries checks that no index lacks an entry.
func (r *worldRun) entries() {
	for i, s := range r.sides {
		v := r.c.variants[i]
		if !v.indexes || len(v.p.servers) == 1 {
			continue
		}
		for _, t := range r.w.Tables {
			for n := range t.Virtual {
				sql := fmt.Sprintf("CHECK VIRTUAL INDEX ix_%s_%d ON %s", t.Name, n, t.Name)
				o := s.do(sql, nil, false)
				if o.broken != nil || o.code != 0 {
					r.c.fatal("seed %d: %s: %s: %s", r.seed, v.name, sql, o)
					return
				}
				for _, row := range o.rows {
					if row[3].text != "0" {
						r.c.fatal("seed %d: %s: %s: entries are missing: %s", r.seed, v.name, sql, o)
						return
					}
				}
			}
		}
	}
}

// differ reports a difference with the smallest script that still shows one.
func (r *worldRun) differ(v *variant, st generate.Statement, d difference, got, want *reply) {
	c := r.c
	c.mu.Lock()
	kind, _, _ := strings.Cut(st.SQL(), " ")
	signature := d.class + " " + kind
	if d.class == "error" {
		signature += fmt.Sprint(got.code, want.code)
	}
	known := c.seen[signature] && c.failures.Load() > 1 && os.Getenv("SHUNT_E2E_FAILURE_DIR") != "" && rand.IntN(3) > 0
	c.seen[signature] = true
	c.mu.Unlock()
	if known {
		c.t.Errorf("seed %d, %s: %s once more: %s: %s", r.seed, v.name, signature, d.detail, st.SQL())
		return
	}
	c.failures.Add(-1)
	route := ""
	if conn, err := dialWire(v.p.addr, "app", "secret", v.schema(r.worker)); err == nil {
		for _, row := range conn.do("EXPLAIN ROUTE "+st.SQL(), nil, false).rows {
			route += "\n  "
			for _, cell := range row {
				route += cell.text + " | "
			}
		}
		conn.Close()
	}
	small, script := r.shrink(v, st, d)
	c.t.Errorf("seed %d, %s: %s: %s\n%s\n shunt: %s\n plain: %s\n route: %s\nscript (%s):\n%s",
		r.seed, v.name, d.class, d.detail, st.SQL(), got, want, route, small, script)
	if dir := os.Getenv("SHUNT_E2E_FAILURE_DIR"); dir != "" {
		name := fmt.Sprintf("%s-%s-%d.sql", c.flavour.name, strings.ReplaceAll(signature, " ", "-"), r.seed)
		head := fmt.Sprintf("-- %s; %s: %s\n-- %s\n", v.name, d.class, strings.ReplaceAll(d.detail, "\n", " "), small)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head+script), 0o644); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *comparison) report(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	share := func(n, of int) string {
		return fmt.Sprintf("%d of %d (%.1f %%)", n, of, 100*float64(n)/float64(max(of, 1)))
	}
	t.Logf("%d worlds, %d statements on %d shapes of Shunt: %d failed on the plain server, %d found or changed rows; refused on some shape: %s reads, %s writes; minor differences %v",
		c.worlds, c.reads+c.writes, len(c.variants), c.failed, c.found, share(c.readRefused, c.reads), share(c.wroteNot, c.writes), c.minor)
	var reasons []string
	for r := range c.refusals {
		reasons = append(reasons, r)
	}
	sort.Slice(reasons, func(i, j int) bool { return c.refusals[reasons[i]] > c.refusals[reasons[j]] })
	for _, r := range reasons[:min(len(reasons), 40)] {
		t.Logf("refused %d times: %s\n  e.g. %s", c.refusals[r], r, c.example[r])
	}
	if c.reads+c.writes > 200 && c.found < (c.reads+c.writes)/4 {
		t.Errorf("only %d of %d statements found or changed anything: the test says little", c.found, c.reads+c.writes)
	}
}
