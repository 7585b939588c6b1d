package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestSchemaFiles: schema files as people have them, loaded by a client program through Shunt, spread or on one shard, and
// into one server: what the client prints, definitions, rows, the dump of it, and what information_schema says are the same.
// SHUNT_E2E_SCHEMA_FILES names others, which make and use no schema of their own.
func TestSchemaFiles(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		m := startMatrix(t, f, "hash", "single")
		c := m.clientPrograms(t)
		paths, err := filepath.Glob(cmp.Or(os.Getenv("SHUNT_E2E_SCHEMA_FILES"), "drivers/cli/files/*.sql"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no files: %v", err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, client := range []string{"hash", "single"} {
				if client != "single" && strings.Contains(string(text), "-- only: single") {
					continue
				}
				t.Run(filepath.Base(path)+" "+client, func(t *testing.T) {
					schema := m.schema(client)
					told, took := map[string]string{}, map[string]time.Duration{}
					for _, side := range []string{"plain", "shunt"} {
						c.must(t, side, "mysql", fmt.Sprintf("DROP DATABASE %s; CREATE DATABASE %[1]s", schema))
						began := time.Now()
						told[side] = c.must(t, side, "mysql", string(text), "--show-warnings", "--default-character-set=utf8mb4", schema)
						took[side] = time.Since(began)
						told[side] += c.must(t, side, "mysql", strings.Join(questions(t, m, client), "\n"), "--force", "--show-warnings", "--default-character-set=utf8mb4", schema)
						told[side] += c.dump(t, side, client)
						told[side] = ofOneServer.ReplaceAllString(told[side], "")
					}
					if told["shunt"] != told["plain"] {
						t.Errorf("they differ:\n%s", firstDifference(told["shunt"], told["plain"]))
					}
					t.Logf("%.1f of one server's time (%v)", float64(took["shunt"])/float64(took["plain"]), took["shunt"])
				})
			}
		}
	})
}

// ofOneServer are times, and whose account has made what.
var ofOneServer = regexp.MustCompile("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d(\\.\\d+)?|DEFINER=`[^`]*`@`[^`]*`")

// questions are those questions about what a file has made, by its names on the plain server.
func questions(t *testing.T, m *matrix, client string) []string {
	db, schema := onShard(t, m.plain, ""), m.schema(client)
	var out []string
	each := func(sql, of string) {
		for _, r := range mustRows(t, db, strings.ReplaceAll(sql, "SCHEMA()", "'"+schema+"'")) {
			out = append(out, strings.ReplaceAll(of, "NAME", "`"+r["name"]+"`"))
		}
	}
	each("SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = SCHEMA() ORDER BY 1", "SHOW CREATE TABLE NAME; SELECT * FROM NAME ORDER BY 1, 2; SHOW FULL COLUMNS FROM NAME;")
	each("SELECT TRIGGER_NAME AS name FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = SCHEMA() ORDER BY 1", "SHOW CREATE TRIGGER NAME;")
	each("SELECT EVENT_NAME AS name FROM information_schema.EVENTS WHERE EVENT_SCHEMA = SCHEMA() ORDER BY 1", "SHOW CREATE EVENT NAME;")
	for _, kind := range []string{"PROCEDURE", "FUNCTION"} {
		each("SELECT ROUTINE_NAME AS name FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = SCHEMA() AND ROUTINE_TYPE = '"+kind+"' ORDER BY 1", "SHOW CREATE "+kind+" NAME;")
	}
	for _, of := range []struct{ columns, table, schema string }{
		{"TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_DEFAULT, IS_NULLABLE, COLUMN_TYPE, COLUMN_KEY, EXTRA, GENERATION_EXPRESSION, COLUMN_COMMENT, COLLATION_NAME", "COLUMNS", "TABLE_SCHEMA"},
		{"TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE, SUB_PART, NULLABLE, INDEX_TYPE", "STATISTICS", "TABLE_SCHEMA"},
		{"TABLE_NAME, PARTITION_NAME, PARTITION_METHOD, PARTITION_DESCRIPTION", "PARTITIONS", "TABLE_SCHEMA"},
		{"CONSTRAINT_NAME, TABLE_NAME, REFERENCED_TABLE_NAME, UPDATE_RULE, DELETE_RULE", "REFERENTIAL_CONSTRAINTS", "CONSTRAINT_SCHEMA"},
		{"TRIGGER_NAME, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_STATEMENT, ACTION_TIMING", "TRIGGERS", "TRIGGER_SCHEMA"},
		{"ROUTINE_NAME, ROUTINE_TYPE, DTD_IDENTIFIER, ROUTINE_DEFINITION, IS_DETERMINISTIC, SQL_DATA_ACCESS", "ROUTINES", "ROUTINE_SCHEMA"},
		{"TABLE_NAME, VIEW_DEFINITION, IS_UPDATABLE, SECURITY_TYPE", "VIEWS", "TABLE_SCHEMA"},
	} {
		out = append(out, fmt.Sprintf("SELECT %s FROM information_schema.%s WHERE %s = '%s' ORDER BY 1, 2, 3;", of.columns, of.table, of.schema, schema))
	}
	return out
}
