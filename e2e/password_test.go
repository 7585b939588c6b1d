package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// nativeHash is what mysql_native_password keeps of 'secret'.
const nativeHash = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"

// TestPasswordPlugins: MySQL's client, which has lost mysql_native_password, logs
// in where only its hash is known, and by sha256_password; Shunt logs in to
// shards whose account is of either kind.
func TestPasswordPlugins(t *testing.T) {
	t.Parallel()
	for _, f := range flavours {
		if f.name != throwaway.MySQL {
			continue
		}
		p := start(t, f, setup{users: []string{"{name: old, password_hash: '" + nativeHash + "'}"}})
		for _, args := range [][]string{
			{"-uold"},
			{"-uold", "--ssl-mode=DISABLED"},
			{"-uapp", "--default-auth=sha256_password"},
			{"-uold", "--default-auth=sha256_password", "--compression-algorithms=zstd"},
		} {
			cmd := commandLine(t, p, f, append(args, "--get-server-public-key", "-N", "-e", "SELECT USER()")...)
			if cmd == nil {
				t.Skip("no client")
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), args[0][2:]+"@") {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
			cmd = commandLine(t, p, f, append(args, "--get-server-public-key", "-pwrong", "-N", "-e", "SELECT USER()")...)
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "ERROR 1045") {
				t.Errorf("%v with a wrong password: %v\n%s", args, err, out)
			}
		}
		for _, plugin := range []string{"sha256_password", "caching_sha2_password"} {
			user := "e2e_" + plugin[:6]
			for _, s := range f.servers(t) {
				db := onShard(t, s, "")
				mustExec(t, db, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED WITH %s BY 'of the shards'", user, plugin))
				mustExec(t, db, fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%'", user))
				t.Cleanup(func() { _, _ = db.Exec("DROP USER IF EXISTS '" + user + "'@'%'") }) //nolint:noctx // the test's is over
			}
			p := start(t, f, setup{user: user, password: "of the shards", unchecked: true})
			want(t, p.conn(), "SELECT CURRENT_USER() AS u, 1 + 1 AS n", "n", "2")
		}
	}
}
