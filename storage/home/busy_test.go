package home

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/storage"
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
		tries = 0
		err = h.again(t.Context(), func() error {
			if tries++; tries == 1 {
				return locked
			}
			return context.DeadlineExceeded // while it waits for the lock once more
		})
		if _, ok := errors.AsType[*BusyError](err); !ok || tries != 2 {
			t.Errorf("behind %d tries it says %v", tries, err)
		}
	})
}

// TestBusyServer: who waits in vain for what another one has locked is told so, and not that the server doesn't answer.
func TestBusyServer(t *testing.T) {
	eachServer(t, func(t *testing.T, p *place) {
		id := p.ready(t, 7)
		stands := openHome(t, p.config)
		locked, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- stands.transaction(context.Background(), func(tx *sql.Tx) error {
				_, err := exec(context.Background(), tx, "SELECT idx FROM heads FOR UPDATE")
				close(locked)
				<-goOn
				return err
			})
		}()
		<-locked
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		err := p.Add(ctx, []storage.Entry{{Index: id, Key: []byte("k"), Shard: 1, Epoch: 5}})
		if _, busy := errors.AsType[*BusyError](err); !busy {
			t.Errorf("it says %v", err)
		}
		close(goOn)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := p.Add(t.Context(), []storage.Entry{{Index: id, Key: []byte("k"), Shard: 1, Epoch: 5}}); err != nil {
			t.Error(err)
		}
	})
}
