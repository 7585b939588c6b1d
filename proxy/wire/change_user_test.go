package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
)

func changeUserBytes(user string, auth []byte, rest string) []byte {
	p := append([]byte(user), 0, byte(len(auth)))
	return append(append(p, auth...), rest...)
}

func TestChangeUser(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{})
	native := func(salt []byte) []byte { return mysql.CalcNativePassword(salt, []byte("secret")) }
	sha2 := func(salt []byte) []byte { return mysql.CalcCachingSha2Password(salt, []byte("secret")) }
	const all = mysql.CLIENT_PLUGIN_AUTH | mysql.CLIENT_CONNECT_ATTRS
	for name, tc := range map[string]struct {
		caps  uint32
		user  string
		rest  string // behind the answer to the first salt
		asked string
		again func(salt []byte) []byte
		info  string // "" where it is refused
	}{
		"sha2":               {all, "app", "shop\x00\x21\x00caching_sha2_password\x00\x04\x01k\x01v", "caching_sha2_password", sha2, "app/shop/33/v"},
		"native":             {all, "app", "\x00\x21\x00mysql_native_password\x00", "mysql_native_password", native, "app//33/"},
		"native, old salt":   {all, "app", "\x00\x21\x00mysql_native_password\x00", "mysql_native_password", nil, "app//33/"},
		"no password":        {all, "open", "shop\x00", "caching_sha2_password", func([]byte) []byte { return []byte{0} }, "open/shop/45/"},
		"before plugins":     {0, "app", "shop\x00", "", nil, "app/shop/45/"},
		"old salt's answer":  {all, "app", "\x00\x21\x00caching_sha2_password\x00", "caching_sha2_password", nil, ""},
		"unknown user":       {all, "eve", "\x00", "caching_sha2_password", sha2, ""},
		"another's password": {all, "open", "\x00", "caching_sha2_password", sha2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dialRaw(t, s)
			c.write(helloBytes(tc.caps, "app", native(c.salt), "mysql_native_password"))
			if _, err := ParseOK(c.read()); err != nil {
				t.Fatal(err)
			}
			c.w.SetSequence(0)
			c.write(append([]byte{mysql.COM_CHANGE_USER}, changeUserBytes(tc.user, native(c.salt), tc.rest)...))
			p := c.read()
			if tc.asked != "" {
				plugin, salt, ok := takeNul(p[1:])
				salt = bytes.TrimSuffix(salt, []byte{0})
				if p[0] != 0xFE || !ok || string(plugin) != tc.asked || bytes.Equal(salt, c.salt) {
					t.Fatalf("asked %q", p)
				}
				switch {
				case tc.again == nil && tc.asked == mysql.AUTH_NATIVE_PASSWORD:
					c.write(native(c.salt)) // as libmariadb does
				case tc.again == nil:
					c.write(sha2(c.salt))
				default:
					c.write(tc.again(salt))
				}
				if p = c.read(); string(p) == "\x01\x03" {
					p = c.read()
				}
			}
			if tc.info == "" {
				if e, err := ParseError(p); err != nil || e.Code != 1045 {
					t.Fatalf("got %q", p)
				}
				if _, err := c.r.ReadPacket(100); !errors.Is(err, io.EOF) {
					t.Fatalf("got %v, want the connection's end", err)
				}
				return
			}
			if ok, err := ParseOK(p); err != nil || ok.Info != tc.info {
				t.Fatalf("got %q, want %q", p, tc.info)
			}
			// What follows is a command like any other.
			c.w.SetSequence(0)
			c.write([]byte{mysql.COM_PING})
			if _, err := ParseOK(c.read()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func FuzzParseChangeUser(f *testing.F) {
	suite.Promise(f)
	f.Add(changeUserBytes("app", []byte("12345678901234567890"), "shop\x00\x21\x00caching_sha2_password\x00\x04\x01k\x01v"), serverCapabilities)
	f.Add(changeUserBytes("", nil, ""), uint32(0))
	f.Fuzz(func(t *testing.T, p []byte, caps uint32) {
		r, err := parseChangeUser(p, caps, 45)
		if err == nil && len(r.user)+len(r.schema)+len(r.plugin)+len(r.auth) > len(p) {
			t.Errorf("%q says more than it holds: %+v", p, r)
		}
	})
}
