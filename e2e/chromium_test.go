package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// chromium is a headless one, by the WebDriver protocol (W3C) and what Chromium's driver adds to it.
type chromium struct {
	t       *testing.T
	session string // its URL
}

var driverPort = regexp.MustCompile(`started successfully on port (\d+)`)

// startChromium starts one.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	available(t, []string{"sh", "-c", "chromium --version && chromedriver --version"}, "chromium chromium-driver")
	dir := t.TempDir()
	var log throwaway.Output
	cmd := exec.CommandContext(context.Background(), "chromedriver", "--port=0")
	cmd.Env = append(cmd.Environ(), "TMPDIR="+dir) // what the browser leaves there goes with it
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var port []string
	eventually(t, "chromedriver listens", func() bool {
		port = driverPort.FindStringSubmatch(log.Tail(50))
		return port != nil
	})
	c := &chromium{t: t, session: "http://127.0.0.1:" + port[1] + "/session"}
	var made struct{ SessionID string }
	c.do(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName": "chrome",
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--no-first-run",
			"--hide-scrollbars", "--user-data-dir=" + filepath.Join(dir, "profile"),
		}},
		"goog:loggingPrefs": map[string]string{"browser": "ALL"},
	}}}, &made)
	c.session += "/" + made.SessionID
	t.Cleanup(func() { c.do(http.MethodDelete, "", nil, nil) })
	return c
}

// do asks the driver.
func (c *chromium) do(method, path string, body, into any) {
	c.t.Helper()
	if err := c.try(method, path, body, into); err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (c *chromium) try(method, path string, body, into any) error {
	var sent io.Reader
	if method == http.MethodPost {
		if body == nil {
			body = struct{}{}
		}
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.session+path, sent)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%d: %.500s", resp.StatusCode, answer.Value)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, into)
}

// open goes to an address, and returns when the page is loaded.
func (c *chromium) open(url string) {
	c.t.Helper()
	c.do(http.MethodPost, "/url", map[string]any{"url": url}, nil)
}

// run executes the body of a function in the page; into is what it returns.
func (c *chromium) run(script string, into any, args ...any) {
	c.t.Helper()
	if args == nil {
		args = []any{}
	}
	c.do(http.MethodPost, "/execute/sync", map[string]any{"script": script, "args": args}, into)
}

func (c *chromium) text(script string, args ...any) (s string) {
	c.t.Helper()
	c.run("return String("+script+")", &s, args...)
	return s
}

// devtools executes a command of the DevTools protocol.
func (c *chromium) devtools(cmd string, params map[string]any) {
	c.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	c.do(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": cmd, "params": params}, nil)
}

// find is the element of a selector, and waits for it.
func (c *chromium) find(selector string) (element string) {
	c.t.Helper()
	var found map[string]string
	eventually(c.t, selector+" is there", func() bool {
		return c.try(http.MethodPost, "/element", map[string]string{"using": "css selector", "value": selector}, &found) == nil
	})
	for _, id := range found {
		element = "/element/" + id
	}
	return element
}

func (c *chromium) click(selector string) {
	c.t.Helper()
	c.do(http.MethodPost, c.find(selector)+"/click", nil, nil)
}

func (c *chromium) enter(selector, text string) {
	c.t.Helper()
	c.do(http.MethodPost, c.find(selector)+"/value", map[string]string{"text": text}, nil)
}

// press presses a key where the focus is.
func (c *chromium) press(key string) {
	c.t.Helper()
	c.do(http.MethodPost, "/actions", map[string]any{"actions": []any{map[string]any{
		"type": "key", "id": "keys", "actions": []any{map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key}},
	}}}, nil)
}

// size sets the window's inner size; narrow ones as phones have them.
func (c *chromium) size(width, height int) {
	c.t.Helper()
	c.devtools("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
}

func (c *chromium) scheme(name string) {
	c.t.Helper()
	c.devtools("Emulation.setEmulatedMedia", map[string]any{"features": []any{
		map[string]string{"name": "prefers-color-scheme", "value": name}, map[string]string{"name": "prefers-reduced-motion", "value": "reduce"},
	}})
}

// complaints are what the console of the browser has been told since they were last asked for.
func (c *chromium) complaints() (list []string) {
	c.t.Helper()
	var entries []struct{ Level, Message string }
	c.do(http.MethodPost, "/se/log", map[string]string{"type": "browser"}, &entries)
	for _, e := range entries {
		list = append(list, e.Level+": "+e.Message)
	}
	return list
}

// screenshot writes what is seen, as WebP.
func (c *chromium) screenshot(path string) {
	c.t.Helper()
	var image struct{ Data string }
	c.do(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": "Page.captureScreenshot", "params": map[string]any{"format": "webp", "quality": 80}}, &image)
	data, err := base64.StdEncoding.DecodeString(image.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// axe are the serious findings of axe-core in the page, by some of its rules or, for none, by all.
func (c *chromium) axe(source string, rules ...string) (findings []string) {
	c.t.Helper()
	if c.text("typeof axe") == "undefined" {
		c.run(source+"; return 0", nil)
	}
	options := map[string]any{}
	if rules != nil {
		options["runOnly"] = rules
	}
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	c.do(http.MethodPost, "/execute/async", map[string]any{
		"script": "const done = arguments[1]; axe.run(arguments[0]).then(r => done(r.violations), e => done([{id: String(e), impact: 'critical', nodes: []}]))", "args": []any{options},
	}, &found)
	for _, f := range found {
		if f.Impact != "serious" && f.Impact != "critical" {
			continue
		}
		at := ""
		if len(f.Nodes) > 0 {
			at = strings.Join(strings.Fields(fmt.Sprintf("%d times, as %.200s (%.300s)", len(f.Nodes), f.Nodes[0].HTML, f.Nodes[0].FailureSummary)), " ")
		}
		findings = append(findings, fmt.Sprintf("%s: %s: %s", f.ID, f.Help, at))
	}
	return findings
}
