package advise

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/text"
)

// maxLine bounds a line of a log: of a longer one the rest is left out, and it is no statement that anybody plans.
const maxLine = 16 << 20

var (
	// 2026-11-27T22:35:00.123456Z	    8 Query	SELECT 1   MySQL, and
	// 261127 22:35:00	    8 Query	SELECT 1           MariaDB, which leaves out a time that it has said.
	generalLine = regexp.MustCompile(`^(?:\d{4}-\d\d-\d\dT\S+|\d{6} +\d{1,2}:\d\d:\d\d)?\s+(\d+) (Query|Execute|Prepare|Init DB|Connect|Quit|[A-Z][A-Za-z]+(?: [A-Za-z]+)*)(?:\t(.*))?$`)
	onSchema    = regexp.MustCompile(` on (\S*)(?: using \S+)?$`)
	queryTime   = regexp.MustCompile(`Query_time: ([0-9.]+)`)
	marksSchema = regexp.MustCompile(`Schema: (\S+)`)
	useSchema   = regexp.MustCompile("(?i)^use\\s+`?([^`;\\s]+)`?\\s*;?$")
	timestamp   = regexp.MustCompile(`(?i)^SET (timestamp|last_insert_id|insert_id)=.*;$`)
)

func lines(r io.Reader, each func(string)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece[:min(len(piece), maxLine-len(line))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil || len(line) > 0 {
			each(string(bytes.TrimRight(line, "\r\n")))
		}
		switch line = line[:0]; {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// ReadGeneralLog adds the statements of a general log of MySQL or MariaDB.
func (w *Workload) ReadGeneralLog(r io.Reader, schema string) error {
	at := map[string]string{} // each connection's schema
	var statement strings.Builder
	in := ""
	end := func() {
		if statement.Len() > 0 {
			sql := statement.String()
			if m := useSchema.FindStringSubmatch(sql); m != nil {
				at[in] = m[1]
			}
			w.AddText(cmp.Or(at[in], schema), sql, 0)
			statement.Reset()
		}
	}
	err := lines(r, func(line string) {
		m := generalLine.FindStringSubmatch(line)
		if m == nil {
			if statement.Len() > 0 {
				statement.WriteString("\n" + line)
			}
			return
		}
		end()
		in = m[1]
		switch m[2] {
		case "Query", "Execute":
			statement.WriteString(m[3])
		case "Init DB":
			at[in] = m[3]
		case "Connect":
			if of := onSchema.FindStringSubmatch(m[3]); of != nil {
				at[in] = of[1]
			}
		}
	})
	end()
	return err
}

// ReadSlowLog adds the statements of a slow log of MySQL or MariaDB, with their times.
func (w *Workload) ReadSlowLog(r io.Reader, schema string) error {
	current, seconds := schema, 0.0
	var statement strings.Builder
	begun := false
	end := func() {
		if begun && statement.Len() > 0 {
			w.AddText(current, statement.String(), seconds)
		}
		statement.Reset()
	}
	err := lines(r, func(line string) {
		if strings.HasPrefix(line, "#") {
			if strings.HasPrefix(line, "# Time:") || strings.HasPrefix(line, "# User@Host:") {
				end()
				seconds, begun = 0, true
			}
			if strings.HasPrefix(line, "# administrator command") {
				statement.Reset()
				begun = false
			}
			if m := queryTime.FindStringSubmatch(line); m != nil {
				seconds, _ = strconv.ParseFloat(m[1], 64)
			}
			if m := marksSchema.FindStringSubmatch(line); m != nil {
				current = m[1]
			}
			return
		}
		if !begun {
			return // what a server says of itself when it begins a log
		}
		if statement.Len() == 0 {
			if m := useSchema.FindStringSubmatch(line); m != nil {
				current = m[1]
				return
			}
			if timestamp.MatchString(line) {
				return
			}
		} else {
			statement.WriteByte('\n')
		}
		statement.WriteString(line)
	})
	end()
	return err
}

// ReadStatements adds the statements of a file, which end with `;`.
func (w *Workload) ReadStatements(r io.Reader, schema string) error {
	all, err := io.ReadAll(io.LimitReader(r, 1<<30))
	if err != nil {
		return err
	}
	for len(all) > 0 {
		// The splitter has a bound of its own: parts of whole lines that end a statement.
		part := all
		if len(part) > maxLine {
			if i := strings.LastIndex(string(part[:maxLine]), ";\n"); i > 0 {
				part = part[:i+2]
			}
		}
		all = all[len(part):]
		statements, err := text.Split(string(part), text.Settings{Charset: "utf8mb4"})
		if err != nil {
			return err
		}
		for _, sql := range statements {
			sql = strings.TrimSpace(sql)
			if m := useSchema.FindStringSubmatch(sql); m != nil {
				schema = m[1]
				continue
			}
			w.AddText(schema, sql, 0)
		}
	}
	return nil
}
