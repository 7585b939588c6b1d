package home

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// TestReadsCut: whatever is asked while the connection ends, the error names the home.
func TestReadsCut(t *testing.T) {
	eachServer(t, func(t *testing.T, p *place) {
		c := newCutter(t, p.server.Addr())
		config := p.config
		config.Addr = c.listener.Addr().String()
		h := openHome(t, config)
		id := p.ready(t, 7)
		table := catalog.TableName{Schema: "s", Name: "t"}
		for name, ask := range map[string]func(context.Context) error{
			"Lookup":   func(ctx context.Context) error { _, err := h.Lookup(ctx, []Question{{Index: id}}); return err },
			"Entries":  func(ctx context.Context) error { return h.Entries(ctx, id, nil, false, nil) },
			"Heads":    func(ctx context.Context) error { _, err := h.Heads(ctx); return err },
			"Counts":   func(ctx context.Context) error { _, _, err := h.Counts(ctx); return err },
			"Removals": func(ctx context.Context) error { _, err := h.Removals(ctx); return err },
			"Life":     func(ctx context.Context) error { _, err := h.Life(ctx); return err },
			"AllMarks": func(ctx context.Context) error { _, err := h.AllMarks(ctx); return err },
			"Jobs":     func(ctx context.Context) error { _, err := h.Jobs(ctx); return err },
			"NextJob":  func(ctx context.Context) error { _, _, err := h.NextJob(ctx); return err },
			"Claim":    func(ctx context.Context) error { _, err := h.Claim(ctx, "w", time.Minute, nil); return err },
			"Enqueue":  func(ctx context.Context) error { _, err := h.Enqueue(ctx, storage.Job{}); return err },
			"Read":     func(ctx context.Context) error { _, _, err := h.Read(ctx, 0); return err },
			"Holder":   func(ctx context.Context) error { _, err := h.Holder(ctx, "x"); return err },
			"Turns":    func(ctx context.Context) error { _, err := h.Turns(ctx); return err },
			"Kept":     func(ctx context.Context) error { _, err := h.SequenceKept(ctx, table); return err },
			"Numbers":  func(ctx context.Context) error { _, err := h.Sequences(ctx); return err },
		} {
			must[uint64](t)(h.Life(t.Context())) // there is a connection
			c.arm(0, true)
			err := ask(t.Context())
			if _, named := errors.AsType[*OutError](err); !named || !c.disarm() {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestIdle: what a member has locked that stands still in the midst of a transaction is free before long.
func TestIdle(t *testing.T) {
	eachServer(t, func(t *testing.T, p *place) {
		config := p.config
		config.Idle = time.Second
		stands := openHome(t, config)
		locked, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- stands.transaction(context.Background(), func(tx *sql.Tx) error {
				if _, err := exec(context.Background(), tx, "SELECT version FROM head FOR UPDATE"); err != nil {
					return err
				}
				close(locked)
				<-goOn
				_, err := exec(context.Background(), tx, "UPDATE head SET version = version + 1000")
				return err
			})
		}()
		<-locked
		began := time.Now()
		version, err := p.Write(t.Context(), 0, Record{Kind: "k", Name: "n", Body: []byte("1")})
		close(goOn)
		if err != nil || version > 999 {
			t.Errorf("version %d, %v", version, err)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		if err := <-ended; !Unreachable(err) {
			t.Errorf("the transaction that stood still: %v", err)
		}
	})
}
