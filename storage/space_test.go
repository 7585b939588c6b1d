package storage

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestFullTold: the log tells when writes are refused for the disk's room, and when they are
// taken again, once each.
func TestFullTold(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 30)
	log := &throwaway.Output{}
	s, err := Open(Options{
		Dir: t.TempDir(), MinFree: 256 << 20, Logger: slog.New(slog.NewTextHandler(log, nil)),
		FreeSpace: func(string) (uint64, error) { return free.Load(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for times := 1; times <= 2; times++ {
		await := func(what string) {
			t.Helper()
			for began := time.Now(); strings.Count(log.String(), what) < times; time.Sleep(5 * time.Millisecond) {
				if time.Since(began) > time.Minute {
					t.Fatalf("not %d times %q in\n%s", times, what, log)
				}
			}
		}
		free.Store(100 << 20)
		await("are refused")
		free.Store(1 << 30)
		await("are taken again")
		if n := strings.Count(log.String(), "writes to tables"); n != 2*times {
			t.Errorf("%d lines:\n%s", n, log)
		}
	}
}
