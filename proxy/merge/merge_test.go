package merge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// shardRows is a Source.
type shardRows struct {
	packets [][]byte
	err     error
}

func (s *shardRows) Next() ([]byte, error) {
	if len(s.packets) == 0 {
		return nil, s.err
	}
	// As a reader does, it overwrites the row before.
	p := bytes.Clone(s.packets[0])
	s.packets = s.packets[1:]
	return p, nil
}

// cells are a row's values as texts; "NULL" is NULL.
type cells []string

func (l *Layout) encode(c cells) []byte {
	values := make([][]byte, len(c))
	for i, v := range c {
		switch {
		case v == "NULL":
		case l.Binary && l.Columns[i].Type == mysql.MYSQL_TYPE_LONGLONG:
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				u, _ := strconv.ParseUint(v, 10, 64)
				n = int64(u)
			}
			values[i] = binary.LittleEndian.AppendUint64(nil, uint64(n))
		default:
			values[i] = []byte(v)
		}
	}
	whole := *l
	whole.Hidden = 0
	return whole.packet(nil, values)
}

// decode reads a packet that the client gets.
func (l *Layout) decode(t interface{ Fatal(...any) }, p []byte) cells {
	visible := &Layout{Columns: l.Columns[:l.Visible()], Binary: l.Binary}
	var r Row
	if err := visible.split(&r, p); err != nil {
		t.Fatal(err)
	}
	out := make(cells, len(r.values))
	for i, v := range r.values {
		switch {
		case v == nil:
			out[i] = "NULL"
		case l.Binary && l.Columns[i].Type == mysql.MYSQL_TYPE_LONGLONG:
			n := binary.LittleEndian.Uint64(v)
			out[i] = strconv.FormatInt(int64(n), 10)
			if l.Columns[i].Flags&mysql.UNSIGNED_FLAG != 0 {
				out[i] = strconv.FormatUint(n, 10)
			}
		default:
			out[i] = string(v)
		}
	}
	return out
}

func (l *Layout) run(t interface{ Fatal(...any) }, m *plan.Merge, shards ...[]cells) ([]cells, error) {
	var sources []Source
	for _, s := range shards {
		src := &shardRows{}
		for _, c := range s {
			src.packets = append(src.packets, l.encode(c))
		}
		sources = append(sources, src)
	}
	rows, err := New(l, m, sources)
	if err != nil {
		return nil, err
	}
	var out []cells
	for {
		p, err := rows.Next()
		if err != nil || p == nil {
			return out, err
		}
		out = append(out, l.decode(t, p))
	}
}

var (
	integer = wire.Column{Name: "n", Type: mysql.MYSQL_TYPE_LONGLONG}
	numeric = wire.Column{Name: "d", Type: mysql.MYSQL_TYPE_NEWDECIMAL, Decimals: 2}
	word9   = wire.Column{Name: "a", Type: mysql.MYSQL_TYPE_NEWDECIMAL, Decimals: 6}
	bytes63 = wire.Column{Name: "w", Type: mysql.MYSQL_TYPE_VAR_STRING, Charset: binaryCharset}
)

