package home

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// ErrStale is Write's, where the version is another one than was expected.
var ErrStale = errors.New("the shared records have been changed")

// Version of the records. ID is random, so that two histories of the same length differ.
type Version struct {
	Number uint64
	ID     string
}

// Record has a name of its kind. Without a body it was removed.
type Record struct {
	Kind, Name string
	Version    uint64 // with which it was written
	Body       []byte // JSON, in UTF-8
}

// Read returns the version, and the records written behind since, of one moment, by version. They
// are durable.
//
// Rule seen: InnoDB shows what a commit has written before that is on disk, if there is no binary
// log. A commit of the reader's own, behind what it has read, has all of it there. Counter-example:
// a member reads version 7, and tells the shards that it goes by it; the server dies, and has version 6
// again; another member writes another version 7, and finds that all go by it.
//
// Rule twice: what was read counts once it was read again. A record that was left out would never be read, since the next
// call asks behind this version. MariaDB 10.11.19, under much load, has once left out one of 81 beside four who wrote; why isn't known.
func (h *Home) Read(ctx context.Context, since uint64) (at Version, records []Record, err error) {
	same := func(a, b Record) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Version == b.Version }
	for again := false; ; again = true {
		is, found, err := h.readOnce(ctx, since)
		switch {
		case err != nil:
			return Version{}, nil, fmt.Errorf("read the shared records: %w", err)
		case is.Number <= since:
			return is, found, nil
		case again && is == at && slices.EqualFunc(found, records, same):
			if err := h.Count(ctx); err != nil {
				return Version{}, nil, fmt.Errorf("read the shared records: %w", err)
			}
			return at, records, nil
		}
		at, records = is, found
	}
}

func (h *Home) readOnce(ctx context.Context, since uint64) (at Version, records []Record, err error) {
	err = h.each(ctx, func(rows *sql.Rows) error {
		var kind, name []byte
		var version sql.Null[uint64]
		r := Record{}
		if err := rows.Scan(&at.Number, &at.ID, &kind, &name, &version, &r.Body); err != nil {
			return err
		}
		if version.Valid {
			r.Kind, r.Name, r.Version = string(kind), string(name), version.V
			records = append(records, r)
		}
		return nil
	}, `SELECT head.version, head.id, r.kind, r.name, r.version, r.body
		FROM head LEFT JOIN records r ON r.version > ? ORDER BY r.version, r.kind, r.name`, since)
	if err == nil && at.ID == "" && at.Number > 0 {
		err = errors.New("the version has no ID")
	}
	return at, records, err
}

// Write writes records as the next version, which it returns. ErrStale where expect isn't 0 and not
// the version. All or none: after another error the caller reads what has become of it.
//
// Rule next version: a version is taken under the lock of the head row, and committed before the
// next one is. Counter-example: two members write at once, the second version is committed first,
// and who reads then asks never again for records of the first.
func (h *Home) Write(ctx context.Context, expect uint64, records ...Record) (version uint64, err error) {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return 0, fmt.Errorf("make the ID of a version: %w", err)
	}
	err = h.transaction(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT version FROM head FOR UPDATE").Scan(&version); err != nil {
			return err
		}
		if expect != 0 && expect != version {
			return fmt.Errorf("version %d in place of %d: %w", version, expect, ErrStale)
		}
		version++
		if _, err := exec(ctx, tx, "UPDATE head SET version = ?, id = ?", version, hex.EncodeToString(id)); err != nil {
			return err
		}
		for _, r := range records {
			var body any // NULL: removed
			if len(r.Body) > 0 {
				body = string(r.Body)
			}
			_, err := exec(ctx, tx, `INSERT INTO records (kind, name, version, body) VALUES (?, ?, ?, ?)
				ON DUPLICATE KEY UPDATE version = VALUES(version), body = VALUES(body)`, []byte(r.Kind), []byte(r.Name), version, body)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("write the shared records: %w", err)
	}
	return version, nil
}
