package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/storage"
)

// reachTimeout bounds how long `shunt check` waits for one shard.
const reachTimeout = 5 * time.Second

type checkCmd struct {
	Config string `required:"" short:"c" help:"Configuration file." placeholder:"shunt.yaml"`
	JSON   bool   `help:"Print JSON: one object with what was found."`
}

func (checkCmd) Help() string {
	return `Examples:

  shunt check --config shunt.yaml
  shunt check --config shunt.yaml --json | jq -r '.failures[]'

It ends with 0 where Shunt could serve by the configuration, and with 1 where something is wrong: all that is wrong is told.`
}

// checked is what a check has found, as --json prints it.
type checked struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Shards   []checkedServer `json:"shards"`
	Notes    []string        `json:"notes"`
	Failures []string        `json:"failures"`

	out      io.Writer // where it is printed as text, as it comes
	progress *progress
	errs     []error
}

type checkedServer struct {
	Name     string          `json:"name,omitempty"` // a shard's
	Addr     string          `json:"addr"`
	Version  string          `json:"version,omitempty"`
	Notes    []string        `json:"notes,omitempty"`
	Error    string          `json:"error,omitempty"`
	Replicas []checkedServer `json:"replicas,omitempty"`
}

// Run validates the file, reaches every shard, and reports all failures.
func (c *checkCmd) Run(ctx context.Context, s streams) error {
	x := checked{File: c.Config, out: s.out, progress: s.progress(), Shards: []checkedServer{}, Notes: []string{}, Failures: []string{}}
	if c.JSON {
		x.out = io.Discard
	}
	if cfg, err := config.Load(c.Config); err != nil {
		x.fail(err)
	} else {
		x.checkAll(ctx, cfg)
	}
	x.Valid = len(x.errs) == 0
	err := errors.Join(x.errs...)
	if c.JSON {
		err = errors.Join(printJSON(s.out, []checked{x}), err)
	}
	return err
}

// fail notes what is wrong.
func (x *checked) fail(errs ...error) {
	for _, err := range errs {
		if err != nil {
			x.errs, x.Failures = append(x.errs, err), append(x.Failures, err.Error())
		}
	}
}

// note tells what isn't wrong by itself.
func (x *checked) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	x.Notes = append(x.Notes, text)
	fmt.Fprintf(x.out, "note: %s\n", text)
}

// checkAll checks all that there is.
func (x *checked) checkAll(ctx context.Context, cfg *config.Config) {
	x.fail(enoughFiles())
	for _, own := range ownCertificates(cfg) {
		if note := own.note(time.Now()); note != "" {
			x.note("%s", note)
		}
	}
	x.fail(checkDataDir(cfg.DataDir, cfg.MinFreeDisk))
	reached, replicas := reachAll(ctx, cfg)
	identity := map[string]string{}
	for i, r := range reached {
		sh := cfg.Shards[i]
		if x.tellShard(sh, r); r.err != nil {
			continue
		}
		if first, twice := identity[r.identity]; twice {
			x.fail(fmt.Errorf("shards %s and %s are the same server (%s): expected a server each", first, sh.Name, r.identity))
		}
		identity[r.identity] = sh.Name
		if a, b := isMariaDB(reached[0].version), isMariaDB(r.version); reached[0].err == nil && a != b {
			x.fail(fmt.Errorf("shard %s runs %s but %s runs %s: expected all MySQL or all MariaDB, since they compare text differently",
				cfg.Shards[0].Name, reached[0].version, sh.Name, r.version))
		}
		x.tellReplicas(cfg.Shards, reached, i, replicas[i])
	}
	notes, lacking := allLackingSeveral(ctx, cfg)
	x.fail(lacking...)
	for _, note := range append(notes, volatileHomes(ctx, cfg)...) {
		x.note("%s", note)
	}
	x.checkBinlogs(ctx, cfg, reached)
	if cfg.Store.Shared() && servesHere(ctx, cfg) {
		fmt.Fprintf(x.out, "a Shunt serves at %s: whether the ports are free is not checked\n", toldAddr(cfg))
	} else if storage.InUse(cfg.DataDir) {
		fmt.Fprintf(x.out, "a Shunt serves from data_dir %s: whether the ports are free is not checked\n", cfg.DataDir)
	} else {
		x.fail(checkPorts(ctx, cfg))
	}
	notes, wrong := checkKept(ctx, cfg, reached, x.progress.show)
	x.progress.end()
	for _, note := range notes {
		x.note("%s", note)
	}
	if x.fail(wrong...); len(x.errs) == 0 {
		fmt.Fprintf(x.out, "%s is valid, all %d shards answer\n", cfg.File, len(cfg.Shards))
	}
}

// tellShard tells of a shard that was asked.
func (x *checked) tellShard(sh config.Shard, r reachedShard) {
	told := checkedServer{Name: sh.Name, Addr: sh.Addr, Version: r.version, Notes: r.notes}
	if r.err != nil {
		told.Version, told.Error = "", r.err.Error()
		x.fail(fmt.Errorf("shard %s at %s: %w", sh.Name, sh.Addr, r.err))
		fmt.Fprintf(x.out, "%-12s %-24s failed\n", sh.Name, sh.Addr)
	} else {
		fmt.Fprintf(x.out, "%-12s %-24s %s\n", sh.Name, sh.Addr, r.version)
		for _, note := range r.notes {
			fmt.Fprintf(x.out, "  note: %s\n", note)
		}
	}
	x.Shards = append(x.Shards, told)
}

