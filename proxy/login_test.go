package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// app adds a user with the password "secret".
func app(o *Options) { o.Users["app"] = User{Credential: wire.PasswordCredential("secret")} }

func (s *fakes) ping(user, password, schema string) error {
	db := s.open(user, password, func(c *mysql.Config) { c.DBName = schema })
	defer db.Close()
	return db.PingContext(s.t.Context())
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	s := serve(t, 1, fakeOptions{}, app)
	if err := s.ping("app", "secret", ""); err != nil {
		t.Errorf("the right password: %v", err)
	}
	if err := s.ping("root", "", "shop"); err != nil {
		t.Errorf("an empty password: %v", err)
	}
	for _, x := range []struct {
		user, password, schema string
		code                   uint16
		text                   string
	}{
		{"app", "wrong", "", 1045, "app"},
		{"app", "", "", 1045, "app"},
		// An unknown user can't be told from a wrong password.
		{"nobody", "secret", "", 1045, "nobody"},
		{"root", "x", "", 1045, "root"},
	} {
		failed(t, fmt.Sprint(x), s.ping(x.user, x.password, x.schema), x.code, x.text)
	}
}

// TestFailedLogins: wrong passwords are answered more and more slowly, are counted
// and logged, and hold up nobody who knows his.
func TestFailedLogins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, 0, fakeOptions{}, app)
		try := func(password string) (time.Duration, error) {
			began := time.Now()
			err := s.ping("app", password, "")
			return time.Since(began), err
		}
		const wrong = "not-the-secret-at-all"
		for i, milliseconds := range []int{0, 0, 0, 100, 200, 400, 800} {
			wait := time.Duration(milliseconds) * time.Millisecond
			took, err := try(wrong)
			if failed(t, "a wrong password", err, 1045, "app"); took < wait || took > wait+50*time.Millisecond {
				t.Errorf("failed log-in %d took %v", i, took)
			}
		}
		if n := s.metric("shunt_logins_held_up_total"); n != 4 {
			t.Errorf("shunt_logins_held_up_total is %v, want 4", n)
		}
		synctest.Wait()
		if n := s.metric("shunt_logins_total", "failed"); n != 7 {
			t.Errorf("shunt_logins_total{failed} is %v, want 7", n)
		}
		log := s.log.String()
		if !strings.Contains(log, "log-in denied") || !strings.Contains(log, "user=app") || !strings.Contains(log, "failures_from_address=7") {
			t.Errorf("the log doesn't tell of the failures:\n%s", log)
		}
		if strings.Contains(log, wrong) || strings.Contains(log, "secret") {
			t.Error("the log has a password")
		}
		// Who knows the password doesn't wait, and what was is forgotten.
		if d, err := try("secret"); err != nil || d > 50*time.Millisecond {
			t.Errorf("%v, %v", d, err)
		}
		if d, err := try(wrong); err == nil || d > 50*time.Millisecond {
			t.Errorf("the first failure after a log-in took %v (%v)", d, err)
		}

		// Many at once are no faster than one.
		var all sync.WaitGroup
		var mu sync.Mutex
		codes := map[uint16]int{}
		for range 60 {
			all.Go(func() {
				_, err := try(wrong)
				code, _ := errorOf(err)
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		synctest.Wait()
		// Meanwhile nobody else of that address is even greeted.
		nc, err := s.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(nc)
		if err != nil || len(b) < 7 || b[4] != 0xff || int(b[5])|int(b[6])<<8 != 1129 {
			t.Errorf("the address isn't blocked: %q, %v", b, err)
		}
		nc.Close()
		all.Wait()
		if codes[1045] == 0 || codes[1045]+codes[1129]+codes[0] != 60 {
			t.Errorf("answers by code: %v", codes)
		}
		for began := time.Now(); ; time.Sleep(time.Second) { // of the bubble's time
			if _, err := try("secret"); err == nil {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatal("the address may not log in again")
			}
		}
	})
}

// TestHostileBytes: whatever arrives before or instead of a handshake, Shunt
// answers or closes, and goes on serving others.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, 0, fakeOptions{})
		const seed1, seed2 = 1, 2
		t.Logf("seed %d, %d", seed1, seed2)
		random := rand.New(rand.NewPCG(seed1, seed2))
		garbage := func(n int) []byte {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return b
		}
		packet := func(sequence byte, payload []byte) []byte {
			return append([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), sequence}, payload...)
		}
		for name, bytes := range map[string][]byte{
			"nothing":                {},
			"one byte":               {1},
			"garbage":                garbage(2000),
			"HTTP":                   []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
			"an empty packet":        {0, 0, 0, 1},
			"many empty packets":     make([]byte, 4000),
			"16 MiB claimed":         {0xff, 0xff, 0xff, 1, 0x85, 0xa6},
			"half a handshake":       packet(1, []byte{0x85, 0xa6, 0xff, 0x01})[:6],
			"a short handshake":      packet(1, []byte{0x85, 0xa6}),
			"a handshake of garbage": packet(1, garbage(200)),
			"wrong sequence":         packet(9, garbage(40)),
			"unterminated user":      packet(1, append([]byte{0x85, 0xa2, 0x0f, 0, 0, 0, 0, 1, 45}, append(make([]byte, 23), []byte("aaaaaaaaaaaaaaaa")...)...)),
		} {
			// The client says no more then, and is dropped within 10 s.
			nc, err := s.dial(t.Context(), "", "")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			go func() { _, _ = nc.Write(bytes) }()
			began := time.Now()
			if _, err := io.Copy(io.Discard, nc); err != nil || time.Since(began) > 11*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			nc.Close()
			// Another one is gone by then.
			if nc, err = s.dial(t.Context(), "", ""); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, _ = io.ReadFull(nc, make([]byte, 4))
			go func() { _, _ = nc.Write(bytes); nc.Close() }()
			_, _ = io.Copy(io.Discard, nc)
			nc.Close()
		}

		// Commands of garbage.
		for command := range 256 {
			c, err := client.ConnectWithDialer(t.Context(), "", "127.0.0.1:1", "root", "", "", s.dial)
			if err != nil {
				t.Fatal(err)
			}
			nc, sent := c.Conn.Conn, packet(0, append([]byte{byte(command)}, garbage(50)...))
			go func() { _, _ = nc.Write(sent) }()
			// Some commands have no answer: what counts is that it lives on.
			if command != 24 && command != 25 { // SEND_LONG_DATA, STMT_CLOSE
				_ = nc.SetReadDeadline(time.Now().Add(20 * time.Second))
				if _, err := nc.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("command %d: %v", command, err)
				}
			}
			nc.Close()
		}
		if err := s.ping("root", "", ""); err != nil {
			t.Error(err)
		}
	})
}