// TestMergeSorts: any rows cut over any number of sorted streams come out
// sorted, none lost, within LIMIT, in both protocols.
func TestMergeSorts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hidden := rapid.IntRange(0, 9).Draw(t, "hidden")
		l := &Layout{Columns: []wire.Column{integer, integer}, Hidden: hidden, Binary: rapid.Bool().Draw(t, "binary")}
		for range hidden {
			l.Columns = append(l.Columns, integer)
		}
		desc := rapid.Bool().Draw(t, "desc")
		m := &plan.Merge{Hidden: hidden, Order: []plan.MergeKey{{Value: 0, Desc: desc}, {Value: 1 - len(l.Columns)}}, Count: plan.NoLimit}
		if rapid.Bool().Draw(t, "limited") {
			m.Offset, m.Count = rapid.Uint64Range(0, 20).Draw(t, "offset"), rapid.Uint64Range(0, 20).Draw(t, "count")
		}
		number := func(v string) int64 {
			if v == "NULL" {
				return math.MinInt64
			}
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
		order := func(x, y cells) int {
			a, b := number(x[0]), number(y[0])
			if desc {
				a, b = b, a
			}
			switch {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return int(max(-1, min(1, number(x[1])-number(y[1]))))
		}
		shards := make([][]cells, rapid.IntRange(1, 5).Draw(t, "shards"))
		var all []cells
		for i := range shards {
			for range rapid.IntRange(0, 12).Draw(t, "rows") {
				c := make(cells, len(l.Columns))
				for n := range c {
					c[n] = rapid.SampledFrom([]string{"NULL", "0", "-1", "5", "9223372036854775807", "-9223372036854775807"}).Draw(t, "v")
				}
				c[1] = strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "second"))
				shards[i], all = append(shards[i], c), append(all, c)
			}
			slices.SortStableFunc(shards[i], order)
		}
		got, err := l.run(t, m, shards...)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(all, order)
		from := min(m.Offset, uint64(len(all)))
		want := all[from : from+min(m.Count, uint64(len(all))-from)]
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		for i := range want {
			if !slices.Equal(got[i], want[i][:2]) {
				t.Fatalf("row %d is %v, want %v", i, got[i], want[i][:2])
			}
		}
	})
}

// TestMergeUnsorted: a stream in another order is an error.
func TestMergeUnsorted(t *testing.T) {
	t.Parallel()
	l := &Layout{Columns: []wire.Column{integer}}
	m := &plan.Merge{Order: []plan.MergeKey{{}}, Count: plan.NoLimit}
	_, err := l.run(t, m, []cells{{"1"}, {"2"}}, []cells{{"3"}, {"1"}})
	var order *OrderError
	if !errors.As(err, &order) || order.Stream != 1 {
		t.Fatalf("got %v", err)
	}
}

