package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/mysqlerr"
)

// testServer answers a few statements, so that real clients can be tried.
type testServer struct {
	addr  string
	conns sync.WaitGroup
	// results of Accept, one for each client.
	accepted chan error
	// params decoded from COM_STMT_EXECUTE.
	params chan []Param
}

func testUsers(name string) (Credential, bool) {
	switch name {
	case "app":
		return PasswordCredential("secret"), true
	case "native":
		c := PasswordCredential("secret")
		c.sha2 = nil
		return c, true
	case "sha2":
		c := PasswordCredential("secret")
		c.native = nil
		return c, true
	case "open":
		return Credential{}, true
	}
	return Credential{}, false
}

func startServer(t *testing.T, o Options) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{addr: l.Addr().String(), accepted: make(chan error, 1000), params: make(chan []Param, 10)}
	ctx, cancel := context.WithCancel(context.Background())
	if o.Users == nil {
		o.Users = testUsers
	}
	if o.ServerVersion == "" {
		o.ServerVersion = "8.4.0-test"
	}
	s.conns.Go(func() {
		for id := uint32(1); ; id++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			o := o
			o.ConnectionID = id
			s.conns.Go(func() {
				c, err := Accept(ctx, nc, o)
				s.accepted <- err
				if err != nil {
					return
				}
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				defer stop()
				defer c.Close()
				if c.Schema != "" && c.Schema != "shop" {
					_ = c.WriteError(mysqlerr.New(mysqlerr.BadDB, "Unknown database '"+c.Schema+"'"))
					_ = c.Flush()
					return
				}
				if c.WriteOK(OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT}) == nil && c.Begin() == nil {
					s.serve(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		s.conns.Wait()
	})
	return s
}

func (s *testServer) serve(c *Conn) {
	const status = mysql.SERVER_STATUS_AUTOCOMMIT
	for {
		cmd, p, err := c.ReadCommand()
		if err != nil {
			return
		}
		switch cmd {
		case mysql.COM_QUIT:
			return
		case mysql.COM_PING, mysql.COM_STMT_RESET:
			err = c.WriteOK(OK{Status: status})
		case mysql.COM_QUERY:
			if c.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0 {
				if p, err = QueryText(p, nil); err != nil {
					err = c.WriteError(mysqlerr.New(mysqlerr.MalformedPacket, err.Error()))
					break
				}
			}
			err = s.query(c, string(p))
		case mysql.COM_STMT_PREPARE:
			n := strings.Count(string(p), "?")
			defs := make([][]byte, n)
			for i := range defs {
				col := TextColumn("?")
				defs[i] = col.Append(nil)
			}
			err = c.WritePrepareOK(PrepareOK{StatementID: uint32(n)}, defs, nil, status)
		case mysql.COM_STMT_EXECUTE:
			id, _, _ := ExecuteHeader(p)
			params, _, derr := DecodeExecute(nil, p, int(id), nil, nil, c.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0, nil)
			if derr != nil {
				err = c.WriteError(mysqlerr.New(mysqlerr.WrongArguments, derr.Error()))
				break
			}
			for i := range params {
				params[i].Data = bytes.Clone(params[i].Data)
			}
			s.params <- params
			err = c.WriteOK(OK{Affected: 3, LastInsertID: 1 << 40, Status: status, Info: "fine"})
		case mysql.COM_STMT_CLOSE:
		case mysql.COM_CHANGE_USER:
			login, cerr := c.ChangeUser(p, Options{Users: testUsers})
			if cerr != nil {
				return
			}
			err = c.WriteOK(OK{Status: status, Info: fmt.Sprint(login.User, "/", login.Schema, "/", login.Charset, "/", login.Attrs.Get("k"))})
		default:
			err = c.WriteError(mysqlerr.New(mysqlerr.UnknownCommand, "Unknown command"))
		}
		if err != nil {
			return
		}
	}
}

func (s *testServer) query(c *Conn, q string) error {
	const status = mysql.SERVER_STATUS_AUTOCOMMIT
	switch {
	case strings.HasPrefix(q, "SELECT who"):
		return c.WriteResult(
			[]Column{TextColumn("user"), TextColumn("schema"), IntColumn("id"), TextColumn("nothing"), IntColumn("tls")},
			[][]any{{c.User, c.Schema, int64(c.ID), nil, c.TLS}}, status, 0)
	case strings.HasPrefix(q, "SELECT length"):
		return c.WriteResult([]Column{IntColumn("n")}, [][]any{{len(q)}}, status, 0)
	case strings.HasPrefix(q, "SELECT @@"):
		return c.WriteResult([]Column{TextColumn("v")}, [][]any{{"x"}}, status, 0)
	case strings.HasPrefix(q, "SELECT many"):
		if err := c.WriteColumns([]Column{IntColumn("n"), TextColumn("pad")}, status); err != nil {
			return err
		}
		pad := strings.Repeat("x", 1000)
		for i := range 10_000 {
			if err := c.WriteRow([]any{i, pad}); err != nil {
				return err
			}
		}
		return c.WriteEnd(status, 0)
	case strings.HasPrefix(q, "SET"):
		return c.WriteOK(OK{Status: status})
	}
	return c.WriteError(mysqlerr.New(mysqlerr.ParseError, "You have an error: "+q[:min(len(q), 100)]))
}

// testTLS returns a server's and a client's configuration.
func testTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

func openDB(t *testing.T, s *testServer, user, password, schema string, tlsConfig *tls.Config, more ...driver.Option) *sql.DB {
	t.Helper()
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName, cfg.TLS = "tcp", s.addr, user, password, schema, tlsConfig
	cfg.Logger = &driver.NopLogger{}
	if err := cfg.Apply(more...); err != nil {
		t.Fatal(err)
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestRealDriver(t *testing.T) {
	t.Parallel()
	server, client := testTLS(t)
	for name, tc := range map[string]struct {
		offer, use *tls.Config
		user, pass string
		compress   bool
	}{
		"plain":            {nil, nil, "app", "secret", false},
		"no password":      {nil, nil, "open", "", false},
		"TLS offered":      {server, nil, "app", "secret", false},
		"TLS":              {server, client, "app", "secret", false},
		"compression":      {nil, nil, "app", "secret", true},
		"compression, TLS": {server, client, "app", "secret", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, Options{TLS: tc.offer})
			db := openDB(t, s, tc.user, tc.pass, "shop", tc.use, driver.EnableCompression(tc.compress))
			var user, schema string
			var id, isTLS int64
			var nothing sql.NullString
			if err := db.QueryRow("SELECT who").Scan(&user, &schema, &id, &nothing, &isTLS); err != nil {
				t.Fatal(err)
			}
			if user != tc.user || schema != "shop" || nothing.Valid || isTLS == 1 != (tc.use != nil) {
				t.Errorf("%q %q %v %d", user, schema, nothing, isTLS)
			}
			var n int
			long := "SELECT length" + strings.Repeat(" ", 5<<20)
			if err := db.QueryRow(long).Scan(&n); err != nil || n != len(long) {
				t.Errorf("length %d, want %d: %v", n, len(long), err)
			}
			rows, err := db.Query("SELECT many")
			if err != nil {
				t.Fatal(err)
			}
			for n = 0; rows.Next(); n++ {
			}
			if err := rows.Err(); err != nil || n != 10_000 {
				t.Errorf("%d rows, %v", n, err)
			}
			var e *driver.MySQLError
			if _, err := db.Exec("nonsense"); !errors.As(err, &e) || e.Number != 1064 || string(e.SQLState[:]) != "42000" {
				t.Errorf("error %v", err)
			}
			res, err := db.Exec("UPDATE x SET a = ?, b = ?, c = ?", int64(-5), "text", nil)
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := res.RowsAffected(); n != 3 {
				t.Errorf("%d rows affected", n)
			}
			if id, _ := res.LastInsertId(); id != 1<<40 {
				t.Errorf("last insert id %d", id)
			}
			p := <-s.params
			if p[0].Int64() != -5 || p[1].Text() != "text" || !p[2].Null {
				t.Errorf("parameters %+v", p)
			}
		})
	}
}

func TestRealDriverRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		user, pass, schema string
		code               uint16
		message            string
		accept             error
	}{
		"wrong password":     {"app", "wrong", "", 1045, "Access denied for user 'app'@'127.0.0.1' (using password: YES)", ErrDenied},
		"no password":        {"app", "", "", 1045, "Access denied for user 'app'@'127.0.0.1' (using password: NO)", ErrDenied},
		"needless password":  {"open", "x", "", 1045, "Access denied for user 'open'@'127.0.0.1' (using password: YES)", ErrDenied},
		"unknown user":       {"eve", "secret", "", 1045, "Access denied for user 'eve'@'127.0.0.1' (using password: YES)", ErrDenied},
		"unknown, no secret": {"eve", "", "", 1045, "Access denied for user 'eve'@'127.0.0.1' (using password: NO)", ErrDenied},
		"unknown database":   {"app", "secret", "other", 1049, "Unknown database 'other'", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, Options{})
			err := openDB(t, s, tc.user, tc.pass, tc.schema, nil).Ping()
			var e *driver.MySQLError
			if !errors.As(err, &e) || e.Number != tc.code || e.Message != tc.message {
				t.Errorf("error %v, want %d %s", err, tc.code, tc.message)
			}
			if got := <-s.accepted; !errors.Is(got, tc.accept) {
				t.Errorf("Accept returned %v, want %v", got, tc.accept)
			}
		})
	}
}

