package demo

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The check relies on emails and tracking numbers that are there once.
func TestDataIsUnique(t *testing.T) {
	t.Parallel()
	emails, numbers, perUser := map[string]bool{}, map[string]bool{}, map[int]int{}
	for i := 1; i <= 30_000; i++ {
		emails[userAt(i).email] = true
		o := orderAt(i, 10_000)
		numbers[o.tracking] = true
		perUser[o.userID]++
	}
	if len(emails) != 30_000 || len(numbers) != 30_000 || len(perUser) != 10_000 {
		t.Errorf("%d emails, %d tracking numbers, %d users with orders", len(emails), len(numbers), len(perUser))
	}
	if got := insert("t", 1, 2, func(i int) string { return fmt.Sprintf("(%d)", i) }); got != "INSERT INTO t VALUES (1),(2)" {
		t.Error(got)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]float64{"0.42": 0.42, "42%": 0.42, " 7.5 % ": 0.075, "": 0, "NULL": 0} {
		if got := parseShare(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	got := parseBatch("id\tname\n1\tann\n2\t\n")
	if want := []map[string]string{{"id": "1", "name": "ann"}, {"id": "2", "name": ""}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Run(context.Background(), Options{Listen: l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()+" is in use") || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("%v", err)
	}
}

func TestProgressWithoutTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, "Loading")
	for i := range 1000 {
		p.set(float64(i)/1000, fmt.Sprint(i))
	}
	p.done("all")
	if lines := strings.Count(out.String(), "\n"); lines > 10 || !strings.Contains(out.String(), "100%") {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}

// TestProgressFitsTerminal: no line is wider than a terminal is at least, and so none is left behind.
func TestProgressFitsTerminal(t *testing.T) {
	t.Parallel()
	labels := []string{"Loading orders", "Starting members"}
	for _, ix := range virtualIndexes {
		labels = append(labels, "Building "+ix.name)
	}
	for _, label := range labels {
		var out bytes.Buffer
		p := newProgress(&out, label)
		p.terminal, p.started = true, time.Now().Add(-time.Hour)
		p.set(0.5, "99999999 of 100000000 rows")
		p.done("100000000 entries")
		for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\r") {
			if line = strings.TrimPrefix(line, "\x1b[K"); len(line) > 80 {
				t.Errorf("%d columns: %q", len(line), line)
			}
		}
	}
}
