package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/replica"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// reloader takes changes of the configuration over into a process that runs.
type reloader struct {
	// started is what the process was started with.
	started   *config.Config
	proxy     *proxy.Proxy
	directory *schema.Directory
	placed    *placementCheck
	indexes   *configuredIndexes
	layout    layout
	dial      map[catalog.ShardID]shard.Config
	claims    *claims // nil: nothing is claimed
	member    *member // nil: this process has its store alone
	apart     apart
	replicas  *replica.Set
	own       *certificates
	log       *slog.Logger
}

// run reads the configuration again at each signal, until ctx ends. No connection
// is dropped; a file with errors changes nothing.
func (r reloader) run(ctx context.Context, hup <-chan os.Signal) {
	now, lacking := r.started, ""
	for {
		var again <-chan time.Time
		if r.member.awaits() {
			again = time.After(togetherPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-hup:
			now, lacking = r.reload(ctx, now), ""
		case <-again:
		}
		if r.member.awaits() {
			lacking = r.together(ctx, lacking)
		}
	}
}

// togetherPause is how long members wait until they look again whether the others are to have what they are to have.
const togetherPause = time.Second

// together has members go by what they all are to have; told is whom it has said to wait for.
func (r reloader) together(ctx context.Context, told string) (lacking string) {
	lacking, err := r.member.together(ctx, r.proxy, r.directory)
	switch {
	case err != nil && err.Error() != told:
		r.log.Error("reload: schemas stay as they are until all members can change them", "error", err)
		return err.Error()
	case err != nil:
		return told
	case lacking != "" && lacking != told:
		r.log.Info("reload: schemas change as soon as all members have them: send SIGHUP to the others", "waits_for", lacking)
	}
	return lacking
}

// reload takes over the file. It returns the configuration whose accounts hold from
// now on: the one before if nothing was changed.
func (r reloader) reload(ctx context.Context, now *config.Config) *config.Config {
	next, err := config.Load(r.started.File)
	if err == nil {
		err = r.tryAccounts(ctx, now, next)
	}
	if err != nil {
		r.log.Error("reload: nothing was changed", "error", err)
		return now
	}
	r.accounts(ctx, now, next) // first, or shards that don't take the old ones could not be asked
	if r.claims != nil {
		err = r.claims.add(ctx, next, r.dial)
	} else if r.started.Store.Shared() {
		err = aloneOnShards(ctx, next, r.log) // of schemas that it has besides
	}
	if err == nil {
		_, _, err = r.apart.missing(next)
	}
	if err == nil {
		err = r.alike(ctx, next, func() error {
			if err := r.placements(ctx, next); err != nil {
				return err
			}
			return r.leave(ctx, next)
		})
	}
	if err != nil {
		r.log.Error("reload: nothing was changed but the shards' accounts and addresses", "error", err)
		return next
	}
	r.proxy.SetUsers(users(next))
	r.proxy.SetTimeouts(proxy.Timeouts(next.Timeouts))
	r.proxy.SetLimits(limits(next, r.log))
	if err := r.proxy.SetStatementLog(statementLog(next)); err != nil {
		r.log.Error("reload: the log of statements stays as it was", "error", err)
	}
	if !reflect.DeepEqual(now.Tracing, next.Tracing) {
		if err := setTracer(ctx, r.proxy, next, r.log); err != nil {
			r.log.Error("reload: statements are traced as before", "error", err)
		}
	}
	r.proxy.SetProxyProtocol(next.ProxyProtocol)
	r.proxy.SetTLS(next.TLS.Server(), next.TLS != nil && next.TLS.Required)
	r.own.set(next)
	changeReplicas(r.replicas, next, r.layout, r.dial)
	if err := r.indexes.make(ctx, next); err != nil {
		r.log.Error("reload: indexes", "error", err)
	}
	if rest := needRestart(r.started, next); len(rest) > 0 {
		r.log.Warn("reload: done, but for changes that need a restart", "keys", strings.Join(rest, ", "))
		return next
	}
	r.log.Info("reload: done", "file", r.started.File)
	return next
}

// alike has fn take over what has to be the same for all members: others that serve are in the way
// where it isn't what it was. Shards that are new need a restart.
func (r reloader) alike(ctx context.Context, next *config.Config, fn func() error) error {
	if r.member == nil {
		return fn()
	}
	then := *next
	then.Shards = slices.DeleteFunc(slices.Clone(r.started.Shards), func(s config.Shard) bool { return shardNamed(next, s.Name) == nil })
	return r.member.changeAlike(ctx, &then, r.directory, fn)
}

// returnTime is how long shards have to answer to new accounts: one that was judged dead
// for its certificate is looked at again twice a second.
const returnTime = 3 * time.Second

// placements takes over how rows are placed, which the shards' tables must fit.
func (r reloader) placements(ctx context.Context, next *config.Config) error {
	for began := time.Now(); ; {
		err := r.placed.keepingOut(r.proxy.KeepWritesOut, func() error {
			return r.directory.SetPlacements(ctx, placements(next))
		})
		if !errors.Is(err, schema.ErrNoShard) && !errors.Is(err, proxy.ErrBusy) || time.Since(began) > returnTime {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(returnTime / 10):
		}
	}
}

// leave takes out the shards that the configuration lacks, but those that have rows.
func (r reloader) leave(ctx context.Context, next *config.Config) (err error) {
	lacks := func(sh catalog.Shard) bool { return shardNamed(next, sh.Name) == nil }
	if r.member != nil && r.started.Store.Shards && slices.ContainsFunc(r.directory.Catalog().Shards, lacks) {
		for _, at := range homesOf(r.started) {
			if shardNamed(next, at.Name) == nil {
				var stay func() error
				if stay, err = r.member.store.TakeOut(at.Name); err != nil {
					return err
				}
				defer func() {
					if err != nil {
						err = errors.Join(err, stay())
					}
				}()
			}
		}
	}
	for _, sh := range r.directory.Catalog().Shards {
		if shardNamed(next, sh.Name) != nil {
			continue
		}
		if err := r.proxy.Leave(ctx, sh); err != nil {
			return fmt.Errorf("the configuration lacks shard %s: %w; put it back", sh.Name, err)
		}
		r.log.Info("reload: the shard has no rows of its own, and serves no more", "shard", sh.Name)
	}
	return nil
}

// tryAccounts logs in at the shards whose address, account or TLS has changed. With a mistyped
// password open connections would go on, and statements fail only as these end.
// A shard that doesn't answer where it was is no reason to refuse.
func (r reloader) tryAccounts(ctx context.Context, now, next *config.Config) error {
	errs := make([]error, len(r.layout.shards))
	var wg sync.WaitGroup
	for i, sh := range r.layout.shards {
		was, is := shardNamed(now, sh.Name), shardNamed(next, sh.Name)
		if was == nil || is == nil || sameLogin(was, is) {
			continue
		}
		wg.Go(func() {
			c, err := shard.Dial(ctx, shardConfig(*is), false)
			if err == nil {
				_ = c.Close()
			} else if loginRefused(err) || was.Addr != is.Addr {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func sameLogin(a, b *config.Shard) bool {
	return a.Addr == b.Addr && a.User == b.User && a.Password == b.Password && reflect.DeepEqual(a.TLS, b.TLS)
}

func shardNamed(c *config.Config, name string) *config.Shard {
	if i := slices.IndexFunc(c.Shards, func(s config.Shard) bool { return s.Name == name }); i >= 0 {
		return &c.Shards[i]
	}
	return nil
}

// loginRefused tells an account or TLS that the server, or Shunt, doesn't take from a
// server that can't serve just now.
func loginRefused(err error) bool {
	if refused, ok := errors.AsType[*shard.ServerError](err); ok {
		return refused.State == "28000" || refused.Code == mysqlerr.AccountHasBeenLocked || refused.Code == mysqlerr.MariaDBAccountHasBeenLocked
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	// The client library has no value for this one.
	return certificate || strings.Contains(err.Error(), "does not support TLS")
}

// accounts takes over where the shards are, and what Shunt logs in with. Connections that are
// open stay, but where another server answers: the first connection to it ends those to the one before.
func (r reloader) accounts(ctx context.Context, now, next *config.Config) {
	for _, sh := range r.layout.shards {
		to, was := shardNamed(next, sh.Name), shardNamed(now, sh.Name)
		if to == nil {
			continue
		}
		r.dial[sh.ID].Target.Set(to.Addr, to.User, to.Password, to.TLS.Client())
		if was == nil || was.Addr == to.Addr {
			continue
		}
		r.log.Info("reload: the shard has another address", "shard", sh.Name, "was", was.Addr, "is", to.Addr)
		if c, err := shard.Dial(ctx, r.dial[sh.ID], false); err == nil {
			_ = c.Close()
		}
	}
	if r.member != nil {
		r.member.readdress(now, next)
	}
}

// needRestart names the keys that have changed and are read at start only. SIGHUP takes
// over all of Timeouts: a new duration that is hot goes there.
func needRestart(started, next *config.Config) []string {
	var keys []string
	takenOver := config.TakenOver()
	was, is := reflect.ValueOf(*started), reflect.ValueOf(*next)
	for i := range was.NumField() {
		switch name := was.Type().Field(i).Name; {
		case name == "File", name == "Timeouts", reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()):
		case name == "Shards":
			keys = append(keys, changedShards("shards", started.Shards, next.Shards)...)
		case name == "Store" && started.Store.Shards == next.Store.Shards:
			keys = append(keys, changedShards("store.servers", started.Store.Servers, next.Store.Servers)...)
		case !takenOver[keyOf(name)]:
			keys = append(keys, keyOf(name))
		}
	}
	return keys
}

// changedShards names shards that aren't those of the start: addresses, accounts and
// replicas are taken over.
func changedShards(key string, was, is []config.Shard) []string {
	if len(was) != len(is) {
		return []string{fmt.Sprintf("%s (%d, now %d)", key, len(was), len(is))}
	}
	var keys []string
	for i := range was {
		a, b := was[i], is[i]
		b.Addr, b.User, b.Password, b.TLS, b.Replicas = a.Addr, a.User, a.Password, a.TLS, a.Replicas
		b.Nodes = a.Nodes
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, key+"."+a.Name)
		}
	}
	return keys
}

var wordEnd = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)

// keyOf is the key in the file of a field of the configuration.
func keyOf(field string) string {
	return strings.ToLower(wordEnd.ReplaceAllString(field, "${1}${3}_${2}${4}"))
}