// TestLeft: who looks whether the port answers is no failed log-in.
func TestLeft(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{})
	for _, linger := range []int{-1, 0} { // ended by FIN, by RST
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.(*net.TCPConn).SetLinger(linger); err != nil {
			t.Fatal(err)
		}
		nc.Close()
		if got := <-s.accepted; !errors.Is(got, ErrLeft) || errors.Is(got, ErrHandshake) {
			t.Errorf("Accept returned %v", got)
		}
	}
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := <-s.accepted; !errors.Is(got, ErrHandshake) {
		t.Errorf("Accept returned %v", got)
	}
}

func TestTLSRequired(t *testing.T) {
	t.Parallel()
	server, client := testTLS(t)
	s := startServer(t, Options{TLS: server, RequireTLS: true})
	var e *driver.MySQLError
	if err := openDB(t, s, "app", "secret", "", nil).Ping(); !errors.As(err, &e) || e.Number != 3159 {
		t.Errorf("without TLS: %v", err)
	}
	if err := openDB(t, s, "app", "secret", "", client).Ping(); err != nil {
		t.Errorf("with TLS: %v", err)
	}
}

// TestCommandLineClient tries libmysqlclient and libmariadb, where they are.
func TestCommandLineClient(t *testing.T) {
	t.Parallel()
	server, _ := testTLS(t)
	plain := startServer(t, Options{})
	secure := startServer(t, Options{TLS: server})
	saw := func(s *testServer) (all []error) { // why clients were refused
		for {
			select {
			case err := <-s.accepted:
				all = append(all, err)
			default:
				return all
			}
		}
	}
	found := false
	for _, name := range []string{"mariadb", "mysql"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		found = true
		for _, s := range []*testServer{plain, secure} {
			host, port, _ := net.SplitHostPort(s.addr)
			for _, plugin := range []string{"", "mysql_native_password", "caching_sha2_password"} {
				for _, pass := range []string{"secret", "wrong"} {
					args := []string{"--no-defaults", "-h" + host, "-P" + port, "-uapp", "-p" + pass, "-N", "-e", "SELECT who"}
					if plugin != "" {
						args = append(args, "--default-auth="+plugin)
					}
					out, err := exec.Command(path, args...).CombinedOutput()
					if strings.Contains(string(out), "cannot be loaded") || strings.Contains(string(out), "Cannot load") {
						continue // MySQL 9's client has lost mysql_native_password
					}
					if ok := err == nil && strings.Contains(string(out), "app"); ok != (pass == "secret") {
						t.Errorf("%s, plugin %q, password %q, TLS %v: %v\n%s\nthe server: %v", name, plugin, pass, s == secure, err, out, saw(s))
					}
					if pass == "wrong" && !strings.Contains(string(out), "Access denied for user 'app'") {
						t.Errorf("%s, plugin %q, TLS %v: %s\nthe server: %v", name, plugin, s == secure, out, saw(s))
					}
				}
			}
		}
	}
	if !found {
		t.Skip("neither mariadb nor mysql on PATH")
	}
}

