package storage

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// childDir is set in the environment of a process that writes until it is
// killed.
const childDir = "SHUNT_STORAGE_CHILD"

// child writes to the store in dir and prints what was acknowledged.
func child(dir string) {
	s, err := open(testOpts(dir), testOptions{memTable: 1 << 20})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	d := s.Indexes()[0]
	start := int(s.Epoch())
	if err := s.NoteThread(1, Thread{ID: 9}); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		key := fmt.Appendf(nil, "%d-%d", start, i)
		if _, err := s.Intend([]Pair{{"shop", "users", 1}}); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		if err := s.Add([]Entry{{d.ID, key, catalog.ShardID(i % 5), s.Epoch()}, {d.ID, append(key, 'b'), 1, s.Epoch()}}); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Printf("add %s %d\n", key, i%5)
		if i%20 == 0 {
			if err := s.Mark([]Mark{{Index: d.ID, Shard: catalog.ShardID(100 + i%50), Known: [][]byte{key}, Epoch: s.Epoch()}}); err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			fmt.Printf("mark %s %d\n", key, 100+i%50)
			if _, err := s.Enqueue(Job{Type: VerifyKeys, Schema: "shop", Table: fmt.Sprint(i), Shards: set(1), Keys: []JobKey{{Index: d.ID, Key: key}}}); err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			fmt.Printf("job %d %s\n", i, key)
		}
	}
}

// TestKill: everything acknowledged to a process that is killed is there.
func TestKill(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{})
	id := readyIndex(t, s, "i", 2)
	check(t, s.Close())
	entries := int64(0)
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		var acked []string
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			acked = append(acked, lines.Text())
			if len(acked) == 6000 {
				check(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait()
		if len(acked) < 6000 {
			t.Fatal(acked)
		}
		s := openTest(t, testOpts(dir), testOptions{})
		jobs := map[string]bool{}
		for _, j := range s.Jobs() {
			for _, k := range j.Keys {
				jobs[j.Table+" "+string(k.Key)] = true
			}
		}
		for _, line := range acked {
			f := strings.Fields(line)
			if len(f) != 3 {
				continue // cut off by the kill
			}
			shard, _ := strconv.Atoi(f[2])
			switch f[0] {
			case "add", "mark":
				components := [][]byte{[]byte(f[1])}
				if f[0] == "add" {
					components = [][]byte{[]byte("no mark has this")}
				}
				got, err := look(s, id, []byte(f[1]), components)
				check(t, err)
				// A shard with many marks has one that knows nothing.
				if !got.Has(catalog.ShardID(shard)) {
					t.Fatalf("round %d: %s is missing: %b", round, line, got)
				}
			case "job":
				if !jobs[f[1]+" "+f[2]] {
					t.Fatalf("round %d: %s is missing", round, line)
				}
			default:
				t.Fatal(line)
			}
		}
		if got := s.Unclean(); len(s.Lost()) != 0 || !slices.Contains(got, Pair{"shop", "users", 1}) {
			t.Fatal(got, s.Lost())
		}
		check(t, s.Recovered())
		// The count is made anew, and includes what is added meanwhile.
		check(t, s.Add([]Entry{{id, fmt.Append(nil, "extra", round), 1, 1}}))
		waitFor(t, func() bool { return !s.Stats().Indexes[id].Approximate })
		n := int64(0)
		check(t, s.Entries(id, nil, false, func(_ []byte, p []ShardEpoch) bool { n += int64(len(p)); return true }))
		if got := s.Stats().Indexes[id].Entries; got != n || n <= entries {
			t.Fatalf("counted %d entries of %d", got, n)
		}
		entries = n
		check(t, s.Close())
	}
}

// waitFor polls until ok, for at most 30 s.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("condition not reached")
		}
	}
}

// copyStore copies the files of a store that is open, as a power loss right
// after a sync would leave them. Where one came or went meanwhile, which a manifest copied
// later would tell of, they are copied again.
func copyStore(t testing.TB, from string) string {
	t.Helper()
	for {
		before := filesIn(t, from)
		to := copyFiles(t, from, before)
		if slices.Equal(before, filesIn(t, from)) {
			return to
		}
	}
}

func filesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func copyFiles(t testing.TB, from string, names []string) string {
	t.Helper()
	to := t.TempDir()
	for _, n := range names {
		if n == "LOCK" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		check(t, err)
		check(t, os.WriteFile(filepath.Join(to, n), b, 0o600))
	}
	return to
}

