package e2e

import (
	"context"
	"database/sql"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// TestProxyProtocol: behind a load balancer, which is 127.0.0.2 here, clients are
// known by their own addresses.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	p := start(t, flavours[0], setup{extra: "proxy_protocol: [127.0.0.2, '2001:db8::/32']\nserver_version: 8.0.99-balanced"})
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}
	through := func(header string) *sql.DB {
		return p.open("", func(c *mysql.Config) {
			c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, addr)
				if err == nil {
					_, err = io.WriteString(conn, header)
				}
				return conn, err
			}
		})
	}
	v2 := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + "\xc0\x00\x02\x09\x0a\x00\x00\x01\xdc\x04\x0c\xea"
	local := "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	for header, host := range map[string]string{
		"PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\r\n":      "192.0.2.1",
		"PROXY TCP6 2001:db8::5 2001:db8::6 56324 3306\r\n": "2001:db8::5",
		"PROXY UNKNOWN\r\n": "127.0.0.2",
		v2:                  "192.0.2.9",
		local:               "127.0.0.2",
	} {
		c, err := through(header).Conn(t.Context())
		if err != nil {
			t.Errorf("%q: %v", header, err)
			continue
		}
		want(t, c, "SELECT USER() AS u", "u", "app@"+host)
		found := false
		for _, r := range mustRows(t, c, "SHOW PROCESSLIST") {
			found = found || r["Host"] == host && strings.EqualFold(r["Info"], "SHOW PROCESSLIST")
		}
		if !found {
			t.Errorf("%q: not in the list: %v", header, mustRows(t, c, "SHOW PROCESSLIST"))
		}
		c.Close()
	}
	wantError(t, p.open("", func(c *mysql.Config) { c.Passwd = "wrong" }).PingContext(t.Context()), 1045, "127.0.0.1")
	wantError(t, through("GET / HTTP/1.1\r\n\r\n").PingContext(t.Context()), 1043, "PROXY")
	// From elsewhere nobody may say who he is.
	direct := p.open("", func(c *mysql.Config) {
		c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, addr)
			if err == nil {
				_, err = io.WriteString(conn, "PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\r\n")
			}
			return conn, err
		}
	})
	if err := direct.PingContext(t.Context()); err == nil {
		t.Error("a header from elsewhere is believed")
	}
	// A look at the port leaves nothing behind.
	probe, err := dialer.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	probe.Close()

	c, err := dialWire(p.addr, "app", "secret", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := strings.TrimRight(c.GetServerVersion(), "\x00"); got != "8.0.99-balanced" {
		t.Errorf("server version %q", got)
	}
}
