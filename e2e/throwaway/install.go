package throwaway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// serverPackages are Debian's and Ubuntu's packages with mariadbd and
// mariadb-install-db, but without any service. The latter calls
// my_print_defaults, which is in the client's package.
var serverPackages = []string{"mariadb-server-core", "mariadb-client-core"}

// Install installs MariaDB's server package by apt-get, as root or by a sudo
// that asks nothing. No service is started: the package has none. out gets
// apt-get's output. The error says what to do by hand.
func Install(ctx context.Context, out io.Writer) error {
	byHand := fmt.Sprintf("install MySQL or MariaDB's server so that mysqld or mariadbd is on PATH "+
		"(Debian, Ubuntu: apt-get install %s; Fedora: dnf install mariadb-server; macOS: brew install mariadb), "+
		"or start Docker", strings.Join(serverPackages, " "))
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New(byHand)
	}
	prefix := []string{}
	if os.Geteuid() != 0 {
		if exec.CommandContext(ctx, "sudo", "-n", "true").Run() != nil {
			return fmt.Errorf("installing needs root or a sudo without password: %s", byHand)
		}
		prefix = []string{"sudo", "-n"}
	}
	run := func(args ...string) error {
		args = append(append(append([]string{}, prefix...), "env", "DEBIAN_FRONTEND=noninteractive", apt), args...)
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, serverPackages...)
	if run(install...) == nil {
		return nil
	}
	// The package lists of a fresh machine are empty or old.
	if err := run("update"); err != nil {
		return fmt.Errorf("apt-get update: %w: %s", err, byHand)
	}
	if err := run(install...); err != nil {
		return fmt.Errorf("apt-get install %s: %w: %s", strings.Join(serverPackages, " "), err, byHand)
	}
	return nil
}
