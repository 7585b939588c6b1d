package follow

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func (s *server) problems(account string) (whats []string) {
	s.t.Helper()
	source := s.source
	if account != "" {
		source.User, source.Password = account, "secret"
	}
	problems, err := Check(s.t.Context(), source)
	check(s.t, err)
	for _, p := range problems {
		whats = append(whats, p.String())
	}
	return whats
}

func (s *server) wantProblems(account string, want ...string) {
	s.t.Helper()
	got := s.problems(account)
	if !slices.EqualFunc(got, want, strings.Contains) {
		s.t.Errorf("problems of %q: %q, want %q", account, got, want)
	}
}

// TestCheck: what is lacking is told with what to do, which does.
func TestCheck(t *testing.T) {
	eachOwnServer(t, func(t *testing.T, s *server) {
		s.wantProblems("")
		s.exec("CREATE USER f@'%' IDENTIFIED BY 'secret'")
		client := "GRANT REPLICATION CLIENT ON *.* TO 'f'@'%'"
		if s.mariaDB {
			client = "GRANT BINLOG MONITOR ON *.* TO 'f'@'%'"
		}
		replica := "GRANT REPLICATION SLAVE ON *.* TO 'f'@'%'"
		s.wantProblems("f", client)
		s.exec(client)
		s.wantProblems("f", replica)
		s.exec(replica)
		s.wantProblems("f")
		format, metadata := "SET GLOBAL binlog_format = ROW", "SET GLOBAL binlog_row_metadata = FULL"
		s.exec("SET GLOBAL binlog_format = MIXED", "SET GLOBAL binlog_row_metadata = MINIMAL")
		s.wantProblems("f", format, metadata)
		s.exec(format, metadata)
		s.wantProblems("f")
	})
}

// TestUnfit: servers whose log is known not to tell all are refused.
func TestUnfit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, argument, fix string
		mySQL               bool
	}{
		{"none", "--skip-log-bin", "--log-bin", false},
		{"filter", "--binlog-do-db=x", "binlog_do_db", false},
		{"ignored", "--binlog-ignore-db=x", "binlog_ignore_db", false},
		{"no GTIDs", "--gtid-mode=OFF", "gtid_mode", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range flavours {
				if c.mySQL && f != flavours[0] {
					continue
				}
				t.Run(string(f.name), func(t *testing.T) {
					t.Parallel()
					s := newServer(t, f, f.another(t, c.argument).Server)
					s.wantProblems("", c.fix)
					if _, err := Open(t.Context(), s.source, NewProgress(Position{})); !errors.Is(err, ErrUnfit) {
						t.Errorf("got %v", err)
					}
				})
			}
		})
	}
}