// TestMergeBroken: a source's error comes out, and rows that are no rows.
func TestMergeBroken(t *testing.T) {
	t.Parallel()
	l := &Layout{Columns: []wire.Column{integer}}
	m := &plan.Merge{Order: []plan.MergeKey{{}}, Count: plan.NoLimit}
	lost := errors.New("lost")
	for _, c := range []struct {
		src  *shardRows
		want error
	}{
		{&shardRows{err: lost}, lost},
		{&shardRows{packets: [][]byte{l.encode(cells{"1"})}, err: lost}, lost},
		{&shardRows{packets: [][]byte{{5, '1'}}}, ErrMalformed},
		{&shardRows{packets: [][]byte{{1, 'x'}}}, ErrMalformed},
		{&shardRows{packets: [][]byte{{}}}, ErrMalformed},
	} {
		rows, err := New(l, m, []Source{c.src, &shardRows{}})
		for err == nil {
			var p []byte
			if p, err = rows.Next(); p == nil && err == nil {
				t.Fatal("an end without an error")
			}
		}
		if !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

// TestUnite: groups put together of any cut over shards are those of all rows.
func TestUnite(t *testing.T) {
	t.Parallel()
	// g, x and per (g, x): COUNT, SUM, AVG, MIN, MAX, BIT_XOR, the number of x;
	// hidden SUM and COUNT of the average.
	mask := integer
	mask.Flags = mysql.UNSIGNED_FLAG
	rapid.Check(t, func(t *rapid.T) {
		l := &Layout{
			Columns: []wire.Column{integer, integer, numeric, word9, integer, numeric, mask, integer, numeric, integer, integer},
			Hidden:  3, Binary: rapid.Bool().Draw(t, "binary"),
		}
		finer := rapid.Bool().Draw(t, "distinct")
		m := &plan.Merge{
			Hidden: 3, Unite: true, Group: 1, Count: plan.NoLimit, Order: []plan.MergeKey{{Value: 0}},
			Cells: []plan.MergeCell{
				{Op: plan.MergeCount, Column: 1},
				{Op: plan.MergeSum, Column: 2},
				{Op: plan.MergeAvg, Column: 3, Sum: -3, Count: -2},
				{Op: plan.MergeMin, Column: 4, Key: plan.MergeKey{Value: 4}},
				{Op: plan.MergeMax, Column: 5, Key: plan.MergeKey{Value: 5}},
				{Op: plan.MergeXor, Column: 6},
			},
		}
		if finer {
			m.Order = append(m.Order, plan.MergeKey{Value: -1})
			m.Cells = append(m.Cells, plan.MergeCell{Op: plan.MergeDistinct, Column: 7})
		}
		type source struct{ g, x, v int64 } // x below 0: NULL; v: cents
		var all []source
		shards := make([][]cells, rapid.IntRange(1, 4).Draw(t, "shards"))
		decimal2 := func(cents int64) string {
			sign := ""
			if cents < 0 {
				sign, cents = "-", -cents
			}
			return fmt.Sprintf("%s%d.%02d", sign, cents/100, cents%100)
		}
		// summary is what a server answers of a group's rows.
		summary := func(g, x int64, rows []source) cells {
			c := cells{strconv.FormatInt(g, 10), strconv.Itoa(len(rows)), "", "", "", "", "", "0", "", strconv.Itoa(len(rows)), strconv.FormatInt(x, 10)}
			var sum int64
			var xor uint64
			least, most := rows[0].v, rows[0].v
			seen := map[int64]bool{}
			for _, r := range rows {
				sum, xor = sum+r.v, xor^uint64(r.v)
				least, most = min(least, r.v), max(most, r.v)
				if r.x >= 0 {
					seen[r.x] = true
				}
			}
			var e exact
			e.read([]byte(decimal2(sum)))
			avg, err := average(&e, uint64(len(rows)), 2, 6)
			if err != nil {
				t.Fatal(err)
			}
			c[2], c[3], c[4], c[5], c[6], c[8] = decimal2(sum), string(avg), strconv.FormatInt(least, 10), decimal2(most), strconv.FormatUint(xor, 10), decimal2(sum)
			if c[7] = strconv.Itoa(len(seen)); x < 0 {
				c[10] = "NULL"
			}
			if !finer {
				c[7] = "0"
			}
			return c
		}
		for i := range shards {
			var mine []source
			for range rapid.IntRange(0, 15).Draw(t, "rows") {
				mine = append(mine, source{rapid.Int64Range(0, 3).Draw(t, "g"), rapid.Int64Range(-1, 2).Draw(t, "x"), rapid.Int64Range(-500, 500).Draw(t, "v")})
			}
			all = append(all, mine...)
			for g := range int64(4) {
				for x := int64(-1); x < 3; x++ {
					if !finer && x != 0 {
						continue
					}
					var rows []source
					for _, r := range mine {
						if r.g == g && (r.x == x || !finer) {
							rows = append(rows, r)
						}
					}
					if len(rows) > 0 {
						shards[i] = append(shards[i], summary(g, x, rows))
					}
				}
			}
		}
		var want []cells
		for g := range int64(4) {
			var rows []source
			for _, r := range all {
				if r.g == g {
					rows = append(rows, r)
				}
			}
			if len(rows) > 0 {
				want = append(want, summary(g, 0, rows)[:8])
			}
		}
		got, err := l.run(t, m, shards...)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Fatalf("group %d\n got %v\nwant %v", i, got[i], want[i])
			}
		}
	})
}

// TestTotal: aggregates of no rows.
func TestTotal(t *testing.T) {
	t.Parallel()
	mask := integer
	mask.Flags = mysql.UNSIGNED_FLAG
	l := &Layout{Columns: []wire.Column{integer, numeric, mask, integer, integer}, Hidden: 1}
	m := &plan.Merge{
		Hidden: 1, Unite: true, Total: true, Count: plan.NoLimit, Order: []plan.MergeKey{{Value: -1}},
		Cells: []plan.MergeCell{
			{Op: plan.MergeDistinct, Column: 0},
			{Op: plan.MergeSum, Column: 1},
			{Op: plan.MergeAnd, Column: 2},
			{Op: plan.MergeMin, Column: 3, Key: plan.MergeKey{Value: 3}},
		},
	}
	got, err := l.run(t, m, nil, nil)
	if err != nil || len(got) != 1 || !slices.Equal(got[0], cells{"0", "NULL", "18446744073709551615", "NULL"}) {
		t.Errorf("got %v %v", got, err)
	}
	m.Having = &plan.MergeCondition{Op: ">", Column: 0, Value: "0"}
	if got, err = l.run(t, m, nil, nil); err != nil || len(got) != 0 {
		t.Errorf("with HAVING: got %v %v", got, err)
	}
}

