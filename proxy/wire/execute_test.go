package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/ci/suite"
)

var paramTypes = []byte{
	mysql.MYSQL_TYPE_NULL, mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_YEAR,
	mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONGLONG,
	mysql.MYSQL_TYPE_FLOAT, mysql.MYSQL_TYPE_DOUBLE, mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL,
	mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_JSON,
	mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET, mysql.MYSQL_TYPE_BIT, mysql.MYSQL_TYPE_GEOMETRY,
	mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB, mysql.MYSQL_TYPE_BLOB,
	mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_TIME,
}

func drawParam(t *rapid.T) Param {
	p := Param{Type: rapid.SampledFrom(paramTypes).Draw(t, "type"), Unsigned: rapid.Bool().Draw(t, "unsigned")}
	s, _ := shapeOf(p.Type)
	if p.Null = s == shapeNull || rapid.IntRange(0, 4).Draw(t, "null") == 0; p.Null {
		return p
	}
	var size int
	switch s {
	case shapeString:
		size = rapid.OneOf(rapid.IntRange(0, 30), rapid.IntRange(249, 253), rapid.IntRange(65534, 65537)).Draw(t, "size")
	case shapeDate:
		size = rapid.SampledFrom([]int{0, 4, 7, 11}).Draw(t, "size")
	case shapeTime:
		size = rapid.SampledFrom([]int{0, 8, 12}).Draw(t, "size")
	default:
		size = int(s)
	}
	p.Data = payload(size)
	if size > 0 {
		p.Data[0] = rapid.Byte().Draw(t, "first byte")
	}
	return p
}

func sameParams(a, b []Param) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.Type != y.Type || x.Unsigned != y.Unsigned || x.Null != y.Null || x.Long != y.Long || !bytes.Equal(x.Data, y.Data) {
			return false
		}
	}
	return true
}

func TestExecuteRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.SliceOfN(rapid.Custom(drawParam), 0, 20).Draw(t, "params")
		id, flags := rapid.Uint32().Draw(t, "id"), rapid.Byte().Draw(t, "flags")
		p := EncodeExecute(id, flags, params)
		if gotID, gotFlags, ok := ExecuteHeader(p); !ok || gotID != id || gotFlags != flags {
			t.Fatalf("header %d, %d, %v", gotID, gotFlags, ok)
		}
		got, types, err := DecodeExecute(nil, p, len(params), nil, nil, false, nil)
		if err != nil || !sameParams(got, params) {
			t.Fatalf("%+v became %+v, %v", params, got, err)
		}
		if len(params) == 0 {
			return
		}
		// The next execution declares no types: those of this one hold.
		at := executeHead + (len(params)+7)/8
		next := append(bytes.Clone(p[:at]), 0)
		next = append(next, p[at+1+2*len(params):]...)
		got, again, err := DecodeExecute(nil, next, len(params), types, nil, false, nil)
		if err != nil || !sameParams(got, params) || len(again) != len(types) {
			t.Fatalf("with types of before %+v became %+v, %v", params, got, err)
		}
		// Without types at all, and cut anywhere in the values or before.
		got, _, err = DecodeExecute(nil, next, len(params), nil, nil, false, nil)
		if slices.ContainsFunc(params, func(p Param) bool { return !p.Null }) {
			wantExecuteError(t, err)
		} else if err != nil || len(got) != len(params) {
			t.Fatalf("without types, NULLs alone became %+v, %v", got, err)
		}
		cut := rapid.IntRange(0, len(p)-1).Draw(t, "cut")
		if _, _, err = DecodeExecute(nil, p[:cut], len(params), nil, nil, false, nil); err != nil || cut < at {
			wantExecuteError(t, err)
		} else {
			t.Fatalf("cut at %d of %d bytes it decodes", cut, len(p))
		}
	})
}

func wantExecuteError(t interface{ Fatalf(string, ...any) }, err error) {
	var e *Error
	if !errors.As(err, &e) || e.Code != 1210 || e.Message != "Incorrect arguments to mysqld_stmt_execute" {
		t.Fatalf("error %v, want 1210", err)
	}
}