// rawClient is a client whose every byte the test decides.
type rawClient struct {
	t    *testing.T
	nc   net.Conn
	r    *Reader
	w    *Writer
	salt []byte
}

func dialRaw(t *testing.T, s *testServer) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	c := &rawClient{t: t, nc: nc, r: NewReader(nc), w: NewWriter(nc)}
	p := c.read()
	_, rest, ok := takeNul(p[1:])
	if p[0] != 10 || !ok {
		t.Fatalf("greeting %q", p)
	}
	c.salt = append(bytes.Clone(rest[4:12]), rest[31:51]...)[:20]
	if i := bytes.IndexAny(c.salt, "\x00$"); i >= 0 || !bytes.HasSuffix(p, []byte("\x00caching_sha2_password\x00")) {
		t.Fatalf("greeting %q", p)
	}
	return c
}

func (c *rawClient) read() []byte {
	c.t.Helper()
	p, err := c.r.ReadPacket(1 << 20)
	if err != nil {
		c.t.Fatal(err)
	}
	c.w.SetSequence(c.r.Sequence())
	return bytes.Clone(p)
}

func (c *rawClient) write(p []byte) {
	c.t.Helper()
	if c.w.WritePacket(p) != nil || c.w.Flush() != nil {
		c.t.Fatal(c.w.Err())
	}
	c.r.SetSequence(c.w.Sequence())
}

