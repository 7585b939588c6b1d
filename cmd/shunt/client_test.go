package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWriteTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeTable(&out, []string{"Größe", "n", "Statement"}, []told{{"Größe": "1", "n": "22", "Statement": "SELECT\n 123"}, {"Statement": "x"}}, 18); err != nil {
		t.Fatal(err)
	}
	if want := "Größe  n   Statem…\n1      22  SELECT…\n           x\n"; out.String() != want {
		t.Errorf("%s, want %s", out.String(), want)
	}
}

// TestPrint: what isn't a terminal gets JSON, without what was NULL.
func TestPrint(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := (&clientFlags{}).print(&out, []string{"a", "b"}, []told{{"a": "<1>"}}); err != nil || out.String() != "{\"a\":\"<1>\"}\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestTopSince: what was executed between two looks, by what was asked for; counters that were flushed are none.
func TestTopSince(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	row := func(statement, calls, total, p99, errors string) told {
		return told{"Statement": statement, "Calls": calls, "Total_ms": total, "P99_ms": p99, "Errors": errors, "Shards": "1.00", "Access": "shard_key"}
	}
	before := &glance{at: at, statements: map[string]told{"a": row("A", "10", "100", "5", "0"), "b": row("B", "50", "10", "9", "0"), "d": row("D", "500", "10", "1", "0")}}
	now := &glance{at: at.Add(2 * time.Second), statements: map[string]told{
		"a": row("A", "20", "2100", "5", "1"), "b": row("B", "150", "110", "9", "0"), "c": row("C", "1", "5", "70", "0"), "d": row("D", "3", "1", "1", "0"), "": {"Calls": "4", "Total_ms": "1"},
	}}
	for by, want := range map[string]string{"time": "A B C", "calls": "B A (all others)", "p99": "C B A", "errors": "A (all others) B"} {
		var got []string
		rows := (&topCmd{Rows: 3, By: by}).since(before, now)
		for _, r := range rows {
			got = append(got, r["Statement"])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
		for _, r := range rows {
			if r["Statement"] == "A" && (r["Calls/s"] != "5.0" || r["Load"] != "1.00" || r["Mean"] != "200.000" || r["Errors/s"] != "0.5") {
				t.Errorf("%v", r)
			}
		}
	}
	if rate := now.rate(before); rate != (10+100+1+4)/2. {
		t.Error(rate)
	}
}

func TestCreateStatement(t *testing.T) {
	t.Parallel()
	got := createStatement(told{"Schema": "shop", "Table": "a`b", "Name": "by_ab", "Columns": "a,b", "Partitions": "4"})
	if want := "CREATE VIRTUAL INDEX `by_ab` ON `shop`.`a``b` (`a`, `b`) PARTITIONS 4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := createStatement(told{"Schema": "s", "Table": "t", "Name": "i", "Columns": "a", "Partitions": "1"}); strings.Contains(got, "PARTITIONS") {
		t.Error(got)
	}
	got = createStatement(told{"Schema": "s", "Table": "t", "Name": "i", "Columns": "a", "Include": "b,c`d", "Partitions": "2"})
	if want := "CREATE VIRTUAL INDEX `i` ON `s`.`t` (`a`) INCLUDE (`b`, `c``d`) PARTITIONS 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCompletion: the shells complete commands, what is below them, their flags and values.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			var script bytes.Buffer
			if err := run(t.Context(), []string{"completion", shell}, &script, &script); err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"rebuild", "partitions", "slow-log", "every"} {
				if has := strings.Contains(script.String(), word); has != (word != "partitions") {
					t.Errorf("%s is completed: %t", word, has)
				}
			}
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("no " + shell)
			}
			file := filepath.Join(t.TempDir(), "completion")
			if err := os.WriteFile(file, script.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			ask := func(ctx context.Context, words string) string {
				t.Helper()
				command := `source ` + file + `; COMP_WORDS=(` + words + `); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shunt; echo "${COMPREPLY[*]}"`
				switch shell {
				case "fish":
					command = "source " + file + "; complete -C " + `"` + strings.ReplaceAll(words, `""`, "") + `"`
				case "zsh":
					command = `autoload -Uz compinit && compinit -u -D; source ` + file // bashcompinit's functions run in a line editor alone
				}
				out, err := exec.CommandContext(ctx, program, "-c", command).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			for words, want := range map[string]string{
				`shunt re`: "replaced", `shunt index ""`: "list", `shunt index re`: "rebuild", `shunt top --e`: "--every", `shunt advise --slow`: "--slow-log", `shunt completion ""`: "fish", `shunt top --by x ""`: "--once",
			} {
				if shell == "fish" && (strings.Contains(words, "completion") || strings.Contains(words, "--by")) {
					continue // values aren't told to it
				}
				if got := ask(t.Context(), words); shell != "zsh" && !strings.Contains(got, want) {
					t.Errorf("%s: %s", words, got)
				}
			}
		})
	}
}
