package proxy

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestTurnLost: DDL whose turn another process has taken over sends nothing.
func TestTurnLost(t *testing.T) {
	t.Parallel()
	for _, lost := range []error{nil, errors.New("the turn was taken over")} {
		s := serve(t, 2, fakeOptions{}, func(o *Options) {
			o.Cluster = &alone{lost: lost}
			var err error
			if o.Unfinished, err = NewUnfinished(t.Context(), nowhere{}, nil, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
		})
		_, err := s.conn().ExecContext(t.Context(), "CREATE DATABASE made")
		sent := 0
		for _, f := range s.shards {
			f.mu.Lock()
			for _, got := range f.got {
				if strings.Contains(got.text, "CREATE DATABASE") {
					sent++
				}
			}
			f.mu.Unlock()
		}
		if lost == nil && sent != 2 || lost != nil && (sent != 0 || err == nil || !strings.Contains(err.Error(), lost.Error())) {
			t.Errorf("lost: %v, sent %d times: %v", lost, sent, err)
		}
	}
}
