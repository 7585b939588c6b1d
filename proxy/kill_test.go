package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// later executes a statement, and says what came of it.
func (s *fakes) later(statement string) chan error {
	c, ended := s.conn(), make(chan error, 1)
	go func() {
		_, err := c.ExecContext(context.WithoutCancel(s.t.Context()), statement)
		ended <- err
	}()
	return ended
}

// TestKillFrozen: while a statement on a shard that doesn't answer is killed, others log in
// and look around.
func TestKillFrozen(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	look := s.conn()
	s.shards[1].hold("UPDATE people")
	victim := s.later("UPDATE people SET city = 'x'")
	until(t, "it waits", func() bool { return s.shards[1].waiting("UPDATE people") == 1 })
	id := s.idOf("UPDATE people")
	s.shards[1].freeze()
	killed := s.later(fmt.Sprint("KILL QUERY ", id))
	until(t, "it is being killed", func() bool { return s.idOf("KILL QUERY") != 0 })
	began := time.Now()
	if rows, err := rowsOf(t.Context(), look, "SHOW PROCESSLIST"); err != nil || len(rows) < 3 {
		t.Errorf("%q, %v", rows, err)
	}
	if err := s.ping("root", "", ""); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("others were kept waiting for %v", took)
	}
	select {
	case err := <-killed:
		t.Errorf("KILL has ended: %v", err)
	default:
	}
	s.shards[1].thaw()
	if err := <-killed; err != nil {
		t.Error(err)
	}
	failed(t, "what was killed", <-victim, 1317, "interrupted")
}

// TestKillBesideFrozen: a statement is ended on the shards that answer, though another one
// doesn't, for KILL and for a client that has gone.
func TestKillBesideFrozen(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"KILL", "gone"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := serve(t, 2, fakeOptions{})
			for _, f := range s.shards {
				f.hold("UPDATE people")
			}
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			defer cancel()
			victim, gone := s.conn(), make(chan error, 1)
			go func() {
				_, err := victim.ExecContext(ctx, "UPDATE people SET city = 'x'")
				gone <- err
			}()
			waiting := func(i int) bool { return s.shards[i].waiting("UPDATE people") == 1 }
			until(t, "it waits on both", func() bool { return waiting(0) && waiting(1) })
			id := s.idOf("UPDATE people")
			s.shards[0].freeze()
			var killed chan error
			if how == "KILL" {
				killed = s.later(fmt.Sprint("KILL QUERY ", id))
			} else {
				cancel()
			}
			until(t, "it has ended on the shard that answers", func() bool { return !waiting(1) })
			if !waiting(0) {
				t.Error("it has ended on the frozen shard")
			}
			s.shards[0].thaw()
			if how == "KILL" {
				if err := <-killed; err != nil {
					t.Error(err)
				}
				failed(t, "what was killed", <-gone, 1317, "interrupted")
			}
			until(t, "it has ended", func() bool { return !waiting(0) })
		})
	}
}

// TestKill: by number, statement and connection, and by whom.
func TestKill(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{}, func(o *Options) { o.Users["narrow"] = User{Schemas: []string{"shop"}} })
	c, narrow := s.conn(), s.connOf("narrow", "")
	fails(t, c, "KILL 4000000000", 1094, "4000000000")
	fails(t, c, "KILL QUERY CONNECTION_ID()", 1317, "")
	for _, statement := range []string{"UPDATE people SET city = 'x' WHERE id = 1", "UPDATE people SET city = 'x'"} {
		for _, f := range s.shards {
			f.hold("UPDATE people")
		}
		victim := s.later(statement)
		until(t, "it waits", func() bool { return s.shards[0].waiting("UPDATE people")+s.shards[1].waiting("UPDATE people") > 0 })
		id := s.idOf("UPDATE people")
		fails(t, narrow, fmt.Sprint("KILL QUERY ", id), 1095, "")
		if rows, err := rowsOf(t.Context(), narrow, "SHOW PROCESSLIST"); err != nil || len(rows) != 1 || !strings.Contains(rows[0], "narrow") {
			t.Errorf("another user sees %q, %v", rows, err)
		}
		// Its servers may not have got it yet: kill until it ends.
		until(t, "KILL ends it", func() bool {
			if _, err := c.ExecContext(t.Context(), fmt.Sprint("KILL QUERY ", id)); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-victim:
				failed(t, statement, err, 1317, "")
				return true
			default:
				return false
			}
		})
	}
	victim := s.conn()
	all := s.p.processes()
	if _, err := c.ExecContext(t.Context(), fmt.Sprint("KILL ", all[len(all)-1].id)); err != nil {
		t.Error(err)
	}
	if _, err := victim.ExecContext(t.Context(), "SHOW VIRTUAL INDEXES"); err == nil {
		t.Error("the connection outlived KILL")
	}
}
