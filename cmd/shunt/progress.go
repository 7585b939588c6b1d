package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows in a line of a terminal how far a command is. Where errors go elsewhere it shows nothing.
type progress struct {
	to    io.Writer // nil: nowhere
	shown string
}

func (s streams) progress() *progress {
	p := &progress{}
	if tty := terminal(s.err); tty != nil {
		p.to = tty
	}
	return p
}

// eraseLine is a terminal's: what is right of the cursor goes.
const eraseLine = "\x1b[K"

// show draws how much of all is done of something.
func (p *progress) show(what string, done, all int64) {
	if p.to == nil || all <= 0 {
		return
	}
	percent := max(0, min(100, 100*float64(done)/float64(all)))
	line := fmt.Sprintf("%s %3.0f%% %s", bar(percent), percent, what)
	if line != p.shown {
		fmt.Fprint(p.to, "\r", line, eraseLine)
		p.shown = line
	}
}

// end removes the line.
func (p *progress) end() {
	if p.shown != "" {
		fmt.Fprint(p.to, "\r", eraseLine)
		p.shown = ""
	}
}

// bar draws a share of a hundred.
func bar(percent float64) string {
	const width = 30
	n := int(percent * width / 100)
	return "[" + strings.Repeat("#", n) + strings.Repeat(" ", width-n) + "]"
}

// reading is a reader that shows how far it is.
type reading struct {
	io.Reader
	*progress
	ctx       context.Context
	what      string
	done, all int64
	// until is when it ends; cut: it has, before all was read.
	until time.Time
	cut   bool
}

func (r *reading) Read(b []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	if time.Now().After(r.until) {
		r.cut = true
		return 0, io.EOF
	}
	n, err := r.Reader.Read(b)
	r.done += int64(n)
	r.show(r.what, r.done, r.all)
	return n, err
}
