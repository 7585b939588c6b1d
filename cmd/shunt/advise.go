package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/advise"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
)

type adviseCmd struct {
	DSN        string        `arg:"" env:"SHUNT_ADVISE_DSN" help:"The server: user:password@tcp(host:3306)/schema. Without a schema, all of its. Nothing is written there."`
	Shards     int           `default:"4" help:"How many shards there will be."`
	Addrs      []string      `name:"shard" help:"Address of a shard for --write, once for each." placeholder:"HOST:PORT"`
	SlowLog    []string      `help:"Read statements of a slow log (long_query_time=0 has all), not of performance_schema." placeholder:"FILE"`
	GeneralLog []string      `help:"Read statements of a general log." placeholder:"FILE"`
	Statements []string      `help:"Read statements of a file, with ; at their ends." placeholder:"FILE"`
	Write      string        `help:"Write the configuration there; a file that is there stays." placeholder:"shunt.yaml"`
	JSON       bool          `help:"Print the whole report as JSON."`
	Timeout    time.Duration `default:"5m" help:"How long all of it may take."`
}

func (adviseCmd) Help() string {
	return `Examples:

  shunt advise 'advisor:secret@tcp(10.0.0.9:3306)/shop'
  SHUNT_ADVISE_DSN='advisor:secret@tcp(10.0.0.9:3306)/shop' shunt advise --shards 8 --write shunt.yaml
  shunt advise --slow-log /var/log/mysql/slow.log 'advisor:secret@tcp(10.0.0.9:3306)/shop'

It ends with 0 where there is advice, and with 1 where the server or a log can't be read, or nothing was executed.`
}

// plansPerSecond is what the planner does at least: it bounds the search.
const plansPerSecond = 2000

// Run prints what is advised. Exit status 1: the server or a log can't be read, or nothing was executed
// there; 2: the command line is wrong.
func (c *adviseCmd) Run(ctx context.Context, s streams) error {
	if len(c.Addrs) > 0 {
		c.Shards = len(c.Addrs)
	}
	if c.Shards < 2 || c.Shards > catalog.MaxShards {
		return fmt.Errorf("--shards %d: expected 2 to %d (%w)", c.Shards, catalog.MaxShards, errUsage)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	server, err := reachAdvised(ctx, c.DSN, c.Shards)
	if err != nil {
		return err
	}
	defer server.close()
	p := s.progress()
	defer p.end()
	var work advise.Workload
	notes, err := c.read(ctx, server, &work, p)
	if err != nil {
		return err
	}
	src := server.source(&work)
	if len(src.Shapes) == 0 {
		return errors.New("no statements were executed on the server's schemas since its performance_schema was emptied: run the application, or read a log")
	}
	src.Budget = max(plansPerSecond, int(c.Timeout.Seconds()/2)*plansPerSecond)
	src.Progress = p.show
	report, design, err := advise.Advise(ctx, src)
	p.end()
	if err != nil {
		return err
	}
	report.Notes = append(report.Notes, append(notes, server.notes...)...)
	if c.Write != "" {
		if err := c.write(design); err != nil {
			return err
		}
	}
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(report)
	}
	return report.Write(s.out)
}

// read collects the statements.
func (c *adviseCmd) read(ctx context.Context, server *advisedServer, work *advise.Workload, p *progress) (notes []string, err error) {
	logs := false
	until := time.Now().Add(c.Timeout / 2)
	for _, kind := range []struct {
		files []string
		read  func(io.Reader, string) error
	}{{c.SlowLog, work.ReadSlowLog}, {c.GeneralLog, work.ReadGeneralLog}, {c.Statements, work.ReadStatements}} {
		for _, name := range kind.files {
			logs = true
			note, err := readFile(ctx, name, server.schema, kind.read, p, until)
			if err != nil {
				return nil, err
			}
			if note != "" {
				notes = append(notes, note)
			}
		}
	}
	if logs {
		return notes, nil
	}
	return server.digests(ctx, work)
}

// readFile reads a log, as far as it comes until then; note says where that isn't all.
func readFile(ctx context.Context, name, schema string, read func(io.Reader, string) error, p *progress, until time.Time) (note string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size := int64(0) // a pipe's isn't known
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	r := &reading{Reader: f, progress: p, ctx: ctx, what: "reading " + name, all: size, until: until}
	if err := read(r, schema); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if r.cut {
		note = fmt.Sprintf("of %s the first %d of %d bytes were read, in half of the time: --timeout gives more", name, r.done, size)
	}
	return note, nil
}

// write writes the configuration, which is then read as serve would.
func (c *adviseCmd) write(design *advise.Design) error {
	shards := make([]advise.Address, c.Shards)
	for i := range shards {
		shards[i] = advise.Address{Name: fmt.Sprintf("s%d", i), Addr: fmt.Sprintf("10.0.0.%d:3306", i+1)}
		if len(c.Addrs) > 0 {
			shards[i].Addr = c.Addrs[i]
		}
	}
	f, err := os.OpenFile(c.Write, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("--write: %w", err)
	}
	_, err = f.WriteString(design.Configuration(shards))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--write: %w", err)
	}
	return nil
}

// advisedShard is the server that is advised on, as a shard.
func advisedShard(dsn string) (sh config.Shard, c *mysql.Config, err error) {
	c, err = mysql.ParseDSN(dsn)
	if err != nil {
		return sh, nil, fmt.Errorf("DSN: %w (expected user:password@tcp(host:3306)/schema)", err)
	}
	c.Timeout = reachTimeout
	c.Logger = &mysql.NopLogger{}
	return config.Shard{Name: "server", Addr: strings.TrimSpace(c.Addr), User: c.User, Password: c.Passwd}, c, nil
}
