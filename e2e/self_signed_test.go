package e2e

import (
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestSelfSigned: with a certificate that nobody has signed clients of both kinds encrypt
// their connections, and MariaDB's from 11.4 on trust it by their password.
func TestSelfSigned(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		const sha2 = "sha2:047d2dee887046ba139f9f82053dec0bc25dbbc934f67fdd674facf7f5139944" // of secret2
		p := start(t, f, setup{extra: "tls: {self_signed: true}", users: []string{"{name: hashed, password_hash: '" + sha2 + "'}"}})
		for _, mode := range []string{"skip-verify", "preferred", "false"} {
			c := p.conn(func(c *mysql.Config) { c.TLSConfig = mode })
			want(t, c, "SELECT 7 AS n", "n", "7")
		}
		c := p.conn(func(c *mysql.Config) { c.User, c.Passwd, c.TLSConfig = "hashed", "secret2", "skip-verify" })
		want(t, c, "SELECT 7 AS n", "n", "7")
		src, err := throwaway.Find(t.Context(), f.name)
		if err != nil {
			t.Fatal(err)
		}
		if src.Root == "" {
			return // the machine's own mariadb is older
		}
		// To MariaDB's clients 127.0.0.1 is safe as it is.
		host, port, err := net.SplitHostPort(elsewhere(t, p.addr))
		if err != nil {
			t.Fatal(err)
		}
		run := func(args ...string) (string, error) {
			program := map[throwaway.Flavour]string{throwaway.MySQL: "/usr/bin/mysql", throwaway.MariaDB: "/usr/bin/mariadb"}[f.name]
			cmd := exec.CommandContext(t.Context(), program, append([]string{"--no-defaults", "--protocol=tcp", "-h" + host, "-P" + port, "-N", "-eSELECT 6 + 1"}, args...)...)
			cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: src.Root}
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		if out, err := run("-uapp", "-psecret"); err != nil || !strings.Contains(out, "7") {
			t.Errorf("by password: %s%v", out, err)
		}
		if out, err := run("-uapp", "-pwrong"); err == nil || !strings.Contains(out, "1045") {
			t.Errorf("by a wrong password: %s%v", out, err)
		}
		required := map[throwaway.Flavour]string{throwaway.MySQL: "--ssl-mode=REQUIRED", throwaway.MariaDB: "--ssl-verify-server-cert"}[f.name]
		if out, err := run("-uapp", "-psecret", required); err != nil || !strings.Contains(out, "7") {
			t.Errorf("%s: %s%v", required, out, err)
		}
	})
}

// elsewhere is another address that leads to addr.
func elsewhere(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				continue
			}
			for a, b := range map[net.Conn]net.Conn{near: far, far: near} {
				go func() {
					_, _ = io.Copy(a, b)
					a.Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}
