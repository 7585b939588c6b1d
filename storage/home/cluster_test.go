package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// nodes are those of a cluster that is a home.
type nodes struct {
	t       *testing.T
	cluster cluster
	servers []*throwaway.Server
}

// eachCluster runs a test against a cluster of each kind that this machine has.
func eachCluster(t *testing.T, run func(n *nodes)) {
	t.Parallel()
	for kind, flavour := range map[cluster]throwaway.Flavour{group: throwaway.MySQL, galera: throwaway.MariaDB} {
		t.Run(map[cluster]string{group: "group", galera: "galera"}[kind], func(t *testing.T) {
			t.Parallel()
			run(startNodes(t, kind, flavour))
		})
	}
}

func startNodes(t *testing.T, kind cluster, flavour throwaway.Flavour) *nodes {
	t.Helper()
	ctx := context.Background()
	src, err := throwaway.Find(ctx, flavour)
	if errors.Is(err, throwaway.ErrNotFound) {
		t.Skip(err)
	}
	check(t, err)
	n := &nodes{t: t, cluster: kind}
	start := throwaway.StartGalera
	if kind == group {
		start = throwaway.StartGroup
	}
	all, err := start(ctx, src, 3, throwaway.Options{Password: password})
	if errors.Is(err, throwaway.ErrNoGalera) {
		t.Skip(err)
	}
	check(t, err)
	t.Cleanup(all.Stop)
	for i := range 3 {
		if i == len(all.Servers) {
			must[*throwaway.Server](t)(all.Add(ctx))
		}
		n.servers = all.Servers
		switch {
		case kind == galera:
		case i == 0:
			n.do(i, n.servers[i].Forms()...)
		default:
			n.do(i, n.servers[i].Joins()...)
		}
		n.joined(i)
	}
	return n
}

// joined waits until a node is of the cluster.
func (n *nodes) joined(i int) {
	n.t.Helper()
	query := "SELECT VARIABLE_VALUE = 'Synced' FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_local_state_comment'"
	if n.cluster == group {
		query = "SELECT MEMBER_STATE = 'ONLINE' FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@GLOBAL.server_uuid"
	}
	db := n.db(i)
	n.eventually(fmt.Sprintf("node %d is of the cluster", i), func() error {
		var is bool
		err := db.QueryRowContext(n.t.Context(), query).Scan(&is)
		if err == nil && !is {
			err = errors.New("it isn't yet")
		}
		return err
	})
}

// db connects to a node itself.
func (n *nodes) db(i int) *sql.DB {
	inner, err := base(n.config(i), n.servers[i].Addr(), "")
	check(n.t, err)
	db := sql.OpenDB(inner)
	n.t.Cleanup(func() { db.Close() })
	return db
}