func TestExecuteLongData(t *testing.T) {
	t.Parallel()
	params := []Param{
		{Type: mysql.MYSQL_TYPE_LONG, Data: []byte{1, 2, 3, 4}},
		{Type: mysql.MYSQL_TYPE_LONG_BLOB, Null: true}, // its NULL bit doesn't count
		{Type: mysql.MYSQL_TYPE_STRING, Data: []byte("x")},
	}
	p := EncodeExecute(7, 0, params)
	long := bytes.Repeat([]byte("long"), 100_000)
	got, _, err := DecodeExecute(nil, p, 3, nil, map[int][]byte{1: long}, false, nil)
	if err != nil || got[1].Null || !got[1].Long || !bytes.Equal(got[1].Data, long) || string(got[2].Data) != "x" {
		t.Fatalf("%v", err)
	}
	// To a shard it goes with the others.
	again, _, err := DecodeExecute(nil, EncodeExecute(9, 0, got), 3, nil, nil, false, nil)
	if err != nil || !bytes.Equal(again[1].Data, long) || again[1].Type != mysql.MYSQL_TYPE_LONG_BLOB {
		t.Fatalf("%v", err)
	}
}

func TestExecuteUnknownType(t *testing.T) {
	t.Parallel()
	p := EncodeExecute(1, 0, []Param{{Type: 0x77, Data: []byte("abc")}})
	_, _, err := DecodeExecute(nil, p, 1, nil, nil, false, nil)
	wantExecuteError(t, err)
}

func TestParamValues(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	for _, c := range []struct {
		p    Param
		kind Kind
		want any
	}{
		{Param{Type: mysql.MYSQL_TYPE_LONG, Null: true}, KindNull, nil},
		{Param{Type: mysql.MYSQL_TYPE_TINY, Data: []byte{0xFF}}, KindInt, int64(-1)},
		{Param{Type: mysql.MYSQL_TYPE_TINY, Unsigned: true, Data: []byte{0xFF}}, KindUint, uint64(255)},
		{Param{Type: mysql.MYSQL_TYPE_SHORT, Data: []byte{0, 0x80}}, KindInt, int64(-32768)},
		{Param{Type: mysql.MYSQL_TYPE_LONG, Data: []byte{1, 0, 0, 0x80}}, KindInt, int64(math.MinInt32 + 1)},
		{Param{Type: mysql.MYSQL_TYPE_LONGLONG, Data: le.AppendUint64(nil, 1<<63)}, KindInt, int64(math.MinInt64)},
		{Param{Type: mysql.MYSQL_TYPE_LONGLONG, Unsigned: true, Data: le.AppendUint64(nil, math.MaxUint64)}, KindUint, uint64(math.MaxUint64)},
		{Param{Type: mysql.MYSQL_TYPE_FLOAT, Data: le.AppendUint32(nil, math.Float32bits(1.5))}, KindFloat, 1.5},
		{Param{Type: mysql.MYSQL_TYPE_DOUBLE, Data: le.AppendUint64(nil, math.Float64bits(-0.1))}, KindFloat, -0.1},
		{Param{Type: mysql.MYSQL_TYPE_NEWDECIMAL, Data: []byte("12.50")}, KindDecimal, "12.50"},
		{Param{Type: mysql.MYSQL_TYPE_VAR_STRING, Data: []byte("a")}, KindString, "a"},
		{Param{Type: mysql.MYSQL_TYPE_BLOB, Data: []byte("a")}, KindBytes, "a"},
		{Param{Type: mysql.MYSQL_TYPE_DATE, Data: []byte{}}, KindDate, "0000-00-00"},
		{Param{Type: mysql.MYSQL_TYPE_DATE, Data: []byte{0xE8, 7, 2, 29}}, KindDate, "2024-02-29"},
		{Param{Type: mysql.MYSQL_TYPE_DATETIME, Data: []byte{0xE8, 7, 2, 29}}, KindDatetime, "2024-02-29 00:00:00"},
		{Param{Type: mysql.MYSQL_TYPE_DATETIME, Data: []byte{0xE8, 7, 2, 29, 1, 2, 3}}, KindDatetime, "2024-02-29 01:02:03"},
		{Param{Type: mysql.MYSQL_TYPE_TIMESTAMP, Data: []byte{0xE8, 7, 2, 29, 1, 2, 3, 1, 0, 0, 0}}, KindDatetime, "2024-02-29 01:02:03.000001"},
		{Param{Type: mysql.MYSQL_TYPE_TIME, Data: []byte{}}, KindTime, "00:00:00"},
		{Param{Type: mysql.MYSQL_TYPE_TIME, Data: []byte{1, 34, 0, 0, 0, 22, 59, 59}}, KindTime, "-838:59:59"},
		{Param{Type: mysql.MYSQL_TYPE_TIME, Data: []byte{0, 0, 0, 0, 0, 1, 2, 3, 0x20, 0xA1, 7, 0}}, KindTime, "01:02:03.500000"},
	} {
		if k := c.p.Kind(); k != c.kind {
			t.Errorf("%+v: kind %d, want %d", c.p, k, c.kind)
		}
		var got any
		switch c.kind {
		case KindInt:
			got = c.p.Int64()
		case KindUint:
			got = c.p.Uint64()
		case KindFloat:
			got = c.p.Float64()
		case KindString, KindBytes, KindDecimal, KindDate, KindDatetime, KindTime:
			got = c.p.Text()
		case KindNull:
		}
		if got != c.want {
			t.Errorf("%+v: %v, want %v", c.p, got, c.want)
		}
	}
}

