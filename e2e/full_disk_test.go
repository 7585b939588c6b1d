package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// smallLog has a server's binary log on a small disk of its own; full fills that, and free frees it again.
func smallLog(t *testing.T, s *throwaway.Server) (full, free func()) {
	t.Helper()
	s.Shutdown()
	dir := s.LogsTo()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("needs a small disk: %v", err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fills(t, filepath.Join(dir, "fill"))
}

// smallDisk has a server's data on a small disk of its own; full fills that, and free frees it again.
func smallDisk(t *testing.T, s *throwaway.Server) (full, free func()) {
	t.Helper()
	s.Shutdown()
	dir := filepath.Dir(s.Socket())
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400m"); err != nil {
		t.Skipf("needs a small disk: %v", err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.CopyFS(dir, os.DirFS(dir+".away")); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fills(t, filepath.Join(dir, "fill"))
}

// fills is a file that takes all that is left of its disk, and its removal.
func fills(t *testing.T, file string) (full, free func()) {
	full = func() {
		f, err := os.Create(file)
		for err == nil {
			_, err = f.Write(make([]byte, 4<<10))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		f.Close()
	}
	return full, func() {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShardsDiskFull: a server that can't write its binary log has commits wait until it can. That is
// told, what waits ends with an error, further writes are refused, and reads go on.
func TestShardsDiskFull(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		full, free := smallLog(t, servers[1])
		p, c := startPeople(t, f, 40, setup{servers: servers, extra: "commit_timeout: 3s\nshard_connections: 12\n"})
		on := func(shard string) (ids []int) {
			for id := range 40 {
				if routeOf(t, c, fmt.Sprintf("SELECT * FROM people WHERE id = %d", id)).shards[0] == shard {
					ids = append(ids, id)
				}
			}
			return ids
		}
		s0, s1 := on("s0"), on("s1")
		state := func() (state, why string) {
			for _, r := range mustRows(t, c, "SHOW SHARDS") {
				if r["Name"] == "s1" {
					state, why = r["State"], r["Error"]
				}
			}
			return state, why
		}
		update := func(id int, city string) string {
			return fmt.Sprintf("UPDATE people SET email = '%s%d@x', city = REPEAT('%s', 20) WHERE id = %d", city, id, city[:1], id)
		}
		opened := p.conn()
		mustExec(t, opened, "BEGIN")
		mustExec(t, opened, update(s1[0], "open"))
		full()

		// A client that goes while its statement waits. Writes fill what was left of the last block.
		var writers sync.WaitGroup
		gone := p.conn()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = gone.ExecContext(ctx, update(s1[1], fmt.Sprint("gone", i))) // until it waits
			}
		})
		var mu sync.Mutex
		var told []string
		for _, id := range s1[2:12] {
			w := p.conn()
			writers.Go(func() {
				for i := 0; ; i++ {
					if _, err := w.ExecContext(t.Context(), update(id, fmt.Sprint("full", i))); err != nil {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, err.Error())
						return
					}
				}
			})
		}
		eventually(t, "SHOW SHARDS tells", func() bool {
			state, why := state()
			return state == "stalled" && strings.Contains(strings.ToLower(why), "disk") || state == "stalled" && strings.Contains(why, "free space")
		})
		writers.Wait()
		for _, text := range told {
			if !strings.Contains(text, "1021") || !strings.Contains(text, "s1 can't write") {
				t.Errorf("a write that waited: %s", text)
			}
		}
		if v, _ := p.metric("shunt_shard_stalled", `shard="s1"`); v != 1 {
			t.Errorf("shunt_shard_stalled is %v", v)
		}
		if !strings.Contains(p.log.String(), "shard is stalled") {
			t.Error("the log doesn't tell")
		}
		// What was open before, and what comes now.
		if _, err := opened.ExecContext(t.Context(), "COMMIT"); err == nil || !strings.Contains(err.Error(), "commit_timeout") {
			t.Errorf("COMMIT of what was open: %v", err)
		}
		_, err := p.db().ExecContext(t.Context(), update(s1[0], "later"))
		wantError(t, err, 1021, "nothing was sent")
		_, err = p.db().ExecContext(t.Context(), "CREATE TABLE more (id INT PRIMARY KEY)")
		wantError(t, err, 1021, "nothing was sent")
		for _, id := range s0[:5] {
			mustExec(t, p.db(), update(id, "zero"))
		}
		want(t, p.db(), "SELECT COUNT(*) AS n FROM people", "n", "40")
		for _, id := range s1 {
			want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE id = %d", id), "id", fmt.Sprint(id))
		}
		mustRows(t, onShard(t, servers[1], ""), "SELECT 1") // the server has not been made to stop
		if strings.Contains(servers[1].Log(), "ABORT_SERVER") {
			t.Error("a KILL has stopped the server")
		}

		free()
		eventuallyEach(t, time.Second, "the shard is written to again", func() bool {
			_, err := p.db().ExecContext(t.Context(), update(s1[0], "again"))
			return err == nil
		})
		if state, why := state(); state != "up" {
			t.Errorf("SHOW SHARDS: %s, %s", state, why)
		}
		mustExec(t, p.db(), "CREATE TABLE more (id INT PRIMARY KEY)")
		for _, id := range s1 {
			row := mustRows(t, p.db(), fmt.Sprintf("SELECT email FROM people WHERE id = %d", id))[0]
			want(t, p.db(), "SELECT id FROM people WHERE email = '"+row["email"]+"'", "id", fmt.Sprint(id))
		}
	})
}
