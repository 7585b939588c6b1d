package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// counted counts what comes over a connection.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// TestCompression: large commands and answers, of one shard and of several, text
// and prepared, over a driver's compressed connection, which carries less.
func TestCompression(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 200, setup{})
		var came atomic.Int64
		c := p.conn(func(c *mysql.Config) {
			if err := c.Apply(mysql.EnableCompression(true)); err != nil {
				t.Fatal(err)
			}
			c.MaxAllowedPacket = 64 << 20
			c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				var d net.Dialer
				conn, err := d.DialContext(ctx, network, addr)
				return counted{conn, &came}, err
			}
		})
		mustExec(t, c, "CREATE TABLE pets (owner BIGINT NOT NULL PRIMARY KEY, name LONGTEXT NOT NULL)")
		sizes := []int{1, 49, 50, 51, 1 << 14, 1 << 20, 1<<24 - 1, 17 << 20}
		for i, size := range sizes {
			value := strings.Repeat("ab", size)[:size]
			mustExec(t, c, "INSERT INTO pets VALUES (?, ?)", i, value)
			var got string
			if err := c.QueryRowContext(t.Context(), fmt.Sprintf("SELECT name FROM pets WHERE owner = %d", i)).Scan(&got); err != nil || got != value {
				t.Errorf("%d bytes as text: got %d bytes, %v", size, len(got), err)
			}
			if err := c.QueryRowContext(t.Context(), "SELECT name FROM pets WHERE owner = ?", i).Scan(&got); err != nil || got != value {
				t.Errorf("%d bytes prepared: got %d bytes, %v", size, len(got), err)
			}
		}
		if n := came.Load(); n > 2<<20 {
			t.Errorf("%d bytes came for 70 MB of repetition", n)
		}
		// All shards, concatenated; merged; gathered.
		if got := mustRows(t, c, "SELECT id, email, REPEAT('x', 10000) AS pad FROM people"); len(got) != 200 {
			t.Errorf("%d rows", len(got))
		}
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "200")
		want(t, c, "SELECT COUNT(*) AS n FROM people a JOIN people b ON a.age = b.age AND a.id < b.id", "n", "300")
		wantError(t, execError(t, c, "SELECT nonsense FROM people WHERE id = 1"), 1054, "nonsense")
		want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
	})
}

// commandLine is mysql or mariadb with Shunt's address and account; nil where
// there is none.
func commandLine(t *testing.T, p *process, f *flavour, args ...string) *exec.Cmd {
	t.Helper()
	host, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--no-defaults", "-h" + host, "-P" + port, "-uapp", "-psecret", "--database=" + p.schema}, args...)
	src, err := throwaway.Find(t.Context(), f.name)
	if err != nil {
		t.Fatal(err)
	}
	if f.name == throwaway.MariaDB {
		path, err := exec.LookPath("mariadb")
		if err != nil {
			return nil
		}
		return exec.CommandContext(t.Context(), path, append(args, "--skip-ssl")...)
	}
	if src.Root == "" {
		return nil
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/mysql", args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: src.Root}
	return cmd
}

// TestCompressionOfClients: what the servers' own clients can.
func TestCompressionOfClients(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 50, setup{})
		options := [][]string{{"--compress"}}
		if f.name == throwaway.MySQL {
			options = [][]string{
				{"--commands", "--compression-algorithms=zlib,zstd"},
				{"--commands", "--compression-algorithms=zstd"},
				{"--commands", "--compression-algorithms=zstd", "--zstd-compression-level=19"},
			}
		}
		long := strings.Repeat("y", 2<<20)
		script := "SELECT CONCAT('sum ', SUM(id)) FROM people;\nSELECT id, REPEAT('z', 20000) FROM people;\nSELECT CONCAT('length ', LENGTH('" + long + "'));\nstatus\nSELECT nonsense;\nSELECT 'last';\n"
		for _, o := range options {
			cmd := commandLine(t, p, f, append(o, "-N", "--force", "--max-allowed-packet=64M")...)
			if cmd == nil {
				t.Skip("no client")
			}
			cmd.Stdin = strings.NewReader(script)
			out, err := cmd.CombinedOutput()
			got := string(out)
			for _, text := range []string{"sum 1225\n", fmt.Sprintf("length %d\n", len(long)), "Compressed", "ERROR 1054", "last\n"} {
				if !strings.Contains(got, text) {
					t.Errorf("%v: no %q: %v\n%.2000s", o, text, err, strings.ReplaceAll(got, "z", ""))
				}
			}
			if n := strings.Count(got, strings.Repeat("z", 20000)+"\n"); n != 50 {
				t.Errorf("%v: %d rows", o, n)
			}
		}
	})
}
