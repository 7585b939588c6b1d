package e2e

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

var screenshots = flag.String("screenshots", "", "write the documents' pictures of the console into this folder")

// pictures are those of the documents: of a page, in a color scheme.
var pictures = map[string]string{"/ light": "console.webp", "statement dark": "console-statement.webp"}

// consolePages are those of the menu, and of one statement.
var consolePages = []string{"/", "/statements", "STATEMENT", "/indexes", "/columns", "/advice", "/route", "/sessions", "/sessions/kill?id=1", "/shards", "/maintenance"}

// TestConsole uses the console in a browser, while statements are executed.
func TestConsole(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		b := startChromium(t)
		if err := installNode(); err != nil {
			t.Fatal(err)
		}
		axe, err := os.ReadFile("drivers/node/node_modules/axe-core/axe.min.js")
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}", "orders: {shard_key: user_id}", "countries: {placement: reference}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(50), city VARCHAR(20), KEY (email), KEY (city))")
		mustExec(t, db, "CREATE TABLE orders (id BIGINT, user_id BIGINT, total INT, PRIMARY KEY (id, user_id), KEY (user_id))")
		mustExec(t, db, "CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(50))")
		mustExec(t, db, "INSERT INTO countries VALUES ('de', 'Germany'), ('dk', 'Denmark')")
		fill(t, p, "users", 500, func(i int) string { return fmt.Sprintf("(%d, 'u%d@x.de', 'c%d')", i, i, i%9) })
		fill(t, p, "orders", 500, func(i int) string { return fmt.Sprintf("(%d, %d, %d)", i, i%500, i) })
		p.createIndex(db, "by_email", "users(email)")
		stop := keepBusy(t, db, func(i int) []string {
			id := i % 500
			return []string{
				fmt.Sprintf("SELECT email FROM users WHERE id = %d", id), fmt.Sprintf("SELECT id FROM users WHERE email = 'u%d@x.de'", id),
				fmt.Sprintf("SELECT COUNT(*) FROM users WHERE city = 'c%d'", id%9), fmt.Sprintf("UPDATE orders SET total = total + 1 WHERE user_id = %d", id),
				"SELECT name FROM countries WHERE code = 'de'", fmt.Sprintf("SELECT u.email, o.total FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = %d", id),
			}
		})
		c := &consoleVisit{t: t, b: b, p: p, axe: string(axe)}
		c.login()
		c.first()
		c.live(db)
		c.pages()
		c.keyboard()
		c.route()
		c.onPhone(c.kill)
		stop()
		c.forgotten(db)
		c.numbers()
	})
}

// consoleVisit is a browser at a Shunt's console.
type consoleVisit struct {
	t   *testing.T
	b   *chromium
	p   *process
	axe string
}

func (c *consoleVisit) url(path string) string { return "http://" + c.p.http + path }

// quiet checks that the browser's console was told nothing.
func (c *consoleVisit) quiet(at string) {
	c.t.Helper()
	for _, x := range c.b.complaints() {
		c.t.Errorf("%s: the browser says: %s", at, x)
	}
}

