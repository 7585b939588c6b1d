package home

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/storage"
)

// Jobs wait, run and merge as package storage's do. Its rules are the tables' here:
//
//	waits    unique: the Work of a job that others merge into: not claimed, and without a checkpoint
//	runs     unique: what a claimed job excludes others from
//	claims   are compare-and-set, by the server's clock; times of callers are taken as spans
//
// Nobody is told of new jobs: workers ask again, at NextJob at the latest.

// spanNow is what a column is away from the server's now, in µs.
func spanNow(column string) string {
	return "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), " + column + ")"
}

var jobColumns = "j.id, j.body, j.swallows, j.waits IS NOT NULL, j.attempts, " + spanNow("j.created") + ", " + spanNow("j.not_before") + ", j.claimed_by, " +
	spanNow("j.claimed_until") + ", j.checkpoint, j.progress, COALESCE(j.error, '')"

// jobRow is a job as it lies in the table.
type jobRow struct {
	storage.Job
	swallows, waits bool
}

func readJobs(ctx context.Context, on runs, where string, args ...any) (jobs []*jobRow, err error) {
	now := time.Now()
	err = each(ctx, on, func(rows *sql.Rows) error {
		j := &jobRow{}
		var id uint64
		var attempts int
		var body, checkpoint []byte
		var created, notBefore, until sql.NullInt64
		var by, text string
		var progress float64
		if err := rows.Scan(&id, &body, &j.swallows, &j.waits, &attempts, &created, &notBefore, &by, &until, &checkpoint, &progress, &text); err != nil {
			return err
		}
		if err := json.Unmarshal(body, &j.Job); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
		at := func(span sql.NullInt64) (t time.Time) {
			if span.Valid {
				t = now.Add(time.Duration(span.Int64) * time.Microsecond)
			}
			return t
		}
		j.ID, j.Attempts, j.CreatedAt, j.NotBefore = id, attempts, at(created), at(notBefore)
		j.ClaimedBy, j.ClaimedUntil, j.Checkpoint, j.Progress, j.Error = by, at(until), checkpoint, progress, text
		switch {
		case by != "" && until.Int64 > 0:
			j.State = storage.Running
		case attempts > 0 && notBefore.Int64 > 0:
			j.State = storage.Backoff
		default:
			j.State = storage.Waiting
		}
		jobs = append(jobs, j)
		return nil
	}, "SELECT "+jobColumns+" FROM jobs j "+where, args...)
	return jobs, err
}

// bodyOf is what a job's row says of it but in columns.
func bodyOf(j storage.Job) (string, error) {
	j.ID, j.Attempts, j.CreatedAt, j.NotBefore = 0, 0, time.Time{}, time.Time{}
	j.ClaimedBy, j.ClaimedUntil, j.Checkpoint, j.Progress, j.Error = "", time.Time{}, nil, 0, ""
	body, err := json.Marshal(j)
	return string(body), err
}

// spanOf is t as an argument to UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, which is NULL for none.
func spanOf(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return time.Until(t).Microseconds()
}

const atSpan = "UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"

// Enqueue adds a job, as storage.Store.Enqueue does, and returns the ID of the (first) job that will
// do the work. One for several shards is several transactions.
func (h *Home) Enqueue(ctx context.Context, j storage.Job) (id uint64, err error) {
	parts, err := j.Parts()
	if err != nil {
		return 0, err
	}
	for i := range parts {
		one, err := h.enqueue(ctx, &parts[i])
		if err != nil {
			return 0, fmt.Errorf("enqueue %s: %w", j.Type, err)
		}
		if id == 0 {
			id = one
		}
	}
	return id, nil
}

