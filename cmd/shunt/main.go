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
		os.Exit(status(err))
	}
}

// status is a process's exit status: 1 where what was asked has failed, 2 where the command line is
// wrong.
func status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	return 1
}

// cli is the command line.
type cli struct {
	Serve    serveCmd    `cmd:"" help:"Run the proxy until SIGTERM (drain, then stop); SIGHUP reloads."`
	Demo     demoCmd     `cmd:"" help:"Start throwaway MySQL shards on loopback, load sample data, serve, print what to try."`
	Check    checkCmd    `cmd:"" help:"Validate the configuration, reach every shard, look at its tables; exit 1 and say why."`
	Replaced replacedCmd `cmd:"" help:"Several Shunts: take a server into use that answers for a shard, or for the store, in place of another."`
	Store    storeCmd    `cmd:"" help:"Back up, restore or verify the index store in data_dir."`
	Explain  explainCmd  `cmd:"" help:"Where would this statement go, and why."`
	Advise   adviseCmd   `cmd:"" help:"How would the application of an existing server be sharded: keys, placements, virtual indexes, and what they would do."`
	Top      topCmd      `cmd:"" help:"What a Shunt executes, live in a terminal."`
	Index    indexCmd    `cmd:"" help:"List, check, rebuild or export the virtual indexes of a Shunt that runs."`
	Password passwordCmd `cmd:"" help:"Read a password from standard input, print its hashes for password_hash."`
	Version  versionCmd  `cmd:"" help:"Print the version."`

	Completion completionCmd `cmd:"" help:"Print a script by which a shell completes commands and flags."`

	Man manCmd `cmd:"" help:"Print the manual, for man(1)."`

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
	parser, err := newParser(&c, streams{stdout, stderr}, kong.Exit(func(code int) { panic(exited{code}) }), kong.BindTo(ctx, (*context.Context)(nil)))
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

func newParser(c *cli, s streams, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(options,
		kong.Name("shunt"),
		kong.Description("One MySQL over many shards, with virtual indexes that never miss a row.\n\n"+exitStatus),
		kong.Writers(s.out, s.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"version": versionLine()},
		kong.Bind(s),
	)...)
}

type serveCmd struct {
	Config string `required:"" short:"c" help:"Configuration file." placeholder:"shunt.yaml"`
}

func (serveCmd) Help() string {
	return `Examples:

  shunt serve --config /etc/shunt/shunt.yaml
  kill -HUP "$(pidof shunt)"                       # takes a changed configuration over

It ends with 0 after SIGTERM, once open transactions have ended or had drain_timeout, and with 1 where it can't serve, or another Shunt has taken its shards.`
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

func (versionCmd) Help() string {
	return `Examples:

  shunt version`
}

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
