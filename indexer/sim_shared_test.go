package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// sharedRules breaks rules that are about several processes.
type sharedRules struct {
	ownHorizon  bool // the horizon is of the process's own registrations
	lateRow     bool // who joins reads the epoch before its row is there
	toldEarly   bool // what is open is told before the epoch is adopted
	toldAdopted bool // what is told is the epoch that was adopted, whatever is open
	noFormer    bool // an index is added to only where it is read, as soon as it has moved
	anyUnread   bool // an index that is read is given up by who is refused a write, too
	noBarrier   bool // who publishes doesn't wait for the others
	threadsStay bool // a row is removed before its connections' threads are gone
	anyJoin     bool // a statement is sent over a connection of another join
	unasked     bool // whether the process is still on the shard isn't asked there
	knownEver   bool // what was added once is not added again in later epochs
}

// members are processes with cluster.Shared, before one shard, and over one store.
type members struct {
	w     *world
	seat  clustertest.Seat
	board clustertest.Board
	alive []*process
	// threads counts connections.
	threads uint32
}

// member is what one process has of the others.
type member struct {
	*cluster.Shared
	w    *world
	all  *members
	proc *process
	open map[storage.Epoch]int
	// version of the records that it goes by.
	version uint64
	// busy: one of what Run does is under way. begun: it has made no call yet.
	busy, begun bool
	// coarse: a heartbeat is one step, and so is the reading of an epoch with its adoption; what
	// is told is told at once. Where nothing is registered that makes no difference.
	coarse bool
	// lazy: heartbeats come late, when somebody waits for them, or the member isn't on the shard.
	lazy bool
	// awaited is the epoch that somebody waits for.
	awaited storage.Epoch
	// conns are its sessions' connections.
	conns map[string]*modelSession
}

// modelSession is a session's connection to the shard.
type modelSession struct {
	thread string
	id     uint32
	join   uint64
	closed bool
}

// gather makes the scenario's members.
func (w *world) gather() {
	all := &members{w: w}
	w.members = all
	for _, f := range []*clustertest.Faults{&all.seat.Faults, &all.board.Faults} {
		f.Hook, f.Saw = all.begins, all.ended
	}
	ctx := context.Background()
	_, err := all.seat.Advance(ctx)
	w.must(err)
	for i, name := range w.sc.members {
		m := &member{w: w, all: all, open: map[storage.Epoch]int{}, conns: map[string]*modelSession{}}
		m.Shared = cluster.NewShared(cluster.Options{
			Seats: map[catalog.ShardID]cluster.Seat{0: &modelSeat{Seat: &all.seat, m: m}}, Board: &all.board,
			Identity: cluster.Identity{ID: uint64(i + 1)}, Patience: -1, Now: modelClock{}.Now, Logger: quiet,
		})
		w.proc = w.newProcess(name, m)
		w.proc.x.known = &known{}
		m.proc, w.proc.serving = w.proc, true
		all.alive = append(all.alive, w.proc)
		w.must(m.Follow(ctx))
		if i < w.sc.joined {
			w.must(m.Beat(ctx, 0))
		}
	}
}

// at has the actors that are started next be a member's.
func (w *world) at(name string) *member {
	for _, p := range w.members.alive {
		if p.name == name {
			w.proc = p
		}
	}
	return w.proc.cluster.(*member)
}

// begins makes a call a step. While the world is set up, or looked at, it is none.
func (all *members) begins(step string) {
	a := all.w.current
	if a == nil {
		return
	}
	m := a.of.cluster.(*member)
	begun := m.begun // the step in which it has begun is this one's
	if m.begun = false; begun || m.coarse && step == "tell" {
		return
	}
	all.w.step(step, func() string { return "" })
}

// ended tells the caller what the call has returned. What has become of an epoch that was read
// when it is adopted is another step.
func (all *members) ended(step, result string) {
	a := all.w.current
	if a == nil {
		return
	}
	all.w.note(result)
	a.saw += result
	if (step == "beat" || step == "advance") && !a.of.cluster.(*member).coarse {
		all.w.step("has the answer", func() string { return "" })
	}
}

