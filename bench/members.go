package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// membersCases are of several Shunts before the same shards, under a load of so many statements a second in all.
var membersCases = []string{"members/floor", "members/homes", "members/processor", "members/create", "members/lost"}

const (
	membersCount = 4
	membersRate  = 1000
)

// fleet is members, with a schema of the benchmark's. The stage ends them.
type fleet struct {
	*bench
	members []*target
	figures *sharded
}

// newFleet is one member by a configuration, with rows. It has to be stopped.
func (b *bench) newFleet(ctx context.Context, by configured) (f *fleet, err error) {
	side := *b
	side.configured = by
	if side.stage, err = side.newStage(ctx, shards, 0, followable...); err != nil {
		return nil, err
	}
	f = &fleet{bench: &side}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	if err := f.grow(ctx, 1); err != nil {
		return nil, err
	}
	side.shunt = f.members[0]
	if err := side.fill(ctx); err != nil {
		return nil, err
	}
	f.figures = &sharded{shardOf: side.shardOf}
	f.figures.unique.Store(firstUnique)
	return f, nil
}

// membersPart compares one member with several, and several with those that are left when one is lost.
func (b *bench) membersPart(ctx context.Context) error {
	f, err := b.newFleet(ctx, storesCompared.sides[1].configured)
	if err != nil {
		return err
	}
	defer f.stop()
	for i, do := range []func(context.Context) error{f.floor, f.homes, f.processor, f.create, f.lost} {
		if !b.only.MatchString(membersCases[i]) {
			continue
		}
		if err := f.idle(ctx); err != nil {
			return err
		}
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s: %w", membersCases[i], err)
		}
	}
	return nil
}

// grow has n members run.
func (f *fleet) grow(ctx context.Context, n int) error {
	for len(f.members) < n {
		t, err := f.startShunt(ctx, f.program(), "{bench: "+placements()+"}")
		if err != nil {
			return err
		}
		f.members = append(f.members, t)
	}
	return nil
}

// shrink ends all members but the first n, and waits until they are gone.
func (f *fleet) shrink(ctx context.Context, n int) error {
	for _, t := range f.members[n:] {
		if err := syscall.Kill(t.pid, syscall.SIGTERM); err != nil {
			return err
		}
	}
	f.members = f.members[:n]
	return f.until(ctx, func() (bool, error) {
		rows, err := f.column(ctx, "SHOW MEMBERS", "Addr")
		return len(rows) == n, err
	})
}

func (f *fleet) until(ctx context.Context, ok func() (bool, error)) error {
	for {
		done, err := ok()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answer is when a statement was due, by which member, and how long it took from then on.
type answer struct {
	at   time.Time
	by   *target
	took time.Duration
}

// paced sends a mix of statements, so many a second, at an even rate by all members, until ctx ends. What is late counts as late: a
// statement's time begins when it is due. Those of a member that gone names may fail.
func (f *fleet) paced(ctx context.Context, rate int, gone func(*target) bool) (answers []answer, err error) {
	const workers = 16
	next, began := f.mix(), time.Now()
	took, failures := make([][]answer, workers), make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		by := f.members[i%len(f.members)]
		db, err := openDB(*by, "bench", false)
		if err != nil {
			return nil, err
		}
		defer db.Close()
		wg.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			due := began.Add(time.Second * time.Duration(i) / time.Duration(rate)) // one after the other
			for ctx.Err() == nil {
				due = due.Add(time.Second * workers / time.Duration(rate))
				time.Sleep(time.Until(due))
				s := next(random)
				if _, err := db.ExecContext(context.WithoutCancel(ctx), s.text, s.args...); err != nil {
					if !gone(by) {
						failures[i] = fmt.Errorf("%s: %w", s.text, err)
					}
					return
				}
				took[i] = append(took[i], answer{due, by, time.Since(due)})
			}
		})
	}
	wg.Wait()
	return slices.Concat(took...), errors.Join(failures...)
}

