package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReadKept: what isn't a whole object is refused, and nothing else.
func TestReadKept(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": false, "null": false, "[]": false, `"s0"`: false, `{"s0":`: false, `{"s0": "a"} {}`: false, `{"s0": 1}`: false, "\x00": false,
		"{}": true, `{"s0": "a"}`: true,
	} {
		path := filepath.Join(t.TempDir(), "kept.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readKept[string](path)
		if (err == nil) != ok || (got != nil) != ok {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := readKept[string](filepath.Join(t.TempDir(), "none")); got == nil || err != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
}
