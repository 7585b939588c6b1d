package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// packetPair is a client of Shunt's and one of a plain server's.
type packetPair struct {
	t            *testing.T
	shunt, plain *packetClient
	// schemas are their names, which are made equal before answers are compared.
	schema, plainSchema string
}

// packetSides starts Shunt and makes an account and a schema on a plain server.
func packetSides(t *testing.T, f *flavour) (dial func(t *testing.T, capabilities uint32) *packetPair) {
	t.Helper()
	p, _ := startPeople(t, f, 0, setup{})
	server := f.servers(t)[3]
	plainSchema := p.schema + "_plain"
	admin := onShard(t, server, "")
	for _, sql := range []string{"CREATE DATABASE " + plainSchema, "CREATE USER " + plainSchema + " IDENTIFIED BY ''", "GRANT ALL ON *.* TO " + plainSchema} {
		mustExec(t, admin, sql)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec("DROP DATABASE " + plainSchema) //nolint:noctx // the test's is over
		_, _ = admin.Exec("DROP USER " + plainSchema)     //nolint:noctx // the test's is over
	})
	mustExec(t, plainConn(t, f, plainSchema), people)
	return func(t *testing.T, capabilities uint32) *packetPair {
		return &packetPair{t, dialPackets(t, p.addr, "empty", p.schema, capabilities), dialPackets(t, server.Addr(), plainSchema, plainSchema, capabilities), p.schema, plainSchema}
	}
}

// both compares what the two do.
func (p *packetPair) both(what string, do func(c *packetClient) string) {
	p.t.Helper()
	plain := do(p.plain)
	shunt := do(p.shunt)
	if os.Getenv("SHUNT_E2E_SHOW") != "" {
		p.t.Logf("%s\n%s", what, plain)
	}
	if want := strings.ReplaceAll(plain, p.plainSchema, p.schema); shunt != want {
		p.t.Errorf("%s:\nshunt: %s\nplain: %s", what, shunt, want)
	}
}

func (p *packetPair) query(sql ...string) {
	p.t.Helper()
	for _, sql := range sql {
		p.both(sql, func(c *packetClient) string {
			if c == p.plain {
				return c.query(strings.ReplaceAll(sql, "SCHEMA", p.plainSchema))
			}
			return c.query(strings.ReplaceAll(sql, "SCHEMA", p.schema))
		})
	}
}

// TestDeprecateEOF: answers of every kind, as a server gives them to clients with
// and without EOF packets.
func TestDeprecateEOF(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		for name, capabilities := range map[string]uint32{"EOF": 0, "no EOF": mysql.CLIENT_DEPRECATE_EOF} {
			t.Run(name, func(t *testing.T) {
				p := dial(t, capabilities)
				if !p.shunt.supported(mysql.CLIENT_DEPRECATE_EOF) {
					t.Fatal("not announced")
				}
				p.query("DELETE FROM people",
					"INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'e', 5), (6, 'f', 6), (7, 'g', 7), (8, 'h', 8)",
					"SELECT id, email FROM people WHERE id = 3",                                  // one shard
					"SELECT id, email FROM people WHERE id = 300",                                // no row
					"SELECT email FROM people WHERE id IN (4)",                                   //
					"SELECT COUNT(*) FROM people",                                                // a merge
					"SELECT id, email FROM people ORDER BY id",                                   // rows of several
					"SELECT a.id FROM people a JOIN people b ON a.age = b.age + 1 ORDER BY a.id", // a gather
					"SELECT 'one'",
					"SELECT nonsense FROM people WHERE id = 1",
					"SELECT 1/0, 'x' FROM people WHERE id = 1", // a warning
					"SHOW WARNINGS",
					"SELECT email FROM people WHERE id = 1; UPDATE people SET age = 5 WHERE id = 1; SELECT email FROM people WHERE id = 2; SELECT nonsense",
					"SELECT email FROM people WHERE id = 1; SELECT COUNT(*) FROM people; SET @a = 1",
					"BEGIN", "SELECT email FROM people WHERE id = 2 FOR UPDATE", "COMMIT",
					"USE SCHEMA", "SHOW TABLES LIKE 'people'",
				)
				for _, c := range []byte{mysql.COM_PING, mysql.COM_RESET_CONNECTION} {
					p.both("command", func(r *packetClient) string { r.say(c); return r.answer() })
				}
				p.both("COM_SET_OPTION", func(r *packetClient) string { r.say(mysql.COM_SET_OPTION, []byte{0, 0}); return r.answer() })
				p.both("COM_INIT_DB", func(r *packetClient) string {
					if r == p.plain {
						r.say(mysql.COM_INIT_DB, []byte(p.plainSchema))
					} else {
						r.say(mysql.COM_INIT_DB, []byte(p.schema))
					}
					return r.answer()
				})
				for _, sql := range []string{
					"SELECT id, email FROM people WHERE id = 3", "SELECT id, email FROM people ORDER BY id", "SELECT COUNT(*) FROM people", "SELECT 'one'",
					"UPDATE people SET age = 7 WHERE id = 3", "SELECT a.id FROM people a JOIN people b ON a.age = b.age + 1 ORDER BY a.id", "SELECT nonsense",
				} {
					ids := map[*packetClient]uint32{}
					p.both("prepare "+sql, func(c *packetClient) (out string) { ids[c], out = c.prepare(sql); return out })
					if ids[p.plain] == 0 {
						continue
					}
					execute := func(flags byte) {
						t.Helper()
						p.both("execute "+sql, func(c *packetClient) string {
							c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{flags}, uint32s(1))
							if flags == 0 || !c.has(mysql.CLIENT_DEPRECATE_EOF) {
								return c.answer()
							}
							return c.answerOfCursor()
						})
					}
					execute(0)
					if !strings.HasPrefix(sql, "SELECT") {
						execute(1)
						continue
					}
					for _, n := range []uint32{3, 10} {
						execute(1)
						for range 3 {
							p.both("fetch "+sql, func(c *packetClient) string {
								c.say(mysql.COM_STMT_FETCH, uint32s(ids[c], n))
								var out strings.Builder
								c.rows(&out)
								return out.String()
							})
						}
					}
				}
			})
		}
	})
}