func helloBytes(caps uint32, user string, auth []byte, plugin string) []byte {
	caps |= mysql.CLIENT_PROTOCOL_41 | mysql.CLIENT_SECURE_CONNECTION
	p := binary.LittleEndian.AppendUint32(nil, caps)
	p = append(p, 0, 0, 0, 1, 45)
	p = append(p, make([]byte, 23)...)
	p = append(append(p, user...), 0, byte(len(auth)))
	p = append(p, auth...)
	if caps&mysql.CLIENT_PLUGIN_AUTH != 0 {
		p = append(append(p, plugin...), 0)
	}
	return p
}

func TestAuthenticationExchanges(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{})
	native := func(salt []byte) []byte { return mysql.CalcNativePassword(salt, []byte("secret")) }
	sha2 := func(salt []byte) []byte { return mysql.CalcCachingSha2Password(salt, []byte("secret")) }
	none := func([]byte) []byte { return nil }
	nul := func([]byte) []byte { return []byte{0} }
	for name, tc := range map[string]struct {
		user      string
		pluggable bool
		plugin    string
		first     func(salt []byte) []byte
		asked     string // the plugin of an AuthSwitchRequest, "" for none
		second    func(salt []byte) []byte
		ok, fast  bool
	}{
		"native at once":         {"app", true, "mysql_native_password", native, "", nil, true, false},
		"native before plugins":  {"app", false, "", native, "", nil, true, false},
		"empty before plugins":   {"open", false, "", none, "", nil, true, false},
		"native when asked":      {"app", true, "mysql_native_password", none, "mysql_native_password", native, true, false},
		"native, no password":    {"open", true, "mysql_native_password", none, "mysql_native_password", none, true, false},
		"sha2":                   {"app", true, "caching_sha2_password", sha2, "", nil, true, true},
		"sha2, no password":      {"open", true, "caching_sha2_password", nul, "", nil, true, false},
		"another plugin":         {"app", true, "dialog", none, "caching_sha2_password", sha2, true, true},
		"sha256, clear text":     {"app", true, "sha256_password", none, "sha256_password", func([]byte) []byte { return []byte("secret\x00") }, false, false},
		"sha256, no password":    {"open", true, "sha256_password", none, "sha256_password", nul, true, false},
		"sha256, one is needed":  {"app", true, "sha256_password", none, "sha256_password", nul, false, false},
		"no plugin's name":       {"app", true, "", sha2, "caching_sha2_password", sha2, true, true},
		"wrong kind of response": {"app", true, "caching_sha2_password", native, "", nil, false, false},
		"nothing when asked":     {"app", true, "mysql_native_password", none, "mysql_native_password", none, false, false},
		"only its native hash":   {"native", true, "caching_sha2_password", sha2, "mysql_native_password", native, true, false},
		"native, hash known":     {"native", true, "mysql_native_password", native, "", nil, true, false},
		"only its sha2 hash":     {"sha2", true, "mysql_native_password", native, "caching_sha2_password", sha2, true, true},
		"old client, sha2 hash":  {"sha2", false, "", native, "", nil, false, false},
		"unknown user":           {"eve", true, "mysql_native_password", none, "mysql_native_password", native, false, false},
		"unknown, no password":   {"eve", true, "caching_sha2_password", nul, "", nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dialRaw(t, s)
			var caps uint32
			if tc.pluggable {
				caps = mysql.CLIENT_PLUGIN_AUTH
			}
			c.write(helloBytes(caps, tc.user, tc.first(c.salt), tc.plugin))
			p := c.read()
			if tc.asked != "" {
				want := fmt.Sprintf("\xFE%s\x00%s\x00", tc.asked, c.salt)
				if string(p) != want {
					t.Fatalf("asked %q, want %q", p, want)
				}
				c.write(tc.second(c.salt))
				p = c.read()
			}
			if tc.fast {
				if string(p) != "\x01\x03" {
					t.Fatalf("got %q, want fast authentication", p)
				}
				p = c.read()
			}
			if _, err := ParseOK(p); (err == nil) != tc.ok {
				t.Fatalf("got %q, want OK: %v", p, tc.ok)
			}
			if !tc.ok {
				if e, err := ParseError(p); err != nil || e.Code != 1045 || e.State != "28000" {
					t.Fatalf("got %v", e)
				}
			}
		})
	}
}

