package deadlock

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// What MySQL needs SELECT on performance_schema.data_lock_waits for, and both PROCESS.
//
// MySQL doesn't answer the first one (3854) while a transaction's statement holds bytes that are no text, as
// that of a value for a BLOB. Then it is asked by numbers alone, which takes SELECT on data_locks and threads
// of performance_schema, too. Who waits has made the request itself; but a row's lock may have been made by
// another one, for the transaction that holds it. What it has locked its tables by, it has made.
const (
	lockWaitsMySQL = "SELECT w.trx_mysql_thread_id, b.trx_mysql_thread_id FROM performance_schema.data_lock_waits l " +
		"JOIN information_schema.INNODB_TRX w ON w.trx_id = l.REQUESTING_ENGINE_TRANSACTION_ID " +
		"JOIN information_schema.INNODB_TRX b ON b.trx_id = l.BLOCKING_ENGINE_TRANSACTION_ID"
	lockWaitsByThreads = "SELECT w.PROCESSLIST_ID, b.PROCESSLIST_ID FROM performance_schema.data_lock_waits l " +
		"JOIN performance_schema.threads w ON w.THREAD_ID = l.REQUESTING_THREAD_ID " +
		"JOIN performance_schema.data_locks t ON t.ENGINE_TRANSACTION_ID = l.BLOCKING_ENGINE_TRANSACTION_ID AND t.LOCK_TYPE = 'TABLE' " +
		"JOIN performance_schema.threads b ON b.THREAD_ID = t.THREAD_ID"
	lockWaitsMariaDB = "SELECT w.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.INNODB_LOCK_WAITS l " +
		"JOIN information_schema.INNODB_TRX w ON w.trx_id = l.requesting_trx_id " +
		"JOIN information_schema.INNODB_TRX b ON b.trx_id = l.blocking_trx_id"
)

var errBlind = errors.New("performance_schema is off")

// lockWaits asks one shard.
type lockWaits struct {
	at  shard.Outside
	log *slog.Logger
	// refused is when it refused to tell; told: the log says so.
	refused time.Time
	told    bool
}

// pairs are threads and those that they wait for; nil where the shard doesn't tell.
func (w *lockWaits) pairs(ctx context.Context, query string) (pairs [][2]uint32) {
	if time.Since(w.refused) < rest {
		return nil
	}
	rows, err := w.ask(ctx, query)
	if _, refused := errors.AsType[*shard.ServerError](err); refused || errors.Is(err, errBlind) {
		w.refused = time.Now()
		if !w.told {
			w.told = true
			w.log.Warn("who waits for whom can't be seen: deadlocks over several shards last for innodb_lock_wait_timeout", "shard", w.at.Pool.Name(), "error", err)
		}
	}
	for _, r := range rows {
		waits, err := strconv.ParseUint(string(r[0]), 10, 32)
		blocks, err2 := strconv.ParseUint(string(r[1]), 10, 32)
		if err == nil && err2 == nil { // not of a thread that doesn't exist
			pairs = append(pairs, [2]uint32{uint32(waits), uint32(blocks)})
		}
	}
	return pairs
}

func (w *lockWaits) ask(ctx context.Context, query string) (rows [][][]byte, err error) {
	rows, err = w.at.Query(ctx, query)
	if refused, ok := errors.AsType[*shard.ServerError](err); ok && refused.Code == mysqlerr.CannotConvertString && query == lockWaitsMySQL {
		return w.ask(ctx, lockWaitsByThreads)
	}
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 || query != lockWaitsMySQL {
		return rows, nil
	}
	on, err := w.at.Query(ctx, "SELECT 1 FROM DUAL WHERE @@performance_schema")
	if err == nil && len(on) == 0 {
		err = errBlind
	}
	return nil, err
}