// TestHaving: three-valued logic over exact numbers.
func TestHaving(t *testing.T) {
	t.Parallel()
	l := &Layout{Columns: []wire.Column{integer, numeric}}
	c := func(op string, column int, value string, kids ...*plan.MergeCondition) *plan.MergeCondition {
		return &plan.MergeCondition{Op: op, Column: column, Value: value, Kids: kids}
	}
	for _, x := range []struct {
		c    *plan.MergeCondition
		keep bool // of the row 5, NULL
	}{
		{c("=", 0, "5.00"), true},
		{c("<>", 0, "5"), false},
		{c(">", 0, "4.999999999999999999999"), true},
		{c("<", 1, "3"), false},
		{c("NOT", 0, "", c("<", 1, "3")), false},
		{c("OR", 0, "", c("<", 1, "3"), c(">=", 0, "5")), true},
		{c("AND", 0, "", c("<", 1, "3"), c(">=", 0, "5")), false},
		{c("NOT", 0, "", c("AND", 0, "", c("<", 1, "3"), c("<=", 0, "-5"))), true},
	} {
		m := &plan.Merge{Unite: true, Group: 1, Order: []plan.MergeKey{{}}, Count: plan.NoLimit, Having: x.c}
		got, err := l.run(t, m, []cells{{"5", "NULL"}})
		if err != nil || (len(got) == 1) != x.keep {
			t.Errorf("%+v: got %v %v", x.c, got, err)
		}
	}
}

// TestHeld: with a limit the first rows are kept, as if all were sorted.
func TestHeld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &Layout{Columns: []wire.Column{integer, integer}}
		m := &plan.Merge{
			Unite: true, Group: 1, Order: []plan.MergeKey{{}}, Cells: []plan.MergeCell{{Column: 1}}, Sort: []plan.MergeKey{{Value: 1, Desc: true}, {Value: 0}},
			Offset: rapid.Uint64Range(0, 9).Draw(t, "offset"), Count: rapid.Uint64Range(0, 9).Draw(t, "count"),
		}
		var rows, want []cells
		for i := range rapid.IntRange(0, 30).Draw(t, "rows") {
			rows = append(rows, cells{strconv.Itoa(i), strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "n"))})
		}
		want = slices.Clone(rows)
		slices.SortStableFunc(want, func(x, y cells) int { return strings.Compare(y[1], x[1]) })
		want = want[min(m.Offset, uint64(len(want))):]
		want = want[:min(m.Count, uint64(len(want)))]
		got, err := l.run(t, m, rows)
		if err != nil || len(got) != len(want) {
			t.Fatalf("got %v %v, want %v", got, err, want)
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

// TestTooMany: rows that can't be held are an error, not memory.
func TestTooMany(t *testing.T) {
	t.Parallel()
	l := &Layout{Columns: []wire.Column{integer}}
	sorters, err := newSorters(l, []plan.MergeKey{{}})
	if err != nil {
		t.Fatal(err)
	}
	h := &held{sorters: sorters, limit: plan.NoLimit}
	for n := range maxHeld {
		if err = h.add(l, [][]byte{strconv.AppendInt(nil, int64(n), 10)}); err != nil {
			break
		}
	}
	if _, ok := errors.AsType[*TooManyError](err); !ok {
		t.Fatalf("got %v", err)
	}
}

func rat(t interface{ Fatalf(string, ...any) }, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("no number: %s", s)
	}
	return r
}