// do runs statements over one connection, all of them again where one fails: a node that was here just now
// isn't let in until the others have missed it.
func (n *nodes) do(i int, statements ...string) {
	n.t.Helper()
	db := n.db(i)
	n.eventually(fmt.Sprintf("node %d does %q", i, statements), func() error {
		conn, err := db.Conn(n.t.Context())
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, q := range statements {
			if _, err := conn.ExecContext(n.t.Context(), q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		return nil
	})
}

// config is that of a home on these nodes alone.
func (n *nodes) config(of ...int) Config {
	s := n.servers[of[0]]
	c := Config{Addr: s.Addr(), User: s.User, Password: s.Password, Idle: time.Minute, Dial: 2 * time.Second, Answer: 2 * time.Second}.complete()
	for _, i := range of[1:] {
		c.Nodes = append(c.Nodes, n.servers[i].Addr())
	}
	return c
}

func (n *nodes) eventually(what string, try func() error) {
	n.t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < 90*time.Second; time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	for i, s := range n.servers {
		n.t.Logf("node %d:\n%s", i, s.Log()[max(0, len(s.Log())-3000):])
	}
	n.t.Fatalf("not within 90 s: %s: %v", what, err)
}

// rejoin starts a node that was killed.
func (n *nodes) rejoin(i int) {
	n.t.Helper()
	if n.cluster == group {
		check(n.t, n.servers[i].Start(n.t.Context()))
		n.do(i, n.servers[i].Joins()...)
	} else {
		check(n.t, n.servers[i].Rejoin(n.t.Context()))
	}
	n.joined(i)
}

// rejoined has a node that stood still be of the cluster again: one that was expelled comes back when it is told to.
func (n *nodes) rejoined(i int) {
	n.t.Helper()
	if n.cluster == group {
		n.do(i, append([]string{"STOP GROUP_REPLICATION"}, n.servers[i].Joins()...)...)
	}
	n.joined(i)
}

// brief bounds a call.
func brief(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// finds is an error unless a home answers, and then tells whether it has the key.
func finds(t *testing.T, h *Home, id catalog.IndexID, key string) (bool, error) {
	found, err := h.Lookup(brief(t), []Question{{Index: id, Key: []byte(key)}})
	if err != nil {
		return false, err
	}
	return found[0].Shards == set(1) || found[0].NoIndex, nil // without the index all shards are asked
}

// TestCluster: a home that is a cluster goes on when a node dies, and everything is there that was acknowledged. A node
// that stood still while others went on says nothing that isn't true any more, over whatever connection; one that
// has no majority says nothing.
func TestCluster(t *testing.T) {
	suite.Long(t)
	eachCluster(t, func(n *nodes) {
		h := openHome(n.t, n.config(0, 1, 2))
		const id = 1
		must[uint32](n.t)(h.CreateIndex(n.t.Context(), id))
		check(n.t, h.FinishBuild(n.t.Context(), id, 1, nil))
		keys := []string{}
		add := func(h *Home) error {
			key := fmt.Sprintf("k%d", len(keys))
			err := h.Add(brief(n.t), []storage.Entry{entry(id, key, 1, 1)})
			if err == nil {
				keys = append(keys, key)
			}
			return err
		}
		all := func(what string, h *Home) {
			n.t.Helper()
			for _, key := range keys {
				n.eventually(what+": it answers", func() error {
					ok, err := finds(n.t, h, id, key)
					if err == nil && !ok {
						n.t.Fatalf("%s: %s was added, and isn't there", what, key)
					}
					return err
				})
			}
		}
		check(n.t, add(h))
		all("at first", h)

		// The first stands still, with a transaction open, and the others go on.
		former := openHome(n.t, n.config(0))
		all("over a connection of its own", former)
		locked, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		var tries atomic.Int64
		go func() {
			ended <- former.transaction(context.Background(), func(tx *sql.Tx) error {
				if tries.Add(1) == 1 {
					if err := former.addPiece(context.Background(), tx, []storage.Entry{entry(id, "late", 1, 1)}); err != nil {
						return err
					}
					close(locked)
				}
				<-goOn
				return former.addPiece(context.Background(), tx, []storage.Entry{entry(id, "later", 1, 1)})
			})
		}()
		<-locked
		n.servers[0].Pause()
		n.eventually("another goes on", func() error { return add(h) })
		n.servers[0].Resume()
		close(goOn)
		refused := 0
		for began := time.Now(); time.Since(began) < 5*time.Second; {
			ok, err := finds(n.t, former, id, keys[len(keys)-1])
			if err == nil && !ok {
				n.t.Fatal("the first says what was true")
			}
			if err == nil {
				continue
			}
			refused++
		}
		if err := <-ended; err == nil {
			n.t.Error("a transaction of before has committed at a node that isn't the one in use")
		}
		n.t.Logf("%d times the first didn't answer", refused)
		if err := add(former); err == nil {
			all("what the first has taken", h)
		}
		n.rejoined(0)
		all("the first is back", h)

		// The one in use is killed, and comes back.
		i := n.inUse(h)
		n.servers[i].Kill()
		n.eventually("another goes on", func() error { return add(h) })
		all("one was killed", h)
		n.rejoin(i)
		n.eventually("all go on", func() error { return add(h) })
		all("it is back", h)

		// None that is alone answers.
		i = n.inUse(h)
		for k, s := range n.servers {
			if k != i {
				s.Pause()
			}
		}
		n.eventually("without a majority it doesn't answer", func() error {
			if err := add(h); err == nil {
				n.t.Fatal("it has added")
			}
			_, err := finds(n.t, h, id, keys[0])
			if _, named := errors.AsType[*OutError](err); !named {
				n.t.Fatalf("it answers, or says %v", err)
			}
			if !n.cluster.left(err) { // until the nodes have noticed
				return err
			}
			n.t.Log(err)
			return nil
		})
		for k, s := range n.servers {
			if k != i {
				s.Resume()
			}
		}
		n.eventually("with a majority it does", func() error { return add(h) })
		all("with a majority", h)
		if n.cluster == galera {
			n.handedOver(h, add)
		} else {
			n.left(h, id, func() string { check(n.t, add(h)); return keys[len(keys)-1] })
		}
		all("at last", h)
	})
}

// handedOver: another node of Galera is in use while the former is of the cluster, too.
func (n *nodes) handedOver(h *Home, add func(*Home) error) {
	n.t.Helper()
	check(n.t, add(h)) // so that there is a connection
	n.do(n.inUse(h), `UPDATE shunt_store.home SET server = (SELECT CONCAT(SUBSTRING_INDEX(h.server, ' ', 2), ' ', m.node_uuid)
		FROM (SELECT server FROM shunt_store.home) h, mysql.wsrep_cluster_members m WHERE LOCATE(CONVERT(m.node_uuid USING utf8mb4), h.server) = 0 LIMIT 1)`)
	if err := add(h); !errors.Is(err, errElsewhere) {
		n.t.Errorf("a node has taken something that isn't in use any more: %v", err)
	}
	n.eventually("the one in use takes it", func() error { return add(h) })
}

// left: a primary is told to leave its group, and says nothing that isn't true any more.
func (n *nodes) left(h *Home, id catalog.IndexID, added func() string) {
	n.t.Helper()
	i := n.inUse(h)
	former := openHome(n.t, n.config(i))
	must[bool](n.t)(finds(n.t, former, id, "none"))
	n.do(i, "STOP GROUP_REPLICATION")
	n.eventually("another goes on", func() error { _, err := h.Life(brief(n.t)); return err })
	var key string
	n.eventually("another is the primary", func() error {
		if err := h.Add(brief(n.t), []storage.Entry{entry(id, "probe", 1, 1)}); err != nil {
			return err
		}
		key = added()
		return nil
	})
	if ok, err := finds(n.t, former, id, key); err == nil && !ok {
		n.t.Error("one that has left the group says what was true")
	}
	n.do(i, n.servers[i].Joins()...)
	n.joined(i)
}

// inUse is the node to which a home connects.
func (n *nodes) inUse(h *Home) int {
	n.t.Helper()
	var port int
	n.eventually("a node is in use", func() error { return h.row(brief(n.t), &port, "SELECT @@GLOBAL.port") })
	return slices.IndexFunc(n.servers, func(s *throwaway.Server) bool { return s.Port() == port })
}
