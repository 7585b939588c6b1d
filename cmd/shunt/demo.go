package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/cmd/shunt/demo"
)

type demoCmd struct {
	Check  bool   `help:"Run unattended: execute what is printed, verify answers and routes, exit 0 or 1."`
	Listen string `help:"Address of the MySQL protocol (default 127.0.0.1:4000; with --check a free port)." placeholder:"HOST:PORT"`
	HTTP   string `help:"Address of the metrics (default 127.0.0.1:4080 if that is free)." placeholder:"HOST:PORT" name:"http"`
	Users  int    `default:"100000" help:"Users to load."`
	Orders int    `default:"300000" help:"Orders to load."`
	Shards int    `default:"4" help:"Throwaway servers to start."`
	// One has its store alone, and is this process.
	Members int `default:"1" help:"Shunts to start; several have the shards together, behind a balancer at --listen."`
}

func (demoCmd) Help() string {
	return `Examples:

  shunt demo                                       # until Ctrl-C, which removes all of it
  shunt demo --shards 8 --users 1000 --orders 3000
  shunt demo --members 3                           # three Shunts behind a balancer
  shunt demo --check

It needs MySQL or MariaDB servers on this machine, or Docker.`
}

func (c *demoCmd) Validate() error {
	switch {
	case c.Users < 1 || c.Orders < 1:
		return fmt.Errorf("--users %d, --orders %d: expected at least 1", c.Users, c.Orders)
	case c.Shards < 1 || c.Shards > 32:
		return fmt.Errorf("--shards %d: expected 1 to 32", c.Shards)
	case c.Members < 1 || c.Members > 16:
		return fmt.Errorf("--members %d: expected 1 to 16", c.Members)
	}
	return nil
}

func (c *demoCmd) Run(ctx context.Context, s streams) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return demo.Run(ctx, demo.Options{
		Check: c.Check, Listen: c.Listen, HTTP: c.HTTP, Users: c.Users, Orders: c.Orders, Shards: c.Shards, Members: c.Members, Program: program,
		Serve: func(ctx context.Context, cfg *config.Config, log *slog.Logger, ready func(addr, http string)) error {
			return serve(ctx, newCurrent(cfg), log, ready)
		},
		Out: s.out,
		Log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}