var decimalText = rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,12})?`)

// TestDecimalKeys: keys order as the numbers do.
func TestDecimalKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x, y := decimalText.Draw(t, "x"), decimalText.Draw(t, "y")
		if rapid.IntRange(0, 3).Draw(t, "near") == 0 {
			y = x + "0"
			if !strings.Contains(x, ".") {
				y = "0" + strings.TrimPrefix(x, "-") + ".0"
			}
		}
		kx, okx := appendDecimalKey(nil, []byte(x))
		ky, oky := appendDecimalKey(nil, []byte(y))
		if !okx || !oky || bytes.Compare(kx, ky) != rat(t, x).Cmp(rat(t, y)) {
			t.Fatalf("%s %x, %s %x", x, kx, y, ky)
		}
	})
	for _, bad := range []string{"", "-", ".", "1e5", "1.2.3", "x"} {
		if _, ok := appendDecimalKey(nil, []byte(bad)); ok {
			t.Errorf("%q is a decimal", bad)
		}
	}
}

// TestExactSums: sums in any order are those of rationals.
func TestExactSums(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var sum, e exact
		want := new(big.Rat)
		for _, s := range rapid.SliceOfN(decimalText, 1, 20).Draw(t, "numbers") {
			if !e.read([]byte(s)) {
				t.Fatal(s)
			}
			sum.add(&e)
			want.Add(want, rat(t, s))
		}
		got, err := sum.text(14)
		if err != nil || rat(t, string(got)).Cmp(want) != 0 {
			t.Fatalf("got %s %v, want %s", got, err, want.FloatString(20))
		}
	})
}

// TestAverage: what servers answered.
func TestAverage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sum             string
		count           uint64
		scale, decimals int
		want            string
	}{
		{"3", 2, 0, 4, "1.5000"},
		{"6.60", 3, 2, 6, "2.200000"},
		{"5.00008", 3, 5, 9, "1.666693333"}, // nine digits, cut off
		{"5.00006", 9, 5, 9, "0.555562222"},
		{"10.00000", 6, 5, 9, "1.666666666"}, // not ..67
		{"10.00", 6, 2, 6, "1.666667"},       // rounded from nine digits
		{"-10.00", 6, 2, 6, "-1.666667"},
		{"1", 3, 0, 4, "0.3333"},
		{"2", 3, 0, 4, "0.6667"},
		{"0.01", 8, 2, 6, "0.001250"},
		{"1.000000000", 6, 9, 13, "0.1666666666667"}, // from eighteen
		{"10.00000000000000", 6, 14, 18, "1.666666666666666666"},
		{"10.00000", 6, 5, 5, "1.66667"}, // div_precision_increment = 0
		{"1.000000000", 6, 9, 9, "0.166666666"},
		{"10", 6, 0, 0, "1"},
		{"10.00000", 6, 5, 30, "1.666666666666666666666666666667"}, // 30
	} {
		var e exact
		e.read([]byte(c.sum))
		got, err := average(&e, c.count, c.scale, c.decimals)
		if err != nil || string(got) != c.want {
			t.Errorf("%s / %d: got %s %v, want %s", c.sum, c.count, got, err, c.want)
		}
	}
}

// TestPadding: texts compare as if both were padded to the same length.
func TestPadding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"", " ", "\x00 ", "\x02\x09", "\x00\x00 "}).Draw(t, "pad")
		text := func(name string) []byte {
			var b []byte
			for range rapid.IntRange(0, 4).Draw(t, name) {
				if len(unit) > 0 && rapid.Bool().Draw(t, "a space") {
					b = append(b, unit...)
					continue
				}
				for range max(1, len(unit)) {
					b = append(b, rapid.SampledFrom([]byte{0, 2, 9, ' ', '!', 'a'}).Draw(t, "byte"))
				}
			}
			return b
		}
		x, y := text("x"), text("y")
		got := (&part{b: x, pad: []byte(unit)}).compare(&part{b: y, pad: []byte(unit)})
		px, py := x, y
		if unit != "" {
			px = append(bytes.Clone(x), strings.Repeat(unit, 10-len(x)/len(unit))...)
			py = append(bytes.Clone(y), strings.Repeat(unit, 10-len(y)/len(unit))...)
		}
		if want := bytes.Compare(px, py); got != want {
			t.Fatalf("%x, %x with %x: got %d, want %d", x, y, unit, got, want)
		}
	})
}

// TestClock: times in both protocols.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		micros int64
	}{
		{"00:00:00", 0},
		{"-00:00:01", -1_000_000},
		{"838:59:59.000001", ((838*60+59)*60+59)*1_000_000 + 1},
		{"-01:00:00.50", -3_600_500_000},
	} {
		if n, ok := clockMicros([]byte(c.text), false); !ok || n != c.micros {
			t.Errorf("%s: %d %v", c.text, n, ok)
		}
	}
	if n, ok := clockMicros([]byte{1, 2, 0, 0, 0, 3, 4, 5, 6, 0, 0, 0}, true); !ok || n != -(((2*24+3)*60+4)*60+5)*1_000_000-6 {
		t.Errorf("binary: %d %v", n, ok)
	}
	for _, bad := range []string{"", "1:2", "a:b:c", "1:2:3.1234567"} {
		if _, ok := clockMicros([]byte(bad), false); ok {
			t.Errorf("%q is a time", bad)
		}
	}
}

// TestUnsupported: types without an order here.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	for _, c := range []wire.Column{
		{Type: mysql.MYSQL_TYPE_JSON},
		{Type: mysql.MYSQL_TYPE_GEOMETRY},
		{Type: mysql.MYSQL_TYPE_BIT},
		{Type: mysql.MYSQL_TYPE_FLOAT, Decimals: 31},
		{Type: mysql.MYSQL_TYPE_DOUBLE, Decimals: 2},
		{Type: mysql.MYSQL_TYPE_STRING, Flags: mysql.ENUM_FLAG},
		{Type: mysql.MYSQL_TYPE_VAR_STRING, Charset: 45},
	} {
		var unsupported *UnsupportedError
		if _, err := newSorters(&Layout{Columns: []wire.Column{c}}, []plan.MergeKey{{}}); !errors.As(err, &unsupported) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := newSorters(&Layout{Columns: []wire.Column{bytes63}}, []plan.MergeKey{{}}); err != nil {
		t.Error(err)
	}
}

// TestFound: what FOUND_ROWS() tells is the number of rows up to the last one that
// was given, or of all: of plain rows, of united ones, and of those that are held.
func TestFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &Layout{Columns: []wire.Column{integer, integer}}
		m := &plan.Merge{
			Order:  []plan.MergeKey{{}},
			Offset: rapid.Uint64Range(0, 9).Draw(t, "offset"), Count: rapid.Uint64Range(1, 9).Draw(t, "count"),
		}
		if m.Unite = rapid.Bool().Draw(t, "unite"); m.Unite {
			m.Group, m.Cells = 1, []plan.MergeCell{{Column: 1}}
			if rapid.Bool().Draw(t, "held") {
				m.Sort = []plan.MergeKey{{Value: 1, Desc: true}}
			}
		}
		shards := make([]Source, 2)
		total := rapid.Uint64Range(0, 20).Draw(t, "rows")
		all := total
		for n := range shards {
			src := &shardRows{}
			for i := range total {
				src.packets = append(src.packets, l.encode(cells{strconv.FormatUint(i, 10), "1"}))
			}
			shards[n] = src
		}
		if !m.Unite {
			all *= 2
		}
		rows, err := New(l, m, shards)
		if err != nil {
			t.Fatal(err)
		}
		for {
			p, err := rows.Next()
			if err != nil {
				t.Fatal(err)
			}
			if p == nil {
				break
			}
		}
		if want := min(all, m.Offset+m.Count); rows.Found() != want {
			t.Fatalf("found %d, want %d", rows.Found(), want)
		}
		if err := rows.Count(math.MaxUint64); err != nil || rows.Found() != all {
			t.Fatalf("found %d of all, want %d: %v", rows.Found(), all, err)
		}
	})
}