// checkKept is checkSchemas by what data_dir, or the store of several Shunts, has kept.
func checkKept(ctx context.Context, cfg *config.Config, reached []reachedShard, show func(what string, done, all int64)) (notes []string, failures []error) {
	open := func() (*storage.Store, func(), error, error) { return storeToCheck(cfg) }
	if cfg.Store.Shared() {
		open = func() (*storage.Store, func(), error, error) { return sharedToCheck(ctx, cfg) }
	}
	store, done, damage, err := open()
	if err != nil {
		return nil, []error{err}
	}
	defer done()
	if err := storeElsewhere(ctx, cfg, store); err != nil {
		return nil, []error{err}
	}
	notes, failures = checkSchemas(ctx, cfg, reached, store, show)
	notes = append(notes, lostFiles(cfg)...)
	if damage != nil {
		notes = append(notes, fmt.Sprintf("the index store in data_dir %s is damaged (%v): shunt serve makes it anew, keeps the damaged files aside, and builds the virtual indexes again", cfg.DataDir, damage))
	}
	return notes, failures
}

// reachAll reaches all shards, and then their replicas, side by side.
func reachAll(ctx context.Context, cfg *config.Config) ([]reachedShard, [][]checkedReplica) {
	shards := cfg.Shards
	reached := make([]reachedShard, len(shards))
	var wg sync.WaitGroup
	for i, sh := range shards {
		wg.Go(func() {
			if reached[i] = reach(ctx, sh); reached[i].err == nil {
				reached[i].notes = append(reached[i].notes, lackingRights(ctx, sh, cfg.Schemas)...)
				reached[i].notes = append(reached[i].notes, smallerLimits(ctx, sh, cfg)...)
			}
		})
	}
	wg.Wait()
	replicas := make([][]checkedReplica, len(shards))
	for i, sh := range shards {
		replicas[i] = make([]checkedReplica, len(sh.Replicas))
		for j, r := range sh.Replicas {
			wg.Go(func() { replicas[i][j] = checkReplica(ctx, sh, r) })
		}
	}
	wg.Wait()
	return reached, replicas
}

// tellReplicas tells of those of the shard that was told of last.
func (x *checked) tellReplicas(shards []config.Shard, reached []reachedShard, of int, replicas []checkedReplica) {
	for j, r := range replicas {
		told := checkedServer{Addr: shards[of].Replicas[j].Addr, Version: r.version}
		at := fmt.Sprintf("%s/%s", shards[of].Name, told.Addr)
		if r.err == nil {
			r.err = sameID(shards, reached, of)
		}
		if r.err != nil {
			told.Version, told.Error = "", r.err.Error()
			x.fail(fmt.Errorf("replica %s: %w", at, r.err))
			fmt.Fprintf(x.out, "%-37s failed\n", at)
		} else {
			fmt.Fprintf(x.out, "%-37s %s, replica\n", at, r.version)
			if r.advice != "" {
				told.Notes = []string{r.advice}
				fmt.Fprintf(x.out, "  note: %s\n", r.advice)
			}
		}
		x.Shards[of].Replicas = append(x.Shards[of].Replicas, told)
	}
}

type reachedShard struct {
	version string
	// identity differs between servers, whatever address they are reached by.
	identity string
	serverID string
	// notes are what will fail later: on a server that takes no writes, or for rights
	// that the account lacks.
	notes []string
	err   error
}

type checkedReplica struct {
	version, advice string
	err             error
}

