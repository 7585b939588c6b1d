package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows how far a step is: a bar that redraws itself on a terminal,
// else a line now and then.
type progress struct {
	out      io.Writer
	terminal bool
	label    string
	started  time.Time

	mu      sync.Mutex
	shown   time.Time
	percent int
}

func newProgress(out io.Writer, label string) *progress {
	p := &progress{out: out, label: label, started: time.Now(), percent: -1}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// set shows a share from 0 to 1 and what it stands for.
func (p *progress) set(share float64, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	percent := int(100 * min(max(share, 0), 1))
	pause, step := 100*time.Millisecond, 1
	if !p.terminal {
		pause, step = time.Second, 10
	}
	if percent < 100 && (time.Since(p.shown) < pause || percent < p.percent+step) {
		return
	}
	if percent == p.percent {
		return
	}
	p.shown, p.percent = time.Now(), percent
	if !p.terminal {
		fmt.Fprintf(p.out, "%s: %3d%%  %s\n", p.label, percent, what)
		return
	}
	const width = 16 // with label, rows and time the line has 80 columns at most
	done := percent * width / 100
	fmt.Fprintf(p.out, "\r\x1b[K%-22s [%s%s] %3d%%  %s", p.label, strings.Repeat("#", done), strings.Repeat(".", width-done), percent, what)
}

// done ends the line.
func (p *progress) done(what string) {
	p.set(1, what)
	took := time.Since(p.started).Round(100 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintf(p.out, "  (%s)\n", took)
	} else {
		fmt.Fprintf(p.out, "%s: done in %s\n", p.label, took)
	}
}

// abandon ends an unfinished line, so that what follows starts on its own.
func (p *progress) abandon() {
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}
