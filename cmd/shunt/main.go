// Command shunt is a MySQL sharding proxy with virtual indexes: one MySQL over
// many. See README.md for its configuration and SQL.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

// version is set by the Makefile through -ldflags.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default is back, so that a second one ends
	// the process whatever it is waiting for.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "shunt:", err)
		os.Exit(1)
	}
}

// cli is the command line.
type cli struct {
	Serve    serveCmd    `cmd:"" help:"Run the proxy until SIGTERM (drain, then stop); SIGHUP reloads."`
	Demo     demoCmd     `cmd:"" help:"Start throwaway MySQL shards on loopback, load sample data, serve, print what to try."`
	Check    checkCmd    `cmd:"" help:"Validate the configuration, reach every shard, look at its tables; exit 1 and say why."`
	Explain  explainCmd  `cmd:"" help:"Where would this statement go, and why."`
	Password passwordCmd `cmd:"" help:"Read a password from standard input, print its hashes for password_hash."`
	Version  versionCmd  `cmd:"" help:"Print the version."`

	PrintVersion kong.VersionFlag `name:"version" short:"V" help:"Print the version."`
}

// streams are where a command writes to.
type streams struct{ out, err io.Writer }

// errUsage is returned where kong has already said what is wrong.
var errUsage = errors.New("see shunt --help")

// run is the whole program: main without the process's globals.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	// kong calls exit from deep inside after printing the help.
	type exited struct{ code int }
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exited:
			if r.code != 0 {
				err = errUsage
			}
		default:
			panic(r)
		}
	}()
	var c cli
	parser, err := kong.New(&c,
		kong.Name("shunt"),
		kong.Description("One MySQL over many shards, with virtual indexes that never miss a row."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"version": versionLine()},
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(streams{stdout, stderr}),
	)
	if err != nil {
		return fmt.Errorf("build command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if err != nil {
		return fmt.Errorf("%w (%w)", err, errUsage)
	}
	return k.Run()
}

type serveCmd struct {
	Config string `required:"" short:"c" help:"Configuration file." placeholder:"shunt.yaml"`
}

func (c *serveCmd) Run(ctx context.Context, s streams) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	now := newCurrent(cfg)
	log, flush := newLog(s.err, now)
	defer flush()
	limitMemory(log)
	context.AfterFunc(ctx, func() {
		late := now.Load().DrainTimeout + stopTimeout
		time.Sleep(late)
		log.Error("stopping takes too long; ending all the same, as a crash would: nothing is lost", "after", late)
		flush()
		os.Exit(1)
	})
	return serve(ctx, now, log, func(addr, http string) {
		log.Info("ready", "listen", addr, "http", http, "shards", len(now.Load().Shards), "version", version)
	})
}

// stopTimeout is how long stopping may take after open transactions have had their
// time. The store tries for ever to write where it can't: where data_dir is gone, say.
const stopTimeout = 30 * time.Second

type versionCmd struct{}

func (versionCmd) Run(s streams) error {
	_, err := fmt.Fprintln(s.out, versionLine())
	return err
}

func versionLine() string {
	line := "shunt " + version
	if info, ok := debug.ReadBuildInfo(); ok {
		line += " " + info.GoVersion
	}
	return line
}
