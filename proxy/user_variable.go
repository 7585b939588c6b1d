package proxy

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// userValue is the value of a user variable as an expression that means the same on
// every connection, whatever is set there before or after it. Counter-examples, each
// replayed as it was written:
//
//	SET NAMES latin1; SET @x = 'é'; SET NAMES utf8mb4      two other characters
//	SET @x = 'a\\b'; SET sql_mode = 'NO_BACKSLASH_ESCAPES'  two backslashes
//	SET @x = CURRENT_TIMESTAMP                             another time on each
func (s *session) userValue(ctx context.Context, next *settings, a planner.Assignment) (string, error) {
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
	if a.System {
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
	conn.State = "?" // it has a variable that no session has
	asks := namesID(expr)
	if asks {
		if err := tellID(ctx, conn, s.last.insertID); err != nil {
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
	if asks {
		if n, err := strconv.ParseUint(string(row[4]), 10, 64); err == nil && n != s.last.insertID {
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
var errLargeVariable = sqlError{codeNotSupported, "42000", "a user variable of more than half of the shards' max_allowed_packet is not supported: send the value in the statements that need it"}

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
		next.with(userVariable(name, value))
	}
	next.update(s.catalog())
	s.settings = next
	return nil
}

// willAssign says so of a connection that is sent a SELECT that assigns user variables: from
// then on it has values that no session has, however the statement ends.
func willAssign(r request, conn *shard.Conn) {
	if len(r.plan.Assigns) > 0 {
		conn.State = "?"
	}
}

// tookOver is takeOver for those that a SELECT has assigned, whose answer the client has.
func (s *session) tookOver(ctx context.Context, r request, id catalog.ShardID, conn *shard.Conn) error {
	if len(r.plan.Assigns) == 0 {
		return nil
	}
	if err := s.takeOver(ctx, conn, r.plan.Assigns); err != nil {
		return fmt.Errorf("%w: %w", errHalfAnswered, s.shardError(id, err))
	}
	return nil
}

// userVariable is the setting of a user variable.
func userVariable(name, value string) variable {
	return variable{"@" + name, "SET @" + catalog.QuoteName(name) + " = " + value, value}
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
