package proxy

import (
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestRate: a second's worth at once, then as evenly as may be; and never more
// for having waited longer.
func TestRate(t *testing.T) {
	now := time.Unix(1000, 0)
	var u usage
	count := func(after time.Duration, tries int) (n int) {
		now = now.Add(after)
		for range tries {
			if u.statement(10, now) {
				n++
			}
		}
		return n
	}
	for i, x := range []struct {
		after time.Duration
		want  int
	}{{0, 10}, {0, 0}, {50 * time.Millisecond, 0}, {50 * time.Millisecond, 1}, {300 * time.Millisecond, 3}, {time.Hour, 10}, {time.Second, 10}, {0, 0}} {
		if got := count(x.after, 50); got != x.want {
			t.Errorf("step %d: %d statements, want %d", i, got, x.want)
		}
	}
}

func TestConnectionsOfUser(t *testing.T) {
	var u usage
	for i := range 3 {
		if u.enter(2) != (i < 2) {
			t.Errorf("two and no more were to enter: %d", i)
		}
	}
	if !u.enter(0) || !u.enter(4) || u.enter(4) {
		t.Error("a higher bound lets more in, no bound any number")
	}
	u.leave()
	if !u.enter(4) {
		t.Error("there was room again")
	}
}

func TestSees(t *testing.T) {
	for _, x := range []struct {
		user   User
		schema string
		lower  bool
		sees   bool
	}{
		{User{}, "x", false, true},
		{User{}, "mysql", false, true},
		{User{Schemas: []string{"shop"}}, "shop", false, true},
		{User{Schemas: []string{"Shop"}}, "shop", true, true},
		{User{Schemas: []string{"Shop"}}, "shop", false, false}, // two schemas
		{User{Schemas: []string{"shop"}}, "x", false, false},
		{User{Schemas: []string{"shop"}}, "mysql", false, false},
		{User{Schemas: []string{"shop"}}, "INFORMATION_SCHEMA", false, true},
	} {
		if got := x.user.sees(x.schema, &catalog.Catalog{LowerCaseNames: x.lower}); got != x.sees {
			t.Errorf("%v sees %s: %v", x.user.Schemas, x.schema, got)
		}
	}
}
