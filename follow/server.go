package follow

import "context"

// Server is asked for positions over one connection. One goroutine at a time may use it.
type Server struct {
	conn *conn
	// told is what the server answered Seen last, seen what that is.
	told string
	seen Position
}

// Dial connects to a server. The connection lives no longer than ctx.
func Dial(ctx context.Context, source Source) (*Server, error) {
	c, err := source.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &Server{conn: c}, nil
}

// MariaDB reports that it is one.
func (s *Server) MariaDB() bool { return s.conn.mariaDB }

// One runs a query that has one value.
func (s *Server) One(query string) (string, error) { return s.conn.one(query) }

// Now is as the function of this name.
func (s *Server) Now() (Position, error) { return s.conn.now() }

// Written is as the function of this name.
func (s *Server) Written() (Position, error) { return s.conn.written() }

// Seen covers all transactions that anybody may have seen by now: a commit that is under way may be visible already, which
// Written lacks.
func (s *Server) Seen() (Position, error) {
	told, err := s.conn.seenText()
	if err != nil || told == s.told && told != "" {
		return s.seen, err
	}
	seen, err := ParsePosition(told)
	if err == nil {
		s.told, s.seen = told, seen
	}
	return seen, err
}
