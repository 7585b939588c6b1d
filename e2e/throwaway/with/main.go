// Command with runs a command beside one throwaway MySQL and one throwaway
// MariaDB server, whose addresses it finds in SHUNT_TEST_MYSQL and
// SHUNT_TEST_MARIADB (host:port; account root without password):
//
//	go run ./e2e/throwaway/with go test ./planner/keys/
//
// A flavour that is not on this machine is left out, unless it is named in
// SHUNT_E2E_FLAVOURS. The exit status is the command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "with:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("expected a command to run")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	required := strings.Split(os.Getenv("SHUNT_E2E_FLAVOURS"), ",")
	env := os.Environ()
	var (
		mu       sync.Mutex
		sets     []*throwaway.Set
		failures []error
		wg       sync.WaitGroup
	)
	defer func() {
		for _, s := range sets {
			s.Stop()
		}
	}()
	for _, f := range []throwaway.Flavour{throwaway.MySQL, throwaway.MariaDB} {
		wg.Go(func() {
			src, err := throwaway.Find(ctx, f)
			if err == nil {
				var set *throwaway.Set
				if set, err = throwaway.Start(ctx, src, throwaway.Options{Servers: 1}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					sets = append(sets, set)
					variable := "SHUNT_TEST_" + strings.ToUpper(string(f))
					env = append(env, variable+"="+set.Servers[0].Addr())
					fmt.Fprintf(os.Stderr, "%s=%s: %s\n", variable, set.Servers[0].Addr(), src)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if !errors.Is(err, throwaway.ErrNotFound) || slices.Contains(required, string(f)) {
				failures = append(failures, err)
			} else {
				fmt.Fprintf(os.Stderr, "without %s: %v\n", f, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		return 1, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
