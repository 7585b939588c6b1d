package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Place is what KeepPlace kept of a shard's log, "" for nothing.
func (h *Home) Place(ctx context.Context, shard catalog.ShardID) (place string, err error) {
	err = h.row(ctx, &place, "SELECT place FROM places WHERE shard = ?", shard)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read the place in a log: %w", err)
	}
	return place, nil
}

// KeepPlace keeps up to where in a shard's log the entries have what it tells, a text that is the caller's; "" ends that.
//
// It needn't be the holder of the log's duty who keeps a place: what was dealt with stays dealt with. A member that stood still,
// and keeps an earlier one than its successor, has some changes be read twice.
func (h *Home) KeepPlace(ctx context.Context, shard catalog.ShardID, place string) error {
	query, args := "DELETE FROM places WHERE shard = ?", []any{shard}
	if place != "" {
		query, args = "INSERT INTO places (shard, place) VALUES (?, ?) ON DUPLICATE KEY UPDATE place = VALUES(place)", append(args, place)
	}
	if _, err := h.exec(ctx, query, args...); err != nil {
		return fmt.Errorf("keep the place in a log: %w", err)
	}
	return nil
}
