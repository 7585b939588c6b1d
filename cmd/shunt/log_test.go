package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// TestLogNobodyReads: a log that nobody reads holds up nobody, and says afterwards what is missing.
func TestLogNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	log, flush := newLog(w, slog.LevelInfo)
	for range 2 * logLines {
		log.Info(strings.Repeat("x", 100))
	}
	began := time.Now()
	flush()
	if took := time.Since(began); took > 10*logEnd {
		t.Errorf("flush took %v", took)
	}
	read := make(chan bool)
	go func() {
		var got []byte
		buf := make([]byte, 64<<10)
		for !bytes.Contains(got, []byte("log lines are missing")) || !bytes.Contains(got, []byte("the last one")) {
			n, err := r.Read(buf)
			if err != nil {
				break
			}
			got = append(got, buf[:n]...)
			if len(got) > 4<<20 {
				break
			}
		}
		read <- bytes.Contains(got, []byte("lines=")) && bytes.Contains(got, []byte("the last one"))
	}()
	for ok := false; !ok; { // there is room again
		log.Info("the last one")
		select {
		case told := <-read:
			if ok = true; !told {
				t.Error("it doesn't say what is missing")
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestLogFlush: what was logged is written when flush returns, and a reader that has gone is no
// reason to end.
func TestLogFlush(t *testing.T) {
	var out bytes.Buffer
	log, flush := newLog(&out, slog.LevelInfo)
	for range 100 {
		log.Info("line")
	}
	flush()
	if n := strings.Count(out.String(), "msg=line\n"); n != 100 {
		t.Errorf("%d lines", n)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	log, flush = newLog(w, slog.LevelInfo)
	log.Info("to nobody")
	flush()
}
