package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Turn is one that somebody has.
type Turn struct {
	Name, Holder string
	// Since is when it was taken, or taken over, by the server's clock, in UTC: to be shown.
	Since string
}

// TakeTurn reports that nobody had it. After an error Holder says what has become of it.
func (h *Home) TakeTurn(ctx context.Context, name, holder string) (bool, error) {
	if holder == "" {
		return false, fmt.Errorf("take turn %s: no holder", name)
	}
	_, err := h.exec(ctx, "INSERT INTO turns (name, holder, since) VALUES (?, ?, UTC_TIMESTAMP(6))", []byte(name), []byte(holder))
	if errorNumber(err) == errDuplicate {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take turn %s: %w", name, err)
	}
	return true, nil
}

// GiveTurn does nothing where somebody else has it.
func (h *Home) GiveTurn(ctx context.Context, name, holder string) error {
	if _, err := h.exec(ctx, "DELETE FROM turns WHERE name = ? AND holder = ?", []byte(name), []byte(holder)); err != nil {
		return fmt.Errorf("give turn %s: %w", name, err)
	}
	return nil
}

// Holder is "" where nobody is.
func (h *Home) Holder(ctx context.Context, name string) (holder string, err error) {
	var held []byte
	err = h.row(ctx, &held, "SELECT holder FROM turns WHERE name = ?", []byte(name))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read who has turn %s: %w", name, err)
	}
	return string(held), nil
}

// Held are the holders of all turns whose names begin with prefix, by name.
func (h *Home) Held(ctx context.Context, prefix string) (map[string]string, error) {
	held := map[string]string{}
	err := h.each(ctx, func(rows *sql.Rows) error {
		var name, holder []byte
		err := rows.Scan(&name, &holder)
		held[string(name)] = string(holder)
		return err
	}, "SELECT name, holder FROM turns WHERE LEFT(name, ?) = ?", len(prefix), []byte(prefix))
	if err != nil {
		return nil, fmt.Errorf("read who has the turns of %s: %w", prefix, err)
	}
	return held, nil
}

// TakeOver puts a holder in another's place, and reports that it had that place.
func (h *Home) TakeOver(ctx context.Context, name, from, to string) (bool, error) {
	if to == "" {
		return false, fmt.Errorf("take over turn %s: no holder", name)
	}
	n, err := h.exec(ctx, "UPDATE turns SET holder = ?, since = UTC_TIMESTAMP(6) WHERE name = ? AND holder = ?", []byte(to), []byte(name), []byte(from))
	if err != nil {
		return false, fmt.Errorf("take over turn %s: %w", name, err)
	}
	return n > 0, nil
}

// Turns returns those that somebody has, by name.
func (h *Home) Turns(ctx context.Context) (turns []Turn, err error) {
	err = h.each(ctx, func(rows *sql.Rows) error {
		var t Turn
		err := rows.Scan(&t.Name, &t.Holder, &t.Since)
		turns = append(turns, t)
		return err
	}, "SELECT name, holder, since FROM turns ORDER BY name")
	if err != nil {
		return nil, fmt.Errorf("read the turns: %w", err)
	}
	return turns, nil
}
