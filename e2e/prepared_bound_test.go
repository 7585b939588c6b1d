package e2e

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// preparedOnServers are the prepared statements of each server.
func (p *process) preparedOnServers() []int {
	p.t.Helper()
	counts := make([]int, len(p.servers))
	for i := range p.servers {
		rows := mustRows(p.t, p.shard(i), "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")
		n, err := strconv.Atoi(rows[0]["Value"])
		if err != nil {
			p.t.Fatal(err)
		}
		counts[i] = n
	}
	return counts
}

// TestPreparedAreBounded: clients that prepare, execute and close ever new
// statements leave no more of them on the shards than the configuration says.
// SHUNT_E2E_PREPARED=100000 for the full number.
func TestPreparedAreBounded(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		const connections, kept, clients = 6, 20, 12
		total := envInt(t, "SHUNT_E2E_PREPARED", 3000)
		servers := f.own(t, 2)
		p, c := startPeople(t, f, 20, setup{servers: servers, extra: fmt.Sprintf(
			"shard_connections: %d\nshard_prepared_statements: %d\nmax_prepared_statements: 50", connections, kept)})
		before := p.preparedOnServers()
		highest := 0
		look := func() {
			for i, n := range p.preparedOnServers() {
				if n -= before[i]; n > connections*kept {
					t.Errorf("server %d has %d prepared statements, want at most %d", i, n, connections*kept)
				}
				highest = max(highest, n)
			}
		}
		var wg sync.WaitGroup
		began := time.Now()
		for client := range clients {
			conn := p.conn()
			wg.Go(func() {
				for i := client; i < total; i += clients {
					st, err := conn.PrepareContext(t.Context(), fmt.Sprintf("SELECT id, %d AS n FROM people WHERE id = ?", i))
					if err != nil {
						t.Errorf("prepare %d: %v", i, err)
						return
					}
					var id, n int
					if err := st.QueryRowContext(t.Context(), i%20).Scan(&id, &n); err != nil || id != i%20 || n != i {
						t.Errorf("execute %d: %d, %d, %v", i, id, n, err)
					}
					if err := st.Close(); err != nil {
						t.Errorf("close %d: %v", i, err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(200 * time.Millisecond):
				look()
			}
		}
		look()
		if highest < kept {
			t.Errorf("at most %d statements were seen: nothing was measured", highest)
		}
		t.Logf("%d statements by %d clients in %v; at most %d on a server, bound %d", total, clients, time.Since(began).Round(time.Millisecond), highest, connections*kept)
		if n, _ := p.metric("shunt_prepared_statements"); n != 0 {
			t.Errorf("shunt_prepared_statements is %v after all were closed", n)
		}

		// A client's own bound, and room again after a close.
		for i := range 50 {
			if _, err := c.PrepareContext(t.Context(), fmt.Sprintf("SELECT %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.PrepareContext(t.Context(), "SELECT 50")
		wantError(t, err, 1461, "current value: 50")
		if n, _ := p.metric("shunt_prepared_statements"); n != 50 {
			t.Errorf("shunt_prepared_statements is %v, want 50", n)
		}
	})
}

// TestPreparedSurvive: a statement that was prepared before goes on after its
// shards' connections were lost, and after DDL behind Shunt's back.
func TestPreparedSurvive(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		st, err := c.PrepareContext(t.Context(), "SELECT * FROM people WHERE id = ?")
		if err != nil {
			t.Fatal(err)
		}
		look := func(columns int) {
			t.Helper()
			for id := range 20 {
				rows, err := st.QueryContext(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				names, err := rows.Columns()
				if err != nil || len(names) != columns {
					t.Errorf("columns %v (%v), want %d", names, err, columns)
				}
				n := 0
				for rows.Next() {
					n++
				}
				if err := rows.Close(); err != nil || n != 1 {
					t.Errorf("%d rows: %v", n, err)
				}
			}
		}
		names := mustRows(t, c, "SELECT * FROM people WHERE id = 3")
		look(len(names[0]))
		for i := range p.servers {
			for _, r := range mustRows(t, p.shard(i), "SELECT id FROM information_schema.processlist WHERE db = '"+p.schema+"' AND id <> CONNECTION_ID() AND command = 'Sleep'") {
				// It may just have gone by itself.
				_, _ = p.shard(i).ExecContext(t.Context(), "KILL "+r["id"])
			}
		}
		eventually(t, "shards answer again", func() bool {
			_, err := rowsOf(t.Context(), c, "SELECT COUNT(*) FROM people")
			return err == nil
		})
		look(len(names[0]))
		for i := range p.servers {
			mustExec(t, p.shard(i), "ALTER TABLE people ADD COLUMN added INT NOT NULL DEFAULT 5")
		}
		look(len(names[0]) + 1)
		mustExec(t, c, "ALTER TABLE people DROP COLUMN added")
		look(len(names[0]))
	})
}
