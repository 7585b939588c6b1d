package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// member is one of several Shunts: a process of its own, so that it can be killed.
type member struct {
	number     int
	addr, http string
	file, log  string
	ready      atomic.Bool
	served     atomic.Bool // it was ready once

	mu  sync.Mutex
	pid int // 0: it doesn't run
}

func (m *member) process() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid
}

// comesBack is how long a member that has ended stays away.
func (d *demo) comesBack() time.Duration {
	if d.Check {
		return time.Second
	}
	return 15 * time.Second
}

// serveMembers starts the members and the balancer before them, and waits until all are ready.
// The end of one of them before that ends the demo.
func (d *demo) serveMembers(ctx context.Context, cancel context.CancelCauseFunc) error {
	d.served = make(chan struct{})
	for i := range d.Members {
		m := &member{
			number: i + 1, addr: freeAddress(), http: freeAddress(),
			file: filepath.Join(d.dir, fmt.Sprintf("shunt%d.yaml", i+1)), log: filepath.Join(d.dir, fmt.Sprintf("shunt%d.log", i+1)),
		}
		if err := os.WriteFile(m.file, []byte(d.memberFile(m)), 0o600); err != nil {
			return fmt.Errorf("write the configuration of member %d: %w", m.number, err)
		}
		d.members = append(d.members, m)
	}
	b, err := newBalancer(d.Listen, d.members)
	if err != nil {
		return err
	}
	d.Listen, d.HTTP = b.listener.Addr().String(), d.members[0].http
	p := newProgress(d.Out, "Starting members")
	var running sync.WaitGroup
	running.Go(func() { b.run(ctx) })
	for _, m := range d.members {
		running.Go(func() { d.keepRunning(ctx, m, cancel) })
	}
	go func() {
		running.Wait()
		close(d.served)
	}()
	for _, m := range d.members {
		for !m.ready.Load() {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				p.abandon()
				<-d.served
				return context.Cause(ctx)
			}
		}
	}
	p.done(fmt.Sprintf("%d of %d", d.Members, d.Members))
	d.db, err = d.open("")
	return err
}

// keepRunning has a member run until ctx ends, as systemd would.
func (d *demo) keepRunning(ctx context.Context, m *member, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		err := d.runMember(ctx, m)
		switch {
		case ctx.Err() != nil:
			return
		case !m.served.Load():
			cancel(fmt.Errorf("%w: member %d: %w: %s", errServe, m.number, err, lastLine(m.log)))
			return
		}
		m.ready.Store(false)
		fmt.Fprintf(d.Out, "\nMember %d has ended (%v). It is started again in %v.\n", m.number, err, d.comesBack())
		select {
		case <-time.After(d.comesBack()):
		case <-ctx.Done():
		}
	}
}

// runMember runs it once; when ctx ends it is told to stop.
func (d *demo) runMember(ctx context.Context, m *member) error {
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of member %d: %w", m.number, err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, d.Program, "serve", "--config", m.file)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	// Its own group: Ctrl-C is the demo's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start member %d: %w", m.number, err)
	}
	m.set(cmd.Process.Pid)
	defer m.set(0)
	if err := cmd.Wait(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

func (m *member) set(pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pid = pid
}

func lastLine(file string) string {
	text, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// memberFile is the member's shunt.yaml. But for addresses and data_dir all members' are the same.
func (d *demo) memberFile(m *member) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %q\nhttp: %q\ndata_dir: %q\n", m.addr, m.http, filepath.Join(d.dir, fmt.Sprintf("data%d", m.number)))
	b.WriteString("store: {shards: true}\ndrain_timeout: 2s\n")
	fmt.Fprintf(&b, "users:\n  - {name: %s, password: %q}\nshards:\n", account, password)
	for i, s := range d.set.Servers {
		fmt.Fprintf(&b, "  - {name: s%d, addr: %q, user: %q, password: %q}\n", i, s.Addr(), s.User, s.Password)
	}
	fmt.Fprintf(&b, "schemas:\n  %s:\n    tables:\n", schema)
	for _, t := range placed {
		if t.ShardKey != "" {
			fmt.Fprintf(&b, "      %s: {shard_key: %s}\n", t.Name, t.ShardKey)
		} else {
			fmt.Fprintf(&b, "      %s: {placement: %s}\n", t.Name, t.Placement)
		}
	}
	return b.String()
}

// explainMembers prints what there is to see of several.
func (d *demo) explainMembers() {
	w := d.Out
	fmt.Fprintf(w, "\n%d Shunts serve together; %s is a balancer before them, round robin.\n", d.Members, d.Listen)
	for _, m := range d.members {
		fmt.Fprintf(w, "  member %d: process %-7d %s, metrics: http://%s/metrics\n", m.number, m.process(), m.addr, m.http)
	}
	fmt.Fprintf(w, "A lookup is a round trip to the first shard, which has the virtual indexes.\n")
	fmt.Fprintf(w, "\nTry with them\n")
	fmt.Fprintf(w, "  1. Who is there.\n       SHOW MEMBERS;\n")
	fmt.Fprintf(w, "  2. Kill one: the others go on. It is back after %v.\n       kill -9 %d\n", d.comesBack(), d.members[1].process())
}

// checkMembers does what was printed of several.
func (d *demo) checkMembers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rows, err := queryRows(ctx, d.db, "SHOW MEMBERS")
	if err != nil {
		return err
	}
	if len(rows) != d.Members {
		return fmt.Errorf("SHOW MEMBERS tells of %d: %v", len(rows), rows)
	}
	if err := d.checkEachOther(ctx); err != nil {
		return err
	}
	killed := d.members[1]
	if err := syscall.Kill(killed.process(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill member %d: %w", killed.number, err)
	}
	// Connections to it break. Each further one is another's.
	for range 2 * d.Members {
		if err := eventually(ctx, "the others serve", func() error {
			db, err := d.open(schema)
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = queryRows(ctx, db, byEmail(d.favourite().email))
			return err
		}); err != nil {
			return err
		}
	}
	if err := eventually(ctx, "a member that was killed comes back", func() error {
		if !killed.ready.Load() {
			return errors.New("it isn't ready")
		}
		return nil
	}); err != nil {
		return err
	}
	return d.checkEachOther(ctx)
}

// checkEachOther has each member change the email, and all find the row by it at once.
func (d *demo) checkEachOther(ctx context.Context) error {
	u := d.favourite()
	var dbs []*sql.DB
	for _, m := range d.members {
		db, err := d.openAt(m.addr, schema)
		if err != nil {
			return err
		}
		defer db.Close()
		dbs = append(dbs, db)
	}
	for i, by := range dbs {
		email := fmt.Sprintf("member%d@example.org", i+1)
		if i == len(dbs)-1 {
			email = u.email
		}
		if _, err := by.ExecContext(ctx, fmt.Sprintf("UPDATE users SET email = '%s' WHERE id = %d", email, u.id)); err != nil {
			return fmt.Errorf("member %d: %w", i+1, err)
		}
		for j, reads := range dbs {
			rows, err := queryRows(ctx, reads, byEmail(email))
			if err == nil {
				err = expectUser(rows, u.id, u.name, email)
			}
			if err != nil {
				return fmt.Errorf("member %d, behind a write by member %d: %w", j+1, i+1, err)
			}
		}
	}
	return nil
}

// eventually tries until there is no error, or ctx ends.
func eventually(ctx context.Context, what string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
