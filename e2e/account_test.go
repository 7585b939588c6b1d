package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// accounts are those on a flavour's shared servers beside root.
type accounts struct {
	mu   sync.Mutex
	made int
	free []string // no test has them
}

var accountsOf sync.Map // by flavour: *accounts

// account is one on the shared servers that no other test has meanwhile; its password is
// shardPassword. Counter-example: connections of another test's Shunt by the same account, for
// which builds wait, since they could be an earlier life's.
func (f *flavour) account(t *testing.T) string {
	t.Helper()
	servers := f.servers(t)
	of, _ := accountsOf.LoadOrStore(f, &accounts{})
	a := of.(*accounts)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.free) == 0 {
		a.made++
		name := fmt.Sprintf("e2e_%d", a.made)
		for _, s := range servers {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER "+name+"@'%' IDENTIFIED BY '"+shardPassword+"'")
			mustExec(t, db, "GRANT ALL ON *.* TO "+name+"@'%' WITH GRANT OPTION")
		}
		a.free = append(a.free, name)
	}
	name := a.free[0]
	a.free = a.free[1:]
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.free = append(a.free, name)
	})
	return name
}