func TestBadHandshakes(t *testing.T) {
	t.Parallel()
	patient, hasty := startServer(t, Options{Deadline: time.Minute}), startServer(t, Options{Deadline: 300 * time.Millisecond})
	frame := func(seq byte, p []byte) []byte {
		return append([]byte{byte(len(p)), byte(len(p) >> 8), byte(len(p) >> 16), seq}, p...)
	}
	for name, tc := range map[string]struct {
		send []byte
		code uint16 // 0: the connection just ends
	}{
		"HTTP":             {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 1043},
		"a GiB":            {[]byte{0xFF, 0xFF, 0xFF, 1, 'a'}, 1043},
		"65 KiB":           {frame(1, make([]byte, 65<<10)), 1043},
		"empty":            {frame(1, nil), 1043},
		"short":            {frame(1, []byte{0, 0x82, 0, 0, 1, 2, 3}), 1043},
		"sequence":         {frame(0, helloBytes(0, "app", nil, "")), 1043},
		"no user":          {frame(1, helloBytes(0, "", nil, "")[:32+0]), 1043},
		"open user":        {frame(1, append(helloBytes(0, "", nil, "")[:32], "app"...)), 1043},
		"auth too long":    {frame(1, append(helloBytes(0, "app", nil, "")[:36], 200)), 1043},
		"pre-4.1":          {frame(1, []byte("\x05\x00\x00\x00\x01root\x00")), 1251},
		"old password":     {frame(1, append([]byte{0, 2}, make([]byte, 40)...)), 1251},
		"TLS not offered":  {frame(1, append([]byte{0, 0x8A, 0, 0}, make([]byte, 28)...)), 1043},
		"half a handshake": {[]byte{60, 0, 0, 1, 0, 0x82}, 1159},
		"silence":          {nil, 1159},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := patient
			if tc.code == 1159 {
				s = hasty
			}
			c := dialRaw(t, s)
			if _, err := c.nc.Write(tc.send); err != nil {
				t.Fatal(err)
			}
			var h [4]byte
			if _, err := io.ReadFull(c.nc, h[:]); err != nil {
				t.Fatal(err)
			}
			p := make([]byte, int(h[0])|int(h[1])<<8)
			if _, err := io.ReadFull(c.nc, p); err != nil {
				t.Fatal(err)
			}
			e, err := ParseError(p)
			if err != nil || e.Code != tc.code {
				t.Fatalf("got %v (%q), want %d", e, p, tc.code)
			}
			if n, err := c.nc.Read(h[:]); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("then %d bytes, %v; want the end", n, err)
			}
		})
	}
}

