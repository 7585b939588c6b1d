package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// logLines is how many lines wait for whoever takes the log.
	logLines = 10_000
	// logEnd bounds how long the last ones are waited for.
	logEnd = time.Second
)

// logWriter writes lines in a goroutine of its own. Counter-example: a full pipe, whose reader
// hangs: each session that has something to log would wait, and so would the stop.
type logWriter struct {
	to    io.Writer
	lines chan logLine
	lost  atomic.Int64
}

// logLine is one to be written, or none, if only its turn is waited for.
type logLine struct {
	text []byte
	turn chan struct{}
}

// newLog makes a logger. flush waits until what was logged before is written.
func newLog(to io.Writer, level slog.Leveler) (log *slog.Logger, flush func()) {
	signal.Ignore(syscall.SIGPIPE) // with the log's reader Shunt would end, too
	w := &logWriter{to: to, lines: make(chan logLine, logLines)}
	go w.run() // as long as the process
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), w.flush
}

// Write takes a line, unless too many wait.
func (w *logWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- logLine{text: bytes.Clone(line)}:
	default:
		w.lost.Add(1)
	}
	return len(line), nil
}

func (w *logWriter) run() {
	for line := range w.lines {
		if line.turn != nil {
			close(line.turn)
			continue
		}
		_, _ = w.to.Write(line.text) // there is nowhere else to tell
		if n := w.lost.Swap(0); n > 0 {
			fmt.Fprintf(w.to, "level=WARN msg=\"log lines are missing: nobody took them\" lines=%d\n", n)
		}
	}
}

func (w *logWriter) flush() {
	late := time.After(logEnd)
	turn := make(chan struct{})
	select {
	case w.lines <- logLine{turn: turn}:
	case <-late:
		return
	}
	select {
	case <-turn:
	case <-late:
	}
}