// checkReplica reaches a replica, and looks at what it replicates.
func checkReplica(ctx context.Context, primary, r config.Shard) checkedReplica {
	reached := reach(ctx, r)
	if reached.err != nil {
		return checkedReplica{err: reached.err}
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	to := shardConfig(r)
	to.Name += " replica"
	advice, err := replica.Check(ctx, shardConfig(primary), to)
	return checkedReplica{reached.version, advice, err}
}

// sameID: a replica on MariaDB knows its primary by server_id alone.
func sameID(shards []config.Shard, reached []reachedShard, of int) error {
	for i, r := range reached {
		if i != of && r.err == nil && isMariaDB(r.version) && r.serverID == reached[of].serverID {
			return fmt.Errorf("shards %s and %s both have server_id %s, by which a replica's primary is known: give each server its own", shards[of].Name, shards[i].Name, r.serverID)
		}
	}
	return nil
}

func reach(ctx context.Context, sh config.Shard) (r reachedShard) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	db, err := openDB(sh.Addr, sh.User, sh.Password, "", sh.TLS.Client())
	if err != nil {
		return reachedShard{err: err}
	}
	defer db.Close()
	r.err = db.QueryRowContext(ctx, "SELECT VERSION(), @@server_id").Scan(&r.version, &r.serverID)
	if r.err == nil && db.QueryRowContext(ctx, identityQuery(isMariaDB(r.version))).Scan(&r.identity) != nil {
		r.identity = sh.Addr // it has no name of its own (before MariaDB 10.11)
	}
	var readOnly string
	if r.err == nil && db.QueryRowContext(ctx, "SELECT @@read_only").Scan(&readOnly) == nil && readOnly != "0" && readOnly != "OFF" {
		r.notes = []string{"read_only is on: writes to this server will fail; is it a replica?"}
	}
	switch refused, _ := errors.AsType[*mysql.MySQLError](r.err); {
	case refused != nil && refused.Number == mysqlerr.AccessDenied && sh.TLS == nil:
		r.err = fmt.Errorf("%w (wrong user or password, or the account has REQUIRE SSL: then the shard needs tls, see docs/configuration.md)", r.err)
	case refused != nil && refused.Number == mysqlerr.AccessDenied && sh.TLS.Cert == nil:
		r.err = fmt.Errorf("%w (wrong user or password, or the account has REQUIRE X509: then the shard's tls needs cert and key)", r.err)
	case refused != nil && refused.Number == mysqlerr.SecureTransportRequired: // MySQL's require_secure_transport
		r.err = fmt.Errorf("%w (the shard needs tls, see docs/configuration.md)", r.err)
	case errors.Is(r.err, mysql.ErrNoTLS):
		r.err = fmt.Errorf("%w (the shard has tls: set up certificates on the server, or remove tls)", r.err)
	case errors.Is(r.err, context.DeadlineExceeded):
		r.err = fmt.Errorf("no answer within %s (a firewall between, or no MySQL server at this port)", reachTimeout)
	case nameless(r.err):
		r.err = fmt.Errorf("%w (the certificate holds no name, as those that MySQL makes for itself: give tls a ca and verify: ca)", r.err)
	case errors.As(r.err, new(x509.HostnameError)):
		r.err = fmt.Errorf("%w (the name that the certificate must have is the host of addr, or the server_name of the shard's tls)", r.err)
	case errors.As(r.err, new(x509.UnknownAuthorityError)):
		r.err = fmt.Errorf("%w (the ca of the shard's tls is what must have signed it)", r.err)
	}
	return r
}

// smallerLimits notes where a server allows less than Shunt does.
func smallerLimits(ctx context.Context, sh config.Shard, cfg *config.Config) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	db, err := openDB(sh.Addr, sh.User, sh.Password, "", sh.TLS.Client())
	if err != nil {
		return nil // it was reached before
	}
	defer db.Close()
	var connections, packet int
	if db.QueryRowContext(ctx, "SELECT @@max_connections, @@max_allowed_packet").Scan(&connections, &packet) != nil {
		return nil
	}
	if connections <= cfg.ShardConnections {
		notes = append(notes, fmt.Sprintf("max_connections is %d: expected more than shard_connections (%d), or statements fail when all are used (1040)", connections, cfg.ShardConnections))
	}
	if packet < cfg.MaxAllowedPacket {
		notes = append(notes, fmt.Sprintf("max_allowed_packet is %d, Shunt's is %d: longer statements fail only here, as a lost connection (1430); set both alike", packet, cfg.MaxAllowedPacket))
	}
	return notes
}

// nameless tells a certificate that names no server from one that names another.
func nameless(err error) bool {
	wrong, ok := errors.AsType[x509.HostnameError](err)
	return ok && len(wrong.Certificate.DNSNames) == 0 && len(wrong.Certificate.IPAddresses) == 0
}

func isMariaDB(version string) bool { return strings.Contains(strings.ToLower(version), "mariadb") }

// openDB makes a pool of connections of the plain Go driver.
func openDB(addr, user, password, schema string, encrypt *tls.Config) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", addr, user, password, schema
	if strings.HasPrefix(addr, "/") {
		c.Net = "unix"
	}
	c.Timeout = reachTimeout
	c.Logger = &mysql.NopLogger{}
	c.AllowNativePasswords = true
	c.TLS = encrypt
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", addr, err)
	}
	return sql.OpenDB(connector), nil
}

// checkDataDir reports whether the store could be written, without making
// the directory: its nearest existing parent must be writable.
func checkDataDir(dir string, minFree uint64) error {
	at, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("data_dir %s: %w", dir, err)
	}
	for {
		info, err := os.Stat(at)
		if errors.Is(err, os.ErrNotExist) && filepath.Dir(at) != at {
			at = filepath.Dir(at)
			continue
		}
		if err != nil {
			return fmt.Errorf("data_dir: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("data_dir %s: %s is no directory", dir, at)
		}
		break
	}
	f, err := os.CreateTemp(at, ".shunt-check-*")
	if err != nil {
		return fmt.Errorf("data_dir %s is not writable: %w", dir, err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("data_dir %s: %w", dir, err)
	}
	if free, err := storage.FreeSpace(at); err == nil && free < minFree {
		return fmt.Errorf("data_dir %s: %d MiB free on its disk, min_free_disk is %d MiB: with less, writes to indexed tables are refused", dir, free>>20, minFree>>20)
	}
	return nil
}