func TestCommandLimits(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{MaxPacket: 1 << 20})
	login := func(t *testing.T) *rawClient {
		c := dialRaw(t, s)
		c.write(helloBytes(0, "open", nil, ""))
		if _, err := ParseOK(c.read()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	want := func(t *testing.T, c *rawClient, code uint16) {
		t.Helper()
		c.r.SetSequence(1)
		if e, err := ParseError(c.read()); err != nil || e.Code != code || e.State != "08S01" {
			t.Fatalf("got %v, want %d", e, code)
		}
		if _, err := c.r.ReadPacket(10); !errors.Is(err, io.EOF) {
			t.Fatalf("then %v, want the end", err)
		}
	}
	t.Run("claim", func(t *testing.T) {
		t.Parallel()
		c := login(t)
		_, _ = c.nc.Write([]byte{0xFF, 0xFF, 0xFF, 0, 3})
		want(t, c, 1153)
	})
	t.Run("sent whole", func(t *testing.T) {
		t.Parallel()
		c := login(t)
		c.w.SetSequence(0)
		c.write(make([]byte, 1<<20+1))
		want(t, c, 1153)
	})
	t.Run("sequence", func(t *testing.T) {
		t.Parallel()
		c := login(t)
		c.w.SetSequence(1)
		c.write([]byte{mysql.COM_PING})
		want(t, c, 1156)
	})
	t.Run("largest", func(t *testing.T) {
		t.Parallel()
		c := login(t)
		c.w.SetSequence(0)
		c.write(append([]byte{mysql.COM_QUERY}, make([]byte, 1<<20-1)...))
		if e, err := ParseError(c.read()); err != nil || e.Code != 1064 {
			t.Fatalf("got %v", e)
		}
	})
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		c := login(t)
		c.w.SetSequence(0)
		c.write(nil)
		if e, err := ParseError(c.read()); err != nil || e.Code != 1047 {
			t.Fatalf("got %v", e)
		}
	})
}

func TestReject(t *testing.T) {
	t.Parallel()
	server, client := net.Pipe()
	go func() { _ = Reject(server, mysqlerr.New(mysqlerr.TooManyConnections, "Too many connections")) }()
	b, err := io.ReadAll(client)
	if err != nil || string(b[4:]) != "\xFF\x10\x04Too many connections" {
		t.Errorf("%q, %v", b, err)
	}
}

