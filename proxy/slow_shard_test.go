package proxy

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// readIDs reads n rows, all for n < 0, whose first column is a number.
func readIDs(t *testing.T, rows *sql.Rows, n int) (ids []int) {
	t.Helper()
	var id int
	for len(ids) != n && rows.Next() {
		if err := rows.Scan(&id, new(sql.RawBytes)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// TestScatterSlowShard: the rows of the other shards reach the client while one is
// waited for, whichever that is, and those of that one when it has them.
func TestScatterSlowShard(t *testing.T) {
	t.Parallel()
	s := serve(t, 4, fakeOptions{})
	const query = "SELECT id, city FROM people WHERE city >= 0 FOR UPDATE"
	on := s.ids("SELECT id, city FROM people WHERE", 60)
	db := s.open("root", "")
	prepared, err := db.PrepareContext(t.Context(), strings.Replace(query, "0", "?", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer prepared.Close()
	for slow := range s.shards {
		for name, ask := range map[string]func(tx *sql.Tx) (*sql.Rows, error){
			"text":             func(*sql.Tx) (*sql.Rows, error) { return db.QueryContext(t.Context(), query) },
			"prepared":         func(*sql.Tx) (*sql.Rows, error) { return prepared.QueryContext(t.Context(), 0) },
			"in a transaction": func(tx *sql.Tx) (*sql.Rows, error) { return tx.QueryContext(t.Context(), query) },
		} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			release := s.shards[slow].hold("SELECT id, city FROM people WHERE")
			rows, err := ask(tx)
			if err != nil {
				t.Fatalf("%s, shard %d is slow: %v", name, slow, err)
			}
			got := readIDs(t, rows, 60-len(on[slow]))
			if err := rows.Err(); err != nil {
				t.Fatalf("%s, shard %d is slow: after %d rows: %v", name, slow, len(got), err)
			}
			if slices.Contains(got, on[slow][0]) {
				t.Fatalf("%s: a row that is held on shard %d was answered", name, slow)
			}
			release()
			got = append(got, readIDs(t, rows, -1)...)
			if err := rows.Err(); err != nil {
				t.Errorf("%s, shard %d is slow: %v", name, slow, err)
			}
			rows.Close()
			slices.Sort(got)
			if all := slices.Compact(slices.Clone(got)); len(got) != 60 || len(all) != 60 {
				t.Errorf("%s, shard %d is slow: %d rows, %d different", name, slow, len(got), len(all))
			}
			// The session goes on, in its transaction too.
			if got, err := rowsOf(t.Context(), tx, query); len(got) != 60 || err != nil {
				t.Errorf("%s: then %d rows, %v", name, len(got), err)
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestScatterSlowShards: with only one shard that answers its rows come first; the
// statement can be killed then, and the session goes on.
func TestScatterSlowShards(t *testing.T) {
	t.Parallel()
	s := serve(t, 4, fakeOptions{})
	const query = "SELECT id, city FROM people FOR UPDATE"
	on := s.ids(query, 60)
	c, other := s.conn(), s.conn()
	for fast := range s.shards {
		var releases []func()
		for i, f := range s.shards {
			if i != fast {
				releases = append(releases, f.hold(query))
			}
		}
		rows, err := c.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		got := readIDs(t, rows, len(on[fast]))
		slices.Sort(got)
		if !slices.Equal(got, on[fast]) {
			t.Errorf("shard %d answers %v: %v, %v", fast, on[fast], got, rows.Err())
		}
		if fast%2 == 0 {
			if _, err := other.ExecContext(t.Context(), fmt.Sprint("KILL QUERY ", s.idOf(query))); err != nil {
				t.Error(err)
			}
			if more := readIDs(t, rows, -1); len(more) > 0 {
				t.Errorf("rows %v of shards that wait", more)
			}
			failed(t, query, rows.Err(), 1317, "interrupted")
		} else {
			for _, release := range slices.Backward(releases) {
				release()
			}
			if more := readIDs(t, rows, -1); len(more) != 60-len(got) || rows.Err() != nil {
				t.Errorf("%d more rows, %v", len(more), rows.Err())
			}
		}
		rows.Close()
		for _, release := range releases {
			release()
		}
		if got, err := rowsOf(t.Context(), c, query); len(got) != 60 || err != nil {
			t.Errorf("then %d rows, %v", len(got), err)
		}
	}
}

// TestScatterDeadShard: a shard that dies is told of while another is waited for,
// whether rows have been answered or not.
func TestScatterDeadShard(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"SELECT id, city FROM people FOR UPDATE", "SELECT id, city FROM people ORDER BY id FOR UPDATE"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			s := serve(t, 3, fakeOptions{})
			s.ids("SELECT id, city FROM people", 60)
			release := s.shards[0].hold("SELECT id, city FROM people")
			defer release()
			defer s.shards[2].hold("SELECT id, city FROM people")()
			ended := make(chan error, 1)
			go func() {
				_, err := rowsOf(context.WithoutCancel(t.Context()), s.conn(), query)
				ended <- err
			}()
			until(t, "it waits on two shards", func() bool {
				return s.shards[0].waiting("SELECT id") == 1 && s.shards[2].waiting("SELECT id") == 1
			})
			th := s.shards[0].at("SELECT id")
			s.shards[2].die()
			// A read of which nothing was answered is tried once more.
			if code, err := errorOf(<-ended); code != 1430 && code != 1429 || !strings.Contains(err.Error(), "shard s2") {
				t.Errorf("%s: %v", query, err)
			}
			release()
			until(t, "its connection there is closed", func() bool { return s.inUse() == 0 && !s.shards[0].has(th) })
			answers(t, s.conn(), "/* shunt: shard=s1 */ SELECT id, city FROM people WHERE id = 5")
		})
	}
}

// TestLimitSlowShard: where any rows will do, those of the shards that answer do.
func TestLimitSlowShard(t *testing.T) {
	t.Parallel()
	for slow := range 4 {
		for _, limited := range []struct {
			offset, count int
			enough        bool // without the slow shard
		}{{0, 5, true}, {2, 7, true}, {0, 59, false}, {3, 100, false}} {
			for _, prepared := range []bool{false, true} {
				query, args := fmt.Sprintf("SELECT id, city FROM people LIMIT %d, %d FOR UPDATE", limited.offset, limited.count), []any(nil)
				if prepared {
					query, args = "SELECT id, city FROM people LIMIT ?, ? FOR UPDATE", []any{limited.offset, limited.count}
				}
				t.Run(fmt.Sprintf("%s %v, shard %d is slow", query, args, slow), func(t *testing.T) {
					t.Parallel()
					s := serve(t, 4, fakeOptions{})
					on := s.ids("SELECT id, city FROM people", 60)
					release := s.shards[slow].hold("SELECT id, city FROM people")
					c := s.conn()
					rows, err := c.QueryContext(t.Context(), query, args...)
					if err != nil {
						t.Fatal(err)
					}
					all, now := min(60-limited.offset, limited.count), -1
					if !limited.enough {
						now = 60 - len(on[slow]) - limited.offset
					}
					got := readIDs(t, rows, now)
					if err := rows.Err(); err != nil || limited.enough && len(got) != all {
						t.Fatalf("%d rows, %v", len(got), err)
					}
					release()
					if !limited.enough {
						got = append(got, readIDs(t, rows, -1)...)
					}
					if err := rows.Err(); err != nil {
						t.Error(err)
					}
					rows.Close()
					slices.Sort(got)
					if len(got) != all || len(slices.Compact(got)) != all {
						t.Errorf("%d rows, want %d", len(got), all)
					}
					answers(t, c, "SELECT FOUND_ROWS() AS n", fmt.Sprint(limited.offset+all))
					if got, err := rowsOf(t.Context(), c, "SELECT id, city FROM people"); len(got) != 60 || err != nil {
						t.Errorf("then %d rows, %v", len(got), err)
					}
				})
			}
		}
	}
}

// TestSlowShardDiffers: a shard whose columns turn out to be others than those that
// the client has been told is an error, never rows that mean something else.
func TestSlowShardDiffers(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"SELECT id, city FROM people FOR UPDATE", "SELECT id, city FROM people LIMIT 100 FOR UPDATE"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			s := serve(t, 3, fakeOptions{})
			on := s.ids("SELECT id, city FROM people", 60)
			s.shards[1].answer("SELECT id, city FROM people", fakeAnswer{columns: []string{"#id", "v"}, rows: [][]any{{1, "x"}}})
			release := s.shards[1].hold("SELECT id, city FROM people")
			c := s.conn()
			rows, err := c.QueryContext(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			if got := readIDs(t, rows, 60-len(on[1])); len(got) != 60-len(on[1]) {
				t.Fatalf("%d rows, %v", len(got), rows.Err())
			}
			release()
			if more := readIDs(t, rows, -1); len(more) > 0 {
				t.Errorf("rows %v of other columns", more)
			}
			failed(t, query, rows.Err(), 1412, "definition")
			rows.Close()
			if _, err := rowsOf(t.Context(), c, "SELECT id, city FROM people WHERE id = 5"); err != nil {
				t.Error(err)
			}
		})
	}
}
