package keys

import (
	"bytes"
	"strings"
	"testing"
)

var fuzzColumns = [][2]string{
	{"bigint", ""},
	{"int unsigned", ""},
	{"year", ""},
	{"decimal(10,2)", ""},
	{"date", ""},
	{"datetime(3)", ""},
	{"time(3)", ""},
	{"binary(8)", ""},
	{"varbinary(300)", ""},
	{"varchar(300)", "utf8mb4_0900_ai_ci"},
	{"varchar(300)", "utf8mb4_ja_0900_as_cs_ks"},
	{"varchar(300)", "utf8mb4_zh_0900_as_cs"},
	{"varchar(300)", "utf8mb4_hu_0900_as_cs"},
	{"varchar(300)", "utf8mb4_general_ci"},
	{"varchar(300)", "utf8mb4_unicode_ci"},
	{"varchar(300)", "utf8mb4_spanish2_ci"},
	{"varchar(300)", "utf8mb4_bin"},
	{"varchar(300)", "latin1_swedish_ci"},
	{"varchar(300)", "utf16_unicode_520_ci"},
	{"varchar(300)", "utf8mb3_general_ci"},
	{"char(8)", "utf8mb4_0900_bin"},
	{"enum('a','B','é')", "utf8mb4_general_ci"},
}

// FuzzStored: no value makes a codec panic, and where it is sure, all its
// answers fit together.
func FuzzStored(f *testing.F) {
	for i := range fuzzColumns {
		f.Add(uint8(i), uint8(5), "5")
		f.Add(uint8(i), uint8(3), "-12.345")
		f.Add(uint8(i), uint8(7), "2024-01-01 10:11:12.5")
		f.Add(uint8(i), uint8(5), "a\u0301 \x00é\U0001f600 ")
		f.Add(uint8(i), uint8(6), strings.Repeat("\xff ", 200))
	}
	f.Fuzz(func(t *testing.T, column, kind uint8, s string) {
		at := fuzzColumns[int(column)%len(fuzzColumns)]
		c := codec(t, at[0], at[1])
		var v Value
		switch kind % 8 {
		case 0, 1:
			v = Int(int64(len(s)) - 5)
		case 2:
			v = String([]byte(s), "latin1")
		case 3:
			v = Decimal(s)
		case 4:
			v = Float(float64(len(s)) / 2)
		case 5:
			v = String([]byte(s), "utf8mb4")
		case 6:
			v = Bytes([]byte(s))
		case 7:
			v = Temporal(s)
		}
		v.Literal()
		stored, ok := c.Stored(nil, v, true, false)
		if equal, ok2 := c.Equal(nil, v); ok2 {
			at, ok3 := c.Order(nil, v)
			if ok3 && (bytes.Compare(equal, at) < 0 || bytes.Compare(equal, Successor(at)) >= 0) {
				t.Errorf("%v %#v: equal %x is outside of its bounds %x", c.class, v, equal, at)
			}
		}
		if from, to, ok2 := c.LikePrefix(v); ok2 && ok && !c.fixed && (bytes.Compare(stored, from) < 0 || to != nil && bytes.Compare(stored, to) >= 0) {
			t.Errorf("%v %#v: %x is not LIKE its prefix [%x, %x)", c.class, v, stored, from, to)
		}
		scanned, ok2 := c.Scanned(nil, []byte(s))
		if ok && ok2 && v.kind == kindString && v.charset == "utf8mb4" && c.class == classText && !c.fixed && !bytes.Equal(stored, scanned) {
			t.Errorf("%#v: stored %x, scanned %x", v, stored, scanned)
		}
	})
}

func FuzzFor(f *testing.F) {
	for _, s := range []string{"int(10) unsigned zerofill", "enum('a','b''c')", "enum('a'", "decimal(10,2)", "varchar(", "set()", "datetime(6)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// Not For, which would remember every one.
		if c, err := newCodec(s, "utf8mb4_bin", false); err == nil {
			c.Scanned(nil, []byte(s))
			c.Stored(nil, text(s), true, false)
		}
	})
}
