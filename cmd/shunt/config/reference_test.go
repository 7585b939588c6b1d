package config

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const referenceFile = "../../../docs/configuration.md"

// intro is the document's part that no key says.
const intro = `# Configuration

Written by ` + "`go test ./cmd/shunt/config -run Reference -rewrite`" + ` from ` + "`cmd/shunt/config/keys.go`" + `: don't edit.

` + "`shunt serve --config shunt.yaml`" + ` reads one YAML file. A small one:

` + "```yaml" + `
users:
  - {name: app, password: "${APP_PASSWORD}"}
shards:
  - {name: s0, addr: 10.0.0.1:3306, user: shunt, password: "${SHARD_PASSWORD}"}
  - {name: s1, addr: 10.0.0.2:3306, user: shunt, password: "${SHARD_PASSWORD}"}
schemas:
  shop:
    tables:
      users:     {shard_key: id}
      orders:    {shard_key: user_id}                 # beside their users: joins stay on a shard
      countries: {placement: reference}
      settings:  {placement: single, shard: s0}
indexes:
  - {name: idx_email, table: shop.users, columns: [email]}
` + "```" + `

- Unknown keys are errors, and all mistakes are reported at once with their lines. ` + "`shunt check`" + ` reports them without serving.
- ` + "`${NAME}`" + ` in a value is replaced by that environment variable; a variable that isn't set is an error. ` + "`$${`" + ` is a literal ` + "`${`" + `.
- Paths are relative to the working directory. Times are like ` + "`500ms`, `5s` or `8h`" + `, sizes like ` + "`256MiB`" + `.
- SIGHUP reads the file again and takes over the keys that say so, without dropping a connection. The log names changed keys that need a restart.
  A file with an error, or an account that a shard refuses, changes nothing.

`

type section struct {
	title, text string
	keys        []field
}

// sections are the document's, with their keys.
func sections() []section {
	r := &reader{c: Default()}
	return []section{
		{"Keys of the file", "", r.top()},
		{"users", "A list. SIGHUP takes all of it over, for open connections too.", r.userKeys(&User{}, unique{})},
		{"shards", "A list. SIGHUP takes another `addr` over if it answers.", shardKeys(&Shard{}, unique{}, unique{}, new(value))},
		{"schemas", "Each by its name. SIGHUP takes them over. Another placement or shard key is refused while the table has rows that lie elsewhere; `anywhere` in place of `hash` or `single` fits all.", r.schemaKeys(&Schema{})},
		{"tables", "Of a table, and of a schema's `default`. One of `shard_key` and `placement` is needed.", r.placementKeys(&Table{})},
		{"indexes", "A list. Missing ones are made at start and by SIGHUP, once their table exists; none is dropped. `CREATE VIRTUAL INDEX` serves as well.", indexKeys(&Index{}, new(value))},
		{"maintenance", "", maintenanceKeys(&Maintenance{})},
		{"virtual_columns", "", virtualColumnsKeys(&VirtualColumns{})},
		{"statement_log", "A line of JSON for each statement, see [operating](operating.md#what-statements-cost). SIGHUP takes all of it over.", statementLogKeys(&StatementLog{})},
		{"tracing", "A span for each statement, and one for each shard's part, see [operating](operating.md#traces). SIGHUP takes all of it over.", tracingKeys(&Tracing{})},
		{"store", "`store: local`, or a mapping with one of these keys. A change needs a restart of all Shunts, but for addresses and accounts, which SIGHUP takes over.", storeKeys(&Store{})},
		{"tls", "Toward clients. SIGHUP reads the files again.", tlsKeys(&TLS{}, new(value))},
		{"tls of a shard", "TLS is required, never just preferred, once a shard has a `tls`. `tls: {}` trusts the system's authorities. SIGHUP reads the files again.", shardTLSKeys(&ShardTLS{}, map[string]value{})},
	}
}

func reference() string {
	var b strings.Builder
	b.WriteString(intro)
	for _, s := range sections() {
		fmt.Fprintf(&b, "## %s\n\n", s.title)
		if s.text != "" {
			b.WriteString(s.text + "\n\n")
		}
		some := slices.ContainsFunc(s.keys, func(k field) bool { return k.hot })
		if some {
			b.WriteString("| key | default | SIGHUP | meaning |\n| --- | --- | --- | --- |\n")
		} else {
			b.WriteString("| key | default | meaning |\n| --- | --- | --- |\n")
		}
		for _, k := range s.keys {
			otherwise := "`" + k.otherwise + "`"
			if word, ok := strings.CutPrefix(k.otherwise, "("); ok {
				otherwise = strings.TrimSuffix(word, ")")
			}
			fmt.Fprintf(&b, "| %s`%s` | %s |", anchor(s.title, k.name), k.name, otherwise)
			switch {
			case k.hot:
				b.WriteString(" yes |")
			case some:
				b.WriteString(" |")
			}
			fmt.Fprintf(&b, " %s |\n", k.help)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// anchor is where errors and other documents point to; keys with a section of their own
// have its heading.
func anchor(of, key string) string {
	id := key
	if of != "Keys of the file" {
		id = strings.ReplaceAll(of, " ", "-") + "." + key
	}
	if slices.ContainsFunc(sections(), func(s section) bool { return s.title == id }) {
		return ""
	}
	return `<a id="` + id + `"></a>`
}

// TestReference: docs/configuration.md is made of the keys. -rewrite writes it.
func TestReference(t *testing.T) {
	text := reference()
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" { // datadriven's
		if err := os.WriteFile(referenceFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(referenceFile); err != nil || string(old) != text {
		t.Errorf("%s isn't what the keys say (%v): go test ./cmd/shunt/config -run Reference -rewrite", referenceFile, err)
	}
	for _, s := range sections() {
		for _, k := range s.keys {
			if k.otherwise == "" || k.help == "" || strings.Contains(k.help, "|") {
				t.Errorf("%s: %s lacks a default or a meaning, or has a | in it", s.title, k.name)
			}
		}
	}
}

// TestDefaultsOfReference: what the reference calls a key's default is what holds without it.
func TestDefaultsOfReference(t *testing.T) {
	const users, shards = "users: [{name: a, password: b%s}]\n", "shards: [{name: s, addr: h:1, user: u}]\n"
	parse := func(text string) *Config {
		c, err := Parse("", []byte(text), noEnv)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return c
	}
	plain := parse(fmt.Sprintf(users, "") + shards)
	for _, s := range sections() {
		for _, k := range s.keys {
			if strings.HasPrefix(k.otherwise, "(") {
				continue
			}
			text := fmt.Sprintf(users, "") + shards
			switch s.title {
			case "Keys of the file":
				text += k.name + ": " + k.otherwise
			case "maintenance":
				text += "maintenance: {" + k.name + ": " + k.otherwise + "}"
			case "users":
				text = fmt.Sprintf(users, ", "+k.name+": "+k.otherwise) + shards
			default: // of what isn't there by itself
				continue
			}
			if got := parse(text); !reflect.DeepEqual(got, plain) {
				t.Errorf("%s: %s is no default: %+v, want %+v", s.title, k.name, got, plain)
			}
		}
	}
}
