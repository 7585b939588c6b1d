package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// startTLS starts servers that take TLS. cas are the files of their
// certificates' authorities: ours, or one that the server has made.
func startTLS(t *testing.T, f *flavour, n int, args ...string) (servers []*throwaway.Server, ours *throwaway.Authority, cas []string) {
	t.Helper()
	base, err := f.base()
	if err != nil {
		t.Fatal(err)
	}
	dir, root := t.TempDir(), base.Source.Root
	if root != "" { // the servers see nothing else
		if dir, err = os.MkdirTemp(filepath.Join(root, "tmp"), "shunt-tls-"); err != nil { //nolint:usetesting // elsewhere
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	ours, err = throwaway.NewAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}); err != nil {
		t.Fatal(err)
	}
	if f.name == throwaway.MariaDB {
		for option, file := range map[string]string{"ca": "ca.pem", "cert": "server.pem", "key": "server.key"} {
			args = append(args, "--ssl-"+option+"="+strings.TrimPrefix(ours.File(file), root))
		}
	}
	servers = f.own(t, n, args...)
	for _, srv := range servers {
		ca := ours.File("ca.pem")
		if f.name == throwaway.MySQL { // read by the server, which may be in a container
			ca = filepath.Join(t.TempDir(), "ca.pem")
			pem := mustRows(t, onShard(t, srv, ""), "SELECT LOAD_FILE(CONCAT(@@datadir, 'ca.pem')) AS pem")[0]["pem"]
			if err := os.WriteFile(ca, []byte(pem), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cas = append(cas, ca)
	}
	return servers, ours, cas
}

// encrypted starts two servers with accounts that need TLS. tls is, per
// server, what trusts it: MySQL's own certificates have no names, so that only
// their authority can be checked.
func encrypted(t *testing.T, f *flavour) (servers []*throwaway.Server, ours *throwaway.Authority, tls []string) {
	t.Helper()
	servers, ours, cas := startTLS(t, f, 2)
	for i, srv := range servers {
		db := onShard(t, srv, "")
		for account, required := range map[string]string{"needs_ssl": "SSL", "needs_x509": "X509"} {
			mustExec(t, db, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'over tls' REQUIRE %s", account, required))
			mustExec(t, db, fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION", account))
		}
		if f.name == throwaway.MariaDB {
			tls = append(tls, fmt.Sprintf("{ca: '%s'}", cas[i]))
		} else { // its certificate names no address
			tls = append(tls, fmt.Sprintf("{ca: '%s', verify: ca}", cas[i]))
		}
	}
	return servers, ours, tls
}

// TestShardTLS: queries, maintenance and check all reach shards whose accounts
// take nothing but TLS.
func TestShardTLS(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers, ours, tls := encrypted(t, f)
		configurations := map[string]setup{
			"authority": {user: "needs_ssl", tls: tls},
			"any":       {user: "needs_ssl", tls: []string{"{verify: none}", "{verify: none}"}},
		}
		if f.name == throwaway.MariaDB {
			if _, err := ours.Issue("client", &x509.Certificate{}); err != nil {
				t.Fatal(err)
			}
			own := fmt.Sprintf("{ca: '%s', cert: '%s', key: '%s'}", ours.File("ca.pem"), ours.File("client.pem"), ours.File("client.key"))
			configurations["certificate"] = setup{user: "needs_x509", tls: []string{own, own}}
		}
		for name, s := range configurations {
			t.Run(name, func(t *testing.T) {
				s.servers, s.password = servers, "over tls"
				// Builds an index, and scans after the UPDATE: the connections
				// for maintenance.
				p, c := startPeople(t, f, 50, s)
				mustExec(t, c, "UPDATE people SET email = 'new@x' WHERE email = 'p7@x'")
				want(t, c, "SELECT id FROM people WHERE email = 'new@x'", "id", "7")
				want(t, c, "SELECT COUNT(*) AS n FROM people WHERE id = 7", "n", "1")
				var id int
				if err := c.QueryRowContext(t.Context(), "SELECT id FROM people WHERE email = ?", "p8@x").Scan(&id); err != nil || id != 8 {
					t.Errorf("prepared: %d, %v", id, err)
				}
				// More than a TLS record, both ways.
				long := strings.Repeat("0123456789abcdef", 1<<15)
				var got string
				if err := c.QueryRowContext(t.Context(), "SELECT '"+long+"' FROM people WHERE id = 7").Scan(&got); err != nil || got != long {
					t.Errorf("a long text: %d bytes, %v", len(got), err)
				}
				p.settled(c)
				if out, code := shunt(t, "check", "--config", p.config); code != 0 {
					t.Errorf("check: status %d\n%s", code, out)
				}
			})
		}
	})
}

// TestShardTLSRefused: what is wrong is said by `shunt check` and in the log,
// and no connection is made that isn't what was asked for.
func TestShardTLSRefused(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers, _, tls := encrypted(t, f)
		other, err := throwaway.NewAuthority(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		configuration := func(tls string) string {
			dir := t.TempDir()
			text := fmt.Sprintf("listen: 127.0.0.1:0\nhttp: off\ndata_dir: %s\nusers: [{name: a, password: b}]\nshards:\n- {name: s0, addr: '%s', user: needs_ssl, password: over tls%s}\n",
				filepath.Join(dir, "data"), servers[0].Addr(), tls)
			file := filepath.Join(dir, "shunt.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}
		type refusal struct{ tls, check, serve string }
		refusals := map[string]refusal{
			"none":          {"", "REQUIRE SSL: then the shard needs tls", "Access denied for user 'needs_ssl'"},
			"wrong ca":      {", tls: {verify: ca, ca: '" + other.File("ca.pem") + "'}", "certificate signed by unknown authority", "certificate signed by unknown authority"},
			"system's ca":   {", tls: {}", "failed to verify certificate", "failed to verify certificate"},
			"another name":  {", tls: " + strings.TrimSuffix(strings.Replace(tls[0], ", verify: ca", "", 1), "}") + ", server_name: db.example}", "failed to verify certificate", "failed to verify certificate"},
			"unreadable ca": {", tls: {ca: /no/such/ca.pem}", "shunt.yaml:6:", ""},
		}
		if f.name == throwaway.MySQL {
			refusals["nameless"] = refusal{", tls: " + strings.Replace(tls[0], ", verify: ca", "", 1), "give tls a ca and verify: ca", "failed to verify certificate"}
		}
		for name, r := range refusals {
			t.Run(name, func(t *testing.T) {
				file := configuration(r.tls)
				out, code := shunt(t, "check", "--config", file)
				if code != 1 || !strings.Contains(out, r.check) {
					t.Errorf("check: status %d, want %q in\n%s", code, r.check, out)
				}
				if r.serve == "" {
					out, code := shunt(t, "serve", "--config", file)
					if code != 1 || !strings.Contains(out, r.check) || !strings.Contains(out, "shards[0].tls.ca: open /no/such/ca.pem: no such file or directory: expected") {
						t.Errorf("serve: status %d\n%s", code, out)
					}
					return
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var log throwaway.Output
				cmd := exec.CommandContext(ctx, binary(t), "serve", "--config", file)
				cmd.Stdout, cmd.Stderr = &log, &log
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					cancel()
					_ = cmd.Wait() // killed
				}()
				eventually(t, "serve's log says "+r.serve, func() bool { return strings.Contains(log.String(), r.serve) })
			})
		}
	})
}

// TestClientTLS: SIGHUP takes over a new certificate, and may ask clients for
// theirs, without dropping a connection.
func TestClientTLS(t *testing.T) {
	t.Parallel()
	authority, err := throwaway.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string) (cert tls.Certificate, serial string) {
		t.Helper()
		cert, err := authority.Issue(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return cert, leaf.SerialNumber.String()
	}
	_, old := issue("server")
	own, _ := issue("client")
	block := fmt.Sprintf("tls: {cert: '%s', key: '%s'}\n", authority.File("server.pem"), authority.File("server.key"))
	p := start(t, flavours[0], setup{extra: block, unchecked: true})
	ca, err := os.ReadFile(authority.File("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	// connect returns the serial number of the certificate that it met.
	connect := func(certs ...tls.Certificate) (c *sql.DB, serial string) {
		c = p.db(func(c *mysql.Config) {
			c.TLS = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: certs, VerifyConnection: func(s tls.ConnectionState) error {
				serial = s.PeerCertificates[0].SerialNumber.String()
				return nil
			}}
		})
		c.SetMaxOpenConns(1)
		if err := c.Ping(); err != nil {
			return nil, err.Error()
		}
		return c, serial
	}
	first, serial := connect()
	if serial != old {
		t.Fatal(serial)
	}
	reload := func(was, becomes string) {
		t.Helper()
		text, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.config, []byte(strings.Replace(string(text), was, becomes, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGHUP)
	}
	ends := "key: '" + authority.File("server.key") + "'"

	_, next := issue("server")
	reload(ends, ends+", required: true")
	eventually(t, "the new certificate is shown", func() bool { _, serial := connect(); return serial == next })
	want(t, first, "SELECT 1 AS n", "n", "1")

	if err := p.db().Ping(); err == nil || !strings.Contains(err.Error(), "insecure transport") {
		t.Errorf("without TLS: %v", err)
	}

	reload(ends, ends+", client_ca: '"+authority.File("ca.pem")+"'")
	eventually(t, "a client without a certificate is refused", func() bool { c, _ := connect(); return c == nil })
	if c, serial := connect(own); c == nil {
		t.Errorf("with a certificate: %s", serial)
	}
	want(t, first, "SELECT 1 AS n", "n", "1")
}