func TestPowerLoss(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	clock := newTestClock()
	o := testOpts(t.TempDir())
	o.Now = clock.Now
	var afterSync func()
	to := testOptions{manual: true, syncFile: func(f *os.File) error {
		if f.Name() == o.Dir && afterSync != nil {
			afterSync()
		}
		return f.Sync()
	}}
	s := openTest(t, o, to)
	id := readyIndex(t, s, "i", 1)
	check(t, s.Sync())
	pair := Pair{"shop", "users", 3}
	syncs := 0
	var saved string
	afterSync = func() {
		syncs++
		saved = copyStore(t, o.Dir)
	}
	intendPairs(t, s, []Pair{pair})
	if syncs != 1 {
		t.Fatalf("%d syncs", syncs)
	}
	intendPairs(t, s, []Pair{pair})
	check(t, s.Add([]Entry{{id, []byte("a"), 3, 1}}))
	check(t, s.Mark([]Mark{{Index: id, Shard: 3, Epoch: 1}}))
	if syncs != 1 {
		t.Fatal("a write in steady state synced")
	}

	lost := testOpts(copyStore(t, saved))
	lost.BootID = "boot-2"
	for round := range 2 {
		l := openTest(t, lost, to)
		if got := l.Lost(); !slices.Equal(got, []Pair{pair}) || len(l.Unclean()) != 0 {
			t.Fatalf("round %d: lost %v, unclean %v", round, got, l.Unclean())
		}
		if round == 0 {
			wantLookup(t, l, id, "a")
		}
		// Writes to the pair before Recovered must not take the record over.
		intendPairs(t, l, []Pair{pair})
		check(t, l.Mark([]Mark{{Index: id, Shard: 3, Epoch: 1}}))
		if round == 1 {
			check(t, l.Recovered())
			if len(l.Lost()) != 0 {
				t.Fatal("still lost")
			}
		}
		check(t, l.Close())
	}
	l := openTest(t, lost, to)
	if len(l.Lost())+len(l.Unclean()) != 0 {
		t.Fatal(l.Lost(), l.Unclean())
	}
	wantLookup(t, l, id, "a", 3)

	// The same files, but the machine ran on: the process died.
	died := testOpts(copyStore(t, saved))
	d := openTest(t, died, to)
	if got := d.Unclean(); !slices.Equal(got, []Pair{pair}) || len(d.Lost()) != 0 {
		t.Fatal(got, d.Lost())
	}
	// Without a boot ID to compare, it counts as a power loss.
	unknown := testOpts(copyStore(t, saved))
	unknown.BootID = "boot-2"
	u := openTest(t, unknown, to)
	if len(u.Lost()) != 1 {
		t.Fatal(u.Lost())
	}

	// Idle intents are lifted, after a sync.
	clock.add(o.Quiet + 4*time.Second)
	check(t, s.lift())
	if s.Stats().Intents != 1 || syncs != 1 {
		t.Fatal("lifted an intent that is not quiet")
	}
	clock.add(2 * time.Second)
	check(t, s.lift())
	if s.Stats().Intents != 0 || syncs != 2 {
		t.Fatal(s.Stats().Intents, syncs)
	}
	quiet := testOpts(copyStore(t, o.Dir))
	quiet.BootID = "boot-2"
	q := openTest(t, quiet, to)
	if len(q.Lost()) != 0 {
		t.Fatal(q.Lost())
	}
	wantLookup(t, q, id, "a", 3)

	// An Add that comes after its intent was lifted sets it again.
	check(t, s.Add([]Entry{{id, []byte("late"), 3, 1}}))
	if s.Stats().Intents != 1 || syncs != 3 {
		t.Fatal(s.Stats().Intents, syncs)
	}
	check(t, s.Close())
	graceful := testOpts(copyStore(t, o.Dir))
	graceful.BootID = "boot-2"
	g := openTest(t, graceful, to)
	if len(g.Lost())+len(g.Unclean()) != 0 {
		t.Fatal(g.Lost(), g.Unclean())
	}
	wantLookup(t, g, id, "late", 3)
}

func TestRenameKeepsIntents(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{manual: true})
	id := readyIndex(t, s, "i", 1)
	intendPairs(t, s, []Pair{{"shop", "users", 3}})
	check(t, s.MoveIndexes(map[catalog.IndexID]catalog.TableName{id: {Schema: "shop", Name: "people"}}))
	l := openTest(t, testOpts(copyStore(t, s.opt.Dir)), testOptions{})
	if got := l.Unclean(); !slices.Contains(got, Pair{"shop", "people", 3}) {
		t.Fatal(got)
	}
}

