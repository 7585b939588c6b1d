package follow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

// record is a server's log as it comes over a connection.
type record struct {
	packets  []byte
	server   *catalog.Catalog
	charsets map[uint64]string
}

// theEnd is the error that a record ends with.
const theEnd = "the end of the record"

func ended(err error) bool {
	e, ok := errors.AsType[*mysql.MyError](err)
	return ok && e.Message == theEnd
}

// record fills a table, and reads the log's file.
func (s *server) record(dir string, statements ...string) record {
	t := s.t
	s.exec(statements...)
	stream := s.open(NewProgress(s.now())) // which has read what is of the server
	r := record{server: stream.server, charsets: stream.charsets}
	stream.Close()
	files, err := filepath.Glob(filepath.Join(dir, "s0", "bin.0*"))
	check(t, err)
	files = slices.DeleteFunc(files, func(name string) bool { return filepath.Ext(name) == ".idx" }) // MariaDB 11.4 and later
	slices.Sort(files)
	sequence := byte(1)
	for _, name := range files {
		file, err := os.ReadFile(name)
		check(t, err)
		for file = file[4:]; len(file) > 0; {
			event := file[:binary.LittleEndian.Uint32(file[9:])]
			file = file[len(event):]
			if format := replication.EventType(event[4]) == replication.FORMAT_DESCRIPTION_EVENT; format {
				event[17] &^= 1 // "in use", which the checksum doesn't have, and which servers don't send
			}
			if len(event)+1 >= wholeFrame {
				t.Fatal("an event needs several frames")
			}
			n := len(event) + 1
			r.packets = append(r.packets, byte(n), byte(n>>8), byte(n>>16), sequence, mysql.OK_HEADER)
			r.packets = append(r.packets, event...)
			sequence++
		}
	}
	end := append([]byte{mysql.ERR_HEADER, 0, 0}, theEnd...)
	r.packets = append(append(r.packets, byte(len(end)), 0, 0, sequence), end...)
	return r
}

// stream reads the record.
func (r record) stream() *Stream {
	return &Stream{
		conn: &conn{mariaDB: r.server.MariaDB}, ctx: context.Background(), progress: NewProgress(Position{}), server: r.server, charsets: r.charsets,
		tables: map[uint64]*Table{}, definitions: map[catalog.TableName]*definition{}, foreign: foreignKeys{logged: true}, checks: true,
		packets: &packets{r: bufio.NewReaderSize(bytes.NewReader(r.packets), 64<<10), sequence: 1},
	}
}

// all reads the stream to its end, and every value.
func (s *Stream) all(fn func(r *Rows, before, after *Row)) (events int, err error) {
	for {
		e, err := s.Next()
		if err != nil {
			return events, err
		}
		events++
		if r, ok := e.(*Rows); ok {
			_ = r.Each(func(before, after *Row) error {
				fn(r, before, after)
				return nil
			})
		}
	}
}

var recorded = []string{
	"CREATE TABLE t (id BIGINT PRIMARY KEY, email VARCHAR(60), name VARCHAR(40), age TINYINT UNSIGNED, height DECIMAL(10,2), seen DATETIME(3), bio TEXT, team INT)",
	"INSERT INTO t SELECT n, CONCAT('user', n, '@example.com'), CONCAT('Name ', n % 1000), n % 90, n / 7, '2024-05-06 07:08:09.123', REPEAT('b', 40), n % 100 FROM numbers",
	"UPDATE t SET email = CONCAT('other', id, '@example.com')",
	"DELETE FROM t WHERE id % 4 = 0",
}

// numbers makes a table of the numbers below 10^digits.
func numbers(digits int) []string {
	list := []string{"CREATE TABLE digits (d INT PRIMARY KEY)", "INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)"}
	var sum, from []string
	for i := range digits {
		sum = append(sum, fmt.Sprintf("d%d.d * %s", i, "1"+strings.Repeat("0", i)))
		from = append(from, fmt.Sprintf("digits d%d", i))
	}
	return append(list, "CREATE VIEW numbers AS SELECT "+strings.Join(sum, " + ")+" AS n FROM "+strings.Join(from, ", "))
}

func (f *flavour) record(t testing.TB, digits int) record {
	t.Helper()
	srv := f.another(t)
	return newServer(t, f, srv.Server).record(srv.dir, append(numbers(digits), recorded...)...)
}

// TestDamaged: a log that isn't as it was written is an error, whichever bit is wrong.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, f := range flavours {
		t.Run(string(f.name), func(t *testing.T) {
			t.Parallel()
			r := f.record(t, 2)
			changes := 0
			count := func(*Rows, *Row, *Row) { changes++ }
			if _, err := r.stream().all(count); !ended(err) || changes != 100+100+25+10 {
				t.Fatalf("%d changes, %v", changes, err)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			whole := slices.Clone(r.packets)
			damaged := 0
			for range 300 {
				at, bit := random.IntN(len(whole)), byte(1)<<random.IntN(8)
				r.packets = slices.Clone(whole)
				for r.unchecksummed(at) {
					at = random.IntN(len(whole))
				}
				r.packets[at] ^= bit
				_, err := r.stream().all(count)
				if errors.Is(err, ErrDamaged) {
					damaged++
				} else if ended(err) && !r.unchecksummed(at) {
					t.Errorf("seed %d: byte %d, bit %02x: no error", seed, at, bit)
				}
			}
			if damaged < 200 {
				t.Errorf("only %d of 300 are told as damage", damaged)
			}
		})
	}
}

