package spoken

import (
	"strings"
	"testing"
)

// TestFunctionTable: a function is there once, in order, and its traits are known ones.
func TestFunctionTable(t *testing.T) {
	t.Parallel()
	last := ""
	for f := range strings.FieldsSeq(functionTable) {
		name, traits, _ := strings.Cut(f, ":")
		if name <= last {
			t.Errorf("%s comes behind %s", name, last)
		}
		if last = name; strings.Trim(traits, "tvuasx") != "" {
			t.Errorf("%s has unknown traits", f)
		}
	}
}
