package home

import (
	"context"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestBusy: what others' locks have ended is begun anew, and told as that where it doesn't end.
func TestBusy(t *testing.T) {
	eachServer(t, func(t *testing.T, p *place) {
		h := p.Home
		locked := &mysql.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded"}
		tries := 0
		if err := h.again(t.Context(), func() error {
			if tries++; tries < 3 {
				return locked
			}
			return nil
		}); err != nil || tries != 3 {
			t.Errorf("%d tries: %v", tries, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := h.again(ctx, func() error {
			cancel()
			return locked
		})
		if busy, ok := errors.AsType[*BusyError](err); !ok || busy.Home != h.Addr() || !busy.StoreBusy() {
			t.Errorf("it says %v", err)
		}
	})
}
