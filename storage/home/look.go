package home

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
)

// Look is what a server says of itself.
type Look struct {
	// Volatile is why it may lose what it has acknowledged when its machine loses power; "": it doesn't.
	Volatile string
	// Jobs: there are some.
	Jobs bool
}

// Count has the server count, by a commit of its own: all that this process has seen committed there before is
// then as durable as the count. One that forgets some of that has a lower count, as far as it was counted, and
// isn't used any more by processes that know the higher one: ErrWentBack.
//
// Counter-example: an older copy of the server's data directory is put back. Nothing tells it from the
// server but what it lacks: entries whose rows would be missed.
func (h *Home) Count(ctx context.Context) error {
	var n uint64
	counts := h.counts()
	err := h.one(ctx, func(on runs) error {
		r, err := on.ExecContext(ctx, "UPDATE seen SET n = LAST_INSERT_ID(n + 1)")
		if err != nil {
			return err
		}
		id, err := r.LastInsertId()
		n = uint64(id)
		return err
	})
	if err == nil {
		err = counts(n)
	}
	if err != nil {
		return fmt.Errorf("count what was seen: %w", err)
	}
	return nil
}

// counts is called before the server is asked for its count, and what it returns with the answer: an error where that
// is lower than the count was before.
//
// Counter-example to comparing it with what is known then: the server answers 28; another call counts 29, and hears of
// that first.
func (h *Home) counts() func(n uint64) error {
	had := h.seen.Load()
	return func(n uint64) error {
		if n < had {
			return fmt.Errorf("%w (its count is %d, and was %d)", ErrWentBack, n, had)
		}
		for now := had; now < n && !h.seen.CompareAndSwap(now, n); {
			now = h.seen.Load()
		}
		return nil
	}
}

// counted looks at the count of the server that a connection has reached.
func (c connector) counted(ctx context.Context, on driver.QueryerContext) error {
	if c.counts == nil {
		return nil
	}
	counts := c.counts()
	rows, err := on.QueryContext(ctx, "SELECT CAST(n AS SIGNED) FROM seen", nil)
	if err != nil {
		return fmt.Errorf("see what it has counted: %w", err)
	}
	defer rows.Close()
	count := make([]driver.Value, 1)
	if err := rows.Next(count); err != nil {
		return fmt.Errorf("see what it has counted: %w", err)
	}
	n, ok := count[0].(int64)
	if !ok {
		return fmt.Errorf("see what it has counted: it is %v", count[0])
	}
	return counts(uint64(n))
}

// Look sees whether the server has counted on.
func (h *Home) Look(ctx context.Context) (l Look, err error) {
	var n uint64
	var d durability
	counts := h.counts()
	if err = h.told(h.db.QueryRowContext(ctx, "SELECT n, EXISTS (SELECT 1 FROM jobs), "+durable+" FROM seen").Scan(&n, &l.Jobs, &d.flush, &d.sync, &d.log)); err == nil {
		err = counts(n)
	}
	if err != nil {
		return l, fmt.Errorf("look at the home: %w", err)
	}
	l.Volatile = d.volatile()
	return l, nil
}

// durability is what the server's settings say of it.
type durability struct{ flush, sync, log int }

const durable = "@@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.sync_binlog, @@GLOBAL.log_bin"

func (d durability) volatile() string {
	switch {
	case d.flush != 1:
		return fmt.Sprintf("innodb_flush_log_at_trx_commit is %d, expected 1", d.flush)
	case d.log == 1 && d.sync != 1:
		return fmt.Sprintf("sync_binlog is %d, expected 1", d.sync)
	}
	return ""
}

// Volatile is Look's of a server that may be no home yet.
func Volatile(ctx context.Context, c Config) (why string, err error) {
	by, err := connectorTo(c.complete(), "")
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(by)
	defer db.Close()
	var d durability
	if err := db.QueryRowContext(ctx, "SELECT "+durable).Scan(&d.flush, &d.sync, &d.log); err != nil {
		return "", fmt.Errorf("ask how durable it is: %w", err)
	}
	return d.volatile(), nil
}

// Accept takes a server that went back in use again. REQUIRES: nobody goes by what it has.
func (h *Home) Accept(ctx context.Context, c Config) error {
	c = c.complete()
	c.unchecked = true
	db, _, err := connect(c, h.flavour, c.Schema)
	if err != nil {
		return err
	}
	defer db.Close()
	var same bool
	if err := db.QueryRowContext(ctx, "SELECT server = "+h.flavour.server+" FROM home").Scan(&same); err != nil {
		return err
	}
	if !same {
		return ErrOtherServer
	}
	_, err = db.ExecContext(ctx, "UPDATE seen, home SET seen.n = GREATEST(seen.n, ?), home.life = home.life + 1", h.seen.Load())
	return err
}
