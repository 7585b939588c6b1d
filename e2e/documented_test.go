package e2e

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	sqlBlock = regexp.MustCompile("(?ms)^```sql\n(.*?)^```$")
	// optional is what a document has in brackets, choice what it has between bars.
	optional = regexp.MustCompile(`\[[^\]]*\]`)
	choice   = regexp.MustCompile(`\S+( \| \S+)+`)
)

// documented are the statements of a document's blocks, written out: with what is in brackets and without, by each of the choices.
func documented(t *testing.T, path string) (statements []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range sqlBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			statement, _, _ := strings.Cut(line, ";")
			if statement = strings.TrimSpace(statement); statement == "" {
				continue
			}
			without := func(s string) string { return optional.ReplaceAllString(s, "") }
			ways := []string{without(statement)}
			for _, m := range optional.FindAllStringIndex(statement, -1) {
				ways = append(ways, without(statement[:m[0]])+statement[m[0]+1:m[1]-1]+without(statement[m[1]:]))
			}
			for _, way := range ways {
				all := choice.FindString(way)
				if all == "" {
					statements = append(statements, way)
				}
				for one := range strings.SplitSeq(all, " | ") {
					if all != "" {
						statements = append(statements, strings.Replace(way, all, one, 1))
					}
				}
			}
		}
	}
	return statements
}

// TestDocumentedStatements: the documents' statements are done as they are written. TestDocumentedShell, TestDocumentedCommands and the
// tutorials' tests have the rest of what documents say to type.
func TestDocumentedStatements(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 2, f.binlogs()...), maintenance: "{delay: 100ms}",
			tables: []string{"users: {shard_key: id}", "conversations: {shard_key: id}", "messages: {shard_key: id}"},
		})
		c := p.conn()
		for _, sql := range []string{
			"CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(50), name VARCHAR(50), age INT)",
			"CREATE TABLE conversations (id BIGINT PRIMARY KEY, title VARCHAR(50))",
			"CREATE TABLE messages (id BIGINT PRIMARY KEY, conversation_id BIGINT, deleted INT NOT NULL DEFAULT 0)",
			"INSERT INTO users VALUES (1, 'ann@example.com', 'Ann', 40)", "INSERT INTO conversations VALUES (5, 'five')", "INSERT INTO messages VALUES (1, 5, 0)",
		} {
			mustExec(t, c, sql)
		}
		done := 0
		for _, document := range ofStatements {
			for _, sql := range documented(t, "../"+document) {
				sql = strings.NewReplacer("shop.users", p.schema+".users", ", ...", "", "any statement", "SELECT id FROM users", "shard=s0", "shard=s1").Replace(sql)
				words := strings.Fields(sql)
				if words[0] == "GRANT" || strings.Contains(sql, " HOME ") { // TestDocumentedAccounts; of several Shunts: TestMembersHome
					continue
				}
				index := len(words) > 3 && (words[1] == "VIRTUAL" && words[2] == "INDEX" || words[1] == "INDEX")
				if index { // there is one, but where it is made
					_, _ = c.ExecContext(t.Context(), "DROP VIRTUAL INDEX "+words[slices.Index(words, "INDEX")+1]+" ON users")
					if words[0] != "CREATE" {
						p.createIndex(c, "idx_email", "users(email)")
					}
				}
				if _, err := rowsOf(t.Context(), c, sql); err != nil {
					t.Errorf("%s: %s: %v", document, sql, err)
				}
				done++
				if words[0] == "CREATE" && index {
					p.settled(c)
				}
			}
		}
		if done < 40 {
			t.Errorf("%d statements", done)
		}
	})
}

// TestDocumentedAccounts: what docs/install.md and others have administrators do on MySQL is taken there.
func TestDocumentedAccounts(t *testing.T) {
	t.Parallel()
	db := onShard(t, mysqlOf(t).own(t, 1)[0], "")
	for _, document := range ofAccounts {
		for _, sql := range documented(t, "../"+document) {
			if strings.Contains(sql, "VIRTUAL INDEX") {
				continue
			}
			mustExec(t, db, sql)
		}
	}
}