// mix is of ten statements six reads by virtual index, and of the others every kind of write.
func (f *fleet) mix() func(*rand.Rand) statement {
	of := map[string]source{}
	for _, c := range f.figures.cases() {
		of[c.name] = c.source[ours]
	}
	kinds := []string{"by_index", "by_index", "by_index", "by_index", "by_index", "by_index", "by_key", "update_unindexed", "update_literal", "insert_1"}
	return func(random *rand.Rand) statement {
		s, _ := of["four/"+kinds[random.IntN(len(kinds))]](random) // none of these ends
		return s
	}
}

// floor is what the read of a row takes straight from a server, alone and beside the same read from another server: no less than the
// latter takes a read that is sent on a guess, while the home is asked.
func (f *fleet) floor(ctx context.Context) error {
	var reads [2]*sql.Stmt
	for i := range reads {
		db, err := openDB(straight(f.servers[i]), "bench", false)
		if err != nil {
			return err
		}
		defer db.Close()
		if reads[i], err = db.PrepareContext(ctx, "SELECT id FROM indexed WHERE id = ?"); err != nil {
			return err
		}
	}
	read := func(i int) error {
		var id int
		if err := reads[i].QueryRowContext(ctx, rand.IntN(f.rows)).Scan(&id); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return nil
	}
	ways := []func() error{
		func() error { return read(0) },
		func() error {
			beside := make(chan error, 1)
			go func() { beside <- read(1) }()
			return errors.Join(read(0), <-beside)
		},
	}
	var ratios []float64
	for range f.rounds {
		var medians [2]time.Duration
		for i, way := range ways {
			var took []time.Duration
			for until := time.Now().Add(time.Duration(f.seconds) * time.Second); time.Now().Before(until); {
				began := time.Now()
				if err := way(); err != nil {
					return err
				}
				took = append(took, time.Since(began))
			}
			medians[i] = median(took)
		}
		ratios = append(ratios, float64(medians[1])/float64(medians[0]))
		fmt.Fprintf(f.out, "%s: a read straight from a server: alone p50 %s ms, beside another one's %s ms\n", membersCases[0],
			milliseconds(float64(medians[0])), milliseconds(float64(medians[1])))
	}
	fmt.Fprintf(f.out, "%s: ratio %.3f, median of %d rounds\n", membersCases[0], median(ratios), len(ratios))
	return nil
}

// homes are inserts into a table whose three virtual indexes have one home, and two.
func (f *fleet) homes(ctx context.Context) error {
	at, err := f.column(ctx, "SHOW VIRTUAL INDEXES", "Home")
	if err != nil {
		return err
	}
	const index = "idx_three_indexes_b"
	var next source
	for _, c := range f.figures.cases() {
		if c.name == "four/insert_3" {
			next = c.source[ours]
		}
	}
	fmt.Fprintf(f.out, "%s: %q\n", membersCases[1], at)
	for range f.rounds {
		for _, move := range []string{"", "s3"} {
			if move != "" {
				if err := f.moved(ctx, index, move); err != nil {
					return err
				}
			}
			if err := f.idle(ctx); err != nil {
				return err
			}
			db, err := openDB(*f.members[0], "bench", false)
			if err != nil {
				return err
			}
			l := load{[]*sql.DB{db}, loadConnections, true, false, 0, next, 2 * f.seconds, f.serversTime, nil}
			h, err := l.run(ctx)
			_ = db.Close()
			if err != nil {
				return err
			}
			homes := 1
			if move != "" {
				homes = 2
			}
			fmt.Fprintf(f.out, "%s: %d: %.0f/s, p50 %s ms, p99 %s ms, servers' processor time a statement %s ms\n", membersCases[1], homes,
				h.statements, milliseconds(float64(h.p50)), milliseconds(float64(h.p99)), milliseconds(float64(h.cpu)))
		}
		if err := f.moved(ctx, index, at[len(at)-1]); err != nil {
			return err
		}
	}
	return nil
}

