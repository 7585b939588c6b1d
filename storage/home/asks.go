package home

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Inquiry is a question of another member.
type Inquiry struct {
	Ask  uint64
	Body []byte
}

// Ask puts a question to members. Whoever asks gives it a number that is random. Questions that are
// a minute old, whose members or askers have died, are removed: nobody waits for so long.
func (h *Home) Ask(ctx context.Context, ask uint64, body []byte, members ...string) error {
	if len(members) == 0 {
		return nil
	}
	var args []any
	for _, m := range members {
		args = append(args, ask, []byte(m), body)
	}
	row := "(?, ?, ?, UTC_TIMESTAMP(6))"
	if _, err := h.exec(ctx, "INSERT INTO asks (ask, member, body, since) VALUES "+strings.TrimSuffix(strings.Repeat(row+", ", len(members)), ", "), args...); err != nil {
		return fmt.Errorf("ask other members: %w", err)
	}
	var old int
	if h.row(ctx, &old, "SELECT COUNT(*) FROM asks WHERE since < "+anOldAsk) == nil && old > 0 {
		_, _ = h.exec(ctx, "DELETE FROM asks WHERE since < "+anOldAsk) // else the next one finds them
	}
	return nil
}

const anOldAsk = "UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE"

// Answers are those that there are, by member.
func (h *Home) Answers(ctx context.Context, ask uint64) (map[string][]byte, error) {
	answers := map[string][]byte{}
	err := h.each(ctx, func(rows *sql.Rows) error {
		var member, answer []byte
		err := rows.Scan(&member, &answer)
		answers[string(member)] = answer
		return err
	}, "SELECT member, answer FROM asks WHERE ask = ? AND answer IS NOT NULL", ask)
	if err != nil {
		return nil, fmt.Errorf("read answers of other members: %w", err)
	}
	return answers, nil
}

// Withdraw removes a question, and reports how many members hadn't taken it up: these never do.
func (h *Home) Withdraw(ctx context.Context, ask uint64) (untouched int, err error) {
	n, err := h.exec(ctx, "DELETE FROM asks WHERE ask = ? AND taken = 0", ask)
	if err == nil {
		_, err = h.exec(ctx, "DELETE FROM asks WHERE ask = ?", ask)
	}
	if err != nil {
		return 0, fmt.Errorf("withdraw a question: %w", err)
	}
	return int(n), nil
}

// TakeUp returns the questions to a member, each once. Where there are none it only reads.
func (h *Home) TakeUp(ctx context.Context, member string) (taken []Inquiry, err error) {
	var all []Inquiry
	err = h.each(ctx, func(rows *sql.Rows) error {
		var q Inquiry
		err := rows.Scan(&q.Ask, &q.Body)
		all = append(all, q)
		return err
	}, "SELECT ask, body FROM asks WHERE member = ? AND taken = 0", []byte(member))
	for _, q := range all {
		n, failed := h.exec(ctx, "UPDATE asks SET taken = 1 WHERE ask = ? AND member = ? AND taken = 0", q.Ask, []byte(member))
		if n > 0 {
			taken = append(taken, q)
		}
		if failed != nil {
			err = failed
		}
	}
	if err != nil {
		return taken, fmt.Errorf("read what other members ask: %w", err)
	}
	return taken, nil
}

// News is the version of the records, which may be forgotten, and whether TakeUp has a question.
func (h *Home) News(ctx context.Context, member string) (at Version, asked bool, err error) {
	err = h.told(h.db.QueryRowContext(ctx, "SELECT version, id, EXISTS (SELECT 1 FROM asks WHERE member = ? AND taken = 0) FROM head", []byte(member)).
		Scan(&at.Number, &at.ID, &asked))
	if err != nil {
		return Version{}, false, fmt.Errorf("ask for news of other members: %w", err)
	}
	return at, asked, nil
}

// Answer gives a member's answer; nobody may wait for it any more.
func (h *Home) Answer(ctx context.Context, ask uint64, member string, answer []byte) error {
	if _, err := h.exec(ctx, "UPDATE asks SET answer = ? WHERE ask = ? AND member = ?", answer, ask, []byte(member)); err != nil {
		return fmt.Errorf("answer another member: %w", err)
	}
	return nil
}