// keepBusy executes what next names, by two clients, until it is stopped.
func keepBusy(t *testing.T, db *sql.DB, next func(i int) []string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for k := range 2 {
		all.Go(func() {
			for i := k; ctx.Err() == nil; i += 2 {
				for _, q := range next(i) {
					if _, err := db.ExecContext(ctx, q); err != nil && ctx.Err() == nil {
						t.Errorf("%s: %v", q, err)
						return
					}
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(stop)
	return stop
}

// login is by the page that every other one leads to, and comes back to that.
func (c *consoleVisit) login() {
	c.b.open(c.url("/shards"))
	if at := c.b.text("location.pathname"); at != "/login" {
		c.t.Fatalf("without having logged in it shows %s", at)
	}
	c.look("/login")
	c.b.enter("#token", "not the token of it")
	c.b.click("main button")
	c.b.find(".alert")
	c.b.complaints() // the answer was 403
	c.b.enter("#token", httpToken)
	c.b.click("main button")
	eventually(c.t, "the log-in comes back to the page", func() bool { return c.b.text("location.pathname") == "/shards" })
	if cookie := c.b.text("document.cookie"); strings.Contains(cookie, "shunt") {
		c.t.Errorf("scripts can read the cookie: %s", cookie)
	}
	c.quiet("log-in")
}

const (
	firstBytes    = 150_000
	firstRequests = 8
)

// first loads the first page as for the first time: it is small, of few files. How long that takes is told, not judged: other tests
// share the machine. Alone it is a fifth of a second.
func (c *consoleVisit) first() {
	c.b.devtools("Network.enable", nil)
	c.b.devtools("Network.setCacheDisabled", map[string]any{"cacheDisabled": true})
	var took, bytes, requests float64
	c.b.open(c.url("/"))
	eventually(c.t, "the page is loaded", func() bool {
		var got []float64
		c.b.run(`const n = performance.getEntriesByType("navigation")[0], all = [n, ...performance.getEntriesByType("resource")];
			return [n.loadEventEnd, all.reduce((s, e) => s + e.transferSize, 0), all.length]`, &got)
		took, bytes, requests = got[0], got[1], got[2]
		return took > 0
	})
	c.t.Logf("first page: %.0f bytes by %.0f requests in %.0f ms", bytes, requests, took)
	if bytes > firstBytes || bytes < 1000 || requests > firstRequests {
		c.t.Errorf("the first page has %.0f bytes in %.0f files", bytes, requests)
	}
	c.b.devtools("Network.setCacheDisabled", map[string]any{"cacheDisabled": false})
}

// live: what is executed shows without loading the page again, and not while it is paused.
func (c *consoleVisit) live(db *sql.DB) {
	const errors = `[...document.querySelectorAll("[data-metric=shunt_errors_total]")][0].textContent`
	updates := func() int {
		n, _ := strconv.Atoi(c.b.text(`document.querySelector("main").dataset.updates || 0`))
		return n
	}
	c.b.run("window.mine = true", nil)
	before := c.b.text(errors)
	failsWith(c.t, db, "SELECT no FROM users WHERE id = 1", 1054, "no")
	eventually(c.t, "an error shows", func() bool { return updates() > 0 && c.b.text(errors) != before })
	if c.b.text("window.mine") != "true" {
		c.t.Error("the page was loaded anew")
	}
	c.b.click("#live")
	if state := c.b.text(`document.getElementById("live").getAttribute("aria-pressed")`); state != "true" {
		c.t.Errorf("paused is %s", state)
	}
	was := updates()
	c.b.click("#live")
	eventually(c.t, "it goes on", func() bool { return updates() > was })
	if rate := c.b.text(`document.querySelectorAll(".edge.busy").length`); rate == "0" {
		c.t.Error("no route of the map has traffic")
	}
}

// forgotten: a page whose data fails says so, until it is there again.
func (c *consoleVisit) forgotten(db *sql.DB) {
	const query = "SELECT COUNT(*) AS remembered FROM users"
	mustRows(c.t, db, query)
	c.b.open(c.url("/statements?like=remembered"))
	c.b.open(c.url(c.b.text(`document.querySelector("td.statement a").getAttribute("href")`)))
	failed := func() string { return c.b.text(`document.querySelector("main > [role=alert]")?.textContent ?? ""`) }
	state := func() string { return c.b.text(`document.getElementById("live").dataset.state`) }
	if failed() != "" || state() != "on" {
		c.t.Errorf("before it is forgotten: %q, %s", failed(), state())
	}
	mustExec(c.t, db, "FLUSH STATEMENT STATISTICS")
	eventually(c.t, "the page says that its statement is forgotten", func() bool {
		return strings.Contains(failed(), "forgotten, by FLUSH STATEMENT STATISTICS") && state() == "off"
	})
	c.look("forgotten")
	mustRows(c.t, db, query)
	eventually(c.t, "the page goes on", func() bool { return failed() == "" && state() == "on" })
}

// look checks the page that is open: nothing in the browser's console, no serious finding of axe-core in light and
// dark, and no scrolling sideways on a phone.
func (c *consoleVisit) look(name string) {
	c.t.Helper()
	for scheme, rules := range map[string][]string{"light": nil, "dark": {"color-contrast"}} {
		c.b.scheme(scheme)
		for _, finding := range c.b.axe(c.axe, rules...) {
			c.t.Errorf("%s (%s): %s", name, scheme, finding)
		}
		if file := pictures[name+" "+scheme]; file != "" && *screenshots != "" {
			c.picture(filepath.Join(*screenshots, file))
		}
	}
	c.b.scheme("light")
	c.b.size(360, 740)
	var wide []int
	c.b.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]", &wide)
	if wide[0] > wide[1] || wide[1] != 360 {
		c.t.Errorf("%s: %d pixels wide on %d", name, wide[0], wide[1])
	}
	c.b.size(1280, 900)
	c.quiet(name)
}

// picture is of the whole page, with a schema's name that looks like one.
func (c *consoleVisit) picture(path string) {
	c.t.Helper()
	var height int
	c.b.run("return document.documentElement.scrollHeight", &height)
	c.b.size(1280, height)
	c.b.run(`const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(arguments[0], "shop")`, nil, c.p.schema)
	c.b.screenshot(path)
}

// pages are all of the menu.
func (c *consoleVisit) pages() {
	for _, path := range consolePages {
		at := path
		if path == "STATEMENT" {
			c.b.open(c.url("/statements?like=email+%3D&by=Calls"))
			at = c.b.text(`document.querySelector("td.statement a").getAttribute("href")`)
		}
		c.b.open(c.url(at))
		if head := c.b.text(`document.querySelector("h1").textContent`); strings.Contains(head, "can't be shown") || c.b.text(`document.querySelectorAll("main [role=alert]").length`) != "0" && !strings.Contains(path, "kill") {
			c.t.Errorf("%s: %s", at, c.b.text(`document.querySelector("main").innerText`))
		}
		c.look(strings.ToLower(path))
	}
}

// keyboard: the first key leads past the menu.
func (c *consoleVisit) keyboard() {
	const tab, enter = "\ue004", "\ue007"
	c.b.open(c.url("/statements"))
	c.b.press(tab)
	if at := c.b.text("document.activeElement.className"); at != "skip" {
		c.t.Errorf("the first stop is %q", at)
	}
	c.b.press(enter)
	c.b.press(tab)
	if at := c.b.text("document.activeElement.name"); at != "like" {
		c.t.Errorf("behind the menu is %q", at)
	}
	c.b.enter("[name=like]", "%orders%")
	c.b.press(enter)
	eventually(c.t, "the list is filtered", func() bool { return strings.Contains(c.b.text("location.search"), "orders") })
	if sql := c.b.text(`document.querySelector(".sql code").textContent`); !strings.HasPrefix(sql, "SHOW STATEMENT STATISTICS LIKE '%orders%' ORDER BY Total_ms DESC") {
		c.t.Error(sql)
	}
}

// onPhone does something in a window as small as a telephone's.
func (c *consoleVisit) onPhone(do func()) {
	c.b.size(360, 740)
	do()
	c.b.size(1280, 900)
}

// route draws a statement's.
func (c *consoleVisit) route() {
	c.b.open(c.url("/route"))
	c.onPhone(func() {
		c.b.enter("#statement", "SELECT id FROM "+c.p.schema+".users WHERE email = 'u7@x.de'")
		c.b.click("main .primary")
		c.b.find(".drawing")
	})
	if text := c.b.text(`document.querySelector("main").textContent`); !strings.Contains(text, "by_email") || !strings.Contains(text, "not asked") {
		c.t.Errorf("%s", text)
	}
	c.look("route of one")
}

// kill ends a session, by the form and its token alone.
func (c *consoleVisit) kill() {
	victim := c.p.conn()
	id := mustRows(c.t, victim, "SELECT CONNECTION_ID() AS id")[0]["id"]
	var status int
	c.b.open(c.url("/sessions/kill?id=" + id))
	c.b.do(http.MethodPost, "/execute/async", map[string]any{
		"script": `const done = arguments[1]; fetch("/sessions/kill", {method: "POST", body: new URLSearchParams({id: arguments[0], form: "no"})}).then(r => done(r.status))`, "args": []any{id},
	}, &status)
	if c.b.complaints(); status != http.StatusForbidden {
		c.t.Errorf("without the form's token: %d", status)
	}
	mustRows(c.t, victim, "SELECT 1")
	done := later(victim, "SELECT SLEEP(60)")
	c.b.open(c.url("/sessions"))
	c.b.click(`a[href="/sessions/kill?query=1&id=` + id + `"]`)
	if asked := c.b.text(`document.querySelector("button.danger").textContent`); asked != "KILL QUERY "+id {
		c.t.Fatal(asked)
	}
	c.b.click("button.danger")
	c.b.find(".done")
	// SLEEP is answered by 1, and the statement ends with an error where the server hasn't come to SLEEP yet.
	select {
	case err := <-done:
		var e *mysql.MySQLError
		if err != nil && (!errors.As(err, &e) || e.Number != 1317) {
			c.t.Errorf("the statement that was killed: %v", err)
		}
	case <-time.After(patience):
		c.t.Fatal("the statement that was killed still waits")
	}
	mustExec(c.t, victim, "BEGIN")
	mustRows(c.t, victim, "SELECT id FROM users WHERE id = 1 FOR UPDATE")
	eventually(c.t, "its transaction shows", func() bool {
		c.b.open(c.url("/sessions"))
		return strings.Contains(c.b.text(`document.querySelector("main").innerText`), "transaction or locks open")
	})
	c.b.click(`a[href="/sessions/kill?id=` + id + `"]`)
	c.b.click("button.danger")
	c.b.find(".done")
	eventually(c.t, "the session has ended", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		defer cancel()
		return victim.PingContext(ctx) != nil
	})
	c.quiet("kill")
}

// numbers are those of /metrics, once nothing is executed.
func (c *consoleVisit) numbers() {
	eventually(c.t, "the numbers are those of /metrics", func() bool {
		c.b.open(c.url("/"))
		var shown map[string]string
		c.b.run(`return Object.fromEntries([...document.querySelectorAll("[data-metric]")].map(e => [e.dataset.metric, e.textContent.replace(/\u202f/g, "")]))`, &shown)
		if len(shown) < 4 {
			c.t.Fatalf("%v", shown)
		}
		for name, value := range shown {
			n, _ := strconv.ParseFloat(value, 64)
			if sum, _ := c.p.metric(name); sum != n || name == "shunt_statements_total" && sum == 0 {
				return false
			}
		}
		return true
	})
}