func (h *Home) enqueue(ctx context.Context, n *storage.Job) (id uint64, err error) {
	// Mostly there is a job that does all of it. It waits still when it is read, so whoever
	// claims it begins later.
	if _, id, err = waitingFor(ctx, h.db, n, ""); err != nil || id != 0 {
		return id, h.told(err)
	}
	for range maxAttempts {
		err = h.transaction(ctx, func(tx *sql.Tx) error {
			id, err = enqueueIn(ctx, tx, n)
			return err
		})
		// Somebody has enqueued such a job beside this: merge into that.
		if errorNumber(err) != errDuplicate {
			break
		}
	}
	return id, err
}

// waitingFor returns the job that n merges into, and the ID of one that covers it, 0 for none.
func waitingFor(ctx context.Context, on runs, n *storage.Job, lock string) (into *jobRow, covers uint64, err error) {
	waiting, err := readJobs(ctx, on, "WHERE j.waits IN (?, ?) ORDER BY j.id "+lock, []byte(n.Work()), []byte(n.SwallowedBy()))
	for _, w := range waiting {
		same := w.Work() == n.Work()
		if same {
			into = w
		}
		if covers == 0 && (same || w.swallows) && w.Covers(n, w.swallows) {
			covers = w.ID
		}
	}
	return into, covers, err
}

func enqueueIn(ctx context.Context, tx *sql.Tx, n *storage.Job) (uint64, error) {
	into, covers, err := waitingFor(ctx, tx, n, "FOR UPDATE")
	if err != nil || covers != 0 {
		return covers, err
	}
	var old *storage.Job
	if into != nil {
		old = &into.Job
	}
	if scan := old.Swallowing(n); scan != nil {
		id, err := enqueueIn(ctx, tx, scan)
		if err == nil {
			_, err = exec(ctx, tx, "UPDATE jobs SET swallows = 1 WHERE id = ?", id)
		}
		if err == nil && old != nil {
			_, err = exec(ctx, tx, "DELETE FROM jobs WHERE id = ?", old.ID)
		}
		return id, err
	}
	if old == nil {
		return insertJob(ctx, tx, n)
	}
	merged := old.Merged(n)
	body, err := bodyOf(merged)
	if err != nil {
		return 0, err
	}
	_, err = exec(ctx, tx, "UPDATE jobs SET body = ? WHERE id = ?", body, old.ID)
	if err == nil && !merged.NotBefore.Equal(old.NotBefore) {
		_, err = exec(ctx, tx, "UPDATE jobs SET not_before = "+atSpan+" WHERE id = ?", spanOf(merged.NotBefore), old.ID)
	}
	if err == nil && !merged.CreatedAt.Equal(old.CreatedAt) {
		_, err = exec(ctx, tx, "UPDATE jobs SET created = "+atSpan+" WHERE id = ?", spanOf(merged.CreatedAt), old.ID)
	}
	return old.ID, err
}

func insertJob(ctx context.Context, tx *sql.Tx, n *storage.Job) (uint64, error) {
	body, err := bodyOf(*n)
	if err != nil {
		return 0, err
	}
	created := spanOf(n.CreatedAt)
	if created == nil {
		created = 0
	}
	r, err := tx.ExecContext(ctx, "INSERT INTO jobs (work, alone, waits, body, created, not_before) VALUES (?, ?, ?, ?, "+atSpan+", "+atSpan+")",
		[]byte(n.Work()), []byte(n.Alone()), []byte(n.Work()), body, created, spanOf(n.NotBefore))
	if err != nil {
		return 0, err
	}
	id, err := r.LastInsertId()
	return uint64(id), err
}

// unclaimed: nobody has the job, or its lease has run out.
const unclaimed = "(claimed_until IS NULL OR claimed_until <= UTC_TIMESTAMP(6))"

// unblocked: no job runs that excludes j.
const unblocked = "NOT EXISTS (SELECT 1 FROM jobs o WHERE o.runs = j.alone AND o.id <> j.id AND o.claimed_until > UTC_TIMESTAMP(6))"

