package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

const releasedVersion = "v0.0.0"

// TestPackagesRelease: two machines make the same release, in which is what docs/install.md says.
func TestPackagesRelease(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	// Compiled by this Go's cache, and all anew.
	commit := workTree(t)
	first := releasedIn(t, commit, "022", "TZ=UTC")
	second := releasedIn(t, commit, "077", "TZ=Pacific/Kiritimati", "LC_ALL=C.UTF-8", "GOAMD64=v3", "GOFLAGS=-race", "GOCACHE="+t.TempDir())
	names := namesIn(t, first)
	if others := namesIn(t, second); !slices.Equal(names, others) {
		t.Fatalf("%v, and elsewhere %v", names, others)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(contents(t, filepath.Join(first, "SHA256SUMS")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	kinds := map[string]int{}
	for _, name := range names {
		one := contents(t, filepath.Join(first, name))
		if !bytes.Equal(one, contents(t, filepath.Join(second, name))) {
			t.Errorf("%s: other bytes elsewhere", name)
		}
		if name == "SHA256SUMS" {
			continue
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(one)); sums[name] != sum {
			t.Errorf("%s has the checksum %s, and SHA256SUMS says %q", name, sum, sums[name])
		}
		delete(sums, name)
		kinds[filepath.Ext(name)]++
		if archive, ok := strings.CutSuffix(name, ".tar.gz"); ok {
			t.Run(archive, func(t *testing.T) { wholeArchive(t, first, archive) })
		}
	}
	if len(sums) > 0 || kinds[".deb"] == 0 || kinds[".gz"] != kinds[".deb"] || kinds[".json"] != kinds[".deb"] {
		t.Errorf("%v; without a file: %v", names, sums)
	}
	t.Run("Debian", func(t *testing.T) { installed(t, first) })
}

// releasedIn makes a release of a commit in a folder of its own, by a shell with this umask.
func releasedIn(t *testing.T, commit, umask string, env ...string) (folder string) {
	t.Helper()
	dir := checkout(t, commit, umask)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "umask "+umask+" && exec make release VERSION="+releasedVersion)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "bin/release", releasedVersion)
}

// workTree is a commit of what this work tree has, changes too, but for files that git doesn't know.
func workTree(t *testing.T) (commit string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-euc", `commit=$(git stash create); echo "${commit:-$(git rev-parse HEAD)}"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// checkout is a clone with a commit's files.
func checkout(t *testing.T, commit, umask string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const script = `umask $1; git clone -q --shared --no-checkout .. "$2"; git -C "$2" checkout -q --detach "$3"`
	if out, err := exec.CommandContext(t.Context(), "bash", "-euc", script, "checkout", umask, dir, commit).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wholeArchive looks into an archive, and compares the SBOM beside it with what its program says of itself.
func wholeArchive(t *testing.T, folder, archive string) {
	f, err := os.Open(filepath.Join(folder, archive+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, archive+"/")
		if files[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		mode := int64(0o644)
		if name == "" || name == "shunt" {
			mode = 0o755
		}
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o777 != mode {
			t.Errorf("%s: of %d:%d, mode %o", h.Name, h.Uid, h.Gid, h.Mode)
		}
	}
	for _, name := range []string{"shunt", "shunt.1.gz", "completion.bash", "completion.zsh", "completion.fish", "LICENSE", "README.md"} {
		if len(files[name]) == 0 {
			t.Errorf("%s isn't there", name)
		}
	}
	program := bytes.NewReader(files["shunt"])
	needsNothing(t, program, archive[strings.LastIndex(archive, "-")+1:])
	built, err := buildinfo.Read(program)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(contents(t, filepath.Join(folder, archive+".sbom.json")), &bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || c.Name != built.Main.Path || c.Version != releasedVersion {
		t.Errorf("an SBOM by %s of %s %s", bom.BOMFormat, c.Name, c.Version)
	}
	told := map[string]bool{}
	for _, c := range bom.Components {
		told[c.Name+"@"+c.Version] = true
		if version := "@" + c.Version; !strings.HasPrefix(c.PURL, "pkg:golang/") || !strings.Contains(c.PURL, version) {
			t.Errorf("%s %s is found by %s", c.Name, c.Version, c.PURL)
		}
	}
	for _, d := range built.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		if !told[d.Path+"@"+d.Version] {
			t.Errorf("the program has %s %s, of which its SBOM says nothing", d.Path, d.Version)
		}
	}
	if len(built.Deps) < 20 {
		t.Errorf("%d dependencies", len(built.Deps))
	}
}

// needsNothing holds that a program is linked for a kind of processor, and needs no library.
func needsNothing(t *testing.T, program io.ReaderAt, arch string) {
	t.Helper()
	f, err := elf.NewFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
		t.Errorf("%s: a program for %v", arch, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is linked dynamically: %v", p.Type)
		}
	}
}

// debian is a root file system of Debian's, in which nothing runs but what a test runs there.
type debian struct {
	t    *testing.T
	root string
}

// newDebian makes one, in which a systemctl tells what it is asked for (asked) and starts nothing.
func newDebian(t *testing.T) *debian {
	t.Helper()
	d := &debian{t, filepath.Join(t.TempDir(), "root")}
	// Neither flavour's servers are looked for.
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `source ../scripts/servers.sh && shunt_root "$1" trixie passwd,ca-certificates,systemd`, "root", d.root)
	cmd.Env = append(os.Environ(), "SHUNT_E2E_FLAVOURS=none")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.write("/usr/bin/systemctl", "#!/bin/sh\necho \"$*\" >>/asked\n", 0o755)
	if err := os.MkdirAll(filepath.Join(d.root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *debian) write(path, text string, mode os.FileMode) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.root, path), []byte(text), mode); err != nil {
		d.t.Fatal(err)
	}
}

// there reports whether a file is.
func (d *debian) there(path string) bool {
	_, err := os.Lstat(filepath.Join(d.root, path))
	return err == nil
}

// try runs a script there.
func (d *debian) try(script string) (string, error) {
	cmd := exec.CommandContext(d.t.Context(), "chroot", d.root, "/bin/sh", "-euc", script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "HOME=/root"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try, of what has to be done.
func (d *debian) run(script string) string {
	d.t.Helper()
	out, err := d.try(script)
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// asked is what systemctl was asked for since the last time.
func (d *debian) asked() (all []string) {
	d.t.Helper()
	for line := range strings.Lines(string(contents(d.t, filepath.Join(d.root, "asked")))) {
		all = append(all, strings.TrimSpace(line))
	}
	d.write("/asked", "", 0o644)
	return all
}

// bring copies a package there as of an earlier version, whose configuration is another one; as it is with version "".
func (d *debian) bring(deb, version string) (path string) {
	d.t.Helper()
	path = "/tmp/shunt" + version + ".deb"
	script := `cp "$1" "$2"`
	if version != "" {
		script = `dir=$(mktemp -d) && dpkg-deb -R "$1" "$dir" && sed -i "s/^Version: .*/Version: $3/" "$dir/DEBIAN/control" &&
			echo "# of before" >>"$dir/etc/shunt/shunt.yaml" && sed -i "/ etc.shunt.shunt.yaml$/d" "$dir/DEBIAN/md5sums" && dpkg-deb --root-owner-group -b "$dir" "$2"; rm -r "$dir"`
	}
	if out, err := exec.CommandContext(d.t.Context(), "bash", "-euc", script, "bring", deb, filepath.Join(d.root, path), version).CombinedOutput(); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// installed: the Debian package is installed, configured, upgraded, removed and purged.
func installed(t *testing.T, folder string) {
	debs, err := filepath.Glob(filepath.Join(folder, "*_amd64.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatal(debs, err)
	}
	d := newDebian(t)
	wants := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}

	d.run("apt-get install -y " + d.bring(debs[0], "0.0.0~before"))
	wants("an installation starts nothing", d.asked(), []string{"daemon-reload"})
	wants("account", strings.TrimSpace(d.run("getent passwd shunt | cut -d : -f 6-")), "/var/lib/shunt:/usr/sbin/nologin")
	const modes = "stat -c '%U:%G %a' /etc/shunt /etc/shunt/shunt.yaml"
	ofConfig := "root:shunt 750\nroot:shunt 640\n"
	wants("who reads the configuration", d.run(modes), ofConfig)
	const as = "runuser -u shunt -- "
	if out := d.run(as + "shunt version"); !strings.HasPrefix(out, "shunt "+releasedVersion) {
		t.Errorf("the program says %s", out)
	}
	d.run("gzip -t /usr/share/man/man1/shunt.1.gz && bash -n /usr/share/bash-completion/completions/shunt && test -s /usr/share/doc/shunt/copyright && test -s /usr/share/doc/shunt/docs/install.md")

	const check = "(set -a && . /etc/shunt/environment && shunt check --config /etc/shunt/shunt.yaml)"
	if !bytes.Contains(contents(t, "../docs/install.md"), []byte(check)) {
		t.Errorf("docs/install.md doesn't have %s", check)
	}
	if out, err := d.try(as + "shunt check --config /etc/shunt/shunt.yaml"); err == nil || !strings.Contains(out, "APP_PASSWORD") {
		t.Errorf("a configuration without its values: %v\n%s", err, out)
	}
	config := string(contents(t, filepath.Join(d.root, "etc/shunt/shunt.yaml")))
	servers := flavours[0].own(t, 2)
	for i, s := range servers {
		of := fmt.Sprintf("10.0.0.%d:3306, user: shunt", i+1)
		if !strings.Contains(config, of) {
			t.Fatalf("no %s in\n%s", of, config)
		}
		config = strings.Replace(config, of, fmt.Sprintf("%q, user: %s", s.Addr(), s.User), 1)
	}
	d.write("/etc/shunt/shunt.yaml", config, 0o640)
	d.write("/etc/shunt/environment", "APP_PASSWORD=secret\nSHARD_PASSWORD='"+servers[0].Password+"'\n", 0o640)
	if out := d.run(check); !strings.Contains(out, "all 2 shards answer") {
		t.Errorf("check says\n%s", out)
	}
	// What it doesn't know it tells, and ignores.
	if out := d.run("systemd-analyze verify --man=no shunt.service"); out != "" {
		t.Errorf("systemd says of the unit: %s", out)
	}

	d.asked()
	upgrade := "apt-get install -y -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold " + d.bring(debs[0], "")
	d.run(upgrade)
	wants("an upgrade restarts what runs", d.asked(), []string{"daemon-reload", "daemon-reload", "try-restart shunt"})
	wants("a changed configuration stays", string(contents(t, filepath.Join(d.root, "etc/shunt/shunt.yaml"))), config)
	wants("the package's lies beside it", string(contents(t, filepath.Join(d.root, "etc/shunt/shunt.yaml.dpkg-dist"))), string(contents(t, "../deploy/debian/shunt.yaml")))
	wants("who reads the configuration", d.run(modes), ofConfig)
	if out := d.run("dpkg --verify shunt"); strings.Count(out, "\n") != 1 || !strings.Contains(out, " c /etc/shunt/shunt.yaml") {
		t.Errorf("other than the package has it:\n%s", out)
	}
	d.run(check)
	d.run("rm /etc/shunt/shunt.yaml && " + strings.Replace(upgrade, "-y", "-y --reinstall", 1)) // kept elsewhere, say
	d.write("/etc/shunt/shunt.yaml", config, 0o640)

	d.run("mkdir -p /var/lib/shunt/data && touch /var/lib/shunt/data/x")
	d.asked()
	d.run("apt-get remove -y shunt")
	wants("what is removed is stopped", d.asked(), []string{"--no-reload disable --now shunt", "daemon-reload"})
	for path, there := range map[string]bool{"/usr/bin/shunt": false, "/usr/lib/systemd/system/shunt.service": false, "/etc/shunt/shunt.yaml": true, "/etc/shunt/environment": true, "/var/lib/shunt/data/x": true} {
		wants("after removal, "+path, d.there(path), there)
	}
	d.run("apt-get purge -y shunt")
	for path, there := range map[string]bool{"/etc/shunt": false, "/usr/share/doc/shunt": false, "/var/lib/shunt/data/x": true} {
		wants("after purge, "+path, d.there(path), there)
	}
}
