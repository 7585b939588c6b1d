package wire

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestPasswordItself: plugins that send the password, under a key that the client
// asks for or through TLS, for users of whom only some hash is known.
func TestPasswordItself(t *testing.T) {
	t.Parallel()
	server, client := testTLS(t)
	s := startServer(t, Options{TLS: server})
	attrs := func(version string) []byte {
		p := AppendLenBytes(AppendLenBytes(nil, "_client_name"), "libmysql")
		return AppendLenBytes(nil, AppendLenBytes(AppendLenBytes(p, "_client_version"), version))
	}
	for name, tc := range map[string]struct {
		user, password, plugin, version string
		tls                             bool
		// switched is the plugin that is asked for, full that the password is.
		switched string
		full     bool
		ok       bool
		// elixir answers caching_sha2_password as MyXQL does.
		elixir bool
	}{
		"sha256":                       {"app", "secret", "sha256_password", "8.0.36", false, "sha256_password", false, true, false},
		"sha256, wrong":                {"app", "wrong", "sha256_password", "8.0.36", false, "sha256_password", false, false, false},
		"sha256, TLS":                  {"app", "secret", "sha256_password", "8.0.36", true, "sha256_password", false, true, false},
		"sha256, TLS, wrong":           {"app", "secre", "sha256_password", "8.0.36", true, "sha256_password", false, false, false},
		"sha256, native hash":          {"native", "secret", "sha256_password", "5.7.44", false, "sha256_password", false, true, false},
		"sha256, sha2 hash":            {"sha2", "secret", "sha256_password", "5.7.44", false, "sha256_password", false, true, false},
		"sha256, nobody":               {"eve", "secret", "sha256_password", "5.7.44", false, "sha256_password", false, false, false},
		"sha256, needless":             {"open", "secret", "sha256_password", "5.7.44", false, "sha256_password", false, false, false},
		"native lost":                  {"native", "secret", "caching_sha2_password", "9.7.4", false, "", true, true, false},
		"native lost, wrong":           {"native", "wrong", "caching_sha2_password", "9.7.4", false, "", true, false, false},
		"native lost, other plugin":    {"native", "secret", "dialog", "9.7.4", false, "caching_sha2_password", true, true, false},
		"native hash through TLS":      {"native", "secret", "caching_sha2_password", "8.4.0", true, "", true, true, false},
		"native hash, TLS, wrong":      {"native", "x", "caching_sha2_password", "8.4.0", true, "", true, false, false},
		"native hash, client has it":   {"native", "secret", "caching_sha2_password", "8.0.36", false, "mysql_native_password", false, true, false},
		"native hash, client wants it": {"native", "secret", "mysql_native_password", "8.0.36", true, "mysql_native_password", false, true, false},
		"Elixir":                       {"app", "secret", "caching_sha2_password", "", false, "", true, true, true},
		"Elixir, TLS":                  {"sha2", "secret", "caching_sha2_password", "", true, "", true, true, true},
		"Elixir, asked":                {"app", "secret", "dialog", "", false, "caching_sha2_password", true, true, true},
		"Elixir, wrong":                {"app", "wrong", "caching_sha2_password", "", false, "", false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dialRaw(t, s)
			caps := mysql.CLIENT_PLUGIN_AUTH | mysql.CLIENT_CONNECT_ATTRS
			if tc.tls {
				caps |= mysql.CLIENT_SSL
				hello := helloBytes(caps, "", nil, "")
				c.write(hello[:32])
				conn := tls.Client(c.nc, client)
				seq := c.w.Sequence()
				c.nc, c.r, c.w = net.Conn(conn), NewReader(conn), NewWriter(conn)
				c.w.SetSequence(seq)
			}
			answer := mysql.CalcCachingSha2Password(c.salt, []byte(tc.password))
			if tc.elixir {
				once := sha256.Sum256([]byte(tc.password))
				twice := sha256.Sum256(once[:])
				mask := sha256.Sum256(append(append([]byte(nil), c.salt...), twice[:]...))
				answer = mysql.Xor(mask[:], once[:])
			}
			first := []byte(nil)
			if tc.plugin == mysql.AUTH_CACHING_SHA2_PASSWORD {
				first = answer
			}
			c.write(append(helloBytes(caps, tc.user, first, tc.plugin), attrs(tc.version)...))
			p := c.read()
			if tc.switched != "" {
				if want := fmt.Sprintf("\xFE%s\x00%s\x00", tc.switched, c.salt); string(p) != want {
					t.Fatalf("asked %q, want %q", p, want)
				}
				switch tc.switched {
				case mysql.AUTH_NATIVE_PASSWORD:
					c.write(mysql.CalcNativePassword(c.salt, []byte(tc.password)))
				case mysql.AUTH_CACHING_SHA2_PASSWORD:
					c.write(answer)
				default:
					p = []byte{1}
				}
				if tc.switched != mysql.AUTH_SHA256_PASSWORD {
					p = c.read()
				}
			}
			if tc.full {
				if string(p) != "\x01\x04" {
					t.Fatalf("got %q, want the question for the password", p)
				}
				p = []byte{2}
			}
			if tc.full || tc.switched == mysql.AUTH_SHA256_PASSWORD {
				if tc.tls {
					c.write(append([]byte(tc.password), 0))
				} else {
					c.write(p)
					pub := c.read()
					block, _ := pem.Decode(pub[1:])
					if pub[0] != 1 || block == nil {
						t.Fatalf("key %q", pub)
					}
					key, err := x509.ParsePKIXPublicKey(block.Bytes)
					if err != nil {
						t.Fatal(err)
					}
					clear := append([]byte(tc.password), 0)
					for i := range clear {
						clear[i] ^= c.salt[i%20]
					}
					under, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key.(*rsa.PublicKey), clear, nil)
					if err != nil {
						t.Fatal(err)
					}
					c.write(under)
				}
				p = c.read()
			}
			if _, err := ParseOK(p); (err == nil) != tc.ok {
				t.Fatalf("got %q, want OK: %v", p, tc.ok)
			}
			if e, err := ParseError(p); !tc.ok && (err != nil || e.Code != 1045) {
				t.Fatalf("got %q, want 1045", p)
			}
		})
	}
}
