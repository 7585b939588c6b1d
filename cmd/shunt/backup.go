package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/storage"
)

// storeCmd is about the store of a Shunt that has its own. That of several is in MySQL, and so are its backups.
type storeCmd struct {
	Backup  backupCmd  `cmd:"" help:"Copy the index store, also of a Shunt that serves, into a new directory, and read the copy."`
	Restore restoreCmd `cmd:"" help:"Put a backup into an empty data_dir. Reads by virtual indexes go to all shards until the tables have been scanned."`
	Verify  verifyCmd  `cmd:"" help:"Read every block of the index store, also of a Shunt that serves, or of a backup."`
}

// errSharedStore: there is nothing in data_dir to back up.
var errSharedStore = errors.New("the configuration's store is on servers: back it up as what it is, the schema shunt_store there")

func ownStore(path string) (*config.Config, error) {
	cfg, err := config.Load(path)
	if err == nil && cfg.Store.Shared() {
		err = errSharedStore
	}
	return cfg, err
}

type backupCmd struct {
	Config string `required:"" short:"c" help:"Configuration file." placeholder:"shunt.yaml"`
	Dir    string `arg:"" help:"Directory to make."`
}

func (backupCmd) Help() string {
	return `Examples:

  shunt store backup --config shunt.yaml /backup/shunt-2026-11-28`
}

func (c *backupCmd) Run(ctx context.Context, s streams) error {
	cfg, err := ownStore(c.Config)
	if err != nil {
		return err
	}
	p := s.progress()
	err = storage.Backup(cfg.DataDir, c.Dir, p.show)
	p.end()
	if err != nil {
		return fmt.Errorf("back up the index store: %w", err)
	}
	return verify(ctx, s, c.Dir)
}

type restoreCmd struct {
	Config string `required:"" short:"c" help:"Configuration file." placeholder:"shunt.yaml"`
	Dir    string `arg:"" help:"Directory of the backup."`
}

func (restoreCmd) Help() string {
	return `Examples:

  shunt store restore --config shunt.yaml /backup/shunt-2026-11-28`
}

// Run leaves out who has served the shards (recordsFile): so each shard's rows are taken for unknown.
func (c *restoreCmd) Run(ctx context.Context, s streams) error {
	cfg, err := ownStore(c.Config)
	if err != nil {
		return err
	}
	p := s.progress()
	err = storage.Restore(ctx, c.Dir, cfg.DataDir, p.show)
	p.end()
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: move it aside first", err)
	}
	if err != nil {
		return fmt.Errorf("restore the index store: %w", err)
	}
	return nil
}

type verifyCmd struct {
	Config string `required:"" short:"c" help:"Configuration file." placeholder:"shunt.yaml"`
	Dir    string `arg:"" optional:"" help:"Directory of a backup (default: data_dir)."`
}

func (verifyCmd) Help() string {
	return `Examples:

  shunt store verify --config shunt.yaml
  shunt store verify --config shunt.yaml /backup/shunt-2026-11-28

It ends with 1 where a block is damaged.`
}

func (c *verifyCmd) Run(ctx context.Context, s streams) error {
	cfg, err := ownStore(c.Config)
	if err != nil {
		return err
	}
	dir := c.Dir
	if dir == "" {
		dir = cfg.DataDir
	}
	return verify(ctx, s, dir)
}

func verify(ctx context.Context, s streams, dir string) error {
	p := s.progress()
	v, err := storage.Verify(ctx, dir, p.show)
	p.end()
	if err != nil {
		return fmt.Errorf("verify the index store in %s: %w", dir, err)
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "Schema\tTable\tName\tEntries")
	for _, ix := range v.Indexes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", ix.Schema, ix.Table, ix.Name, ix.Entries)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s is whole: %d tables, %d MiB\n", dir, v.Tables, v.Bytes>>20)
	return err
}
