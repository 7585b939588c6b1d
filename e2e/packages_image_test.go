package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// image is what the Dockerfile's last stage has.
type image struct {
	root, user, dir string
	command         []string
}

// TestPackagesImage: the steps of the Dockerfile, run without Docker, make a root file system that has Shunt alone, in
// which it serves as an account without rights, and trusts the authorities that are there.
func TestPackagesImage(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	m := builtImage(t)
	var files []string
	size := int64(0)
	err := filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			size += st.Size()
		}
		files = append(files, strings.TrimPrefix(path, m.root))
		return err
	})
	if want := []string{"/etc/ssl/certs/ca-certificates.crt", "/usr/local/bin/shunt"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, want %v (%v)", files, want, err)
	}
	if t.Logf("%.1f MB", float64(size)/1e6); size > 80e6 {
		t.Errorf("the image has %d bytes", size)
	}
	program, err := os.Open(filepath.Join(m.root, m.command[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	needsNothing(t, program, "amd64")
	if uid, _, _ := strings.Cut(m.user, ":"); uid == "" || uid == "0" || strings.Trim(uid, "0123456789") != "" {
		t.Errorf("Kubernetes can't tell that %q isn't root", m.user)
	}

	i := slices.IndexFunc(flavours, func(f *flavour) bool { return f.name == throwaway.MariaDB })
	if i < 0 {
		t.Skip("MySQL's own certificates have no names")
	}
	f := flavours[i]
	servers, authority, _ := startTLS(t, f, 2)
	p := &process{t: t, flavour: f.name, schema: "shop", servers: servers, addr: freeAddress(t), http: freeAddress(t), config: filepath.Join(m.root, "etc/shunt/shunt.yaml"), program: m.program(t)}
	text := fmt.Sprintf("listen: %s\nhttp: %s\nhttp_token: %s\ndata_dir: ./data\ndrain_timeout: 1s\nusers: [{name: app, password: secret}]\nschemas: {shop: {tables: {users: {shard_key: id}}}}\nshards:\n", p.addr, p.http, httpToken)
	for i, s := range servers {
		text += fmt.Sprintf("- {name: s%d, addr: %q, user: %s, password: %q, tls: {}}\n", i, s.Addr(), s.User, s.Password)
	}
	if err := os.WriteFile(p.config, []byte(text), 0o644); err != nil { //nolint:gosec // its account reads it
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), p.program, "check", "--config", "/etc/shunt/shunt.yaml").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("certificate")) {
		t.Errorf("shards of an authority that nobody trusts: %v\n%s", err, out)
	}
	trusted, err := os.OpenFile(filepath.Join(m.root, "etc/ssl/certs/ca-certificates.crt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = trusted.Write(contents(t, authority.File("ca.pem")))
	if err2 := trusted.Close(); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	p.run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("shunt's log:\n%s", p.log.Tail(60))
		}
		p.kill()
	})
	db := p.open("")
	mustExec(t, db, "CREATE DATABASE shop")
	c := p.conn()
	mustExec(t, c, "CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(50))")
	mustExec(t, c, "INSERT INTO users VALUES (1, 'a@x'), (2, 'b@x'), (3, 'c@x')")
	p.createIndex(c, "idx_email", "users(email)")
	want(t, c, "SELECT id FROM users WHERE email = 'b@x'", "id", "2")
	st, err := os.Stat(filepath.Join(m.root, m.dir, "data"))
	if err != nil || fmt.Sprint(st.Sys().(*syscall.Stat_t).Uid) != strings.Split(m.user, ":")[0] {
		t.Errorf("the store: %v %v", st, err)
	}
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

var (
	instruction = regexp.MustCompile(`(?m)^([A-Z]+) (.*)$`)
	ignored     = regexp.MustCompile(`(?m)^.+$`)
)

// builtImage runs the Dockerfile's steps over what this work tree has and .dockerignore lets through.
func builtImage(t *testing.T) (m image) {
	t.Helper()
	src := checkout(t, workTree(t), "022")
	m.root = filepath.Join(t.TempDir(), "root")
	shell := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-O", "globstar", "-euc", script)
		cmd.Dir, cmd.Env = src, append(os.Environ(), "VERSION="+releasedVersion, "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	for _, pattern := range ignored.FindAllString(string(contents(t, filepath.Join(src, ".dockerignore"))), -1) {
		shell("rm -rf " + pattern)
	}
	steps := strings.ReplaceAll(string(contents(t, "../Dockerfile")), "\\\n", "")
	stages := 0
	words := func(list string) (all []string) {
		t.Helper()
		if err := json.Unmarshal([]byte(list), &all); err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		return all
	}
	var entry, args []string
	for _, step := range instruction.FindAllStringSubmatch(steps, -1) {
		switch name, what := step[1], step[2]; {
		case name == "FROM":
			stages++
			if last := what == "scratch"; last != (stages == 2) {
				t.Fatalf("stage %d is FROM %s", stages, what)
			}
		case name == "RUN" && stages == 1:
			shell(strings.ReplaceAll(what, "/root-fs", m.root))
		case name == "COPY" && stages == 1, slices.Contains([]string{"ARG", "EXPOSE", "VOLUME"}, name): // src has it
		case name == "WORKDIR":
			m.dir = what
		case name == "COPY" && what == "--from=build /root-fs /": // the root as it is
		case name == "USER":
			m.user = what
		case name == "ENTRYPOINT":
			entry = words(what)
		case name == "CMD":
			args = words(what)
		default:
			t.Fatalf("what does %q do here?", step[0])
		}
	}
	m.command = slices.Concat(entry, args)
	return m
}

// program is a script that runs the image's program: by the image's own command where it is to serve.
func (m image) program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	uid, gid, _ := strings.Cut(m.user, ":")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != serve ] || set -- %s\nexec unshare --root=%s --wd=%s --setgid=%s --setuid=%s -- %s \"$@\"\n",
		strings.Join(m.command[1:], " "), m.root, m.dir, gid, uid, m.command[0])
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}
