package demo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// ServeFunc runs the proxy until ctx ends; it calls ready once with the
// addresses when it accepts connections.
type ServeFunc func(ctx context.Context, cfg *config.Config, log *slog.Logger, ready func(addr, http string)) error

// Options of a demo.
type Options struct {
	// Check runs unattended: verify what was printed, then end.
	Check bool
	// Listen and HTTP are the proxy's addresses; "" means the default ports,
	// or free ones with Check.
	Listen, HTTP string
	// Users and Orders are how many rows to load, Shards how many servers.
	Users, Orders, Shards int
	// Members is how many Shunts serve. One is this process, by Serve; several are processes
	// of Program.
	Members int
	Program string
	Serve   ServeFunc
	// Out gets what the user reads, Log what goes wrong inside.
	Out io.Writer
	Log *slog.Logger
}

// The account of the demo's clients. It listens on loopback only.
const (
	account  = "demo"
	password = "demo"
	schema   = "shop"
)

// loaders is how many connections load data at the same time.
const loaders = 4

// Run runs a whole demo. It returns nil when ctx ends while it serves.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.chooseAddresses(); err != nil {
		return err
	}
	// A closed terminal ends the demo too.
	ctx, hangup := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer hangup()
	dir, err := makeDir()
	if err != nil {
		return err
	}
	d := &demo{Options: o, dir: dir}
	stopWatching := d.killOnSecondSignal(ctx)
	defer stopWatching()
	defer func() {
		d.remove()
		if err == nil && ctx.Err() != nil {
			fmt.Fprintln(o.Out, "Stopped; everything is removed.")
		}
	}()
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = d.run(running, cancel)
	if ctx.Err() != nil {
		// Interrupted: whatever failed, failed because of that.
		return nil
	}
	return err
}

// errServe marks that the proxy ended by itself.
var errServe = errors.New("the proxy stopped")

type demo struct {
	Options
	dir string

	mu  sync.Mutex
	set *throwaway.Set
	// served is closed when the proxy, or all members, have stopped.
	served  chan struct{}
	members []*member // nil: this process serves

	db *sql.DB // through Shunt, schema selected
}

func (d *demo) run(ctx context.Context, cancel context.CancelCauseFunc) error {
	src, err := findServer(ctx, d.Out)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "Starting %d shards: %s\n", d.Shards, src)
	secret := rand.Text()
	set, err := throwaway.Start(ctx, src, throwaway.Options{Servers: d.Shards, Password: secret, TempDir: d.dir, Out: d.Out})
	if err != nil {
		return fmt.Errorf("start shards: %w", err)
	}
	d.mu.Lock()
	d.set = set
	d.mu.Unlock()

	serving, stopServing := context.WithCancel(ctx)
	serve := d.serve
	if d.Members > 1 {
		serve = d.serveMembers
	}
	if err := serve(serving, cancel); err != nil {
		stopServing()
		return err
	}
	defer func() {
		stopServing()
		<-d.served
	}()
	if err := d.prepare(ctx); err != nil {
		return d.cause(ctx, err)
	}
	defer d.db.Close()
	found, err := d.compare(ctx)
	if err != nil {
		return d.cause(ctx, err)
	}
	d.explain(ctx, src, found)
	if d.Check {
		return d.cause(ctx, d.check(ctx, found))
	}
	<-ctx.Done()
	fmt.Fprintln(d.Out, "\nStopping.")
	return d.cause(ctx, nil)
}

// cause prefers the reason why the context ended over what followed from it.
func (d *demo) cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && errors.Is(c, errServe) {
		return c
	}
	return err
}

// placed says how the tables are spread.
var placed = []config.Table{
	{Name: "users", ShardKey: "id"},
	{Name: "orders", ShardKey: "user_id"},
	{Name: "countries", Placement: catalog.Reference},
}

// configuration is what the user would have written into shunt.yaml.
func (d *demo) configuration() *config.Config {
	c := config.Default()
	c.File, c.Listen, c.HTTP = "demo", d.Listen, d.HTTP
	c.DataDir = filepath.Join(d.dir, "store")
	c.DrainTimeout = 2 * time.Second // nothing here is worth waiting for
	c.Users = []config.User{{Name: account, Password: password, Credential: wire.PasswordCredential(password)}}
	c.Schemas = []config.Schema{{Name: schema, Tables: placed}}
	for i, s := range d.set.Servers {
		c.Shards = append(c.Shards, config.Shard{Name: fmt.Sprintf("s%d", i), Addr: s.Addr(), User: s.User, Password: s.Password})
	}
	return c
}

// serve starts the proxy and waits until it is ready. From then on, its end
// cancels everything else.
func (d *demo) serve(ctx context.Context, cancel context.CancelCauseFunc) error {
	ready := make(chan struct{})
	d.served = make(chan struct{})
	var failed error
	go func() {
		defer close(d.served)
		err := d.Serve(ctx, d.configuration(), d.Log, func(addr, http string) {
			d.Listen, d.HTTP = addr, http
			close(ready)
		})
		if ctx.Err() == nil {
			failed = fmt.Errorf("%w: %w", errServe, err)
			cancel(failed)
		}
	}()
	select {
	case <-ready:
	case <-d.served:
		return failed
	}
	var err error
	d.db, err = d.open("")
	return err
}

// open makes a pool of connections to Shunt.
func (d *demo) open(schema string) (*sql.DB, error) { return d.openAt(d.Listen, schema) }

func (d *demo) openAt(addr, schema string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", addr, account, password, schema
	c.Logger = &mysql.NopLogger{} // a member that is killed is no news
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", addr, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(loaders + 2)
	db.SetMaxIdleConns(loaders + 2)
	return db, nil
}

// remove ends the shards by their process ids and removes all files.
func (d *demo) remove() {
	d.mu.Lock()
	set := d.set
	d.set = nil
	d.mu.Unlock()
	if set != nil {
		set.Stop()
	}
	if err := os.RemoveAll(d.dir); err != nil {
		fmt.Fprintf(d.Out, "could not remove %s: %v\n", d.dir, err)
	}
}

// killOnSecondSignal lets a second Ctrl-C end the demo at once, whatever the
// first one is still waiting for; files and servers go nevertheless.
func (d *demo) killOnSecondSignal(ctx context.Context) (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		for n := 0; ; {
			select {
			case <-ended:
				return
			case <-signals:
			}
			if n++; n > 1 && ctx.Err() != nil {
				fmt.Fprintln(d.Out, "Killed.")
				d.remove()
				os.Exit(1)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}
