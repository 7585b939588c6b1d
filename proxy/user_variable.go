package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// userValue is the value of a user variable as an expression that means the same on
// every connection, whatever is set there before or after it. Counter-examples, each
// replayed as it was written:
//
//	SET NAMES latin1; SET @x = 'é'; SET NAMES utf8mb4      two other characters
//	SET @x = 'a\\b'; SET sql_mode = 'NO_BACKSLASH_ESCAPES'  two backslashes
//	SET @x = CURRENT_TIMESTAMP                             another time on each
func (s *session) userValue(ctx context.Context, next *settings, a plan.Assignment) (string, error) {
	if a.IsLiteral {
		switch now := &s.settings; {
		case number.MatchString(a.Literal) && a.Value[0] != '\'' && a.Value[0] != '"',
			strings.EqualFold(a.Value, "null"), strings.EqualFold(a.Value, "true"), strings.EqualFold(a.Value, "false"):
			return a.Value, nil
		case now.planning.Charset == keys.UnknownCharset: // only the server knows which it has
		case len(a.Literal) > 1<<20: // it may be too large
		case a.Value[0] == '\'', a.Value[0] == '"' && !now.planning.ANSIQuotes:
			return textOf([]byte(a.Literal), now.charset, now.collation), nil
		}
	}
	if a.Selected {
		column, v, err := s.looked(ctx, a.Value)
		if err != nil {
			return "", err
		}
		return s.columnValue(column, v)
	}
	var value string
	err := s.askFor(ctx, s.settings.clone(), a.Tables, func(id catalog.ShardID, conn *shard.Conn) (err error) {
		if value, err = s.typedValue(ctx, next, conn, a.Value); err != nil {
			return s.evaluationFailed(id, conn, err)
		}
		return nil
	})
	return value, err
}

// typedValue has a connection compute the value of an expression as its own variable's,
// which gives its type as well.
func (s *session) typedValue(ctx context.Context, next *settings, conn *shard.Conn, expr string) (string, error) {
	state := conn.State
	conn.State = "?" // it has a variable that no session has
	asks := spoken.NamesInsertID(expr)
	if asks {
		if err := tellID(ctx, conn, s.diag.insertID); err != nil {
			return "", err
		}
	}
	if _, err := conn.Exec(ctx, "SET @shunt_value = "+expr); err != nil {
		return "", err
	}
	res, err := conn.Query(ctx, "SELECT @shunt_value, HEX(@shunt_value), CHARSET(@shunt_value), COLLATION(@shunt_value), LAST_INSERT_ID(), @@max_allowed_packet")
	if err != nil {
		return "", err
	}
	row := res.Rows[0]
	if !asks && !strings.Contains(expr, ":=") {
		if _, err := conn.Exec(ctx, "SET @shunt_value = NULL"); err != nil {
			return "", err
		}
		conn.State = state
	}
	if asks {
		if n, err := strconv.ParseUint(string(row[4]), 10, 64); err == nil && n != s.diag.insertID {
			next.insertID = &n // LAST_INSERT_ID(n) has set it
		}
	}
	text := string(row[0])
	switch def := res.Definitions[0]; {
	case row[0] == nil:
		return "NULL", nil
	case def.Type == mysql.MYSQL_TYPE_LONGLONG && def.Flags&mysql.UNSIGNED_FLAG != 0:
		return "CAST(" + text + " AS UNSIGNED)", nil
	case def.Type == mysql.MYSQL_TYPE_LONGLONG, def.Type == mysql.MYSQL_TYPE_NEWDECIMAL:
		return text, nil
	case def.Type == mysql.MYSQL_TYPE_DOUBLE:
		if !strings.Contains(text, "e") {
			text += "e0"
		}
		return text, nil
	}
	most, _ := strconv.Atoi(string(row[5]))
	if row[1] == nil || len(row[1]) > most-1024 { // MariaDB's HEX() answers NULL then
		return "", errLargeVariable
	}
	bytes, err := hex.DecodeString(string(row[1]))
	return textOf(bytes, string(row[2]), string(row[3])), err
}

