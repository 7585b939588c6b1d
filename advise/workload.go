package advise

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// maxSamples bounds the texts that are kept of a shape.
const maxSamples = 32

// Shape is a statement without its literals, and how often it was executed.
type Shape struct {
	// Schema is the current one of those who sent it, "" for none.
	Schema string
	// Digest has ? for literals, and ... for lists of them.
	Digest string
	// Samples are texts as they were sent, different ones.
	Samples []string
	Calls   uint64
	Seconds float64
	// Cut: the digest's end is missing.
	Cut bool
}

// Workload collects statements by their shapes.
type Workload struct {
	shapes map[[2]string]*Shape
}

// Add counts executions of a statement that was read as a server's digest. A sample may be "".
func (w *Workload) Add(schema, digest, sample string, calls uint64, seconds float64) {
	s := w.shape(schema, strings.TrimSpace(digest))
	s.Calls += calls
	s.Seconds += seconds
	s.Cut = strings.HasSuffix(s.Digest, "...") && !strings.HasSuffix(s.Digest, "?, ...")
	if sample != "" && len(s.Samples) < maxSamples && whole(sample) {
		s.Samples = append(s.Samples, sample)
	}
}

// whole: servers cut long texts, and don't say so of one with binary strings.
func whole(sql string) bool {
	_, err := text.Read(sql, text.Settings{Charset: "utf8mb4"}, &catalog.Catalog{})
	return err == nil
}

// AddText counts an execution of a statement as it was sent.
func (w *Workload) AddText(schema, sql string, seconds float64) {
	sql = strings.TrimRight(strings.TrimSpace(sql), "; \t\r\n")
	if sql == "" {
		return
	}
	s := w.shape(schema, digest(sql))
	s.Calls++
	s.Seconds += seconds
	// Of many texts those are kept that come at growing distances: the first alone may be of one client.
	switch n := len(s.Samples); {
	case n < maxSamples:
		s.Samples = append(s.Samples, sql)
	case s.Calls%uint64(2*maxSamples) == 0:
		s.Samples[s.Calls/uint64(2*maxSamples)%maxSamples] = sql
	}
}

func (w *Workload) shape(schema, digest string) *Shape {
	if w.shapes == nil {
		w.shapes = map[[2]string]*Shape{}
	}
	k := [2]string{schema, digest}
	if w.shapes[k] == nil {
		w.shapes[k] = &Shape{Schema: schema, Digest: digest}
	}
	return w.shapes[k]
}

// Shapes are all, the most frequent first.
func (w *Workload) Shapes() []*Shape {
	out := make([]*Shape, 0, len(w.shapes))
	for _, s := range w.shapes {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Shape) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Schema, b.Schema), strings.Compare(a.Digest, b.Digest))
	})
	return out
}

// digest is a text with its literals cut out. Lists of them are one: IN (1, 2) and IN (1, 2, 3)
// are of one shape.
func digest(sql string) string {
	lx := text.NewLexer(sql, text.Settings{Charset: "utf8mb4"}, text.ServerVersion{})
	var out []string
	for t := lx.Next(); t.Kind != text.EOF; t = lx.Next() {
		word := sql[t.Start:t.End]
		switch t.Kind {
		case text.Bad:
			return strings.Join(append(out, sql[t.Start:]), " ")
		case text.String, text.Int, text.Decimal, text.Float, text.Hex, text.Bit, text.Param:
			word = "?"
		case text.Introducer:
			continue
		default:
		}
		n := len(out)
		switch {
		case word == "?" && n > 1 && out[n-1] == "," && (out[n-2] == "?" || out[n-2] == "..."):
			out = append(out[:n-2], "...")
			continue
		case word == ")" && n > 5 && isRow(out[n-2:], word) && out[n-3] == "," && out[n-4] == ")" && isRow(out[n-6:n-4], ")"):
			out = out[:n-3] // a row like the one before
			continue
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// isRow reports a list of literals alone.
func isRow(open []string, end string) bool {
	return len(open) == 2 && open[0] == "(" && (open[1] == "?" || open[1] == "...") && end == ")"
}
