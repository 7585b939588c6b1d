package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// nodes are servers that are a cluster: of Group Replication with a single primary, or of Galera.
type nodes struct {
	flavour throwaway.Flavour
	servers []*throwaway.Server
	// asked are pools, one a node: who waits for a condition asks again and again.
	asked []*sql.DB
}

// cluster starts three nodes for this test alone.
func (f *flavour) cluster(t *testing.T) *nodes {
	t.Helper()
	base, err := f.base()
	if err != nil {
		t.Fatal(err)
	}
	start := throwaway.StartGroup
	if f.name == throwaway.MariaDB {
		start = throwaway.StartGalera
	}
	set, err := start(t.Context(), base.Source, 3, throwaway.Options{Base: base, Password: shardPassword, Args: serverArgs})
	if errors.Is(err, throwaway.ErrNoGalera) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Stop)
	n := &nodes{flavour: f.name}
	t.Cleanup(func() {
		if t.Failed() {
			n.tell(t)
		}
	})
	for i := range 3 {
		if i == len(set.Servers) {
			if _, err := set.Add(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		n.servers = set.Servers
		n.asked = append(n.asked, onShard(t, n.servers[i], ""))
		if f.name == throwaway.MySQL {
			statements := n.servers[i].Joins()
			if i == 0 {
				statements = n.servers[i].Forms()
			}
			c := connOf(t, n.asked[i])
			for _, q := range statements {
				mustExec(t, c, q)
			}
		}
		eventually(t, "it is of the cluster", func() bool { return n.whole(t) })
	}
	return n
}

// tell logs what each node says of the cluster, and what it has logged last.
func (n *nodes) tell(t *testing.T) {
	for i := range n.asked { // those of the test are closed by now
		n.asked[i] = onShard(t, n.servers[i], "")
	}
	views := map[*sql.DB]map[string]string{}
	if n.flavour == throwaway.MariaDB {
		views = n.views(t)
	}
	for i, s := range n.servers[:len(n.asked)] {
		var members []row
		if n.flavour == throwaway.MySQL {
			members, _ = rowsOf(context.Background(), n.asked[i], "SELECT MEMBER_PORT AS port, MEMBER_STATE AS state, MEMBER_ROLE AS role FROM performance_schema.replication_group_members")
		}
		log := s.Log()
		t.Logf("node %d at %s, running %v: %v%v\n%s", i, s.Addr(), s.Running(), views[n.asked[i]], members, log[max(0, len(log)-6000):])
	}
}

// views are what those nodes say of a Galera cluster that answer: the number of its view, its size, and their states.
func (n *nodes) views(t *testing.T) map[*sql.DB]map[string]string {
	views := map[*sql.DB]map[string]string{}
	for _, db := range n.asked {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // a test that has failed asks, too
		rows, err := rowsOf(ctx, db, "SELECT VARIABLE_NAME AS name, VARIABLE_VALUE AS v FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('wsrep_cluster_status', 'wsrep_cluster_size', 'wsrep_cluster_conf_id', 'wsrep_local_state_comment', 'wsrep_evs_state')")
		cancel()
		if err != nil {
			continue
		}
		views[db] = map[string]string{}
		for _, r := range rows {
			views[db][strings.ToLower(r["name"])] = r["v"]
		}
	}
	return views
}

// whole: all nodes are of the cluster, and have what the others have.
func (n *nodes) whole(t *testing.T) bool {
	if n.flavour == throwaway.MariaDB {
		views := n.views(t)
		for _, v := range views {
			if v["wsrep_local_state_comment"] != "Synced" || v["wsrep_evs_state"] != "OPERATIONAL" || v["wsrep_cluster_status"] != "Primary" ||
				v["wsrep_cluster_conf_id"] != views[n.asked[0]]["wsrep_cluster_conf_id"] {
				return false
			}
		}
		return len(views) == len(n.asked)
	}
	// A node that all are thought to be of may be missed by another one for a moment, which then is no majority.
	for _, db := range n.asked {
		rows, err := rowsOf(t.Context(), db, "SELECT MEMBER_STATE AS state FROM performance_schema.replication_group_members")
		if err != nil || len(rows) != len(n.asked) || slices.ContainsFunc(rows, func(r row) bool { return r["state"] != "ONLINE" }) {
			return false
		}
	}
	return true
}

// missed: the others go on without one node.
//
// Galera's nodes may miss one that stood still after it has gone on, and be no majority for a moment: whoever waits for
// what the others do without it waits for that, too.
func (n *nodes) missed(t *testing.T) bool {
	if n.flavour == throwaway.MySQL {
		return true
	}
	for _, v := range n.views(t) {
		if v["wsrep_cluster_size"] == "2" && v["wsrep_cluster_status"] == "Primary" {
			return true
		}
	}
	return false
}

// back has a node that was killed, or stands still, be of the cluster again.
func (n *nodes) back(t *testing.T, i int) error {
	s := n.servers[i]
	if s.Running() {
		s.Resume()
	} else if n.flavour == throwaway.MariaDB {
		return s.Rejoin(t.Context())
	} else if err := s.Start(t.Context()); err != nil {
		return err
	}
	if n.flavour == throwaway.MariaDB {
		return nil
	}
	db := n.asked[i]
	var err error
	// The others may have to miss it first, and a joiner whom a busy group doesn't show a view within a minute gives up.
	for began := time.Now(); time.Since(began) < patience; time.Sleep(200 * time.Millisecond) {
		for _, q := range append([]string{"STOP GROUP_REPLICATION"}, s.Joins()...) {
			if _, err = db.ExecContext(t.Context(), q); err != nil {
				err = fmt.Errorf("%s: %w\n%s", q, err, s.Log()[max(0, len(s.Log())-4000):])
				break
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// bootstrapped has the nodes of a Galera cluster that are left be it, as an operator does where all that answer see each
// other, and say that they are no majority: two of three have been seen to, behind a kill -9 of the third.
func (n *nodes) bootstrapped(t *testing.T) {
	t.Helper()
	if n.flavour != throwaway.MariaDB {
		return
	}
	views := n.views(t)
	var left *sql.DB
	for db, v := range views {
		if v["wsrep_cluster_size"] != "2" || !strings.EqualFold(v["wsrep_cluster_status"], "non-Primary") {
			return
		}
		left = db
	}
	if len(views) == 2 {
		t.Log("the two nodes that are left are no majority, they say: one is told that they are")
		mustExec(t, left, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
	}
}

// usable: a node says that it takes writes.
func (n *nodes) usable(t *testing.T) bool {
	query := "SELECT 1 AS n FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_ready' AND VARIABLE_VALUE = 'ON'"
	if n.flavour == throwaway.MySQL {
		query = "SELECT 1 AS n FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@GLOBAL.server_uuid AND MEMBER_STATE = 'ONLINE' AND MEMBER_ROLE = 'PRIMARY'"
	}
	return slices.ContainsFunc(n.asked, func(db *sql.DB) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rows, err := rowsOf(ctx, db, query)
		return err == nil && len(rows) == 1
	})
}

// primary is the node that members use: the group's, or the one that Galera's members have agreed on.
func (n *nodes) primary(t *testing.T) int {
	t.Helper()
	query := "SELECT MEMBER_PORT AS port FROM performance_schema.replication_group_members WHERE MEMBER_ROLE = 'PRIMARY'"
	if n.flavour == throwaway.MariaDB {
		query = "SELECT @@GLOBAL.port AS port FROM shunt_store.home WHERE SUBSTRING_INDEX(server, ' ', -1) = (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_gcomm_uuid')"
	}
	at := -1
	eventually(t, "a node is in use", func() bool {
		for _, db := range n.asked {
			rows, err := rowsOf(t.Context(), db, query)
			if err == nil && len(rows) == 1 {
				at = slices.IndexFunc(n.servers, func(s *throwaway.Server) bool { return rows[0]["port"] == portOf(s.Addr())[1:] })
				return at >= 0
			}
		}
		return false
	})
	return at
}