// moved moves a virtual index of three_indexes.
func (f *fleet) moved(ctx context.Context, index, home string) error {
	if _, err := f.db.ExecContext(ctx, "REBUILD VIRTUAL INDEX "+index+" ON three_indexes HOME "+home); err != nil {
		return err
	}
	return f.until(ctx, func() (bool, error) {
		names, err := f.column(ctx, "SHOW VIRTUAL INDEXES", "Name")
		homes, failed := f.column(ctx, "SHOW VIRTUAL INDEXES", "Home")
		if err = errors.Join(err, failed); err != nil {
			return false, err
		}
		i := slices.Index(names, index)
		return i >= 0 && homes[i] == home, nil
	})
}

func nobody(*target) bool { return false }

// processor is the servers' processor time a statement by several members, beside that by one.
func (f *fleet) processor(ctx context.Context) error {
	for _, rate := range []int{membersRate, 3 * membersRate} {
		if err := f.processorAt(ctx, rate); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) processorAt(ctx context.Context, rate int) error {
	var ratios []float64
	for range f.rounds {
		used := map[int]time.Duration{}
		for _, n := range []int{1, membersCount} {
			if err := f.grow(ctx, n); err != nil {
				return err
			}
			for _, wait := range []time.Duration{3 * time.Second, time.Duration(4*f.seconds) * time.Second} { // warm, then measured
				before, err := f.serversTime()
				if err != nil {
					return err
				}
				during, cancel := context.WithTimeout(ctx, wait)
				answers, err := f.paced(during, rate, nobody)
				cancel()
				after, failed := f.serversTime()
				if err = errors.Join(err, failed); err != nil {
					return err
				}
				used[n] = (after - before) / time.Duration(len(answers))
			}
		}
		if err := f.shrink(ctx, 1); err != nil {
			return err
		}
		ratios = append(ratios, float64(used[membersCount])/float64(used[1]))
		fmt.Fprintf(f.out, "%s: at %d a second, servers' processor time a statement: 1 member %s ms, %d members %s ms\n",
			membersCases[2], rate, milliseconds(float64(used[1])), membersCount, milliseconds(float64(used[membersCount])))
	}
	fmt.Fprintf(f.out, "%s: at %d a second, ratio %.3f, median of %d rounds\n", membersCases[2], rate, median(ratios), len(ratios))
	return nil
}

func (f *fleet) serversTime() (sum time.Duration, err error) {
	for _, s := range f.servers {
		t, err := s.ProcessorTime()
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// create is how long an index takes until it is ready, by several members, beside by one.
func (f *fleet) create(ctx context.Context) error {
	for range f.rounds {
		took := map[int]time.Duration{}
		for _, n := range []int{1, membersCount} {
			if err := f.grow(ctx, n); err != nil {
				return err
			}
			began := time.Now()
			if _, err := f.db.ExecContext(ctx, "CREATE VIRTUAL INDEX idx_created ON plain (code)"); err != nil {
				return err
			}
			if err := f.awaitIndexes(ctx); err != nil {
				return err
			}
			took[n] = time.Since(began)
			if _, err := f.db.ExecContext(ctx, "DROP VIRTUAL INDEX idx_created ON plain"); err != nil {
				return err
			}
		}
		if err := f.shrink(ctx, 1); err != nil {
			return err
		}
		fmt.Fprintf(f.out, "%s: CREATE VIRTUAL INDEX of %d rows until it is ready: 1 member %.2f s, %d members %.2f s\n",
			membersCases[3], f.rows, took[1].Seconds(), membersCount, took[membersCount].Seconds())
	}
	return nil
}

// lost is the others' answers in the ten seconds behind a member's end, beside those of the ten seconds before; and
// when what it was building goes on.
func (f *fleet) lost(ctx context.Context) error {
	const around = 10 * time.Second
	for range f.rounds {
		if err := f.grow(ctx, membersCount); err != nil {
			return err
		}
		var victim *target
		var gone sync.Mutex
		during, cancel := context.WithCancel(ctx)
		var answers []answer
		ended := make(chan error, 1)
		go func() {
			var err error
			answers, err = f.paced(during, membersRate, func(t *target) bool {
				gone.Lock()
				defer gone.Unlock()
				return t == victim
			})
			ended <- err
		}()
		end, resumed, err := f.lose(ctx, around, func(t *target) {
			gone.Lock()
			defer gone.Unlock()
			victim = t
		})
		if err == nil {
			time.Sleep(time.Until(end.Add(around + time.Second)))
		}
		cancel()
		if err := errors.Join(err, <-ended); err != nil {
			return err
		}
		p99 := func(from, to time.Time) time.Duration {
			var took []time.Duration
			for _, a := range answers {
				if a.by != victim && a.at.After(from) && a.at.Before(to) {
					took = append(took, a.took)
				}
			}
			slices.Sort(took)
			return took[len(took)*99/100]
		}
		before, after := p99(end.Add(-around), end), p99(end, end.Add(around))
		fmt.Fprintf(f.out, "%s: the others' p99 in the %s before %s ms, behind it %s ms: ratio %.2f; its build went on after %.1f s\n", membersCases[4], around,
			milliseconds(float64(before)), milliseconds(float64(after)), float64(after)/float64(before), resumed.Seconds())
		f.members = slices.DeleteFunc(f.members, func(t *target) bool { return t == victim })
		if err := f.awaitIndexes(ctx); err != nil {
			return err
		}
		if _, err := f.db.ExecContext(ctx, "DROP VIRTUAL INDEX idx_lost ON plain"); err != nil {
			return err
		}
	}
	return nil
}

// lose kills a member that builds an index. It isn't the one that the benchmark asks.
func (f *fleet) lose(ctx context.Context, warm time.Duration, is func(*target)) (end time.Time, resumed time.Duration, err error) {
	store, err := openDB(straight(f.servers[0]), "shunt_store", false)
	if err != nil {
		return end, 0, err
	}
	defer store.Close()
	// worker is the member that has claimed the build.
	worker := func() (member string, err error) {
		err = store.QueryRowContext(ctx, "SELECT claimed_by FROM jobs WHERE claimed_until > UTC_TIMESTAMP(6) AND body LIKE '%build_index%'").Scan(&member)
		if errors.Is(err, sql.ErrNoRows) {
			return "", nil
		}
		return member, err
	}
	var victim *target
	time.Sleep(warm)
	for victim == nil {
		if _, err := f.db.ExecContext(ctx, "CREATE VIRTUAL INDEX idx_lost ON plain (email)"); err != nil {
			return end, 0, err
		}
		had := ""
		if err := f.until(ctx, func() (bool, error) { had, err = worker(); return had != "", err }); err != nil {
			return end, 0, err
		}
		names, err := f.column(ctx, "SHOW MEMBERS", "Member")
		addrs, failed := f.column(ctx, "SHOW MEMBERS", "Addr")
		if err = errors.Join(err, failed); err != nil {
			return end, 0, err
		}
		for i, name := range names {
			for _, t := range f.members[1:] {
				if port := t.addr[strings.LastIndex(t.addr, ":"):]; strings.Contains(had, name) && strings.HasSuffix(addrs[i], port) {
					victim = t
				}
			}
		}
		if victim != nil {
			is(victim)
			end = time.Now()
			if err := syscall.Kill(victim.pid, syscall.SIGKILL); err != nil {
				return end, 0, err
			}
			err := f.until(ctx, func() (bool, error) {
				now, err := worker()
				return now != "" && now != had, err
			})
			return end, time.Since(end), err
		}
		if err := f.awaitIndexes(ctx); err != nil {
			return end, 0, err
		}
		if _, err := f.db.ExecContext(ctx, "DROP VIRTUAL INDEX idx_lost ON plain"); err != nil {
			return end, 0, err
		}
	}
	return end, 0, nil
}
