package spool

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Options bound what answers that are kept take.
type Options struct {
	// Dir is where the files are; they are gone with the process.
	Dir string
	// MaxBytes is for all of them together, in memory and in files.
	MaxBytes int64
	// Room returns an error where the disk has no room.
	Room func() error
}

// Answers are those that are kept: for cursors, and for statements of ours that
// go on with their rows.
type Answers struct {
	Options
	memory, total atomic.Int64
}

const (
	// spoolMemory is how much of one answer is kept in memory, and spoolsMemory
	// of all; the rest is in files.
	spoolMemory  = 1 << 20
	spoolsMemory = 64 << 20
	// MaxPacket bounds a packet: a row may have several of the largest values.
	MaxPacket = 1 << 30
	// spoolStep is how much is written between two looks at the disk.
	spoolStep = 4 << 20
)

// New removes what a dead process may have left.
func New(o Options) *Answers {
	if o.Dir != "" {
		_ = os.RemoveAll(o.Dir)
	}
	return &Answers{Options: o}
}

// Answer keeps the answer of one execution, frames as they would go to the client,
// and knows where its rows begin and end. Writing to it never fails: what has no
// room is dropped and told by Full, so that the shards' answers are read to
// their ends.
type Answer struct {
	all *Answers
	// full is why something is missing; onFull is called when it is set. instead is what
	// the client is told to do then.
	full    error
	onFull  func()
	instead string

	mem    []byte
	file   *os.File // nil: all of it is in mem
	size   int64
	looked int64 // the size at which the disk was looked at

	frames frames
}

// New keeps an answer. onFull is called when it has no more room; instead is what the client is
// told to do then.
func (all *Answers) New(instead string, onFull func()) *Answer {
	return &Answer{all: all, instead: instead, onFull: onFull}
}

// Full is the error of an answer that had no room, nil for one that is whole.
func (s *Answer) Full() error { return s.full }

// Size is how many bytes are kept.
func (s *Answer) Size() int64 { return s.size }

// Packets is how many the answer has.
func (s *Answer) Packets() int { return s.frames.packets }

// OneResult reports an answer that is one result set and nothing else, whole.
func (s *Answer) OneResult(e wire.Extent) bool { return s.frames.oneResult(e) }

// Failed reports an answer whose last packet is an error, and where that begins.
func (s *Answer) Failed() (at int64, ok bool) { return s.frames.last, s.frames.failed() }

func (s *Answer) Write(p []byte) (int, error) {
	if s.full == nil {
		if err := s.write(p); err != nil {
			s.full = err
			s.Drop()
			s.onFull()
		}
	}
	s.frames.scan(p)
	return len(p), nil
}

func (s *Answer) write(p []byte) error {
	n := int64(len(p))
	if total := s.all.total.Add(n); total > s.all.MaxBytes {
		s.all.total.Add(-n)
		return mysqlerr.Newf(mysqlerr.TableFull, "The rows of open cursors, and of statements that keep theirs, take more than cursor_max_bytes (%d): %s", s.all.MaxBytes, s.instead)
	}
	if s.file == nil && s.size+n <= spoolMemory && s.all.memory.Add(n) <= spoolsMemory {
		s.mem = append(s.mem, p...)
		s.size += n
		return nil
	}
	if s.file == nil {
		if s.size+n <= spoolMemory {
			s.all.memory.Add(-n) // taken in vain
		}
		if err := s.toFile(); err != nil {
			s.all.total.Add(-n)
			return err
		}
	}
	err := s.room()
	if err == nil {
		_, err = s.file.Write(p)
	}
	if err != nil {
		s.all.total.Add(-n)
		return s.noRoom(err)
	}
	s.size += n
	return nil
}

func (s *Answer) noRoom(err error) error {
	return mysqlerr.Newf(mysqlerr.DiskFull, "The rows can't be kept: %v; %s", err, s.instead)
}

func (s *Answer) room() error {
	if s.all.Room == nil || s.looked > 0 && s.size < s.looked+spoolStep {
		return nil
	}
	s.looked = s.size
	return s.all.Room()
}

