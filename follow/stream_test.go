package follow

import (
	"context"
	"errors"
	"testing"
)

func TestRows(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), n TINYINT UNSIGNED)")
		s.want(s.changes(
			"INSERT INTO t VALUES (1, 'a', 200), (-2, NULL, NULL)",
			"UPDATE t SET name = 'ä' WHERE id = 1",
			"DELETE FROM t WHERE id < 0",
		),
			"insert t {id=1 name=a n=200}", "insert t {id=-2 name=NULL n=NULL}",
			"update t {id=1 name=a n=200} {id=1 name=ä n=200}",
			"delete t {id=-2 name=NULL n=NULL}")
	})
}

// TestGoesOn: a stream that ends is gone on with from its progress, and a transaction that was cut off comes again, whole.
func TestGoesOn(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		s.exec("INSERT INTO t VALUES (1)", "BEGIN", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", "COMMIT")
		stream := s.open(p)
		var got []string
		for len(got) < 2 {
			e, err := stream.Next()
			check(t, err)
			got = append(got, s.describe(e)...)
		}
		s.want(got, "insert t {id=1}", "insert t {id=2}")
		stream.Close()
		if _, err := stream.Next(); err == nil {
			t.Error("a closed stream goes on")
		}
		text := p.Position().String()
		from, err := ParsePosition(text)
		check(t, err)
		s.want(s.read(NewProgress(from)), "insert t {id=2}", "insert t {id=3}")
	})
}

func TestWait(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		p := NewProgress(s.now())
		s.exec("INSERT INTO t VALUES (1)")
		until := s.written()
		if p.Passed(until) {
			t.Fatal("passed before it was read")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Wait(ended, until); !errors.Is(err, context.Canceled) {
			t.Fatalf("Wait: %v", err)
		}
		waited := make(chan error, 1)
		go func() { waited <- p.Wait(t.Context(), until) }()
		s.want(s.read(p), "insert t {id=1}")
		check(t, <-waited)
		check(t, p.Wait(t.Context(), until))
	})
}