// rows looks at the seat without a step.
func (all *members) rows() (rows []cluster.Row) {
	faults := all.seat.Faults
	all.seat.Faults = clustertest.Faults{}
	_, rows, _ = all.seat.Rows(context.Background())
	all.seat.Faults = faults
	return rows
}

func (all *members) state() string {
	return all.seat.String() + all.board.String()
}

// remembers has the member have added, in their epochs, the entries that there are.
func (m *member) remembers() {
	join, _ := m.present()
	for key, e := range m.w.store.now.gens[m.w.store.now.read] {
		if m.w.broken.shared.knownEver {
			e += 1 << 30
		}
		learn(m.proc.x.known, []storage.Entry{{Index: 1, Key: []byte(key), Epoch: e}}, func(e storage.Entry) fact {
			return entryFact(e, func(catalog.ShardID) uint64 { return join })
		})
	}
}

func (m *member) state() string {
	var b strings.Builder
	inside(&b, reflect.ValueOf(m.proc.x.known.latest))
	fmt.Fprint(&b, m.open, m.version, m.busy, m.awaited)
	for _, name := range slices.Sorted(maps.Keys(m.conns)) {
		fmt.Fprint(&b, name, *m.conns[name])
	}
	seats := reflect.ValueOf(m.Shared).Elem().FieldByName("seats")
	inside(&b, seats.MapIndex(reflect.ValueOf(catalog.ShardID(0))))
	return b.String()
}

// inside writes all that a value holds, but for locks, channels and interfaces.
func inside(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			inside(b, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return // the clock stands
		}
		for _, field := range v.Fields() {
			inside(b, field)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			inside(b, v.Index(i))
		}
	case reflect.Map:
		at := v.MapKeys()
		slices.SortFunc(at, func(x, y reflect.Value) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
		for _, k := range at {
			fmt.Fprint(b, k, ":")
			inside(b, v.MapIndex(k))
		}
	case reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8, reflect.Uint:
		b.WriteString(strconv.FormatUint(v.Uint(), 10) + " ")
	case reflect.Int64, reflect.Int32, reflect.Int:
		b.WriteString(strconv.FormatInt(v.Int(), 10) + " ")
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()) + " ")
	case reflect.String:
		b.WriteString(v.String())
	case reflect.Chan, reflect.Func, reflect.Interface:
	default:
		panic("a " + v.Kind().String() + " is not told of")
	}
}

// Join has the member told of what becomes of it.
func (m *member) Join(c cluster.Member) {
	c.Adopt = func(_ context.Context, version uint64) error {
		m.version = version
		m.w.publish(m.proc)
		return nil
	}
	c.Lost = func(_ catalog.ShardID, join uint64, _ error) {
		for _, s := range m.conns {
			s.closed = s.closed || s.join == join
		}
	}
	m.Shared.Join(c)
}

func (m *member) Register(id catalog.ShardID) cluster.Registration {
	r := m.Shared.Register(id)
	m.open[r.Epoch]++
	return r
}

func (m *member) End(r cluster.Registration) {
	if m.open[r.Epoch]--; m.open[r.Epoch] == 0 {
		delete(m.open, r.Epoch)
	}
	m.Shared.End(r)
}

// oldest is the epoch of the oldest registration, at most e.
func (m *member) oldest(e storage.Epoch) storage.Epoch {
	for o := range m.open {
		e = min(e, o)
	}
	return e
}

func (m *member) Horizon(ctx context.Context, id catalog.ShardID) (h storage.Epoch, err error) {
	if !m.w.broken.shared.ownHorizon {
		return m.Shared.Horizon(ctx, id)
	}
	m.w.step("computes a horizon of its own", func() string {
		h = m.oldest(m.Epoch(id))
		return fmt.Sprint(h)
	})
	return h, nil
}

func (m *member) Still(ctx context.Context, id catalog.ShardID, join uint64) error {
	if m.w.broken.shared.unasked {
		return nil
	}
	return m.Shared.Still(ctx, id, join)
}

