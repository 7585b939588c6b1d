package infile

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/plan"
)

// TestFields: lines are cut as servers cut them.
func TestFields(t *testing.T) {
	t.Parallel()
	tabs := plan.LoadFormat{FieldEnd: "\t", LineEnd: "\n", Escape: '\\'}
	csv := plan.LoadFormat{FieldEnd: ",", LineEnd: "\r\n", Escape: '\\', Enclose: '"'}
	for _, c := range []struct {
		name, text string
		format     plan.LoadFormat
		want       string // NULL is ~, behind a line that has too many fields stands +
	}{
		{"plain", "a\tb\nc\td\n", tabs, "a|b;c|d;"},
		{"no end", "a\tb", tabs, "a|b;"},
		{"too short", "a\n", tabs, "a;"},
		{"too long", "a\tb\tc\nd\te\n", tabs, "a|b+;d|e;"},
		{"separator at the end", "a\tb\t\nc\td\n", tabs, "a|b;c|d;"},
		{"escapes", `a\tb` + "\t" + `\N` + "\n" + `\NN` + "\t" + `\\`, tabs, "a\tb|~;NN|\\;"},
		{"escaped end", "a\\\nb\tc\n", tabs, "a\nb|c;"},
		{"enclosed", `"a,b","c ""d"""` + "\r\n" + `NULL,"NULL"` + "\r\n", csv, `a,b|c "d";~|NULL;`},
		{"never closed", `"a,b`, csv, `"a,b;`},
		{"quote in the midst", `"a"b",c`, csv, `a"b|c;`},
		{"line start", "x: a\tb\ny c\nx: d\te\n", plan.LoadFormat{FieldEnd: "\t", LineEnd: "\n", LineStart: "x: "}, "a|b;d|e;"},
		{"no lines", "", tabs, ""},
	} {
		f := New(strings.NewReader(c.text), c.format)
		var got strings.Builder
		for {
			extra, err := f.Next(2)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for i := range f.Fields() {
				v, null := f.Value(i)
				if null {
					v = []byte("~")
				}
				got.WriteString(strings.Repeat("|", min(i, 1)) + string(v))
			}
			got.WriteString(map[bool]string{true: "+;", false: ";"}[extra])
		}
		if got.String() != c.want {
			t.Errorf("%s: %q, want %q", c.name, got.String(), c.want)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	f := New(strings.NewReader("head\nhead\na\nb\n"), plan.LoadFormat{FieldEnd: "\t", LineEnd: "\n"})
	if err := f.SkipLines(2); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "b"} {
		if _, err := f.Next(1); err != nil {
			t.Fatal(err)
		}
		if v, _ := f.Value(0); string(v) != want || f.Line() != i+1 {
			t.Errorf("line %d: %s, want %s", f.Line(), v, want)
		}
	}
	long := New(strings.NewReader(strings.Repeat("x", maxLine+2)), plan.LoadFormat{FieldEnd: "\t", LineEnd: "\n"})
	if _, err := long.Next(1); !errors.Is(err, errLine) {
		t.Errorf("a line of more than 16 MiB: %v", err)
	}
}
