package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestCopiesTorn: a table that has just been written on some shards only counts as written behind restart, too, for a while.
func TestCopiesTorn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, torn, whole := newCopies(), catalog.TableName{Schema: "s", Name: "torn"}, catalog.TableName{Schema: "s", Name: "whole"}
		for _, h := range []held{{tables: []catalog.TableName{torn}, torn: true}, {tables: []catalog.TableName{whole}}} {
			if !c.tryEnter() {
				t.Fatal("nobody has them alone")
			}
			c.leave(h)
		}
		if w := c.sinceRestart(); !w.May(torn) || !w.May(whole) {
			t.Errorf("written are %v", w)
		}
		c.restart()
		if w := c.sinceRestart(); !w.May(torn) || w.May(whole) {
			t.Errorf("behind restart %v", w)
		}
		time.Sleep(tornFor + time.Second)
		c.restart()
		if w := c.sinceRestart(); w.May(torn) {
			t.Errorf("later %v", w)
		}
		c.touch()
		if w := c.sinceRestart(); !w.May(whole) {
			t.Errorf("any may have been, not %v", w)
		}
	})
}

// TestCopiesAlone: who has the copies alone meets no write, and one that began before keeps him out.
func TestCopiesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCopies(), t.Context()
		if !c.tryEnter() {
			t.Fatal("nobody has them alone")
		}
		if err := c.close(ctx, time.Second); err == nil {
			t.Fatal("a write is open")
		}
		if !c.tryEnter() {
			t.Error("given up, it keeps nobody out")
		}
		c.leave(held{})
		table := catalog.TableName{Schema: "s", Name: "t"}
		c.restart()
		time.AfterFunc(time.Second, func() { c.leave(held{tables: []catalog.TableName{table}}) })
		if err := c.close(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		if c.tryEnter() {
			t.Error("somebody has them alone")
		}
		// Written by what was open, and once.
		if !c.take(table) || c.take(table) {
			t.Error("the table was written since restart, and looked at since then")
		}
		// A second one waits for the first.
		alone := make(chan error, 1)
		go func() { alone <- c.close(ctx, time.Minute) }()
		synctest.Wait()
		select {
		case <-alone:
			t.Error("two have them alone")
		default:
		}
		c.reopen()
		if err := <-alone; err != nil {
			t.Error(err)
		}
		waiting := make(chan error, 1)
		go func() { waiting <- c.enter(ctx) }()
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := c.enter(limited); err == nil {
			t.Error("a write passes")
		}
		c.reopen()
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	})
}
