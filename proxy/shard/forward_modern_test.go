package shard

import (
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// TestForwardToCapabilities: a shard answers with EOF packets and definitions;
// what a client gets is of its own capabilities.
func TestForwardToCapabilities(t *testing.T) {
	t.Parallel()
	col := wire.TextColumn("a")
	def := string(col.Append(nil))
	more := string(wire.EOF{Status: mysql.SERVER_MORE_RESULTS_EXISTS, Warnings: 1}.Append(nil))
	eof := string(wire.EOF{Status: 2}.Append(nil))
	done := string(wire.OK{Affected: 3, Status: 2, Info: "i"}.Append(nil))
	// A result, its rows' end with more to come, and an OK.
	answer := []string{"\x01", def, eof, "\x01x", "\xFB", more, done}
	for name, tc := range map[string]struct {
		capabilities uint32
		noMetadata   bool
		want         []string
	}{
		"none": {0, false, answer},
		"no EOF": {mysql.CLIENT_DEPRECATE_EOF, false, []string{
			"\x01", def, "\x01x", "\xFB", "\xFE\x00\x00\x08\x00\x01\x00", done,
		}},
		"session tracking": {mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_SESSION_TRACK, false, []string{
			"\x01", def, "\x01x", "\xFB", "\xFE\x00\x00\x08\x40\x01\x00\x00\x03\x02\x011", done,
		}},
		"metadata": {mysql.CLIENT_OPTIONAL_RESULTSET_METADATA, false, []string{
			"\x01\x01", def, eof, "\x01x", "\xFB", more, done,
		}},
		"no metadata": {mysql.CLIENT_OPTIONAL_RESULTSET_METADATA, true, []string{
			"\x01\x00", eof, "\x01x", "\xFB", more, done,
		}},
		"neither": {mysql.CLIENT_OPTIONAL_RESULTSET_METADATA | mysql.CLIENT_DEPRECATE_EOF, true, []string{
			"\x01\x00", "\x01x", "\xFB", "\xFE\x00\x00\x08\x00\x01\x00", done,
		}},
	} {
		// Copied, and looked at packet by packet.
		for _, columns := range []*Columns{nil, {}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := startFake(t, nil)
				var raw []byte
				for i, p := range answer {
					raw = append(append(raw, byte(len(p)), byte(len(p)>>8), 0, byte(i+1)), p...)
				}
				f.answerRaw = raw
				c, err := Dial(within(t), f.config(), false)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.Send(mysql.COM_QUERY, nil); err != nil {
					t.Fatal(err)
				}
				cl := newClient(t)
				cl.Capabilities |= tc.capabilities
				cl.NoMetadata = tc.noMetadata
				told := false
				cl.Changes = func() []byte {
					if told {
						return nil
					}
					told = true
					return wire.AppendState(nil)
				}
				var sum Summary
				got := cl.collect(t, func() { sum, err = c.Forward(cl.Conn, Result, ForwardOptions{Columns: columns}) })
				if err != nil || sum.Rows != 2 || sum.Affected != 3 || !sum.Clean {
					t.Fatalf("%+v, %v", sum, err)
				}
				if len(got) != len(tc.want) {
					t.Fatalf("packets %q, want %q", got, tc.want)
				}
				for i, p := range got {
					if string(p) != tc.want[i] {
						t.Errorf("packet %d is %q, want %q", i, p, tc.want[i])
					}
				}
			})
		}
	}
}
