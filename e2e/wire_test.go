package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
)

func TestAuthentication(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		ping := func(user, password, schema string) error {
			return open(t, p.addr, user, password, schema).PingContext(t.Context())
		}
		if err := ping("app", "secret", ""); err != nil {
			t.Errorf("the right password: %v", err)
		}
		if err := ping("empty", "", ""); err != nil {
			t.Errorf("an empty password: %v", err)
		}
		wantError(t, ping("app", "wrong", ""), 1045, "app")
		wantError(t, ping("app", "", ""), 1045, "app")
		// An unknown user can't be told from a wrong password.
		wantError(t, ping("nobody", "secret", ""), 1045, "nobody")
		wantError(t, ping("empty", "x", ""), 1045, "empty")
		wantError(t, ping("app", "secret", "no_such_schema"), 1049, "no_such_schema")
	})
}

// TestHostileBytes: packets that claim 1 GiB cost no memory, and get an error or the end of the
// connection. proxy has a test of the same name of all else that may arrive.
func TestHostileBytes(t *testing.T) {
	suite.Promise(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		before := p.stats()
		for range 5 {
			c := rawLogin(t, p)
			// 64 full packets of 16 MiB announced, nothing but headers sent.
			if _, err := c.Write([]byte{0xff, 0xff, 0xff, 0, 3}); err != nil {
				t.Error(err)
			}
			c.Close()
		}
		c := rawLogin(t, p)
		head := []byte{0xff, 0xff, 0xff, 0}
		chunk := make([]byte, 1<<24-1)
		chunk[0] = 3
		var sent int
		for sent < 1<<30 {
			head[3] = byte(sent / len(chunk))
			if _, err := c.Write(append(head, chunk...)); err != nil {
				break
			}
			sent += len(chunk)
		}
		if sent >= 1<<30 {
			t.Error("a 1 GiB command is read to its end")
		}
		c.Close()
		// One command of at most 64 MiB, and what growing its buffer leaves.
		if now := p.stats(); now.memory > before.memory+300<<20 && !race {
			t.Errorf("memory rose from %d to %d MiB", before.memory>>20, now.memory>>20)
		}
		want(t, p.open(""), "SELECT 1 AS one", "one", "1")
		eventually(t, "goroutines and files are back", func() bool {
			now := p.stats()
			return now.goroutines <= before.goroutines+10 && now.files <= before.files+10
		})
	})
}