// errLargeVariable: connections are told of texts in hexadecimal.
var errLargeVariable = mysqlerr.New(mysqlerr.NotSupportedYet, "a user variable of more than half of the shards' max_allowed_packet is not supported: send the value in the statements that need it")

// takeOver gives the session the values that user variables have on a connection.
func (s *session) takeOver(ctx context.Context, conn *shard.Conn, names []string) error {
	if len(names) == 0 {
		return nil
	}
	next := s.settings.clone()
	for _, name := range names {
		value, err := s.typedValue(ctx, &next, conn, "@"+catalog.QuoteName(name))
		if err != nil {
			return err
		}
		next.withUser(name, value)
	}
	next.update(s.catalog())
	return s.keep(next)
}

// willAssign says so of a connection that is sent a SELECT that assigns user variables: from
// then on it has values that no session has, however the statement ends.
func willAssign(r *request, conn *shard.Conn) {
	if len(r.plan.Assigns) > 0 {
		conn.State = "?"
	}
}

// tookOver is takeOver for those that a SELECT has assigned, whose answer the client has.
func (s *session) tookOver(ctx context.Context, r *request, id catalog.ShardID, conn *shard.Conn) error {
	if len(r.plan.Assigns) == 0 {
		return nil
	}
	if err := s.takeOver(ctx, conn, r.plan.Assigns); err != nil {
		return fmt.Errorf("%w: %w", errHalfAnswered, s.shardError(id, err))
	}
	return nil
}

// userVariable is a user variable and the text that sets it. Its value is an expression that
// depends on nothing else, so that a connection with another one needs no reset.
type userVariable struct {
	name, statement string
	// mark stands for it in a fingerprint: digests of its name and of its value, which may
	// be long, and every connection keeps the fingerprint of whose it was last.
	mark string
}

const (
	nameMark = 16 // bytes of the name's digest
	userMark = nameMark + sha256.Size
	// users begin a fingerprint that has any: no statement does.
	usersBegin = "\x00"
)

func (s *settings) withUser(name, value string) {
	of, is := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(value))
	u := userVariable{name, "SET @" + catalog.QuoteName(name) + " = " + value, string(of[:nameMark]) + string(is[:])}
	if i := slices.IndexFunc(s.users, func(had userVariable) bool { return had.name == name }); i >= 0 {
		s.users[i] = u
		return
	}
	s.users = append(s.users, u)
}

// withUsers is the fingerprint of user variables and other settings.
func withUsers(users []userVariable, others string) string {
	if len(users) == 0 {
		return others
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d:", usersBegin, len(users))
	for _, u := range users {
		b.WriteString(u.mark)
	}
	b.WriteString(others)
	return b.String()
}

// cutUsers takes a fingerprint apart.
func cutUsers(fingerprint string) (marks, others string) {
	count, rest, ok := strings.Cut(strings.TrimPrefix(fingerprint, usersBegin), ":")
	n, err := strconv.Atoi(count)
	if !strings.HasPrefix(fingerprint, usersBegin) || !ok || err != nil || len(rest) < n*userMark {
		return "", fingerprint
	}
	return rest[:n*userMark], rest[n*userMark:]
}

// lackingUsers is what is to be said to a connection with these user variables; ok is false
// where it has one that the session hasn't.
func (s *settings) lackingUsers(marks string) (todo []string, ok bool) {
	had := map[string]string{}
	for ; marks != ""; marks = marks[userMark:] {
		had[marks[:nameMark]] = marks[:userMark]
	}
	for _, u := range s.users {
		of := u.mark[:nameMark]
		if had[of] != u.mark {
			todo = append(todo, u.statement)
		}
		delete(had, of)
	}
	return todo, len(had) == 0
}

// textOf is a string of this character set and collation, "" for the default one.
func textOf(b []byte, charset, collation string) string {
	if charset == "binary" {
		return fmt.Sprintf("x'%x'", b)
	}
	text := fmt.Sprintf("_%s x'%x'", charset, b)
	if collation != "" {
		text += " COLLATE " + collation
	}
	return text
}