// attributed is a query attribute's or parameter's type and name.
func attributed(typ byte, name string) []byte { return AppendLenBytes([]byte{typ, 0}, name) }

func TestQueryAttributes(t *testing.T) {
	t.Parallel()
	query := []byte("SELECT 1")
	two := slices.Concat([]byte{2, 1, 0b10, 1}, attributed(mysql.MYSQL_TYPE_STRING, "trace"), attributed(mysql.MYSQL_TYPE_LONG, ""), AppendLenBytes(nil, "abc"))
	for name, tc := range map[string]struct {
		payload []byte
		ok      bool
	}{
		"none":             {append([]byte{0, 1}, query...), true},
		"two, one is NULL": {append(two, query...), true},
		"no sets":          {append([]byte{0, 0}, query...), false},
		"two sets":         {append([]byte{0, 2}, query...), false},
		"too many":         {append([]byte{0xFD, 0, 0, 1, 1}, query...), false},
		"cut off":          {two[:len(two)-1], false},
		"without types":    {append([]byte{1, 1, 0, 0}, query...), false},
		"nothing":          {nil, false},
	} {
		got, err := QueryText(tc.payload, nil)
		var e *Error
		switch {
		case tc.ok && (err != nil || !bytes.Equal(got, query)):
			t.Errorf("%s: %q, %v", name, got, err)
		case !tc.ok && (!errors.As(err, &e) || e.Code != 1835):
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}

	// One parameter and one attribute, then the same types again.
	head := []byte{7, 0, 0, 0, ParameterCount, 1, 0, 0, 0}
	first := slices.Concat(head, []byte{2, 0, 1}, attributed(mysql.MYSQL_TYPE_TINY, ""), attributed(mysql.MYSQL_TYPE_STRING, "trace"), []byte{5}, AppendLenBytes(nil, "abc"))
	params, types, err := DecodeExecute(nil, first, 1, nil, nil, true, nil)
	if err != nil || len(params) != 1 || params[0].Int64() != 5 || len(types) != 2 {
		t.Fatalf("%+v %+v %v", params, types, err)
	}
	again := slices.Concat(head, []byte{2, 0, 0, 6}, AppendLenBytes(nil, "x"))
	if params, _, err = DecodeExecute(nil, again, 1, types, nil, true, nil); err != nil || len(params) != 1 || params[0].Int64() != 6 {
		t.Errorf("%+v %v", params, err)
	}
	// No attributes, and no flag; none but an attribute; fewer than the statement has.
	named := slices.Concat([]byte{7, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1}, attributed(mysql.MYSQL_TYPE_TINY, "n"), []byte{5})
	if params, _, err = DecodeExecute(nil, named, 1, nil, nil, true, nil); err != nil || params[0].Null || params[0].Int64() != 5 {
		t.Errorf("%+v %v", params, err)
	}
	alone := slices.Concat(head, []byte{1, 0, 1}, attributed(mysql.MYSQL_TYPE_TINY, "n"), []byte{5})
	if params, _, err = DecodeExecute(nil, alone, 0, nil, nil, true, nil); err != nil || len(params) != 0 {
		t.Errorf("%+v %v", params, err)
	}
	_, _, err = DecodeExecute(nil, alone, 2, nil, nil, true, nil)
	wantExecuteError(t, err)
}

// FuzzQueryText: what is left is the payload's end, or an error.
func FuzzQueryText(f *testing.F) {
	suite.Promise(f)
	f.Add(append([]byte{0, 1}, "SELECT 1"...))
	f.Add(slices.Concat([]byte{2, 1, 0b10, 1}, attributed(mysql.MYSQL_TYPE_STRING, "trace"), attributed(mysql.MYSQL_TYPE_LONG, ""), AppendLenBytes(nil, "abc"), []byte("SELECT 1")))
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := QueryText(p, nil)
		if err != nil {
			wanted := &Error{}
			if !errors.As(err, &wanted) || wanted.Code != 1835 {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasSuffix(p, got) || len(got) > len(p)-2 {
			t.Errorf("%q of %q", got, p)
		}
	})
}

func FuzzDecodeExecute(f *testing.F) {
	suite.Promise(f)
	f.Add(EncodeExecute(1, 0, []Param{{Type: mysql.MYSQL_TYPE_LONG, Data: []byte{1, 2, 3, 4}}, {Type: mysql.MYSQL_TYPE_TIME, Data: payload(12)}}), 2, 1)
	f.Fuzz(func(t *testing.T, p []byte, n, long int) {
		if n < 0 || n > 65535 {
			return
		}
		named, all, err := DecodeExecute(nil, p, n, nil, map[int][]byte{long: p}, true, nil)
		if err == nil && (len(named) != n || len(all) < n) {
			t.Fatalf("with attributes %d parameters of %d, %d types", len(named), n, len(all))
		}
		params, types, err := DecodeExecute(nil, p, n, nil, map[int][]byte{long: p}, false, nil)
		if err != nil {
			wantExecuteError(t, err)
			return
		}
		if len(params) != n || len(types) != n {
			t.Fatalf("%d parameters, %d types of %d", len(params), len(types), n)
		}
		for i := range params {
			_ = params[i].Text()
			_, _, _ = params[i].Int64(), params[i].Uint64(), params[i].Float64()
		}
		again, _, err := DecodeExecute(nil, EncodeExecute(1, 0, params), n, nil, nil, false, nil)
		for i := range params {
			params[i].Long = false
		}
		if err != nil || !sameParams(params, again) {
			t.Fatalf("%+v became %+v, %v", params, again, err)
		}
	})
}

// TestWantedAttribute: one of a statement's attributes is found by its name, if it is a string.
func TestWantedAttribute(t *testing.T) {
	t.Parallel()
	attributes := func(typ byte, value string) []byte { // of two: n, and trace
		p := []byte{0, 1, mysql.MYSQL_TYPE_LONG, 0, 1, 'n', typ, 0, 5, 't', 'r', 'a', 'c', 'e', 7, 0, 0, 0}
		return append(p, value...)
	}
	for value, want := range map[string]string{"\x03abc": "abc", "": ""} {
		typ := mysql.MYSQL_TYPE_STRING
		if value == "" {
			typ = mysql.MYSQL_TYPE_NULL
		}
		query := &WantedAttribute{Name: "trace"}
		text, err := QueryText(append(append([]byte{2, 1}, attributes(typ, value)...), "SELECT 1"...), query)
		if err != nil || string(text) != "SELECT 1" || query.Value != want {
			t.Errorf("%q %v %q, want %q", text, err, query.Value, want)
		}
		execute := &WantedAttribute{Name: "trace"}
		params, _, err := DecodeExecute(nil, append([]byte{1, 0, 0, 0, ParameterCount, 1, 0, 0, 0, 2}, attributes(typ, value)...), 1, nil, nil, true, execute)
		if err != nil || len(params) != 1 || execute.Value != want {
			t.Errorf("%v %v %q, want %q", params, err, execute.Value, want)
		}
		other := &WantedAttribute{Name: "tra"}
		if _, err := QueryText(append(append([]byte{2, 1}, attributes(typ, value)...), "SELECT 1"...), other); err != nil || other.Value != "" {
			t.Errorf("%v %q", err, other.Value)
		}
	}
}