// toFile moves what is in memory into a file that has no name any more.
func (s *Answer) toFile() error {
	if err := os.MkdirAll(s.all.Dir, 0o700); err != nil {
		return s.noRoom(err)
	}
	f, err := os.CreateTemp(s.all.Dir, "cursor-")
	if err != nil {
		return s.noRoom(err)
	}
	_ = os.Remove(filepath.Join(s.all.Dir, filepath.Base(f.Name())))
	if _, err := f.Write(s.mem); err != nil {
		f.Close()
		return s.noRoom(err)
	}
	s.all.memory.Add(-int64(len(s.mem)))
	s.file, s.mem = f, nil
	return nil
}

// Failure is the error that an answer ends with.
func (s *Answer) Failure() error {
	r := wire.NewReader(s.Section(s.frames.last, s.size))
	r.SetSequence(s.frames.head[3])
	defer r.Release()
	p, err := r.ReadPacket(MaxPacket)
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	told, err := wire.ParseError(p)
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	return mysqlerr.Error(*told)
}

// Columns reads the definitions that an answer begins with; r goes on with its rows.
func (s *Answer) Columns(e wire.Extent) (columns []wire.Column, r *wire.Reader, err error) {
	r = wire.NewReader(s.Section(0, e.End))
	packet := func() []byte {
		var p []byte
		if err == nil {
			p, err = r.ReadPacket(MaxPacket)
		}
		return p
	}
	n, _, _ := wire.TakeLenInt(packet())
	for range n {
		var c wire.Column
		if p := packet(); err == nil {
			c, err = wire.ParseColumn(p)
		}
		columns = append(columns, c)
	}
	if e.Rows > e.Header { // an EOF packet
		packet()
	}
	if err != nil {
		r.Release()
		return nil, nil, fmt.Errorf("read an answer's columns: %w", err)
	}
	return columns, r, nil
}

// Section reads a part of it.
func (s *Answer) Section(from, to int64) io.Reader { return io.NewSectionReader(s, from, to-from) }

func (s *Answer) ReadAt(p []byte, off int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(p, off)
	}
	if off >= int64(len(s.mem)) {
		return 0, io.EOF
	}
	n := copy(p, s.mem[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Drop gives back all that it takes.
func (s *Answer) Drop() {
	s.all.memory.Add(-int64(len(s.mem)))
	s.all.total.Add(-s.size)
	if s.file != nil {
		s.file.Close()
	}
	s.mem, s.file, s.size = nil, nil, 0
}

// frames follows a stream of frames through writes that cut it anywhere.
type frames struct {
	at   int64 // of the stream
	head [4]byte
	have int // bytes of head
	left int // of the frame's payload
	// joins: the frame goes on with the packet of the one before.
	joins bool
	begun bool // the packet's first byte is still to come

	packets int
	// last is where the last packet begins, and its first byte.
	last     int64
	lastByte byte
}

func (f *frames) scan(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			if f.begun {
				f.begun = false
				f.packet(p[0])
			}
			n := min(f.left, len(p))
			f.left -= n
			f.at += int64(n)
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:], p)
		f.have += n
		f.at += int64(n)
		p = p[n:]
		if f.have < len(f.head) {
			return
		}
		f.have = 0
		f.left = int(f.head[0]) | int(f.head[1])<<8 | int(f.head[2])<<16
		f.begun = !f.joins && f.left > 0
		f.joins = f.left == wire.MaxFrame
	}
}

func (f *frames) packet(first byte) {
	f.packets++
	f.last, f.lastByte = f.at-int64(len(f.head)), first
}

// oneResult reports an answer that is one result set and nothing else, whole.
func (f *frames) oneResult(e wire.Extent) bool {
	return e.Results == 1 && e.Ended && f.last == e.End && f.left == 0 && f.have == 0
}

// failed reports an answer whose last packet is an error.
func (f *frames) failed() bool { return f.packets > 0 && f.lastByte == mysql.ERR_HEADER }
