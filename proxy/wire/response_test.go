package wire

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestResponsesRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.StringN(0, 300, 400)
	rapid.Check(t, func(t *rapid.T) {
		ok := OK{rapid.Uint64().Draw(t, "affected"), rapid.Uint64().Draw(t, "id"), rapid.Uint16().Draw(t, "status"), rapid.Uint16().Draw(t, "warnings"), text.Draw(t, "info")}
		if got, err := ParseOK(ok.Append(nil)); err != nil || got != ok {
			t.Fatalf("%+v became %+v, %v", ok, got, err)
		}
		eof := EOF{rapid.Uint16().Draw(t, "warnings"), rapid.Uint16().Draw(t, "status")}
		if got, err := ParseEOF(eof.Append(nil)); err != nil || got != eof {
			t.Fatalf("%+v became %+v, %v", eof, got, err)
		}
		e := &Error{rapid.Uint16().Draw(t, "code"), rapid.StringMatching(`[0-9A-Z]{5}`).Draw(t, "state"), text.Draw(t, "message")}
		if got, err := ParseError(e.Append(nil)); err != nil || *got != *e {
			t.Fatalf("%+v became %+v, %v", e, got, err)
		}
		col := Column{
			text.Draw(t, "schema"), text.Draw(t, "table"), text.Draw(t, "org table"), text.Draw(t, "name"), text.Draw(t, "org name"),
			rapid.Uint16().Draw(t, "charset"), rapid.Uint32().Draw(t, "length"), rapid.Byte().Draw(t, "type"), rapid.Uint16().Draw(t, "flags"), rapid.Byte().Draw(t, "decimals"),
		}
		if got, err := ParseColumn(col.Append(nil)); err != nil || got != col {
			t.Fatalf("%+v became %+v, %v", col, got, err)
		}
		prep := PrepareOK{rapid.Uint32().Draw(t, "statement"), rapid.Uint16().Draw(t, "columns"), rapid.Uint16().Draw(t, "params"), rapid.Uint16().Draw(t, "warnings")}
		if got, err := ParsePrepareOK(prep.Append(nil)); err != nil || got != prep {
			t.Fatalf("%+v became %+v, %v", prep, got, err)
		}
		n := rapid.Uint64().Draw(t, "n") >> rapid.IntRange(0, 63).Draw(t, "shift")
		if got, rest, ok := TakeLenInt(append(AppendLenInt(nil, n), 7)); !ok || got != n || len(rest) != 1 {
			t.Fatalf("%d became %d", n, got)
		}
	})
}

func TestErrorWithoutState(t *testing.T) {
	t.Parallel()
	got, err := ParseError([]byte("\xFF\x10\x04Too many connections"))
	want := &Error{1040, "HY000", "Too many connections"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
