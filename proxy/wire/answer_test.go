package wire

import (
	"bytes"
	"net"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// packets are what answer writes to a client with these capabilities.
func packets(t *testing.T, capabilities uint32, answer func(c *Conn) error) [][]byte {
	t.Helper()
	near, _ := net.Pipe()
	c := NewConn(near)
	c.Capabilities |= capabilities
	var out bytes.Buffer
	c.w = NewWriter(&out)
	if err := answer(c); err != nil {
		t.Fatal(err)
	}
	_ = c.Flush()
	var all [][]byte
	for r := NewReader(&out); out.Len() > 0 || r.Buffered() > 0; {
		p, err := r.ReadPacket(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.Clone(p))
	}
	return all
}

// TestAnswersOfCapabilities: the packets of an answer by the client's
// capabilities, as MySQL 9.7 writes them.
func TestAnswersOfCapabilities(t *testing.T) {
	t.Parallel()
	const status = mysql.SERVER_STATUS_AUTOCOMMIT
	def := TextColumn("a")
	d := string(def.Append(nil))
	all := AnswerCapabilities
	changed := func(kept ...byte) func(c *Conn) {
		return func(c *Conn) { c.Changes = func() []byte { return kept } }
	}
	result := func(c *Conn) error { return c.WriteResult([]Column{def}, [][]any{{"x"}}, status, 3) }
	ok := func(c *Conn) error { return c.WriteOK(OK{Affected: 1, Status: status}) }
	prepared := func(c *Conn) error {
		return c.WritePrepareOK(PrepareOK{StatementID: 1}, [][]byte{def.Append(nil)}, [][]byte{def.Append(nil)}, status)
	}
	none := func(c *Conn) { c.NoMetadata = true }
	schema := AppendChange(nil, TrackSchema, "d2")
	for name, tc := range map[string]struct {
		capabilities uint32
		set          func(c *Conn)
		answer       func(c *Conn) error
		want         []string
	}{
		"result":                      {0, nil, result, []string{"\x01", d, "\xfe\x00\x00\x02\x00", "\x01x", "\xfe\x03\x00\x02\x00"}},
		"result without EOF":          {mysql.CLIENT_DEPRECATE_EOF, nil, result, []string{"\x01", d, "\x01x", "\xfe\x00\x00\x02\x00\x03\x00"}},
		"result, optional metadata":   {mysql.CLIENT_OPTIONAL_RESULTSET_METADATA, nil, result, []string{"\x01\x01", d, "\xfe\x00\x00\x02\x00", "\x01x", "\xfe\x03\x00\x02\x00"}},
		"result, no metadata":         {mysql.CLIENT_OPTIONAL_RESULTSET_METADATA, none, result, []string{"\x01\x00", "\xfe\x00\x00\x02\x00", "\x01x", "\xfe\x03\x00\x02\x00"}},
		"result, no metadata nor EOF": {all, none, result, []string{"\x01\x00", "\x01x", "\xfe\x00\x00\x02\x00\x03\x00"}},
		"result, changes":             {mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_SESSION_TRACK, changed(schema...), result, []string{"\x01", d, "\x01x", "\xfe\x00\x00\x02\x40\x03\x00\x00\x05\x01\x03\x02d2"}},
		"EOF tells no changes":        {mysql.CLIENT_SESSION_TRACK, changed(schema...), result, []string{"\x01", d, "\xfe\x00\x00\x02\x00", "\x01x", "\xfe\x03\x00\x02\x00"}},
		"OK":                          {all, nil, ok, []string{"\x00\x01\x00\x02\x00\x00\x00"}},
		"OK, schema":                  {mysql.CLIENT_SESSION_TRACK, changed(schema...), ok, []string{"\x00\x01\x00\x02\x40\x00\x00\x00\x05\x01\x03\x02d2"}},
		"OK, state":                   {mysql.CLIENT_SESSION_TRACK, changed(AppendState(nil)...), ok, []string{"\x00\x01\x00\x02\x40\x00\x00\x00\x03\x02\x011"}},
		"OK, variable":                {mysql.CLIENT_SESSION_TRACK, changed(AppendChange(nil, TrackVariable, "autocommit", "ON")...), ok, []string{"\x00\x01\x00\x02\x40\x00\x00\x00\x10\x00\x0e\x0aautocommit\x02ON"}},
		"OK, changes not told":        {mysql.CLIENT_SESSION_TRACK, changed(), ok, []string{"\x00\x01\x00\x02\x00\x00\x00"}},
		"OK, not asked for":           {mysql.CLIENT_DEPRECATE_EOF, changed(schema...), ok, []string{"\x00\x01\x00\x02\x00\x00\x00"}},
		"OK, something":               {mysql.CLIENT_SESSION_TRACK, func(c *Conn) { c.Changes = func() []byte { return []byte{} } }, ok, []string{"\x00\x01\x00\x02\x40\x00\x00\x00\x00"}},
		"prepared":                    {0, nil, prepared, []string{"\x00\x01\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00", d, "\xfe\x00\x00\x02\x00", d, "\xfe\x00\x00\x02\x00"}},
		"prepared, all":               {all, nil, prepared, []string{"\x00\x01\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00\x01", d, d}},
		"prepared, no metadata":       {mysql.CLIENT_OPTIONAL_RESULTSET_METADATA, none, prepared, []string{"\x00\x01\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00", "\xfe\x00\x00\x02\x00", "\xfe\x00\x00\x02\x00"}},
	} {
		got := packets(t, tc.capabilities, func(c *Conn) error {
			if tc.set != nil {
				tc.set(c)
			}
			return tc.answer(c)
		})
		if len(got) != len(tc.want) {
			t.Errorf("%s: %d packets %q, want %d", name, len(got), got, len(tc.want))
			continue
		}
		for i, p := range got {
			if string(p) != tc.want[i] {
				t.Errorf("%s: packet %d is %q, want %q", name, i, p, tc.want[i])
			}
		}
	}
}
