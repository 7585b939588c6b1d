package e2e

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestSocketAndToken: clients of the machine come by a Unix socket, which a
// killed process may have left; HTTP asks for its token.
func TestSocketAndToken(t *testing.T) {
	t.Parallel()
	f := flavours[0]
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // t.TempDir's paths are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "shunt.sock")
	const token = "0123456789abcdef"
	p := start(t, f, setup{extra: "socket: " + socket + "\nhttp_token: " + token + "\n", unchecked: true})
	bySocket := func(c *mysql.Config) { c.Net, c.Addr = "unix", socket }
	want(t, p.conn(bySocket), "SELECT 1 + 1 AS n", "n", "2")
	want(t, p.conn(), "SELECT 1 + 1 AS n", "n", "2")

	for header, status := range map[string]int{"": 401, "Bearer " + token: 200, "Bearer x": 401, token: 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.http+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		resp, err := httpClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("Authorization %q: %d, want %d", header, resp.StatusCode, status)
		}
	}
	if status, _, err := p.get("/healthz"); status != http.StatusOK || err != nil {
		t.Errorf("health: %d %v", status, err)
	}

	p.kill()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatal(err)
	}
	p.run()
	want(t, p.conn(bySocket), "SELECT 1 + 1 AS n", "n", "2")
	if code := p.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket has stayed: %v", err)
	}
}