// Claim gives the job that waits longest (by NotBefore, then ID) to a worker for the time of lease,
// nil if none may run. A job whose lease ran out may be claimed by another. runnable (may be nil)
// refuses jobs. Attempts counts claims. worker must be unique over all members and their lives.
func (h *Home) Claim(ctx context.Context, worker string, lease time.Duration, runnable func(*storage.Job) bool) (*storage.Job, error) {
	return h.claimOf(ctx, "(not_before IS NULL OR not_before <= UTC_TIMESTAMP(6))", worker, lease, runnable)
}

// ClaimEarly is Claim of jobs, too, whose time hasn't come.
func (h *Home) ClaimEarly(ctx context.Context, worker string, lease time.Duration, runnable func(*storage.Job) bool) (*storage.Job, error) {
	return h.claimOf(ctx, "TRUE", worker, lease, runnable)
}

func (h *Home) claimOf(ctx context.Context, due, worker string, lease time.Duration, runnable func(*storage.Job) bool) (*storage.Job, error) {
	ready, err := readJobs(ctx, h.db, "WHERE "+due+" AND "+unclaimed+" AND "+unblocked+" ORDER BY not_before, id")
	if err != nil {
		return nil, fmt.Errorf("find a job: %w", h.told(err))
	}
	for _, j := range ready {
		if runnable != nil {
			c := j.Job
			if c.Keys = nil; !runnable(&c) {
				continue
			}
		}
		claimed, err := h.claim(ctx, due, &j.Job, worker, lease)
		if err != nil {
			return nil, fmt.Errorf("claim job %d: %w", j.ID, err)
		}
		if claimed != nil {
			return claimed, nil
		}
	}
	return nil, nil
}