func (m *member) Wait(_ context.Context, id catalog.ShardID, min storage.Epoch) error {
	if m.w.broken.buildNoWait {
		return nil
	}
	m.awaited = min
	passed := func() bool { return m.Passed(id, min) }
	if m.coarse { // with a heartbeat
		passed = func() bool {
			join, e := m.present()
			others := func(r cluster.Row) bool { return r.Join != join && r.Epoch < min }
			return m.oldest(e) >= min && !slices.ContainsFunc(m.all.rows(), others)
		}
	}
	m.w.choose(fmt.Sprintf("waits for what began before %d", min), passed, 1, func(int) string {
		if m.awaited = 0; m.coarse {
			m.w.must(m.Beat(context.Background(), id))
		}
		return ""
	})
	return nil
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// publish is one step, and another one when all others have followed.
func (m *member) publish(p *process) error {
	version := uint64(0)
	m.w.choose("publishes", func() bool { return !m.busy }, 1, func(int) string {
		var err error
		version, err = m.all.board.Write(context.Background(), 0, cluster.Record{Kind: "index"})
		m.w.must(err)
		m.version = version
		m.w.publish(p)
		_ = m.Adopted(over, version) // which says who hasn't
		return fmt.Sprint(version)
	})
	if !m.w.broken.shared.noBarrier {
		m.w.choose("all go by it", func() bool { return len(m.Behind(over, version)) == 0 }, 1, func(int) string { return "" })
	}
	return nil
}

// begin waits until what Run does is not under way, and begins something like it.
func (m *member) begin(label string, enabled func() bool) {
	m.w.choose(label, func() bool { return !m.busy && (enabled == nil || enabled()) }, 1, func(int) string {
		m.busy, m.begun = true, true
		return ""
	})
}

func (m *member) done() { m.busy, m.begun = false, false }

// lives starts what Run does, but for sweeps: heartbeats, and following the board. Each is done
// when it would change something.
func (w *world) lives() {
	m := w.proc.cluster.(*member)
	do := func(name, label string, due func() bool, fn func() error) {
		w.start(name, true, func() {
			for {
				w.current.history = noHistory
				if m.coarse {
					w.choose(label, func() bool { return !m.busy && due() }, 1, func(int) string {
						w.must(fn())
						return ""
					})
					continue
				}
				m.begin(label, due)
				if err := fn(); !errors.Is(err, cluster.ErrNotJoined) {
					w.must(err)
				}
				m.done()
			}
		}).endless = true
	}
	ctx := context.Background()
	do("heart", "beats", m.due, func() error { return m.Beat(ctx, 0) })
	do("board", "follows", func() bool {
		at, _, _ := m.all.board.Read(ctx, 1<<60)
		return at.Number > m.version
	}, func() error {
		err := m.Follow(ctx)
		if err == nil && m.coarse {
			err = m.Beat(ctx, 0)
		}
		return err
	})
}

// present is the join that the member is on, and the epoch that it has adopted.
func (m *member) present() (join uint64, e storage.Epoch) {
	r := m.Shared.Register(0)
	m.Shared.End(r)
	return r.Join, r.Epoch
}

// row is the member's on a shard.
func (m *member) row(join uint64) (r cluster.Row, there bool) {
	for _, r := range m.all.rows() {
		if r.Join == join {
			return r, true
		}
	}
	return r, false
}

// due reports that a heartbeat would change something.
func (m *member) due() bool {
	join, e := m.present()
	row, there := m.row(join)
	now := m.all.seat.Present()
	switch {
	case !there || row.Fenced || row.Catalog < m.version:
		return true
	case m.lazy:
		for _, p := range m.all.alive {
			if a := p.cluster.(*member).awaited; row.Epoch < a && m.oldest(now) >= a {
				return true
			}
		}
	case now > e || row.Epoch < m.oldest(e) || row.Adopted < e:
		return true
	}
	if m.awaited == 0 || m.Passed(0, m.awaited) {
		return false
	}
	least, _ := m.all.seat.Least(context.Background())
	return least >= m.awaited
}

// joined reports that the member is on the shard.
func (m *member) joined() bool {
	join, _ := m.present()
	row, there := m.row(join)
	return there && !row.Fenced
}

// sweeper fences who doesn't follow, and sees to it until they are gone.
func (w *world) sweeper(then func()) {
	m := w.proc.cluster.(*member)
	fenced := func(r cluster.Row) bool { return r.Fenced }
	w.start("sweep", true, func() {
		for left := true; left; {
			m.begin("sweeps", nil)
			w.must(m.Sweep(context.Background(), 0))
			m.done()
			if left = slices.ContainsFunc(m.all.rows(), fenced); left {
				w.note("left")
				w.choose("waits for threads to end", func() bool { return !m.all.lingers() }, 1, func(int) string { return "" })
			}
		}
		then()
	})
}

// advanced begins an epoch of which no member knows.
func (w *world) advanced() {
	_, err := w.members.seat.Advance(context.Background())
	w.must(err)
}

// lingers reports that a thread is there that was killed.
func (all *members) lingers() bool {
	for _, t := range all.w.shard.conns {
		if all.w.shard.killed(t) {
			return true
		}
	}
	return false
}

// connect opens a session's connection, and notes it.
func (m *member) connect(session string) (*modelSession, error) {
	m.all.threads++
	s := &modelSession{id: m.all.threads}
	s.thread = fmt.Sprint(session, ".", s.id)
	m.all.seat.Connect(s.id, "shunt", fmt.Sprint("h:", s.id))
	th := m.w.shard.thread(s.thread)
	th.id, th.of = s.id, m.proc
	var err error
	s.join, err = m.NoteThread(context.Background(), 0, storage.Thread{ID: s.id})
	if err == nil {
		m.conns[session] = s
	}
	return s, err
}

// reach finds a connection over which what is registered may be sent.
func (m *member) reach(session string, o *Open) (*modelSession, bool) {
	s := m.conns[session]
	if s == nil || s.closed {
		var err error
		if s, err = m.connect(session); err != nil {
			return nil, false
		}
	}
	m.w.note(fmt.Sprint(s.thread, s.join, o.Join(0)))
	return s, s.join == o.Join(0) || m.w.broken.shared.anyJoin
}

// session starts a writer, of one statement or of a transaction, whose member may be fenced. What
// it can't send it tries once more.
func (w *world) session(name string, edits ...edit) {
	p, m := w.proc, w.proc.cluster.(*member)
	if m.joined() {
		_, err := m.connect(name)
		w.must(err)
	}
	w.start(name, true, func() {
		for range 2 {
			if w.sends(p, m, name, edits) {
				return
			}
			w.choose("waits until the member is on the shard", m.joined, 1, func(int) string { return "" })
		}
	})
}

// sends reports that it has found a connection, which may be gone when it sends.
func (w *world) sends(p *process, m *member, name string, edits []edit) bool {
	var o *Open
	var s *modelSession
	end := func() string {
		o.End()
		return ""
	}
	for _, e := range edits {
		var t *catalog.Table
		o, t = w.register(p, o)
		w.prepare(p, o, t, e)
		if s == nil {
			var ok bool
			if s, ok = m.reach(name, o); !ok {
				w.step("ends, to register anew", end)
				return false
			}
		}
		th, gone := w.shard.thread(s.thread), false
		w.step("sends", func() string {
			if listed, _ := m.all.seat.Lists(s.id); !listed {
				gone = true
				return end()
			}
			th.inTransaction = len(edits) > 1
			th.sent = &e.statement
			w.shard.list()
			return ""
		})
		if gone {
			return true
		}
		w.choose("has the answer", func() bool { return th.sent == nil }, 1, func(int) string {
			if len(edits) == 1 {
				o.End()
			}
			return ""
		})
	}
	if len(edits) == 1 {
		return true
	}
	th := w.shard.thread(s.thread)
	w.step("sends COMMIT", func() string {
		if listed, _ := m.all.seat.Lists(s.id); listed {
			th.commits = th.inTransaction
		}
		return fmt.Sprint(th.commits)
	})
	w.choose("has the answer", func() bool { return !th.commits }, 1, func(int) string { return end() })
	return true
}

// lose is the death of a member. Its connections stay until they are ended.
func (w *world) lose() string {
	w.crashed = true
	w.actors = slices.DeleteFunc(w.actors, func(a *actor) bool {
		dies := a.of.name == w.sc.mortal
		if dies {
			a.stop()
		}
		return dies
	})
	w.members.alive = slices.DeleteFunc(w.members.alive, func(p *process) bool {
		dies := p.name == w.sc.mortal
		if dies {
			maps.DeleteFunc(w.readers, func(_ string, r *reader) bool { return r.open.x == p.x })
			for _, t := range w.shard.conns {
				t.orphan = t.orphan || t.of == p
			}
		}
		return dies
	})
	return ""
}

// killed reports that a connection's thread is there, though it was killed.
func (s *modelShard) killed(t *modelThread) bool {
	if s.w.members == nil || t.id == 0 {
		return false
	}
	listed, killed := s.w.members.seat.Lists(t.id)
	return listed && killed
}

// list has the seat's server know which threads have something to do, and go on with it though
// they are killed.
func (s *modelShard) list() {
	for _, t := range s.conns {
		if t.id != 0 {
			s.w.members.seat.Busy(t.id, t.busy() || t.inTransaction)
		}
	}
}

// listing has what the server does seen there.
func (s *modelShard) listing(opts []option) []option {
	if s.w.members == nil {
		return opts
	}
	for i := range opts {
		run := opts[i].run
		if opts[i].actor == nil {
			opts[i].run = func() string {
				defer s.list()
				return run()
			}
		}
	}
	return opts
}

// modelSeat is a member's view of the seat. What a call is made with comes from what the member's
// actors share, and is noted: their own steps don't determine it.
type modelSeat struct {
	cluster.Seat
	m *member
	// Of who joins late: the row is to be inserted, and what its number is taken for.
	pending  bool
	who      cluster.Identity
	catalog  uint64
	join, as uint64
}

func (s *modelSeat) note(with ...any) { s.m.w.note(fmt.Sprint(with...)) }

func (s *modelSeat) broken() sharedRules { return s.m.w.broken.shared }

// number is that of the row that a join is taken for.
func (s *modelSeat) number(join uint64) uint64 {
	if join != 0 && join == s.as {
		return s.join
	}
	return join
}

func (s *modelSeat) Join(ctx context.Context, who cluster.Identity, version uint64) (uint64, error) {
	s.note(version)
	if !s.broken().lateRow || s.m.w.current == nil {
		return s.Seat.Join(ctx, who, version)
	}
	s.pending, s.who, s.catalog = true, who, version
	s.as += 1000
	return s.as, nil
}

func (s *modelSeat) Beat(ctx context.Context, join uint64) (cluster.Beat, error) {
	s.note(join, s.m.Epoch(0))
	b, err := s.Seat.Beat(ctx, s.number(join))
	switch {
	case s.pending:
		s.pending, b.Here = false, true
		s.join, err = s.Seat.Join(ctx, s.who, s.catalog)
	case s.broken().toldEarly:
		told := cluster.Told{Epoch: s.m.oldest(b.Epoch), Adopted: b.Epoch, Catalog: s.m.version}
		s.note(told)
		err = s.Seat.Tell(ctx, join, told)
	}
	return b, err
}

func (s *modelSeat) Tell(ctx context.Context, join uint64, told cluster.Told) error {
	if s.broken().toldAdopted {
		told.Epoch = told.Adopted
	}
	s.note(join, told)
	return s.Seat.Tell(ctx, s.number(join), told)
}

func (s *modelSeat) Note(ctx context.Context, join uint64, thread uint32) (uint64, bool, error) {
	s.note(join)
	return s.Seat.Note(ctx, s.number(join), thread)
}

func (s *modelSeat) Advance(ctx context.Context) (storage.Epoch, error) {
	s.note(s.m.present())
	return s.Seat.Advance(ctx)
}

func (s *modelSeat) Least(ctx context.Context) (storage.Epoch, error) {
	s.note(s.m.present())
	return s.Seat.Least(ctx)
}

func (s *modelSeat) Running(ctx context.Context, threads ...cluster.Thread) ([]cluster.Thread, error) {
	if s.broken().threadsStay {
		return nil, nil
	}
	return s.Seat.Running(ctx, threads...)
}
