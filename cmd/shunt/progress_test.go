package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestProgress: a line is drawn where there is a terminal, once for each step, and goes at the end.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if p := (streams{&out, &out}).progress(); p.to != nil {
		t.Error("what is no terminal gets a bar")
	}
	p := &progress{to: &out}
	p.end()
	for _, done := range []int64{0, 1, 2, 1000, 2000} {
		p.show("reading", done, 1000)
	}
	p.show("nothing", 1, 0)
	p.end()
	const want = "\r[                              ]   0% reading\x1b[K" + "\r[##############################] 100% reading\x1b[K" + "\r\x1b[K"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}

	out.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &reading{Reader: strings.NewReader(strings.Repeat("x", 1000)), progress: p, ctx: ctx, what: "a.log", all: 2000, until: time.Now().Add(time.Hour)}
	if b, err := io.ReadAll(r); err != nil || len(b) != 1000 || !strings.HasSuffix(out.String(), "50% a.log\x1b[K") {
		t.Errorf("%d bytes, %v, %q", len(b), err, out.String())
	}
	// What doesn't come in time is left out, and who gives up isn't kept waiting.
	r = &reading{Reader: strings.NewReader("x"), progress: p, ctx: ctx, until: time.Now().Add(-time.Second)}
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 || !r.cut {
		t.Errorf("too late: %d bytes, %v, cut: %v", len(b), err, r.cut)
	}
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}