// TestCrashInRepartition: the readable generation stays, the other is garbage.
func TestCrashInRepartition(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{manual: true})
	id := readyIndex(t, s, "i", 1)
	var entries []Entry
	for i := range 2*moveSlice + 5 {
		entries = append(entries, Entry{id, fmt.Appendf(nil, "k%05d", i), 1, 3})
	}
	check(t, s.Add(entries))
	before := dump(t, s, id, false)
	var saved []string
	check(t, s.Repartition(t.Context(), id, 3, func(float64) { saved = append(saved, copyStore(t, s.opt.Dir)) }))
	saved = append(saved, copyStore(t, s.opt.Dir))
	for i, dir := range saved {
		l := openTest(t, testOpts(dir), testOptions{})
		d, _ := l.Index(id)
		want := 1
		if i == len(saved)-1 {
			want = 3
		}
		if d.Partitions != want || d.Moving || !slices.Equal(dump(t, l, id, false), before) || l.Stats().Garbage != 1 {
			t.Fatalf("crash %d: %+v, garbage %d", i, d, l.Stats().Garbage)
		}
		for more := true; more; {
			var err error
			more, err = l.DeleteGarbage(t.Context(), 1000)
			check(t, err)
		}
		n := 0
		check(t, l.scan([]byte{kindEntry}, func([]byte, []byte) (bool, error) { n++; return true, nil }))
		if n != len(before) {
			t.Fatalf("crash %d: %d records left of %d", i, n, len(before))
		}
	}
}

// TestCrashInBuild: a build goes on where it was; a drop is whole.
func TestCrashInBuild(t *testing.T) {
	suite.Promise(t)
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{manual: true})
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("old"), 1, 1}}))
	check(t, s.StartBuild(id, 2))
	check(t, s.Add([]Entry{{id, []byte("new"), 2, 1}}))
	l := openTest(t, testOpts(copyStore(t, s.opt.Dir)), testOptions{})
	wantLookup(t, l, id, "old", 1)
	wantLookup(t, l, id, "new", 2)
	check(t, finishBuild(l, id))
	wantLookup(t, l, id, "old")
	wantLookup(t, l, id, "new", 2)
	check(t, s.DropIndex(id))
	l = openTest(t, testOpts(copyStore(t, s.opt.Dir)), testOptions{})
	if len(l.Indexes()) != 0 || l.Stats().Garbage != 2 {
		t.Fatal(l.Indexes(), l.Stats().Garbage)
	}
}

// TestLayout pins the layout that doc.go describes.
func TestLayout(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(""), testOptions{manual: true})
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("key"), 2, 300}, {id, []byte("key"), 1, 7}}))
	check(t, s.Mark([]Mark{{Index: id, Shard: 9, Known: [][]byte{nil, []byte("x")}, Epoch: 5}}))
	want := map[string]string{
		"f":                            "\x01",
		"e\x00\x00\x00\x01\x00\x00key": "\x01\x07\x02\xac\x02",
		"m\x00\x00\x00\x01\x09":        "\x05\x02\x00\x02x",
		"pshop\x00users\x00\x02":       "boot-1",
		"cindex":                       "\x02",
		"cgeneration":                  "\x02",
	}
	for key, val := range want {
		got, err := s.get([]byte(key))
		check(t, err)
		if string(got) != val {
			t.Errorf("record %q: got %q, want %q", key, got, val)
		}
	}
	var def map[string]any
	check(t, json.Unmarshal(must(s.get(indexKey(id))), &def))
	if def["read"] == nil || def["build"] != nil {
		t.Error(def)
	}
	if p, err := parseIntentKey([]byte("pshop\x00users\x00\x02")); err != nil || p != (Pair{"shop", "users", 2}) {
		t.Error(p, err)
	}
	for _, bad := range []string{"", "p", "pab\x01", "pa\x00\x00", "pab\x00\x01"} {
		if _, err := parseIntentKey([]byte(bad)); err == nil && bad != "pa\x00\x00" {
			t.Errorf("%q parsed", bad)
		}
	}
}

// TestGarbageWaitsForSync: an old generation may be deleted only when a power
// loss can no longer make it the readable one again, and a new one be readable
// only when a power loss can take nothing from it.
func TestGarbageWaitsForSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	failAt, syncs := 0, 0
	s := openTest(t, testOpts(dir), testOptions{manual: true, syncFile: func(f *os.File) error {
		if f.Name() == dir {
			if syncs++; syncs == failAt {
				return errors.New("broken disk")
			}
		}
		return f.Sync()
	}})
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}}))
	check(t, s.StartBuild(id, 1))
	syncs = 0
	check(t, finishBuild(s, id))
	if syncs != 2 || s.Stats().Garbage != 1 {
		t.Fatal(syncs, s.Stats().Garbage)
	}
	check(t, s.StartBuild(id, 1))
	syncs, failAt = 0, 2
	if err := finishBuild(s, id); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	if s.Stats().Garbage != 1 {
		t.Fatal("queued before the sync")
	}
	if _, err := s.DeleteGarbage(t.Context(), 10); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
}