// unchecksummed reports a byte that no checksum is of: of a packet's header, of an event that names the next file,
// of one that says whether there are checksums, or of the error that ends the record.
func (r record) unchecksummed(at int) bool {
	for from := 0; from < len(r.packets); {
		n := int(r.packets[from]) | int(r.packets[from+1])<<8 | int(r.packets[from+2])<<16
		if at < from+4+n {
			typ := replication.EventType(r.packets[from+5+4])
			return at < from+5 || r.packets[from+4] == mysql.ERR_HEADER || typ == replication.ROTATE_EVENT || typ == replication.FORMAT_DESCRIPTION_EVENT
		}
		from += 4 + n
	}
	return true
}

// TestNonsense: whatever comes is read or refused, without a panic.
func TestNonsense(t *testing.T) {
	t.Parallel()
	for _, f := range flavours {
		t.Run(string(f.name), func(t *testing.T) {
			t.Parallel()
			r := f.record(t, 1)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			whole := slices.Clone(r.packets)
			for range 3000 {
				r.packets = slices.Clone(whole)
				for range 1 + random.IntN(3) {
					r.packets[random.IntN(len(whole))] = byte(random.Uint32())
				}
				r.unchecked()
				_, _ = r.stream().all(func(rows *Rows, before, after *Row) {
					for _, row := range []*Row{before, after} {
						for i := range rows.Table.Columns {
							if row != nil {
								row.Append(nil, i)
							}
						}
					}
				})
			}
		})
	}
}

// TestImagesOfNothing: images that take no bytes, as no server writes them, don't go on for ever.
func TestImagesOfNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{Insert, Update, Delete} {
		r := &Rows{Table: &Table{Columns: []Column{{Name: "id"}}}, Kind: kind, first: []byte{0}, second: []byte{0}, data: []byte{1, 2}}
		calls := 0
		if err := r.Each(func(_, _ *Row) error { calls++; return nil }); err != nil || calls > 0 || r.malformed == nil {
			t.Errorf("kind %v: %d changes, %v, malformed: %v", kind, calls, err, r.malformed)
		}
	}
}

// unchecked has the record say that it has no checksums.
func (r record) unchecked() {
	for from := 0; from+4 < len(r.packets); {
		n := int(r.packets[from]) | int(r.packets[from+1])<<8 | int(r.packets[from+2])<<16
		if from+4+n > len(r.packets) {
			return
		}
		if event := r.packets[from+4:][:n]; n > 100 && replication.EventType(event[5]) == replication.FORMAT_DESCRIPTION_EVENT {
			event[n-5] = byte(replication.BINLOG_CHECKSUM_ALG_OFF)
		}
		from += 4 + n
	}
}

// BenchmarkRows reads a log of inserts, updates and deletes, and makes keys of a column: row changes a second
// on one processor.
func BenchmarkRows(b *testing.B) {
	for _, f := range flavours {
		b.Run(string(f.name), func(b *testing.B) {
			r := f.record(b, 5)
			codec, err := keys.For("varchar(60)", "utf8mb4", "utf8mb4_general_ci", r.server.MariaDB)
			check(b, err)
			changes := 0
			var text, key []byte
			b.SetBytes(int64(len(r.packets)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := r.stream().all(func(rows *Rows, before, after *Row) {
					changes++
					for _, row := range []*Row{before, after} {
						if row == nil || len(rows.Table.Columns) < 8 {
							continue
						}
						text, _ = row.Append(text[:0], 1)
						key, _ = codec.Scanned(key[:0], text)
					}
				})
				if !ended(err) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(changes)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}

// TestBounded: a transaction's size doesn't tell in the memory that reading it takes, compressed or not.
func TestBounded(t *testing.T) { // not beside others: it counts all that the process allocates
	for _, f := range flavours {
		t.Run(string(f.name), func(t *testing.T) {
			srv := f.another(t)
			s := newServer(t, f, srv.Server)
			if s.mariaDB {
				s.exec("SET GLOBAL log_bin_compress = ON")
			} else {
				s.exec("SET SESSION binlog_transaction_compression = ON")
			}
			r := s.record(srv.dir, append(numbers(5), recorded...)...)
			changes := 0
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := r.stream().all(func(*Rows, *Row, *Row) { changes++ })
			runtime.ReadMemStats(&after)
			if !ended(err) || changes != 225_010 {
				t.Fatalf("%d changes, %v", changes, err)
			}
			const limit = 32 << 20
			if took := after.TotalAlloc - before.TotalAlloc; took > limit {
				t.Errorf("reading %d bytes allocated %d", len(r.packets), took)
			} else {
				t.Logf("reading %d bytes allocated %d", len(r.packets), took)
			}
		})
	}
}
