package e2e

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// TestFailedLogins: wrong passwords are answered more and more slowly, are counted
// and logged, and hold up nobody who knows his.
func TestFailedLogins(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		try := func(password string) (time.Duration, error) {
			began := time.Now()
			err := open(t, p.addr, "app", password, "").PingContext(t.Context())
			return time.Since(began), err
		}
		const wrong = "not-the-secret-at-all"
		var took []time.Duration
		for range 7 {
			d, err := try(wrong)
			wantError(t, err, 1045, "app")
			took = append(took, d)
		}
		if took[6] < 800*time.Millisecond || took[5] < 400*time.Millisecond || took[0]+took[1] > 5*time.Second {
			t.Errorf("failed log-ins took %v", took)
		}
		if n, _ := p.metric("shunt_logins_held_up_total"); n != 4 {
			t.Errorf("shunt_logins_held_up_total is %v, want 4", n)
		}
		if n, _ := p.metric("shunt_logins_total", `"failed"`); n != 7 {
			t.Errorf("shunt_logins_total{failed} is %v, want 7", n)
		}
		log := p.log.String()
		if !strings.Contains(log, "log-in denied") || !strings.Contains(log, "user=app") || !strings.Contains(log, "failures_from_address=7") {
			t.Errorf("the log doesn't tell of the failures:\n%s", log)
		}
		if strings.Contains(log, wrong) || strings.Contains(log, "secret") {
			t.Error("the log has a password")
		}
		// Who knows the password doesn't wait, and what was is forgotten.
		if d, err := try("secret"); err != nil || d > 5*time.Second {
			t.Errorf("%v, %v", d, err)
		}
		if d, err := try(wrong); err == nil || d > 5*time.Second {
			t.Errorf("the first failure after a log-in took %v (%v)", d, err)
		}

		// Many at once are no faster than one.
		var wg sync.WaitGroup
		var mu sync.Mutex
		codes := map[uint16]int{}
		for range 60 {
			wg.Go(func() {
				_, err := try(wrong)
				mu.Lock()
				defer mu.Unlock()
				if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
					codes[e.Number]++
				} else {
					codes[0]++
				}
			})
		}
		// Meanwhile nobody else of that address is even greeted.
		eventually(t, 20*time.Second, "the address is blocked", func() bool {
			c, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			b := make([]byte, 7)
			if _, err := io.ReadFull(c, b); err != nil {
				return false
			}
			return b[4] == 0xff && int(b[5])|int(b[6])<<8 == 1129
		})
		wg.Wait()
		if codes[1045] == 0 || codes[1045]+codes[1129]+codes[0] != 60 {
			t.Errorf("answers by code: %v", codes)
		}
		eventually(t, time.Minute, "the address may log in again", func() bool {
			_, err := try("secret")
			return err == nil
		})
	})
}

// TestMaxPacket: a command over max_allowed_packet is told, and costs nothing.
func TestMaxPacket(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{extra: "max_allowed_packet: 100KiB"})
		text := func(n int) string { return "SELECT LENGTH('" + strings.Repeat("x", n) + "') AS n" }
		want(t, c, text(99<<10), "n", "101376")
		big := p.conn()
		_, err := big.ExecContext(t.Context(), text(200<<10))
		wantError(t, err, 1153, "max_allowed_packet")
		p.reload("max_allowed_packet: 100KiB", "max_allowed_packet: 1MiB")
		want(t, p.conn(), text(200<<10), "n", "204800")
	})
}