// TestIdleTimeoutConfigured: the defaults are those of SetTimeouts, for a human's client others.
func TestIdleTimeoutConfigured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, 0, fakeOptions{})
		s.p.SetTimeouts(Timeouts{Wait: 2 * time.Second, Interactive: 90 * time.Second})
		for limit, flags := range map[time.Duration]uint32{2 * time.Second: 0, 90 * time.Second: gomysql.CLIENT_INTERACTIVE} {
			c, err := client.ConnectWithDialer(t.Context(), "", "127.0.0.1:1", "root", "", "", func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := s.dial(ctx, network, addr)
				return &flagged{nc, byte(flags >> 8)}, err
			})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			said, err := io.ReadAll(c.Conn.Conn)
			if took := time.Since(began); err != nil || took < limit || took > limit+2*time.Second {
				t.Errorf("closed after %v, %v, want %v", took, err, limit)
			}
			if !strings.Contains(string(said), "inactivity") {
				t.Errorf("no reason is told: %q", said)
			}
			c.Close()
		}
		if n := s.metric("shunt_idle_closed_total"); n != 2 {
			t.Errorf("shunt_idle_closed_total is %v, want 2", n)
		}
	})
}

// flagged sets flags of the second byte of the capabilities in the first packet that it sends, which
// clients can't.
type flagged struct {
	net.Conn
	flags byte
}

func (f *flagged) Write(b []byte) (int, error) {
	if f.flags != 0 {
		b = bytes.Clone(b)
		b[5] |= f.flags
		f.flags = 0
	}
	return f.Conn.Write(b)
}

// TestUserLimits: connections and statements a second of one user, and TLS.
func TestUserLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, 0, fakeOptions{}, func(o *Options) {
			o.Users["two"] = User{MaxConnections: 2}
			o.Users["slow"] = User{MaxRate: 10}
			o.Users["encrypted"] = User{RequireTLS: true}
		})
		a, b := s.connOf("two", ""), s.connOf("two", "")
		failed(t, "a third connection", s.ping("two", "", ""), 1226, "max_user_connections")
		if err := s.ping("root", "", ""); err != nil {
			t.Errorf("others: %v", err)
		}
		_ = a.Raw(func(d any) error { return d.(io.Closer).Close() })
		synctest.Wait()
		if err := s.ping("two", "", ""); err != nil {
			t.Errorf("there is no room again: %v", err)
		}
		synctest.Wait()
		s.p.SetUsers(map[string]User{"two": {MaxConnections: 5}, "slow": {MaxRate: 10}, "encrypted": {RequireTLS: true}})
		for range 4 {
			s.connOf("two", "")
		}
		failed(t, "a sixth connection", s.ping("two", "", ""), 1226, "max_user_connections")
		if err := b.PingContext(t.Context()); err != nil {
			t.Error(err)
		}

		slow := s.connOf("slow", "")
		began, done, refused := time.Now(), 0, 0
		for time.Since(began) < 3*time.Second {
			_, err := slow.ExecContext(t.Context(), "SHOW VIRTUAL INDEXES")
			if err == nil {
				done++
				continue
			}
			refused++
			if failed(t, "too many statements", err, 1226, "max_queries_per_second"); t.Failed() {
				t.FailNow()
			}
			time.Sleep(10 * time.Millisecond) // of the bubble's time, as a client that tries again
		}
		// A second's worth at once, then ten each second.
		if done < 39 || done > 41 || refused == 0 {
			t.Errorf("%d statements in %v, %d refused; want about 40", done, time.Since(began), refused)
		}
		if n := s.metric("shunt_user_limits_total", "statements"); int(n) != refused {
			t.Errorf("shunt_user_limits_total is %v, want %d", n, refused)
		}
		failed(t, "without TLS", s.ping("encrypted", "", ""), 3159, "TLS")
	})
}

// TestTooManyClients: one more than may be is told, and there is room when one has gone.
func TestTooManyClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, 0, fakeOptions{})
		s.p.SetLimits(Limits{Connections: 2})
		a := s.conn()
		s.conn()
		failed(t, "a third client", s.ping("root", "", ""), 1040, "Too many connections")
		_ = a.Raw(func(d any) error { return d.(io.Closer).Close() })
		synctest.Wait()
		if err := s.ping("root", "", ""); err != nil {
			t.Error(err)
		}
	})
}
