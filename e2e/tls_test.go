package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// encrypted starts two servers with accounts that need TLS. tls is, per
// server, what trusts it: MySQL's own certificates have no names, so that only
// their authority can be checked.
func encrypted(t *testing.T, f *flavour) (servers []*throwaway.Server, ours *throwaway.Authority, tls []string) {
	t.Helper()
	ours, err := throwaway.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(serverArgs)
	if f.name == throwaway.MariaDB {
		if _, err := ours.Issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--ssl-ca="+ours.File("ca.pem"), "--ssl-cert="+ours.File("server.pem"), "--ssl-key="+ours.File("server.key"))
	}
	src, err := throwaway.Find(t.Context(), f.name)
	if err != nil {
		t.Fatal(err)
	}
	set, err := throwaway.Start(t.Context(), src, throwaway.Options{Servers: 2, Password: shardPassword, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Stop)
	for i, srv := range set.Servers {
		db := onShard(t, srv, "")
		for account, required := range map[string]string{"needs_ssl": "SSL", "needs_x509": "X509"} {
			mustExec(t, db, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'over tls' REQUIRE %s", account, required))
			mustExec(t, db, fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION", account))
		}
		if f.name == throwaway.MariaDB {
			tls = append(tls, fmt.Sprintf("{ca: '%s'}", ours.File("ca.pem")))
			continue
		}
		// Read by the server, which may be in a container.
		ca := filepath.Join(t.TempDir(), fmt.Sprintf("ca%d.pem", i))
		pem := mustRows(t, db, "SELECT LOAD_FILE(CONCAT(@@datadir, 'ca.pem')) AS pem")[0]["pem"]
		if err := os.WriteFile(ca, []byte(pem), 0o600); err != nil {
			t.Fatal(err)
		}
		tls = append(tls, fmt.Sprintf("{ca: '%s', verify: ca}", ca))
	}
	return set.Servers, ours, tls
}

// TestShardTLS: queries, maintenance and check all reach shards whose accounts
// take nothing but TLS.
func TestShardTLS(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
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
	eachFlavour(t, func(t *testing.T, f *flavour) {
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
				cmd := exec.CommandContext(ctx, binary, "serve", "--config", file)
				cmd.Stdout, cmd.Stderr = &log, &log
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					cancel()
					_ = cmd.Wait() // killed
				}()
				eventually(t, oneMinute, "serve's log says "+r.serve, func() bool { return strings.Contains(log.String(), r.serve) })
			})
		}
	})
}