// A client that doesn't read must fail its writer, not hold it for ever.
func TestWriteTimeout(t *testing.T) {
	t.Parallel()
	server, client := net.Pipe()
	defer client.Close()
	w := NewWriter(server)
	w.SetTimeout(20 * time.Millisecond)
	_ = w.WritePacket([]byte("x"))
	var timeout net.Error
	if err := w.Flush(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("error %v, want a timeout", err)
	}
}

func TestGoneAndQuiet(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if Gone(a) || !Quiet(a) {
		t.Error("an idle connection is gone or not quiet")
	}
	_, _ = b.Write([]byte("x"))
	until(t, func() bool { return !Quiet(a) })
	if Gone(a) {
		t.Error("a byte to read is taken for the end")
	}
	_, _ = a.Read(make([]byte, 1))
	_ = b.Close()
	until(t, func() bool { return Gone(a) })
	if Quiet(a) {
		t.Error("the end is quiet")
	}
}

func until(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("condition didn't come true")
		}
	}
}

// An idle connection holds no buffer, obeys its deadline, and ends when another
// goroutine closes it.
func TestIdle(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := NewConn(near)
	if c.idle == nil {
		t.Skip("idle connections hold buffers here")
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, _, err := c.ReadCommand(); !errors.Is(err, os.ErrDeadlineExceeded) || c.r.buf != nil || c.w.buf != nil {
		t.Errorf("error %v", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	// Two commands that come together, and a part of a third.
	_, _ = far.Write([]byte("\x01\x00\x00\x00\x0E\x02\x00\x00\x00\x03a\x05\x00"))
	for _, want := range []string{"\x0E", "\x03a"} {
		cmd, p, err := c.ReadCommand()
		if err != nil || string(append([]byte{cmd}, p...)) != want {
			t.Errorf("%d %q, %v", cmd, p, err)
		}
	}
	go func() { _ = c.Close() }()
	if _, _, err := c.ReadCommand(); err == nil {
		t.Error("read from a closed connection")
	}
	if _, _, err := c.ReadCommand(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("then %v", err)
	}
}

func TestParseAttrs(t *testing.T) {
	t.Parallel()
	inner := AppendLenBytes(AppendLenBytes(nil, "_client_name"), "x")
	if a, _ := parseAttrs(AppendLenBytes(nil, inner)); a.Get("_client_name") != "x" {
		t.Errorf("%v", a)
	}
	if a, _ := parseAttrs(AppendLenBytes(nil, append(inner, 5, 'a'))); len(a) != 1 {
		t.Errorf("%v", a)
	}
	var many []byte
	for len(many) < 2*maxAttrs {
		many = AppendLenBytes(AppendLenBytes(many, string(rune('a'+len(many)/1000))), strings.Repeat("v", 990))
	}
	a, rest := parseAttrs(append(AppendLenBytes(nil, many), "behind"...))
	if string(rest) != "behind" {
		t.Errorf("%q is behind the attributes", rest)
	}
	if len(a) == 0 || len(a) > maxAttrs/990 {
		t.Errorf("%d attributes are kept", len(a))
	}
}

func FuzzParseResponse(f *testing.F) {
	suite.Promise(f)
	f.Add(helloBytes(mysql.CLIENT_PLUGIN_AUTH, "app", []byte("xxxxxxxxxxxxxxxxxxxx"), "mysql_native_password"))
	f.Add(helloBytes(mysql.CLIENT_PLUGIN_AUTH|mysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA|mysql.CLIENT_CONNECT_ATTRS|mysql.CLIENT_CONNECT_WITH_DB, "app", nil, "x"))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := parseResponse(p)
		if err != nil && !errors.Is(err, ErrHandshake) {
			t.Fatal(err)
		}
		if len(r.user)+len(r.schema)+len(r.auth)+len(r.plugin) > len(p) {
			t.Fatalf("%+v of %d bytes", r, len(p))
		}
	})
}