// claim returns nil if somebody else was faster.
func (h *Home) claim(ctx context.Context, due string, j *storage.Job, worker string, lease time.Duration) (claimed *storage.Job, err error) {
	err = h.transaction(ctx, func(tx *sql.Tx) error {
		claimed = nil
		// One that excludes j, and whose worker has gone, loses its claim.
		_, err := exec(ctx, tx, "UPDATE jobs SET claimed_by = '', claimed_until = NULL, runs = NULL WHERE runs = ? AND id <> ? AND "+unclaimed, []byte(j.Alone()), j.ID)
		if err != nil {
			return err
		}
		n, err := exec(ctx, tx, "UPDATE jobs SET claimed_by = ?, claimed_until = "+atSpan+", attempts = attempts + 1, waits = NULL, runs = alone WHERE id = ? AND "+unclaimed+
			" AND "+due, []byte(worker), lease.Microseconds(), j.ID)
		if errorNumber(err) == errDuplicate {
			return nil // one that excludes j runs
		}
		if err != nil || n == 0 {
			return err
		}
		// What was merged into it since it was found is read too.
		jobs, err := readJobs(ctx, tx, "WHERE id = ?", j.ID)
		if err == nil {
			claimed = &jobs[0].Job
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// Workers are those that have claimed a job, and whose lease hasn't run out.
func (h *Home) Workers(ctx context.Context) (workers []string, err error) {
	err = h.each(ctx, func(rows *sql.Rows) error {
		var worker []byte
		err := rows.Scan(&worker)
		workers = append(workers, string(worker))
		return err
	}, "SELECT DISTINCT claimed_by FROM jobs WHERE claimed_until > UTC_TIMESTAMP(6)")
	if err != nil {
		return nil, fmt.Errorf("read who has claimed jobs: %w", err)
	}
	return workers, nil
}

// EndLeases has the leases of a worker that is gone run out.
func (h *Home) EndLeases(ctx context.Context, worker string) (jobs int64, err error) {
	jobs, err = h.exec(ctx, "UPDATE jobs SET claimed_until = UTC_TIMESTAMP(6) WHERE claimed_by = ? AND claimed_until > UTC_TIMESTAMP(6)", []byte(worker))
	if err != nil {
		return 0, fmt.Errorf("end the leases of %s: %w", worker, err)
	}
	return jobs, nil
}

// changeJob changes a job that worker has claimed. A lease that ran out but was not taken over is still
// the worker's.
func (h *Home) changeJob(ctx context.Context, verb string, id uint64, worker, change string, args ...any) error {
	err := storage.ErrLeaseLost
	if worker != "" {
		var n int64
		n, err = h.exec(ctx, change+" WHERE id = ? AND claimed_by = ?", append(args, id, []byte(worker))...)
		if err == nil && n == 0 {
			err = storage.ErrLeaseLost
		}
	}
	if err != nil {
		return fmt.Errorf("%s job %d: %w", verb, id, err)
	}
	return nil
}

// Renew extends the lease to lease from now. storage.ErrLeaseLost if another worker has taken the job
// over, or one that excludes it.
func (h *Home) Renew(ctx context.Context, id uint64, worker string, lease time.Duration) error {
	return h.changeJob(ctx, "renew", id, worker, "UPDATE jobs SET claimed_until = "+atSpan, lease.Microseconds())
}

// SaveCheckpoint keeps where the job resumes, and its progress (0 to 1).
func (h *Home) SaveCheckpoint(ctx context.Context, id uint64, worker string, raw json.RawMessage, progress float64) error {
	var checkpoint any
	if raw != nil {
		checkpoint = string(raw)
	}
	return h.changeJob(ctx, "save", id, worker, "UPDATE jobs SET checkpoint = ?, progress = ?", checkpoint, progress)
}

// Finish removes a done job.
func (h *Home) Finish(ctx context.Context, id uint64, worker string) error {
	return h.changeJob(ctx, "finish", id, worker, "DELETE FROM jobs")
}

// Fail gives a job back, to be claimed no earlier than notBefore. It keeps its checkpoint.
func (h *Home) Fail(ctx context.Context, id uint64, worker string, cause error, notBefore time.Time) error {
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	err := storage.ErrLeaseLost
	if worker != "" {
		err = h.transaction(ctx, func(tx *sql.Tx) error {
			n, err := exec(ctx, tx, "UPDATE jobs SET claimed_by = '', claimed_until = NULL, runs = NULL, error = ?, not_before = "+atSpan+
				" WHERE id = ? AND claimed_by = ?", text, spanOf(notBefore), id, []byte(worker))
			if err == nil && n == 0 {
				err = storage.ErrLeaseLost
			}
			if err != nil {
				return err
			}
			// Others merge into it, unless it is in the middle of its work, or one that they merge into
			// has come.
			_, err = exec(ctx, tx, "UPDATE IGNORE jobs SET waits = work WHERE id = ? AND checkpoint IS NULL", id)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("give back job %d: %w", id, err)
	}
	return nil
}

// Jobs returns all jobs by ID. Times are by this member's clock.
func (h *Home) Jobs(ctx context.Context) ([]storage.Job, error) {
	rows, err := readJobs(ctx, h.db, "ORDER BY j.id")
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", h.told(err))
	}
	jobs := make([]storage.Job, len(rows))
	for i, r := range rows {
		jobs[i] = r.Job
	}
	return jobs, nil
}

// NextJob is the earliest time at which a job may become claimable by the clock alone (NotBefore, or
// the end of a lease); false without jobs. It may be in the past.
func (h *Home) NextJob(ctx context.Context) (at time.Time, ok bool, err error) {
	now := time.Now()
	var span sql.NullInt64
	err = h.db.QueryRowContext(ctx, "SELECT MIN(IF("+unclaimed+", COALESCE("+spanNow("not_before")+", 0), "+spanNow("claimed_until")+
		")) FROM jobs j WHERE NOT ("+unclaimed+") OR "+unblocked).Scan(&span)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, false, fmt.Errorf("find the next job: %w", h.told(err))
	}
	return now.Add(time.Duration(span.Int64) * time.Microsecond), span.Valid, nil
}
