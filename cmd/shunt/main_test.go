package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "shunt.yaml")
	if err := os.WriteFile(bad, []byte("listn: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		// in stdout, in the error; "" for none
		out, err string
	}{
		{nil, "Usage: shunt <command>", ""},
		{[]string{"--help"}, "explain", ""},
		{[]string{"demo", "--help"}, "--check", ""},
		{[]string{"version"}, "shunt dev go1", ""},
		{[]string{"--version"}, "shunt dev go1", ""},
		{[]string{"-V"}, "shunt dev go1", ""},
		{[]string{"serve"}, "", "--config"},
		{[]string{"no-such-command"}, "", "unexpected argument no-such-command"},
		{[]string{"demo", "--shards", "0"}, "", "expected 1 to 32"},
		{[]string{"serve", "--config", bad}, "", "shunt.yaml:1:1: listn: unknown key (did you mean listen?)"},
		{[]string{"check", "--config", "does-not-exist.yaml"}, "", "does-not-exist.yaml"},
	} {
		var out, stderr bytes.Buffer
		err := run(t.Context(), x.args, &out, &stderr)
		if !strings.Contains(out.String(), x.out) {
			t.Errorf("%v: stdout %q, want %q in it", x.args, out.String(), x.out)
		}
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%v: error %v, want %q", x.args, err, x.err)
		}
	}
	for want, all := range map[int][][]string{
		0: {nil, {"--help"}, {"version"}},
		1: {{"serve", "--config", bad}, {"check", "--config", "does-not-exist.yaml"}},
		2: {{"serve"}, {"no-such-command"}, {"serve", "--no-such-flag"}, {"demo", "--shards", "x"}, {"demo", "--shards", "0"}, {"explain", "--config", bad}, {"version", "too", "many"}},
	} {
		for _, args := range all {
			if err := run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}); status(err) != want {
				t.Errorf("%v: status %d, want %d: %v", args, status(err), want, err)
			}
		}
	}
}
