package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

func v2(command, family byte, body string) string {
	return proxyV2 + string([]byte{command, family, byte(len(body) >> 8), byte(len(body))}) + body
}

const (
	v4body = "\xc0\x00\x02\x01\x0a\x00\x00\x01\xdc\x04\x0c\xea"
	v6body = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06" + "\xdc\x04\x0c\xea"
)

func TestProxyHeader(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\r\n":        "192.0.2.1:56324",
		"PROXY TCP6 2001:db8::5 2001:db8::6 56324 3306\r\n":   "[2001:db8::5]:56324",
		"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:10.0.0.1 1 0\r\n": "192.0.2.1:1",
		"PROXY UNKNOWN\r\n": "none",
		"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n": "none",
		v2(0x21, 0x11, v4body):                               "192.0.2.1:56324",
		v2(0x21, 0x11, v4body+strings.Repeat("x", 5000)):     "192.0.2.1:56324",
		v2(0x21, 0x21, v6body):                               "[2001:db8::5]:56324",
		v2(0x20, 0x00, ""):                                   "none",
		v2(0x20, 0x11, v4body):                               "none",
		v2(0x21, 0x00, "abc"):                                "none",
		v2(0x21, 0x31, strings.Repeat("p", 216)):             "none",
		v2(0x21, 0x12, v4body):                               "", // a datagram
		v2(0x22, 0x11, v4body):                               "",
		v2(0x11, 0x11, v4body):                               "",
		v2(0x21, 0x11, v4body[1:]):                           "",
		v2(0x21, 0x21, v4body):                               "",
		v2(0x21, 0x11, v4body)[:20]:                          "",
		"PROXY TCP4 192.0.2.1 10.0.0.1 56324\r\n":            "",
		"PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306 \r\n":      "",
		"PROXY TCP4 192.0.2.1  10.0.0.1 56324 3306\r\n":      "",
		"PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\n\r":       "",
		"PROXY TCP4 192.0.2.1 10.0.0.1 +5 3306\r\n":          "",
		"PROXY TCP4 192.0.2.1 10.0.0.1 65536 3306\r\n":       "",
		"PROXY TCP4 192.0.2.1 10.0.0.1 05 3306\r\n":          "",
		"PROXY TCP4 2001:db8::5 2001:db8::6 56324 3306\r\n":  "",
		"PROXY TCP6 fe80::1%eth0 2001:db8::6 56324 3306\r\n": "",
		"PROXY TCP5 192.0.2.1 10.0.0.1 56324 3306\r\n":       "",
		"PROXY " + strings.Repeat("x", 200) + "\r\n":         "",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                  "",
		"PROXX TCP4 192.0.2.1 10.0.0.1 56324 3306\r\n":       "",
		"PROXY TCP4": "",
		"":           "",
	} {
		const behind = "the client's own bytes"
		whole := header
		if want != "" {
			whole += behind
		}
		r := strings.NewReader(whole)
		got, err := readProxyHeader(r)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: %v", header, got)
		case want == "":
		case err != nil, want == "none" && got.IsValid(), want != "none" && got.String() != want:
			t.Errorf("%q: %v, %v", header, got, err)
		case r.Len() != len(behind):
			t.Errorf("%q: %d bytes are left behind it", header, r.Len())
		}
	}
}

func TestAcceptProxied(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	patience := time.Minute
	try := func(send string) (net.Conn, net.Conn, error) {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if _, err := client.Write([]byte(send)); err != nil {
			t.Fatal(err)
		}
		server, err := AcceptProxied(t.Context(), nc, patience)
		return server, client, err
	}
	server, _, err := try("PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\r\n")
	if err != nil || server.RemoteAddr().String() != "192.0.2.1:56324" || host(server) != "192.0.2.1" {
		t.Fatalf("%v %v", server, err)
	}
	if newIdleWait(server) == nil || Gone(server) {
		t.Error("it is no socket any more")
	}
	server, client, err := try("PROXY UNKNOWN\r\n")
	if err != nil || server.RemoteAddr().String() != client.LocalAddr().String() {
		t.Errorf("%v %v", server, err)
	}
	_, client, err = try("GET / HTTP/1.0\r\n\r\n")
	if !errors.Is(err, ErrProxyHeader) {
		t.Error(err)
	}
	if told, _ := io.ReadAll(client); !bytes.Contains(told, []byte("PROXY protocol")) {
		t.Errorf("told %q", told)
	}
	patience = 200 * time.Millisecond
	if _, _, err = try("PROXY TCP4"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a slow peer: %v", err)
	}
}

func FuzzProxyHeader(f *testing.F) {
	suite.Promise(f)
	f.Add([]byte("PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\r\n"))
	f.Add([]byte(v2(0x21, 0x11, v4body)))
	f.Add([]byte(v2(0x21, 0x21, v6body)))
	f.Fuzz(func(t *testing.T, p []byte) {
		addr, err := readProxyHeader(bytes.NewReader(p))
		if err != nil && addr != (netip.AddrPort{}) {
			t.Errorf("%v with %v", addr, err)
		}
		if addr.IsValid() && addr.Addr().Is4In6() {
			t.Errorf("%v", addr)
		}
	})
}
