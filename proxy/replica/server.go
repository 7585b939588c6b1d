package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// settings give the same statement another meaning or answer where they differ
// between servers.
var settings = []string{
	"@@GLOBAL.sql_mode", "@@GLOBAL.time_zone", "@@GLOBAL.system_time_zone", "@@GLOBAL.lower_case_table_names",
	"@@GLOBAL.group_concat_max_len", "@@GLOBAL.div_precision_increment", "@@GLOBAL.lc_time_names", "@@GLOBAL.default_week_format",
}

// server is what a server says of itself.
type server struct {
	mariaDB bool
	uuid    string // "" on MariaDB
	id      string
	pos     position
	// settings in the order of the names.
	settings []string
}

// ask asks a server what it is, and where it is as a primary or as a replica (but
// for file and offset).
func ask(ctx context.Context, c *shard.Conn, primary bool) (*server, error) {
	own := "@@GLOBAL.server_uuid, @@GLOBAL.server_id, @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed"
	if c.MariaDB {
		own = "'', @@GLOBAL.server_id, 'ON', @@GLOBAL.gtid_slave_pos"
		if primary {
			own = "'', @@GLOBAL.server_id, 'ON', @@GLOBAL.gtid_binlog_pos"
		}
	}
	res, err := c.Query(ctx, "SELECT "+own+", "+strings.Join(settings, ", "))
	if err != nil {
		return nil, err
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 4+len(settings) {
		return nil, errors.New("a server that answers no variables")
	}
	row := res.Rows[0]
	s := &server{mariaDB: c.MariaDB, uuid: string(row[0]), id: string(row[1])}
	for _, v := range row[4:] {
		s.settings = append(s.settings, string(v))
	}
	switch {
	case s.mariaDB:
		s.pos.domains, err = parseDomains(string(row[3]))
	case string(row[2]) == "ON":
		s.pos.set, err = parseSet(string(row[3]))
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// differ names the first setting in which two servers differ; nil for none.
func (s *server) differ(primary *server) error {
	if s.mariaDB != primary.mariaDB {
		return errors.New("one is MySQL and the other MariaDB, which compare texts differently")
	}
	for i, name := range settings {
		if name == "@@GLOBAL.system_time_zone" && !strings.EqualFold(s.settings[1], "SYSTEM") {
			continue
		}
		if s.settings[i] != primary.settings[i] {
			return fmt.Errorf("its %s is '%s' and its primary's '%s', so statements may be answered differently: make them equal",
				strings.TrimPrefix(name, "@@GLOBAL."), s.settings[i], primary.settings[i])
		}
	}
	return nil
}

// askPrimary is ask with the place in the binary log. An error says what is wrong
// with the server as a primary.
func askPrimary(ctx context.Context, c *shard.Conn) (*server, error) {
	s, err := ask(ctx, c, true)
	if err != nil {
		return nil, err
	}
	rows, err := status(ctx, c, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
	if err != nil {
		return nil, needsRight(err, c, "BINLOG MONITOR")
	}
	if len(rows) == 0 {
		return nil, errors.New("the primary writes no binary log, so it has no replicas: expected log_bin")
	}
	r := rows[0]
	if f := foreign(r["Binlog_Do_DB"]) + foreign(r["Binlog_Ignore_DB"]); f != "" {
		return nil, fmt.Errorf("the primary leaves schemas out of its binary log (%s), so its replicas lack rows", f)
	}
	s.pos.file = r["File"]
	if s.pos.offset, err = strconv.ParseUint(r["Position"], 10, 64); err != nil {
		return nil, fmt.Errorf("the primary's position: %w", err)
	}
	return s, nil
}

// askReplica asks a server how far it has come as a replica of primary. An error
// says why it isn't to be read from.
func askReplica(ctx context.Context, c *shard.Conn, primary *server) (position, error) {
	s, err := ask(ctx, c, false)
	if err != nil {
		return position{}, err
	}
	rows, err := status(ctx, c, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
	if s.mariaDB {
		rows, err = status(ctx, c, "SHOW ALL REPLICAS STATUS", "SHOW ALL SLAVES STATUS")
	}
	if err != nil {
		return position{}, needsRight(err, c, "REPLICA MONITOR")
	}
	if err := s.differ(primary); err != nil {
		return position{}, err
	}
	return s.replicates(rows, primary)
}

// replicates looks at the rows of SHOW REPLICA STATUS, one a source.
func (s *server) replicates(rows []map[string]string, primary *server) (position, error) {
	if len(rows) == 0 {
		return position{}, errors.New("it is no replica: SHOW REPLICA STATUS is empty")
	}
	i := slices.IndexFunc(rows, func(r map[string]string) bool {
		if s.mariaDB {
			return r["Source_Server_Id"] == primary.id
		}
		return strings.EqualFold(r["Source_UUID"], primary.uuid)
	})
	if i < 0 {
		r := rows[0]
		unknown := r["Source_UUID"] == "" && !s.mariaDB || r["Source_Server_Id"] == "0" || r["Source_Server_Id"] == ""
		if why := r["Last_IO_Error"]; unknown && (why != "" || r["Replica_IO_Running"] != "Yes") {
			return position{}, stopped("receiving", r["Replica_IO_Running"], why)
		}
		return position{}, fmt.Errorf("it replicates from another server (%s:%s, server_id %s) than its shard's primary (server_id %s)",
			r["Source_Host"], r["Source_Port"], r["Source_Server_Id"], primary.id)
	}
	r := rows[i]
	// A source that can't be reached is bounded by the lag: "Connecting".
	if r["Replica_IO_Running"] == "No" {
		return position{}, stopped("receiving", "No", r["Last_IO_Error"])
	}
	if r["Replica_SQL_Running"] != "Yes" {
		return position{}, stopped("applying", r["Replica_SQL_Running"], r["Last_SQL_Error"])
	}
	for name, v := range r {
		if strings.HasPrefix(name, "Replicate_") && foreign(v) != "" {
			return position{}, fmt.Errorf("it doesn't replicate all (%s: %s), so rows may be missing", name, v)
		}
	}
	p := s.pos
	p.file = r["Relay_Source_Log_File"]
	if n, err := strconv.ParseUint(r["Exec_Source_Log_Pos"], 10, 64); err == nil {
		p.offset = n
	} else {
		p.file = ""
	}
	return p, nil
}

// Source names the server whose changes a server applies; "" for none, and where the account may not see that.
func Source(ctx context.Context, c *shard.Conn) (string, error) {
	rows, err := status(ctx, c, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
	if c.MariaDB {
		rows, err = status(ctx, c, "SHOW ALL REPLICAS STATUS", "SHOW ALL SLAVES STATUS")
	}
	if _, refused := errors.AsType[*shard.ServerError](err); refused {
		return "", nil
	}
	for _, r := range rows {
		if r["Replica_SQL_Running"] == "Yes" {
			return r["Source_Host"] + ":" + r["Source_Port"], nil
		}
	}
	return "", err
}

// stoppedError: replication stands still, or has not begun.
type stoppedError struct{ msg string }

func (e *stoppedError) Error() string { return e.msg }

func stopped(what, state, why string) error {
	if why == "" {
		why = "START REPLICA begins it"
	}
	return &stoppedError{fmt.Sprintf("replication (%s) is not running (%s): %s", what, state, why)}
}

// foreign leaves out of a filter the servers' own schemas: "mysql,sys",
// "mysql.rds_%".
func foreign(filter string) string {
	var out []string
	for name := range strings.SplitSeq(filter, ",") {
		name = strings.ToLower(strings.Trim(strings.TrimSpace(name), "`"))
		schema, _, _ := strings.Cut(name, ".")
		switch schema {
		case "", "mysql", "sys", "information_schema", "performance_schema", "shunt_scratch", "shunt_store":
		default:
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// status runs a SHOW ... STATUS in the words of today's servers, or in those of
// older ones. Names of columns are made those of today.
func status(ctx context.Context, c *shard.Conn, today, before string) ([]map[string]string, error) {
	res, err := c.Query(ctx, today)
	if e, ok := errors.AsType[*shard.ServerError](err); ok && e.Code == mysqlerr.ParseError {
		res, err = c.Query(ctx, before)
	}
	if err != nil {
		return nil, err
	}
	var out []map[string]string
	for _, row := range res.Rows {
		r := map[string]string{}
		for i, name := range res.Columns {
			r[renamed.Replace(name)] = string(row[i])
		}
		out = append(out, r)
	}
	return out, nil
}

var renamed = strings.NewReplacer("Master", "Source", "Slave", "Replica")

// needsRight says what to grant where an account may not see replication.
func needsRight(err error, c *shard.Conn, mariaDB string) error {
	e, ok := errors.AsType[*shard.ServerError](err)
	if !ok || e.Code != mysqlerr.SpecificAccessDenied {
		return err
	}
	right := "REPLICATION CLIENT"
	if c.MariaDB {
		right = mariaDB
	}
	return fmt.Errorf("%w: Shunt's account needs it to see how far replication is: GRANT %s ON *.* TO it", err, right)
}
