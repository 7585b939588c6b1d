package keys

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// record is a Value in a job's record: {"t":"string","c":"utf8mb4","v":"x"}.
// Text that JSON can't hold unchanged is in B instead of V.
type record struct {
	Type    string `json:"t"`
	Charset string `json:"c,omitempty"`
	V       string `json:"v,omitempty"`
	B       []byte `json:"b,omitempty"`
}

var kindNames = [...]string{
	kindNull: "null", kindInt: "int", kindUint: "uint", kindDecimal: "decimal",
	kindFloat: "float", kindString: "string", kindBytes: "bytes", kindTemporal: "temporal",
}

// MarshalJSON writes v so that UnmarshalJSON gives the same Value back.
func (v Value) MarshalJSON() ([]byte, error) {
	r := record{Type: kindNames[v.kind], Charset: v.charset}
	switch v.kind {
	case kindNull:
	case kindInt:
		r.V = strconv.FormatInt(int64(v.num), 10)
	case kindUint:
		r.V = strconv.FormatUint(v.num, 10)
	case kindFloat: // by its bits: JSON has no NaN
		r.V = strconv.FormatUint(v.num, 16)
	default:
		if utf8.ValidString(v.text) {
			r.V = v.text
		} else {
			r.B = []byte(v.text)
		}
	}
	return json.Marshal(r)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(data []byte) error {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("read value: %w", err)
	}
	text := r.V
	if r.B != nil {
		text = string(r.B)
	}
	var err error
	switch r.Type {
	case "null":
		*v = Null()
	case "int":
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		*v = Int(n)
	case "uint":
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		*v = Uint(n)
	case "float":
		var n uint64
		n, err = strconv.ParseUint(text, 16, 64)
		*v = Float(math.Float64frombits(n))
	case "decimal":
		*v = Decimal(text)
	case "string":
		*v = String([]byte(text), r.Charset)
	case "bytes":
		*v = Value{kind: kindBytes, text: text, charset: r.Charset}
	case "temporal":
		*v = Temporal(text)
	default:
		err = fmt.Errorf("unknown type %q", r.Type)
	}
	if err != nil {
		return fmt.Errorf("read value: %w", err)
	}
	return nil
}
