package storage

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestFullTold: the log tells when writes are refused for the disk's room, and when they are
// taken again, once each.
func TestFullTold(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 30)
	log := &lockedBuffer{}
	s, err := Open(Options{
		Dir: t.TempDir(), MinFree: 256 << 20, Logger: slog.New(slog.NewTextHandler(log, nil)),
		FreeSpace: func(string) (uint64, error) { return free.Load(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		log.reset()
		free.Store(100 << 20)
		log.await(t, "are refused")
		free.Store(1 << 30)
		log.await(t, "are taken again")
		if n := strings.Count(log.text(), "writes to tables"); n != 2 {
			t.Errorf("%d lines:\n%s", n, log.text())
		}
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *lockedBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}

func (b *lockedBuffer) await(t *testing.T, what string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(b.text(), what); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("no %q in\n%s", what, b.text())
		}
	}
}
