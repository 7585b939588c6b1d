package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// onePassword is for what has serverKeys.
func (v value) onePassword(seen map[string]bool) {
	if seen["password"] && seen["password_file"] {
		v.errorf("has 2 passwords: expected password or password_file")
	}
}

func shardNames(c *Config) string {
	names := make([]string, len(c.Shards))
	for i, s := range c.Shards {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// unique finds names that are given twice.
type unique map[string]value

func (u unique) add(v value, name string) {
	if name == "" {
		return
	}
	if first, found := u[name]; found {
		v.errorf("%s is already at %s: expected it once", name, first.key)
		return
	}
	u[name] = v
}

func (v value) require(seen map[string]bool, names ...string) {
	for _, name := range names {
		if !seen[name] {
			v.errorf("key %s is missing: expected %s", name, strings.Join(names, ", "))
		}
	}
}

func (v value) nonEmpty(expected string) string {
	s, ok := v.text(expected)
	if ok && s == "" {
		v.errorf("is empty: expected %s", expected)
	}
	return s
}

func (v value) name(expected string) string {
	s := v.nonEmpty(expected)
	checkName(v, v.node, s, expected)
	return s
}

func checkName(v value, n ast.Node, s, expected string) {
	if len([]rune(s)) > maxName || strings.ContainsAny(s, "\x00`") || strings.TrimSpace(s) != s {
		v.errorAt(n, v.key, "%q is no name: expected %s of at most %d characters, without backticks", s, expected, maxName)
	}
}

const hostPort = "host:port, e.g. 127.0.0.1:3306"

// address reads host:port.
func (v value) address(otherwise string) string {
	s, ok := v.text(hostPort)
	if !ok {
		return otherwise
	}
	return v.hostPort(s, otherwise, hostPort)
}

// serverAddress is where a server listens: on a socket of this machine, it may be.
func (v value) serverAddress() string {
	const expected = hostPort + ", or the absolute path of a Unix socket"
	s, ok := v.text(expected)
	if !ok || strings.HasPrefix(s, "/") {
		return s
	}
	return v.hostPort(s, "", expected)
}

func (v value) hostPort(s, otherwise, expected string) string {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		v.errorf("%q is no address: expected %s", s, expected)
		return otherwise
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || strings.ContainsAny(host, " /") {
		v.errorf("%q is no address: expected %s, with a port up to 65535", s, expected)
		return otherwise
	}
	return s
}

func (v value) boolean() bool {
	s, ok := v.text("true or false")
	if ok && s != "true" && s != "false" {
		v.errorf("is %q: expected true or false", s)
	}
	return s == "true"
}

// either reads one of two words: true for the second.
func (v value) either(one, other string) bool {
	expected := one + " or " + other
	s, ok := v.text(expected)
	if ok && s != one && s != other {
		v.errorf("is %q: expected %s", s, expected)
	}
	return s == other
}

func (v value) integer(low, high int) int {
	expected := fmt.Sprintf("a number from %d to %d", low, high)
	s, ok := v.text(expected)
	if !ok {
		return low
	}
	n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil || n < low || n > high {
		v.errorf("is %q: expected %s", s, expected)
		return low
	}
	return n
}

// share reads a number from 0 to 1.
func (v value) share() float64 {
	s, ok := v.text("a share from 0 to 1")
	if !ok {
		return 1
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		v.errorf("is %q: expected a share from 0 to 1, e.g. 0.1", s)
		return 1
	}
	return f
}

func (v value) duration(low time.Duration) time.Duration {
	const expected = "a duration like 500ms, 1s, 24h"
	s, ok := v.text(expected)
	if !ok {
		return low
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < low {
		v.errorf("is %q: expected %s", s, expected)
		return low
	}
	return d
}

var units = []struct {
	suffix string
	factor uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

func (v value) bytes() uint64 {
	const expected = "a size like 256MiB or 2GiB"
	s, ok := v.text(expected)
	if !ok {
		return 0
	}
	for _, u := range units {
		number, found := strings.CutSuffix(s, u.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		if err == nil && n <= (1<<62)/u.factor {
			return n * u.factor
		}
		break
	}
	v.errorf("is %q: expected %s", s, expected)
	return 0
}

// mebibytes is a size of one or more.
func (v value) mebibytes() int64 {
	wrong := len(v.doc.errors)
	n := v.bytes()
	if n < 1<<20 && len(v.doc.errors) == wrong {
		v.errorf("is %d bytes: expected 1MiB or more", n)
	}
	return int64(n)
}