// rawLogin is a connection past the handshake, through the driver's dialer.
func rawLogin(t *testing.T, p *process) net.Conn {
	t.Helper()
	var raw net.Conn
	db := open(t, p.addr, "app", "secret", "", func(c *mysql.Config) {
		c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, addr)
			raw = conn
			return conn, err
		}
	})
	if _, err := db.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestIdleConnections: many idle clients cost little and leave nothing.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	f := flavours[len(flavours)-1]
	p, c := startPeople(t, f, 20, setup{})
	n := suite.Size(300, 2000)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < 3*uint64(n) {
		n = int(limit.Cur / 3)
	}
	want(t, c, "SELECT id FROM people WHERE id = 1", "id", "1")
	base := p.stats()
	db := p.db()
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	conns := make([]*sql.Conn, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range conns {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			conns[i] = conn
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	full := p.stats()
	if full.files < n { // not base's beside them: those to the shards come and go
		t.Errorf("%d files with %d connections", full.files, n)
	}
	if each := (full.memory - base.memory) / int64(n); each > 100<<10 && !race {
		t.Errorf("an idle connection costs %d KiB", each>>10)
	}
	// Any of them still works, and others beside them.
	for i := 0; i < n; i += n / 10 {
		want(t, conns[i], "SELECT id FROM people WHERE email = 'p3@x'", "id", "3")
	}
	// Half of them leave politely, half of them just go.
	for i, conn := range conns {
		if i%2 == 0 {
			if err := conn.Raw(func(d any) error { return d.(io.Closer).Close() }); err != nil {
				t.Error(err)
			}
		}
		conn.Close()
	}
	db.Close()
	eventually(t, "goroutines and files are back", func() bool {
		now := p.stats()
		return now.goroutines <= base.goroutines+10 && now.files <= base.files+10
	})
}

// TestTooManyConnections: the one too many gets error 1040.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	p := start(t, flavours[0], setup{extra: "max_connections: 5", unchecked: true})
	db := p.open("")
	var conns []*sql.Conn
	var refused error
	for range 10 {
		c, err := db.Conn(t.Context())
		if err != nil {
			refused = err
			break
		}
		conns = append(conns, c)
	}
	wantError(t, refused, 1040, "")
	for _, c := range conns {
		if err := c.Raw(func(d any) error { return d.(io.Closer).Close() }); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	eventually(t, "connections are free again", func() bool { return p.open("").PingContext(t.Context()) == nil })
}

// TestLargeResult: a result of 1 GiB to a slow reader, in bounded memory.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	f := flavours[len(flavours)-1]
	p, c := startPeople(t, f, 5, setup{})
	// One row of 64 KiB on one shard, repeated by a join with numbers.
	mustExec(t, c, "CREATE TABLE pets (owner BIGINT NOT NULL, name MEDIUMTEXT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (owner, n))")
	const width = 64 << 10
	mustExec(t, c, fmt.Sprintf("INSERT INTO pets VALUES (1, REPEAT('x', %d), 0)", width))
	total := suite.Size(64<<20, 1<<30)
	count := total / width
	digits := "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7)"
	query := "/* shunt: shard=%s */ SELECT name FROM pets JOIN " + digits + " a JOIN " + digits + " b JOIN " + digits + " c JOIN " + digits + " d JOIN " +
		digits + " e WHERE owner = 1 LIMIT " + fmt.Sprint(count)
	shard := routeOf(t, c, "SELECT name FROM pets WHERE owner = 1").shards[0]
	var peak int64
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				peak = max(peak, p.rss())
			}
		}
	}()
	rows, err := c.QueryContext(t.Context(), fmt.Sprintf(query, shard))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	read := 0
	pause := time.NewTimer(0)
	defer pause.Stop()
	for rows.Next() {
		var b sql.RawBytes
		if err := rows.Scan(&b); err != nil {
			t.Fatal(err)
		}
		read += len(b)
		// A slow reader: it stops for a moment every 8 MiB.
		if read%(8<<20) == 0 {
			pause.Reset(50 * time.Millisecond)
			<-pause.C
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-watched
	if read != count*width {
		t.Errorf("read %d bytes, want %d", read, count*width)
	}
	t.Logf("%d MiB read, peak resident memory of the proxy %d MiB", read>>20, peak>>20)
	if peak > 200<<20 && !race {
		t.Errorf("the proxy's resident memory reached %d MiB", peak>>20)
	}
	// A reader that goes away in the middle.
	gone := p.conn()
	ctx, cancel := context.WithCancel(t.Context())
	partial, err := gone.QueryContext(ctx, fmt.Sprintf(query, shard))
	if err != nil {
		t.Fatal(err)
	}
	if !partial.Next() {
		t.Error(partial.Err())
	}
	cancel()
	partial.Close()
	want(t, p.conn(), "SELECT n FROM pets WHERE owner = 1", "n", "0")
}

// rss is the process's resident memory; 0 when it can't be read.
func (p *process) rss() int64 {
	p.mu.Lock()
	pid := p.cmd.Process.Pid
	p.mu.Unlock()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// TestLargeValues: values around the 16 MiB packet limit pass both ways.
func TestLargeValues(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	f := flavours[0]
	p, c := startPeople(t, f, 5, setup{})
	mustExec(t, c, "CREATE TABLE pets (owner BIGINT NOT NULL PRIMARY KEY, name LONGTEXT NOT NULL)")
	mustExec(t, c, fmt.Sprintf("INSERT INTO pets VALUES (100, '%s')", strings.Repeat("t", 15<<20)))
	want(t, c, "SELECT LENGTH(name) AS n FROM pets WHERE owner = 100", "n", fmt.Sprint(15<<20))
	for i, size := range []int{1<<24 - 2, 1<<24 - 1, 1 << 24, 1<<24 + 1, 20 << 20} {
		value := strings.Repeat("v", size)
		big := p.conn(func(c *mysql.Config) { c.MaxAllowedPacket = 64 << 20 })
		if _, err := big.ExecContext(t.Context(), "INSERT INTO pets VALUES (?, ?)", i, value); err != nil {
			t.Fatalf("%d bytes: %.200s", size, err)
		}
		var got string
		if err := big.QueryRowContext(t.Context(), fmt.Sprintf("SELECT name FROM pets WHERE owner = %d", i)).Scan(&got); err != nil || got != value {
			t.Errorf("%d bytes: got %d bytes, %v", size, len(got), err)
		}
	}
}
