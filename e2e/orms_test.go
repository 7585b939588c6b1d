package e2e

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// orms are libraries that make their own statements: they create and migrate
// tables, look at them, and read, write and lock rows, in transactions too.
var orms = []driver{
	{
		name: "gorm", command: []string{"drivers/go-gorm"},
		probe: []string{"go", "version"}, packages: "golang",
	},
	{
		name: "knex", command: []string{"node", "drivers/node/knex.js"},
		probe: nodeProbe, packages: nodePackages,
	},
	{
		name: "sqlalchemy", command: []string{python, "-W", "ignore", "drivers/python/sqlalchemy_orm.py"},
		probe: []string{python, "-c", "import sqlalchemy, alembic, pymysql"}, packages: "python3-sqlalchemy python3-alembic python3-pymysql",
	},
	{
		name: "activerecord", command: []string{"ruby", "-W0", "drivers/ruby/activerecord.rb"},
		probe: []string{"ruby", "-e", "require 'active_record'; require 'mysql2'"}, packages: "ruby ruby-activerecord ruby-mysql2",
	},
}

// buildGorm compiles drivers/go-gorm, which is a module of its own: Shunt itself
// needs none of it.
var buildGorm = sync.OnceValues(func() (string, error) {
	program := filepath.Join(filepath.Dir(built), "gorm")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "drivers/go-gorm"
	out, err := build.CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return program, nil
})

// TestORMs: what a program gets that uses a library of objects and migrations is
// the same from Shunt and from a plain server.
func TestORMs(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		m := startMatrix(t, f, namesOf(orms)...)
		t.Run("libraries", func(t *testing.T) {
			for _, o := range orms {
				t.Run(o.name, func(t *testing.T) {
					t.Parallel()
					available(t, o.probe, o.packages)
					switch o.name {
					case "gorm":
						program, err := buildGorm()
						if err != nil {
							t.Fatalf("%v\n%s", err, program)
						}
						o.command = []string{program}
					case "knex":
						if err := installNode(); err != nil {
							t.Fatal(err)
						}
					}
					answers := map[string]string{}
					for _, side := range []string{"plain", "shunt"} {
						began := time.Now()
						out, err := m.run(t, side, o.name, o.command)
						t.Logf("%s: %s", side, time.Since(began).Round(time.Millisecond))
						if err != nil {
							t.Fatalf("%s: %v\n%s", side, err, out[max(0, len(out)-2000):])
						}
						answers[side] = ownWords.ReplaceAllString(out, "")
					}
					if len(answers["plain"]) < 1000 {
						t.Errorf("it printed only %q", answers["plain"])
					}
					if answers["plain"] != answers["shunt"] {
						t.Errorf("%s", firstDifference(answers["shunt"], answers["plain"]))
					}
				})
			}
		})
	})
}
