package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/proxy/wire"
)

type explainCmd struct {
	Config    string `required:"" short:"c" help:"Configuration file." placeholder:"shunt.yaml"`
	Schema    string `help:"Current schema of the statement (default: the only schema of the configuration)."`
	JSON      bool   `help:"Print JSON: an object for each row, one a line."`
	Statement string `arg:"" help:"The SQL statement."`
}

func (explainCmd) Help() string {
	return `Examples:

  shunt explain --config shunt.yaml "SELECT * FROM users WHERE email = 'eve@x'"
  shunt explain --config shunt.yaml --json "SELECT * FROM users WHERE id = 5" | jq -r .Shards
  shunt explain --config shunt.yaml --schema shop "DELETE FROM orders WHERE id = 5"

It ends with 1 where the statement can't be planned, and says why.`
}

// Run asks the running proxy; where none runs it opens the store itself, which
// only one process can do, and asks a proxy on a free port in this process.
func (c *explainCmd) Run(ctx context.Context, s streams) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	schema := c.Schema
	if schema == "" && len(cfg.Schemas) == 1 {
		schema = cfg.Schemas[0].Name
	}
	ask := func(addr string, as config.User) error { return c.ask(ctx, s.out, addr, as, schema) }
	if conn, err := net.DialTimeout("tcp", cfg.Listen, reachTimeout); err == nil {
		conn.Close()
		for _, u := range cfg.Users {
			if u.Credential.Is(u.Password) {
				return ask(cfg.Listen, u)
			}
		}
		return errors.New("the configuration knows only hashes of its users' passwords: connect as one of them and send EXPLAIN ROUTE")
	}
	self := config.User{Name: "explain", Password: rand.Text()}
	self.Credential = wire.PasswordCredential(self.Password)
	own := *cfg
	own.Listen, own.HTTP, own.Tracing, own.Users = "127.0.0.1:0", "", nil, []config.User{self}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addrs := make(chan string, 1)
	served := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	go func() { served <- serveAs(ctx, &own, nil, log, func(addr, _ string) { addrs <- addr }, nil, false) }()
	select {
	case err := <-served:
		return err
	case addr := <-addrs:
		err := ask(addr, self)
		cancel()
		return errors.Join(err, <-served)
	}
}

// ask prints what a Shunt says.
func (c *explainCmd) ask(ctx context.Context, out io.Writer, addr string, u config.User, schema string) error {
	db, err := openDB(addr, u.Name, u.Password, schema, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	names, rows, err := asked(ctx, db, "EXPLAIN ROUTE "+c.Statement)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if c.JSON {
		return printJSON(out, rows)
	}
	return writeTable(out, names, rows, 0)
}
