package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

func main() {
	// A reader of the output that has gone is a reason to stop, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// configured are keys of Shunt's configuration, in YAML: store, maintenance.follow, and more lines.
type configured struct{ store, follow, more string }

// followAuto is Shunt's default.
const followAuto = "auto"

// bench is one run.
type bench struct {
	binary string
	nice   int
	// sessions is whether each program has a session (setsid) of its own.
	sessions bool
	flavour  throwaway.Flavour
	configured
	// profiles is the directory for processor profiles, if they are wanted.
	profiles string
	// only leaves the cases whose names it matches.
	only  *regexp.Regexp
	conns []int
	// allConns is whether conns were asked for, and not chosen for a full run.
	allConns bool
	// peers that were given by address, before a server at port.
	peers   []target
	port    int
	rounds  int
	seconds int
	rows    int
	pairs   int
	out     io.Writer
	source  throwaway.Source
	// versions of what it measures with and against.
	versions []string
	// failures are the cases that could not be measured.
	failures []error
	// busy is the share of the processors that others had before it began.
	busy float64

	// The four shards of the parts that work on them.
	*stage
	shunt *target
	db    *sql.DB
	// shardOf has each loaded row's shard, by id.
	shardOf []uint8
}

// program is the beginning of the command that starts Shunt.
func (b *bench) program() []string {
	if b.nice == 0 {
		return []string{b.binary}
	}
	return []string{"nice", "-n", strconv.Itoa(b.nice), b.binary}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	b := &bench{out: out, configured: configured{follow: followAuto}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.binary, "shunt", "bin/shunt", "the `binary` to measure")
	flags.IntVar(&b.nice, "nice", 0, "start the binary with this `niceness` above this process's (a negative one is for root)")
	flags.BoolVar(&b.sessions, "sessions", false, "start each program in a session of its own, as systemd does: the kernel shares processors between these first (sysctl kernel.sched_autogroup_enabled)")
	flags.StringVar(&b.store, "store", "local", "the `key` store of Shunt's configuration, in YAML: {shards: true}")
	file := flags.String("o", "", "`file` to write the report to (default: standard output)")
	flavour := flags.String("flavour", "mysql", "mysql or mariadb")
	only := flags.String("only", "", "measure the cases whose names match this `regexp`")
	conns := flags.String("conns", "1,8,16,32,256", "`connections` of the one-shard cases; some cases leave some of the default out")
	flags.IntVar(&b.rounds, "rounds", 3, "rounds, in each of which every target is measured once")
	flags.IntVar(&b.seconds, "seconds", 2, "measured seconds of each target in each round")
	flags.IntVar(&b.rows, "rows", 200_000, "rows in each table")
	flags.IntVar(&b.pairs, "pairs", 100, "measured pairs")
	flags.IntVar(&b.port, "port", 0, "`port` of the one shard, for -peer (default: a free one)")
	flags.Func("peer", "another proxy before the one shard: `NAME=[USER:PASSWORD@]HOST:PORT[/PID]`, by default with the shard's account; its processor time is the process's", func(text string) error {
		t, err := parsePeer(text)
		b.peers = append(b.peers, t)
		return err
	})
	flags.StringVar(&b.profiles, "profiles", "", "`directory` to write Shunt's processor profiles to, one a case")
	scale := flags.Float64("tpch", 0, "measure TPC-H at this `scale` factor, and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b.flavour = throwaway.Flavour(*flavour)
	if b.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	flags.Visit(func(f *flag.Flag) { b.allConns = b.allConns || f.Name == "conns" })
	for field := range strings.SplitSeq(*conns, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return fmt.Errorf("-conns: %q is no number of connections", field)
		}
		b.conns = append(b.conns, n)
	}
	if b.source, err = throwaway.Find(ctx, b.flavour); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "shards: %s\n", b.source)
	if b.busy, err = busy(); err != nil {
		return err
	}
	if b.busy > 0.1 {
		fmt.Fprintf(b.out, "other processes keep this machine %.0f %% busy: what follows is worth little\n", 100*b.busy)
	}
	var text string
	if *scale > 0 {
		text, err = b.fourShards(ctx, func() (string, error) { return b.tpch(ctx, *scale) })
	} else {
		text, err = b.measure(ctx)
	}
	if err != nil {
		return err
	}
	if *file == "" {
		if _, err := io.WriteString(out, "\n"+text); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		return errors.Join(b.failures...)
	}
	if err := os.MkdirAll(filepath.Dir(*file), 0o755); err != nil {
		return fmt.Errorf("make report's directory: %w", err)
	}
	text = joinParts(*file, text, *scale > 0)
	if err := os.WriteFile(*file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	fmt.Fprintf(out, "written to %s\n", *file)
	return errors.Join(b.failures...)
}

// measure is everything but TPC-H.
func (b *bench) measure(ctx context.Context) (text string, err error) {
	r := report{b: b, began: time.Now()}
	if r.results, err = b.oneShard(ctx); err != nil {
		return "", err
	}
	own, err := b.ownStage(ctx)
	if err != nil {
		return "", err
	}
	r.results = append(r.results, own...)
	for _, c := range compared {
		results, err := b.compare(ctx, c)
		if err != nil {
			return "", err
		}
		r.results = append(r.results, results...)
	}
	for _, part := range []struct {
		cases []string
		do    func(context.Context) error
	}{
		{[]string{percentilesCase}, b.percentiles},
		{[]string{buildCase}, b.build},
		{membersCases, b.membersPart},
	} {
		if slices.ContainsFunc(part.cases, b.only.MatchString) {
			if err := part.do(ctx); err != nil {
				return "", err
			}
		}
	}
	if !b.needsFourShards() {
		return r.text(), nil
	}
	return b.fourShards(ctx, func() (string, error) {
		if err := b.fill(ctx); err != nil {
			return "", err
		}
		loads, err := b.loads(ctx)
		if err != nil {
			return "", err
		}
		r.results = append(r.results, loads...)
		if b.only.MatchString(pairsCase) {
			if r.pairs, err = b.measurePairs(ctx); err != nil {
				return "", err
			}
		}
		if b.only.MatchString(scansCase) {
			if r.scans, err = b.scans(ctx); err != nil {
				return "", err
			}
		}
		return r.text(), nil
	})
}

func (b *bench) needsFourShards() bool {
	names := []string{pairsCase, scansCase}
	for _, c := range (&sharded{}).cases() {
		names = append(names, c.mode(false), c.mode(true))
	}
	return slices.ContainsFunc(names, b.only.MatchString)
}

const shards = 4

// fourShards does something with several shards behind Shunt.
func (b *bench) fourShards(ctx context.Context, do func() (string, error)) (text string, err error) {
	if b.stage, err = b.newStage(ctx, shards, 0); err != nil {
		return "", err
	}
	defer b.stop()
	if b.shunt, err = b.startShunt(ctx, b.program(), "{bench: "+placements()+", tpch: "+tpchPlacements()+"}"); err != nil {
		return "", err
	}
	return do()
}

// openDB prepares connections to a target. With interpolate, statements with
// values are sent as text.
func openDB(t target, schema string, interpolate bool) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName, c.InterpolateParams = "tcp", t.addr, t.user, t.password, schema, interpolate
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", t.addr, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(loadConnections)
	return db, nil
}
