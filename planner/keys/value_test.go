package keys

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLiteral(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    Value
		want string
	}{
		{Null(), "NULL"},
		{Int(-5), "-5"},
		{Uint(math.MaxUint64), "18446744073709551615"},
		{Decimal("05.50"), "5.5"},
		{Decimal(".5"), "0.5"},
		{Decimal("-0.0"), "0"},
		{Decimal("1 OR 1"), "_utf8mb4'1 OR 1'"},
		{Float(1.5), "1.5e+00"},
		{Float(math.NaN()), "NULL"},
		{text("a"), "_utf8mb4'a'"},
		{text("é"), "_utf8mb4'é'"},
		{text(""), "_utf8mb4''"},
		{text("it's"), "_utf8mb4 X'69742773'"},
		{text(`a\`), "_utf8mb4 X'615c'"},
		{text("a\x00"), "_utf8mb4 X'6100'"},
		{text("\xff"), "_binary X'ff'"},
		{String([]byte("\xe9"), "latin1"), "_latin1 X'e9'"},
		{String([]byte("é"), "latin1"), "_latin1 X'c3a9'"},
		{String([]byte("a"), "utf8"), "_utf8mb4'a'"},
		{Bytes([]byte("ab")), "_binary'ab'"},
		{Bytes([]byte{0xff}), "_binary X'ff'"},
		{String([]byte("a"), "binary"), "_binary'a'"},
		{Temporal("2024-02-29"), "DATE'2024-02-29'"},
		{Temporal("2024-02-29 10:11:12.5"), "TIMESTAMP'2024-02-29 10:11:12.5'"},
		{Temporal("-10:11:12"), "TIME'-10:11:12'"},
		{Temporal("' OR 1"), "_utf8mb4 X'27204f522031'"},
	} {
		if got := c.v.Literal(); got != c.want {
			t.Errorf("%#v: %s, want %s", c.v, got, c.want)
		}
	}
}

func drawValue(t *rapid.T) Value {
	b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
	if rapid.Bool().Draw(t, "valid") {
		b = []byte(rapid.String().Draw(t, "text"))
	}
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		return Null()
	case 1:
		return Int(rapid.Int64().Draw(t, "int"))
	case 2:
		return Uint(rapid.Uint64().Draw(t, "uint"))
	case 3:
		return Decimal(rapid.StringMatching(`-?[0-9]{1,30}\.[0-9]{0,10}`).Draw(t, "decimal"))
	case 4:
		return Float(math.Float64frombits(rapid.Uint64().Draw(t, "float")))
	case 5:
		return String(b, rapid.SampledFrom([]string{"utf8mb4", "utf8mb3", "latin1", "ascii", "koi8r"}).Draw(t, "charset"))
	case 6:
		return Bytes(b)
	}
	return Temporal(string(b))
}

func TestJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := []Value{drawValue(t), drawValue(t)}
		data, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		var got []Value
		if err := json.Unmarshal(data, &got); err != nil || got[0] != values[0] || got[1] != values[1] {
			t.Fatalf("%s: %#v, %v, want %#v", data, got, err, values)
		}
	})
	for _, bad := range []string{`{}`, `{"t":"int","v":"x"}`, `{"t":"thing"}`, `[]`} {
		var v Value
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s is read as %#v", bad, v)
		}
	}
}
