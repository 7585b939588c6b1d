package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Flavour tells the two kinds of server apart.
type Flavour string

const (
	MySQL   Flavour = "mysql"
	MariaDB Flavour = "mariadb"
)

// Environment variables that choose where the servers come from. scripts/servers.sh
// makes what those of MySQL name.
const (
	mysqlRootVariable   = "SHUNT_E2E_MYSQL_ROOT"   // a root file system with mysqld in it
	mariadbRootVariable = "SHUNT_E2E_MARIADB_ROOT" // a root file system with mariadbd in it
	imageVariable       = "SHUNT_E2E_MYSQL_IMAGE"  // a container image with mysqld in it
)

// DefaultImage is the container image of MySQL.
const DefaultImage = "mysql:9"

// ErrNotFound is returned when no server program is on this machine.
var ErrNotFound = errors.New("no server program found")

// Source is where a server program comes from. One of Program and Image is set.
type Source struct {
	Flavour Flavour
	// Version as the program says it, e.g. 9.7.4.
	Version string
	// Program is the path of mysqld or mariadbd, inside Root where that is set.
	Program string
	// InstallDB is the path of mariadb-install-db; MySQL has none.
	InstallDB string
	// Root is a root file system to chroot into.
	Root string
	// Image is a container image.
	Image string
}

// Name is the server with its version or image, but not where it lies.
func (s Source) Name() string {
	name := "MySQL"
	if s.Flavour == MariaDB {
		name = "MariaDB"
	}
	if s.Image != "" {
		return fmt.Sprintf("%s in Docker (image %s)", name, s.Image)
	}
	return name + " " + s.Version
}

func (s Source) String() string {
	switch {
	case s.Image != "":
		return s.Name()
	case s.Root != "":
		return fmt.Sprintf("%s (%s in %s, by chroot)", s.Name(), s.Program, s.Root)
	}
	return fmt.Sprintf("%s (%s)", s.Name(), s.Program)
}

// Find looks for a server of the flavour: in the root file system or the image
// that the environment names, on PATH, then, for MySQL, in Docker's default image
// if it is there already, and in the root file system that scripts/servers.sh
// caches.
func Find(ctx context.Context, f Flavour) (Source, error) {
	variable := map[Flavour]string{MySQL: mysqlRootVariable, MariaDB: mariadbRootVariable}[f]
	if root := os.Getenv(variable); root != "" {
		return inRoot(ctx, f, root)
	}
	if f == MySQL && os.Getenv(imageVariable) != "" {
		return Source{Flavour: MySQL, Image: image()}, dockerAnswers(ctx)
	}
	for _, program := range onPath("mysqld", "mariadbd") {
		if s, err := probe(ctx, program); err == nil && s.Flavour == f {
			return s, nil
		}
	}
	if f == MySQL {
		if dockerAnswers(ctx) == nil && exec.CommandContext(ctx, "docker", "image", "inspect", DefaultImage).Run() == nil {
			return Source{Flavour: MySQL, Image: DefaultImage}, nil
		}
		if cache, err := os.UserCacheDir(); err == nil {
			root := filepath.Join(cache, "shunt", "mysql9")
			if _, err := os.Stat(filepath.Join(root, "usr/sbin/mysqld")); err == nil && os.Geteuid() == 0 {
				return inRoot(ctx, f, root)
			}
		}
	}
	return Source{}, fmt.Errorf("%w: %s (run scripts/servers.sh, which gets it)", ErrNotFound, f)
}

// FindAny takes mysqld or mariadbd from PATH, else Docker if its engine
// answers, with the image that the environment names. ErrNotFound means that neither is there.
func FindAny(ctx context.Context) (Source, error) {
	var failed error
	for _, program := range onPath("mysqld", "mariadbd") {
		s, err := probe(ctx, program)
		if err == nil {
			return s, nil
		}
		failed = errors.Join(failed, err)
	}
	if err := dockerAnswers(ctx); err == nil {
		return Source{Flavour: MySQL, Image: image()}, nil
	}
	return Source{}, errors.Join(ErrNotFound, failed)
}

// onPath finds programs by name on PATH and in the directory where Debian puts
// servers, which a user's PATH often lacks.
func onPath(names ...string) []string {
	var found []string
	for _, name := range names {
		if p, err := exec.LookPath(name); err == nil {
			found = append(found, p)
		} else if p := filepath.Join("/usr/sbin", name); exec.CommandContext(context.Background(), p, "--no-defaults", "--version").Run() == nil {
			found = append(found, p)
		}
	}
	return found
}

var versionPattern = regexp.MustCompile(`Ver ([0-9]+\.[0-9]+\.[0-9]+)`)

// probe asks a program what it is: Debian's mysqld may be MariaDB's.
func probe(ctx context.Context, program string) (Source, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output()
	if err != nil {
		return Source{}, fmt.Errorf("run %s --version: %w", program, err)
	}
	s, err := parseVersion(program, string(out))
	if err != nil || s.Flavour == MySQL {
		return s, err
	}
	if _, err := exec.LookPath("my_print_defaults"); err != nil && !exists(filepath.Join(filepath.Dir(program), "../bin/my_print_defaults")) {
		return Source{}, fmt.Errorf("%s is there but my_print_defaults, which initialising it needs, is not (Debian: package mariadb-client-core)", program)
	}
	dirs := []string{filepath.Dir(program), "/usr/bin", filepath.Join(filepath.Dir(program), "../bin"), filepath.Join(filepath.Dir(program), "../scripts")}
	for _, name := range []string{"mariadb-install-db", "mysql_install_db"} {
		if p, err := exec.LookPath(name); err == nil {
			s.InstallDB = p
			return s, nil
		}
		for _, dir := range dirs {
			if p := filepath.Join(dir, name); exists(p) {
				s.InstallDB = p
				return s, nil
			}
		}
	}
	return Source{}, fmt.Errorf("%s is there but mariadb-install-db is not", program)
}

func parseVersion(program, out string) (Source, error) {
	m := versionPattern.FindStringSubmatch(out)
	if m == nil {
		return Source{}, fmt.Errorf("%s --version says %q: expected a version", program, strings.TrimSpace(out))
	}
	s := Source{Flavour: MySQL, Version: m[1], Program: program}
	if strings.Contains(out, "MariaDB") {
		s.Flavour = MariaDB
	}
	return s, nil
}

func inRoot(ctx context.Context, f Flavour, root string) (Source, error) {
	if os.Geteuid() != 0 {
		return Source{}, fmt.Errorf("%s holds a server, but running it there by chroot needs root", root)
	}
	program := map[Flavour]string{MySQL: "/usr/sbin/mysqld", MariaDB: "/usr/sbin/mariadbd"}[f]
	cmd := exec.CommandContext(ctx, program, "--no-defaults", "--version")
	cmd.Dir = "/"
	cmd.SysProcAttr = chroot(root)
	out, err := cmd.Output()
	if err != nil {
		return Source{}, fmt.Errorf("run %s in %s: %w", program, root, err)
	}
	s, err := parseVersion(program, string(out))
	s.Root = root
	if f == MariaDB {
		s.InstallDB = "/usr/bin/mariadb-install-db"
	}
	return s, err
}

func dockerAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, "docker", "info").Run(); err != nil {
		return fmt.Errorf("no Docker engine answers: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
