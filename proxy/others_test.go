package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fakeOthers are members by the place of a connection's number.
type fakeOthers struct {
	members   []*Proxy
	silent    []string
	untouched bool
	failed    error
}

func (f *fakeOthers) Ask(ctx context.Context, question []byte) (answers [][]byte, silent []string, err error) {
	for _, m := range f.members {
		answers = append(answers, m.Answer(ctx, question))
	}
	return answers, f.silent, f.failed
}

func (f *fakeOthers) AskOf(ctx context.Context, id uint32, question []byte) (answer []byte, silent string, untouched bool, err error) {
	if len(f.silent) > 0 || f.failed != nil {
		return nil, strings.Join(f.silent, ""), f.untouched, f.failed
	}
	if id >= 3_000_000_000 {
		return nil, "", false, nil
	}
	return f.members[0].Answer(ctx, question), "", false, nil
}

// numberedFrom has a process's connections numbered from n + 1 on.
type numberedFrom struct {
	Cluster
	n uint32
}

func (c numberedFrom) ConnectionID() uint32 { return c.n + c.Cluster.ConnectionID() }

// TestOthers: KILL and SHOW PROCESSLIST reach the clients of another member, as far as the user may.
func TestOthers(t *testing.T) {
	t.Parallel()
	asks := &fakeOthers{}
	narrow := func(o *Options) { o.Users["narrow"] = User{Schemas: []string{"shop"}} }
	s := serve(t, 2, fakeOptions{}, narrow, func(o *Options) { o.Others = asks })
	other := serve(t, 2, fakeOptions{}, narrow, func(o *Options) { o.Cluster = numberedFrom{o.Cluster, 1000} })
	asks.members = []*Proxy{other.p}
	c, mine := s.conn(), s.connOf("narrow", "")
	for _, f := range other.shards {
		f.hold("UPDATE people")
	}
	waiting := func() bool {
		return other.shards[0].waiting("UPDATE people") == 1 && other.shards[1].waiting("UPDATE people") == 1
	}
	victim := other.later("UPDATE people SET city = '\xff'")
	until(t, "it waits", waiting)
	id := other.idOf("UPDATE people")
	for _, list := range []string{"SHOW PROCESSLIST", "SHOW FULL PROCESSLIST"} {
		rows, err := rowsOf(t.Context(), c, list)
		if err != nil || !slices.ContainsFunc(rows, func(r string) bool {
			return strings.Contains(r, fmt.Sprint(id)) && strings.Contains(r, "UPDATE people SET city = '\xff'")
		}) {
			t.Errorf("%s: %q, %v", list, rows, err)
		}
		rows, err = rowsOf(t.Context(), mine, list)
		if err != nil || slices.ContainsFunc(rows, func(r string) bool { return !strings.Contains(r, "narrow") }) {
			t.Errorf("another user sees %q, %v", rows, err)
		}
	}
	fails(t, mine, fmt.Sprint("KILL QUERY ", id), 1095, "You are not owner of thread")
	fails(t, c, "KILL 2999999999", 1094, "2999999999")
	fails(t, c, "KILL 3999999999", 1094, "3999999999")
	fails(t, c, "KILL 99999999999", 1094, "99999999999")

	asks.silent, asks.untouched = []string{"m at h:1"}, true
	fails(t, c, fmt.Sprint("KILL QUERY ", id), 1429, "nothing was killed")
	asks.untouched = false
	fails(t, c, fmt.Sprint("KILL QUERY ", id), 1430, "killed or not")
	if _, err := rowsOf(t.Context(), c, "SHOW PROCESSLIST"); err != nil {
		t.Error(err)
	}
	if rows, err := rowsOf(t.Context(), c, "SHOW WARNINGS"); err != nil || len(rows) != 1 || !strings.Contains(rows[0], "1429") || !strings.Contains(rows[0], "Member m at h:1 doesn't answer") {
		t.Errorf("warned of %q, %v", rows, err)
	}
	asks.silent, asks.failed = nil, errors.New("the store is away")
	fails(t, c, fmt.Sprint("KILL QUERY ", id), 1429, "the store is away")
	asks.failed = nil

	if !waiting() {
		t.Error("it was killed by one that may not")
	}
	if _, err := c.ExecContext(t.Context(), fmt.Sprint("KILL QUERY ", id)); err != nil {
		t.Error(err)
	}
	failed(t, "what was killed", <-victim, 1317, "")
	idle := other.conn()
	all := other.p.processes()
	if _, err := c.ExecContext(t.Context(), fmt.Sprint("KILL ", all[len(all)-1].id)); err != nil {
		t.Error(err)
	}
	if _, err := idle.ExecContext(t.Context(), "SHOW VIRTUAL INDEXES"); err == nil {
		t.Error("the connection outlived KILL")
	}
	if a := string(other.p.Answer(t.Context(), []byte(`{"Later":{}}`))); !strings.Contains(a, "1235") {
		t.Errorf("a question of a later version is answered %s", a)
	}
}
