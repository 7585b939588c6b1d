package keys

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/ci/suite"
)

func codec(t testing.TB, columnType, collation string) *Codec {
	t.Helper()
	charset, _, _ := strings.Cut(collation, "_")
	c, err := For(columnType, charset, collation, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func text(s string) Value { return String([]byte(s), "utf8mb4") }

func TestForRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		columnType, collation string
		mariaDB               bool
		want                  string
	}{
		{"float", "", false, "type FLOAT: "},
		{"double(10,2)", "", false, "type DOUBLE: "},
		{"timestamp(6)", "", false, "time_zone"},
		{"json", "", false, "type JSON: "},
		{"set('a','b')", "utf8mb4_bin", false, "type SET: "},
		{"bit(8)", "", false, "type BIT: "},
		{"point", "", false, "type POINT: "},
		{"vector(3)", "", false, "type VECTOR: "},
		{"xmltype", "", true, "type XMLTYPE is not known"},
		{"varchar(10) /*M!100301 COMPRESSED*/", "utf8mb4_bin", true, "not understood"},
		{"enum('a", "utf8mb4_bin", false, "not understood"},
		{`enum('a\\b')`, "utf8mb4_bin", false, "not understood"},
		{"varchar(x)", "utf8mb4_bin", false, "not understood"},
		{"varchar(10)", "utf8mb4_uca1400_swedish_ai_ci", true, "collation utf8mb4_uca1400_swedish_ai_ci: its language's UCA 14 weights"},
		{"varchar(10)", "utf8mb4_sv_0900_ai_ci", true, "collation utf8mb4_sv_uca1400_nopad_ai_ci: its language's UCA 14 weights"}, // an alias
		{"varchar(10)", "utf8mb3_uca1400_nopad_ai_cs", true, "its levels without accents"},
		{"varchar(10)", "gbk_chinese_ci", false, "multi-byte"},
		{"varchar(10)", "sjis_japanese_ci", false, "multi-byte"},
		{"varchar(10)", "latin2_czech_cs", false, "four-pass"},
		{"varchar(10)", "latin1_german2_ci", false, "expansions"},
		{"varchar(10)", "utf8mb3_general_mysql500_ci", false, "5.0"},
		{"varchar(10)", "utf8mb4_klingon_ci", false, "not known"},
		{"varchar(10)", "utf8mb4_nopad_bin", false, "not known"}, // MariaDB only
		{"char(10)", "utf8mb4_unicode_nopad_ci", true, "MariaDB's indexes"},
		{"varchar(10)", "", false, "not known"},
	} {
		codec, err := For(c.columnType, "", c.collation, c.mariaDB)
		if err == nil || codec != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("For(%q, %q): %v, want an error with %q", c.columnType, c.collation, err, c.want)
		}
		if _, again := For(c.columnType, "", c.collation, c.mariaDB); again == nil || again.Error() != err.Error() {
			t.Errorf("For(%q, %q) the second time: %v", c.columnType, c.collation, again)
		}
	}
}

func TestForShares(t *testing.T) {
	t.Parallel()
	a, b := codec(t, "varchar(64)", "utf8mb4_0900_ai_ci"), codec(t, "varchar(64)", "utf8mb4_0900_ai_ci")
	if a != b {
		t.Error("two codecs for one type")
	}
	if c, err := For("varchar(64)", "utf8", "utf8_general_ci", true); err != nil || c.text.name != "utf8mb3_general_ci" {
		t.Errorf("utf8_general_ci: %v, %v", c, err)
	}
}

// TestStoredReadsBack: what a column holds after a literal, as a shard would
// send it; "" means doubt.
func TestStoredReadsBack(t *testing.T) {
	t.Parallel()
	const ai, general = "utf8mb4_0900_ai_ci", "utf8mb4_general_ci"
	for _, c := range []struct {
		columnType, collation string
		v                     Value
		want                  string
	}{
		{"int", "", Int(5), "5"},
		{"int", "", text("5"), "5"},
		{"int", "", text("5 "), ""},
		{"int", "", text("05"), ""},
		{"int", "", text("5.0"), ""},
		{"int", "", Decimal("5.5"), "6"},
		{"int", "", Decimal("-5.5"), "-6"},
		{"int", "", Decimal("5.49"), "5"},
		{"int", "", Float(5), "5"},
		{"int", "", Float(5.5), ""},
		{"int", "", Int(1 << 40), ""},
		{"int", "", Bytes([]byte("5")), ""},
		{"int", "", Temporal("2024-01-01"), ""},
		{"int unsigned", "", Int(-1), ""},
		{"int unsigned", "", Decimal("-0.4"), ""},
		{"int(5) unsigned zerofill", "", Int(42), "00042"},
		{"bigint", "", text("9223372036854775807"), "9223372036854775807"},
		{"bigint", "", Uint(math.MaxUint64), ""},
		{"bigint unsigned", "", Uint(math.MaxUint64), "18446744073709551615"},
		{"tinyint(1)", "", Int(-128), "-128"},
		{"year", "", Int(2024), "2024"},
		{"year", "", Int(24), ""},
		{"year", "", text("2024"), "2024"},
		{"decimal(5,2)", "", Decimal("1.005"), "1.01"},
		{"decimal(5,2)", "", Decimal("-1.005"), "-1.01"},
		{"decimal(5,2)", "", Decimal("999.995"), ""},
		{"decimal(5,2)", "", Decimal("-0.001"), "0.00"},
		{"decimal(5,2)", "", Int(7), "7.00"},
		{"decimal(5,2)", "", text("7.125"), "7.13"},
		{"decimal(5,2)", "", Float(7), ""},
		{"date", "", text("2024-02-29"), "2024-02-29"},
		{"date", "", text("2023-02-29"), ""},
		{"date", "", text("2024-2-9"), ""},
		{"date", "", text("2024-00-10"), ""},
		{"date", "", Temporal("2024-02-29 10:11:12"), "2024-02-29"},
		{"date", "", Temporal("2024-02-29 10:11:12.9"), ""},
		{"date", "", Int(20240229), ""},
		{"datetime", "", text("2024-02-29"), "2024-02-29 00:00:00"},
		{"datetime", "", text("2024-02-29 10:11:12.500"), ""},
		{"datetime(3)", "", text("2024-02-29 10:11:12.5"), "2024-02-29 10:11:12.500"},
		{"datetime", "", text("2024-02-29T10:11:12"), ""},
		{"datetime", "", Temporal("10:11:12"), ""},
		{"time", "", text("-838:59:59"), "-838:59:59"},
		{"time(1)", "", text("10:11:12.50"), "10:11:12.5"},
		{"time", "", text("-00:00:00"), ""},
		{"time", "", text("10:11"), ""},
		{"binary(3)", "", Bytes([]byte("a")), "a\x00\x00"},
		{"varbinary(3)", "", text("abcd"), ""},
		{"varbinary(3)", "", String([]byte("a"), UnknownCharset), ""},
		{"varbinary(3)", "", String([]byte("\xe9"), "latin1"), "\xe9"},
		{"char(3)", ai, text("a  "), "a"},
		{"char(3)", ai, text("abcd"), ""},
		{"varchar(3)", ai, text("a  "), "a  "},
		{"varchar(3)", ai, text("日本語"), "日本語"},
		{"varchar(3)", ai, Int(42), "42"},
		{"varchar(3)", ai, Decimal("1.5"), ""},
		{"varchar(3)", ai, text("\xff"), ""},
		{"varchar(3)", ai, String([]byte("\xe9"), "latin1"), "é"},
		{"varchar(3)", ai, String([]byte("\xe9"), "latin2"), ""},
		{"varchar(3)", "latin1_swedish_ci", text("€"), "€"},
		{"varchar(3)", "latin1_swedish_ci", text("日"), ""},
		{"varchar(3)", "utf8mb3_general_ci", text("😀"), ""},
		{"varchar(3)", ai, String([]byte("😀"), "utf8mb3"), ""},
		{"varchar(3)", "cp1250_general_ci", text("a?"), ""},
		{"varchar(25)", "utf32_general_ci", Int(1234567890123456), "1234567890123456"},
		{"varchar(25)", "utf32_general_ci", Int(-1234567890123456), ""},
		{"tinytext", general, text(strings.Repeat("é", 127)), strings.Repeat("é", 127)},
		{"tinytext", general, text(strings.Repeat("é", 128)), ""},
		{"enum('a','it''s')", general, text("IT'S"), "it's"},
		{"enum('a','it''s')", general, text("b"), ""},
		{"enum('a','it''s')", general, Int(1), ""},
	} {
		codec := codec(t, c.columnType, c.collation)
		at := []byte("dst")
		got, ok := codec.Stored(at, c.v, true, false)
		if !bytes.HasPrefix(got, at) || !ok && len(got) != len(at) {
			t.Errorf("%s %s: %x does not extend dst", c.columnType, c.v.Literal(), got)
		}
		if c.want == "" {
			if ok {
				t.Errorf("%s %s: sure of %x", c.columnType, c.v.Literal(), got)
			}
			continue
		}
		want, scanned := codec.Scanned(at, []byte(c.want))
		if !ok || !scanned || !bytes.Equal(got, want) {
			t.Errorf("%s %s: %x %v, want %x %v", c.columnType, c.v.Literal(), got, ok, want, scanned)
		}
	}
}

func TestEqualDoubts(t *testing.T) {
	t.Parallel()
	const ai = "utf8mb4_0900_ai_ci"
	for _, c := range []struct {
		columnType, collation string
		v                     Value
		want                  bool
	}{
		{"int", "", text("5"), true},
		{"int", "", text("-5"), true},
		{"int", "", text(" 5"), false},
		{"int", "", text("5e0"), false},
		{"int", "", Decimal("5.00"), true},
		{"int", "", Decimal("5.5"), false},
		{"int", "", Int(1 << 40), true},
		{"bigint", "", text("9007199254740991"), true},
		{"bigint", "", text("9007199254740992"), false},
		{"bigint", "", Float(1 << 53), false},
		{"bigint", "", Int(math.MaxInt64), true},
		{"int", "", Null(), false},
		{"year", "", Int(99), false},
		{"decimal(5,2)", "", Int(5), true},
		{"decimal(5,2)", "", Decimal("5.50"), true},
		{"decimal(5,2)", "", Decimal("5.505"), false},
		{"decimal(5,2)", "", text("5.5"), false},
		{"date", "", Temporal("2024-01-01 00:00:00"), true},
		{"date", "", Temporal("2024-01-01 00:00:01"), false},
		{"datetime", "", Temporal("2024-01-01"), true},
		{"datetime", "", Temporal("2024-01-01 00:00:00.1"), false},
		{"datetime", "", text("0000-00-00 00:00:00"), false},
		{"datetime", "", text("2024-00-10 00:00:00"), false},
		{"binary(2)", "", Bytes([]byte("a")), false},
		{"binary(2)", "", Bytes([]byte("ab")), true},
		{"varbinary(2)", "", String([]byte("ab"), UnknownCharset), false},
		{"varchar(9)", ai, Int(5), false},
		{"varchar(9)", ai, Bytes([]byte("a")), false},
		{"varchar(9)", ai, text("a "), true},
		{"char(9)", ai, text("a "), false},
		{"char(9)", "utf8mb4_general_ci", text("a "), true},
		{"varchar(9)", "latin1_swedish_ci", text("ł"), false},
		{"varchar(9)", "utf8mb4_unicode_ci", text("a\uffff"), false},
		{"enum('a','')", "utf8mb4_bin", text("a"), true},
		{"enum('a','')", "utf8mb4_bin", text(""), false},
	} {
		if got, ok := codec(t, c.columnType, c.collation).Equal(nil, c.v); ok != c.want {
			t.Errorf("%s = %s: %x, %v", c.columnType, c.v.Literal(), got, ok)
		}
	}
}

func TestCollationsFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		collation, a, b string
		equal           bool
	}{
		{"utf8mb4_0900_ai_ci", "Résumé", "RESUME", true},
		{"utf8mb4_0900_ai_ci", "a", "a ", false},
		{"utf8mb4_0900_ai_ci", "ß", "ss", true},
		{"utf8mb4_0900_as_cs", "a", "A", false},
		{"utf8mb4_0900_as_ci", "é", "É", true},
		{"utf8mb4_0900_as_ci", "e", "é", false},
		{"utf8mb4_general_ci", "a", "A  ", true},
		{"utf8mb4_general_ci", "ß", "s", true},
		{"utf8mb4_unicode_ci", "ß", "ss", true},
		{"utf8mb4_unicode_ci", "😀", "😁", true},
		{"utf8mb4_bin", "a", "a ", true},
		{"utf8mb4_bin", "a", "A", false},
		{"utf8mb4_bin", "a", "a\t", false},
		{"utf8mb4_0900_bin", "a", "a ", false},
		{"utf8mb4_uca1400_ai_ci", "Résumé", "RESUME  ", true},
		{"utf8mb4_uca1400_ai_ci", "ŀ", "l·", true},
		{"utf8mb4_uca1400_ai_ci", "🥰", "🤩", false},
		{"utf8mb4_uca1400_as_ci", "é", "É ", true},
		{"utf8mb4_uca1400_as_ci", "e", "é", false},
		{"utf8mb4_uca1400_as_cs", "a", "A", false},
		{"utf8mb4_uca1400_as_cs", "a", "a ", true},
		{"latin1_swedish_ci", "ü", "Y", true},
		{"utf8mb4_spanish2_ci", "ch", "CH", true},
	} {
		codec := codec(t, "varchar(20)", c.collation)
		a, _ := codec.Equal(nil, text(c.a))
		b, _ := codec.Equal(nil, text(c.b))
		if bytes.Equal(a, b) != c.equal {
			t.Errorf("%s: %q %x, %q %x", c.collation, c.a, a, c.b, b)
		}
	}
}

func TestNull(t *testing.T) {
	t.Parallel()
	for _, columnType := range []string{"int", "decimal(5,2)", "date", "varbinary(5)"} {
		codec := codec(t, columnType, "")
		stored, ok := codec.Stored(nil, Null(), true, false)
		scanned, ok2 := codec.Scanned(nil, nil)
		if !ok || !ok2 || !bytes.Equal(stored, AppendNull(nil)) || !bytes.Equal(scanned, stored) {
			t.Errorf("%s: NULL is %x and %x", columnType, stored, scanned)
		}
		if _, ok := codec.Order(nil, Null()); ok {
			t.Errorf("%s: NULL has an order", columnType)
		}
	}
}

func TestPadSensitive(t *testing.T) {
	t.Parallel()
	for columnType, want := range map[string]bool{"char(5)": true, "varchar(5)": false} {
		if codec(t, columnType, "utf8mb4_0900_ai_ci").PadSensitive() != want {
			t.Errorf("%s", columnType)
		}
	}
	if _, ok := codec(t, "char(5)", "utf8mb4_0900_ai_ci").Stored(nil, text("a"), true, true); ok {
		t.Error("sure of CHAR with padding mode")
	}
}

// TestCutSpace: a CHAR's index is asked for what the column would hold.
func TestCutSpace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		columnType, collation, value string
		want                         bool
	}{
		{"char(5)", "utf8mb4_general_ci", "abcde\n", false},
		{"char(5)", "utf8mb4_general_ci", "abcd \t", false},
		{"char(5)", "latin1_swedish_ci", "abcde\u00a0", false},
		{"char(5)", "utf8mb4_bin", "ééééé \t", false},
		{"char(5)", "utf8mb4_general_ci", "abcd\t", true},
		{"char(5)", "utf8mb4_general_ci", "abcde  ", true},
		{"char(5)", "utf8mb4_general_ci", "abcdef\t", true},
		{"char(5)", "utf8mb4_general_ci", "abcde\tf", true},
		{"char(5)", "utf8mb4_0900_ai_ci", "abcde\t", true},
		{"varchar(5)", "utf8mb4_general_ci", "abcde\t", true},
	} {
		for name, of := range map[string]func(*Codec) bool{
			"Equal": func(x *Codec) bool { _, ok := x.Equal(nil, text(c.value)); return ok },
			"Order": func(x *Codec) bool { _, ok := x.Order(nil, text(c.value)); return ok },
		} {
			if got := of(codec(t, c.columnType, c.collation)); got != c.want {
				t.Errorf("%s of %q in %s %s: sure %t, want %t", name, c.value, c.columnType, c.collation, got, c.want)
			}
		}
	}
}

func TestLikePrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		columnType, collation string
		v                     Value
		want                  bool
	}{
		{"varchar(9)", "utf8mb4_0900_ai_ci", text("abc"), true},
		{"varchar(9)", "utf8mb4_0900_as_cs", text("abc"), true},
		{"varchar(9)", "utf8mb4_uca1400_as_ci", text("abc"), true},
		{"varchar(9)", "utf8mb4_general_ci", text("a b "), true},
		{"varchar(9)", "utf8mb4_general_ci", text("  "), false},
		{"varchar(9)", "utf8mb4_bin", text("abc"), true},
		{"varchar(9)", "latin1_swedish_ci", text("abc"), true},
		{"varchar(9)", "utf8mb4_0900_ai_ci", text("é"), false},
		{"varchar(9)", "utf8mb4_0900_ai_ci", text(""), false},
		{"varchar(9)", "utf8mb4_0900_ai_ci", text("a\x00"), false},
		{"varchar(9)", "utf8mb4_0900_ai_ci", Int(5), false},
		{"varchar(9)", "utf8mb4_czech_ci", text("c"), false},
		{"varchar(9)", "utf8mb4_hu_0900_ai_ci", text("d"), false},
		{"varbinary(9)", "", Bytes([]byte("\xff\xff")), true},
		{"enum('a')", "utf8mb4_bin", text("a"), false},
		{"int", "", text("1"), false},
	} {
		if from, to, ok := codec(t, c.columnType, c.collation).LikePrefix(c.v); ok != c.want {
			t.Errorf("%s %s LIKE %s: %x %x %v", c.columnType, c.collation, c.v.Literal(), from, to, ok)
		}
	}
}

// TestLikePrefixCovers: after an ASCII character any other may come without
// changing its weight.
func TestLikePrefixCovers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci", "utf8mb4_0900_as_cs", "utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci", "utf8mb4_general_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_as_cs"} {
		c := codec(t, "varchar(9)", name)
		firsts := suite.Size("lS", "aAlLsSkcdzin-.'1~")
		if raceEnabled {
			firsts = "lS"
		}
		for _, first := range firsts {
			from, to, ok := c.LikePrefix(text(string(first)))
			if !ok {
				t.Fatalf("%s %q", name, first)
			}
			for r := range rune(0x10000) {
				if !utf8.ValidRune(r) {
					continue
				}
				s := string(first) + string(r)
				key, ok := c.Scanned(nil, []byte(s))
				if ok && (bytes.Compare(key, from) < 0 || bytes.Compare(key, to) >= 0) {
					t.Errorf("%s: %+q %x is not in [%x, %x)", name, s, key, from, to)
				}
			}
		}
	}
}

// TestOrderDoubts: `col BETWEEN '5' AND 9007199254740993` compares as floats, which
// takes integers from 2^53 on for their neighbours.
func TestOrderDoubts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		columnType string
		v          Value
		want       bool
	}{
		{"bigint", text("5"), false},
		{"bigint", Float(5), false},
		{"bigint unsigned", text("5"), false},
		{"int", text("5"), true},
		{"int", Float(5), true},
	} {
		if got, ok := codec(t, c.columnType, "").Order(nil, c.v); ok != c.want {
			t.Errorf("%s, %s: %x, %v", c.columnType, c.v.Literal(), got, ok)
		}
	}
}

func TestIntegerOrder(t *testing.T) {
	t.Parallel()
	c := codec(t, "bigint", "")
	number := rapid.Custom(func(t *rapid.T) Value {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return Int(rapid.Int64().Draw(t, "int"))
		case 1:
			return Uint(rapid.Uint64().Draw(t, "uint"))
		}
		return Decimal(rapid.StringMatching(`-?[0-9]{1,25}(\.[0-9]{1,5})?`).Draw(t, "decimal"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a.Literal())
		y, _ := new(big.Rat).SetString(b.Literal())
		ka, ok := c.Order(nil, a)
		kb, ok2 := c.Order(nil, b)
		if !ok || !ok2 {
			t.Fatalf("no order for %s, %s", a.Literal(), b.Literal())
		}
		// Order is of floors: never against the numbers' order.
		if order := x.Cmp(y); bytes.Compare(ka, kb)*order < 0 {
			t.Fatalf("%s %x, %s %x", a.Literal(), ka, b.Literal(), kb)
		}
		ea, ok := c.Equal(nil, a)
		eb, ok2 := c.Equal(nil, b)
		if ok && ok2 && bytes.Compare(ea, eb) != x.Cmp(y) {
			t.Fatalf("%s %x, %s %x", a.Literal(), ea, b.Literal(), eb)
		}
	})
}

func TestDecimalOrderAndRounding(t *testing.T) {
	t.Parallel()
	draw := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20}|[0-9]{1,3})(\.[0-9]{0,12})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		x, _ := new(big.Rat).SetString(strings.TrimSuffix(a, "."))
		y, _ := new(big.Rat).SetString(strings.TrimSuffix(b, "."))
		na, ok := parseDecimal(a)
		nb, ok2 := parseDecimal(b)
		if !ok || !ok2 {
			t.Fatalf("%q %q not read", a, b)
		}
		if z, _ := new(big.Rat).SetString(na.String()); z.Cmp(x) != 0 {
			t.Fatalf("%q reads as %s", a, na)
		}
		ka, kb := appendNumber(nil, na), appendNumber(nil, nb)
		if bytes.Compare(ka, kb) != x.Cmp(y) {
			t.Fatalf("%s %x, %s %x", a, ka, b, kb)
		}
		if x.Cmp(y) != 0 && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
			t.Fatalf("%x and %x: one begins with the other", ka, kb)
		}
		scale := rapid.IntRange(0, 12).Draw(t, "scale")
		// FloatString rounds halves away from zero.
		if want, _ := new(big.Rat).SetString(x.FloatString(scale)); want.Cmp(mustRat(na.round(scale).String())) != 0 {
			t.Fatalf("%s to %d digits: %s", a, scale, na.round(scale))
		}
		floor := new(big.Int).Div(x.Num(), x.Denom()) // Euclidean: floor for positive denominators
		if na.floorText() != floor.String() {
			t.Fatalf("floor of %s: %s", a, na.floorText())
		}
	})
}

func mustRat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic(s)
	}
	return r
}

// TestTemporalOrder: the text of temporal values in canonical form sorts as
// they do.
func TestTemporalOrder(t *testing.T) {
	t.Parallel()
	c := codec(t, "datetime(6)", "")
	draw := rapid.Custom(func(t *rapid.T) string {
		y, m := rapid.IntRange(1000, 9999).Draw(t, "year"), rapid.IntRange(1, 12).Draw(t, "month")
		return fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d.%06d", y, m, rapid.IntRange(1, daysIn(y, m)).Draw(t, "day"),
			rapid.IntRange(0, 23).Draw(t, "h"), rapid.IntRange(0, 59).Draw(t, "m"), rapid.IntRange(0, 59).Draw(t, "s"), rapid.IntRange(0, 999999).Draw(t, "us"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		ka, ok := c.Equal(nil, text(a))
		kb, ok2 := c.Stored(nil, Temporal(b), true, false)
		if !ok || !ok2 || bytes.Compare(ka, kb) != strings.Compare(a, b) {
			t.Fatalf("%s %x %v, %s %x %v", a, ka, ok, b, kb, ok2)
		}
	})
}

// TestComposite: keys of several components sort as tuples, NULL first, and a
// key's first components are its beginning.
func TestComposite(t *testing.T) {
	t.Parallel()
	first, second := codec(t, "varchar(20)", "utf8mb4_general_ci"), codec(t, "int", "")
	draw := rapid.Custom(func(t *rapid.T) [2]Value {
		v := [2]Value{text(rapid.StringOfN(rapid.SampledFrom([]rune("a \t\x00")), 0, 5, -1).Draw(t, "text")), Null()}
		if rapid.Bool().Draw(t, "not null") {
			v[1] = Int(int64(rapid.IntRange(-2, 2).Draw(t, "int")))
		}
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		var components [2][2][]byte
		for i := range components {
			v := draw.Draw(t, "row")
			components[i][0], _ = first.Stored(nil, v[0], true, false)
			components[i][1], _ = second.Stored(nil, v[1], true, false)
		}
		a, b := components[0], components[1]
		want := bytes.Compare(a[0], b[0])
		if want == 0 {
			want = bytes.Compare(a[1], b[1])
		}
		if got := bytes.Compare(bytes.Join(a[:], nil), bytes.Join(b[:], nil)); got != want {
			t.Fatalf("%x, %x: %d", a, b, got)
		}
		if bytes.HasPrefix(bytes.Join(a[:], nil), b[0]) != bytes.Equal(a[0], b[0]) {
			t.Fatalf("%x begins with %x", a, b[0])
		}
	})
}

func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	dst := make([]byte, 0, 1024)
	for _, c := range []struct {
		columnType, collation string
		v                     Value
	}{
		{"bigint", "", Int(42)},
		{"bigint", "", text("42")},
		{"varchar(50)", "utf8mb4_0900_ai_ci", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_general_ci", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_unicode_ci", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_uca1400_ai_ci", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_uca1400_as_cs", text("l·jemand-ü@example.com")},
		{"varchar(50)", "utf8mb4_bin", text("someone@example.com")},
		{"varchar(50)", "latin1_swedish_ci", text("someone@example.com")},
		{"varbinary(50)", "", text("someone@example.com")},
		{"datetime", "", text("2024-01-01 10:11:12")},
	} {
		raw := []byte(c.v.text)
		if c.v.kind == kindInt {
			raw = []byte("42")
		}
		if n := testing.AllocsPerRun(100, func() {
			codec, err := For(c.columnType, "", c.collation, false)
			if err != nil {
				t.Fatal(err)
			}
			_, ok := codec.Equal(dst, c.v)
			_, ok2 := codec.Stored(dst, c.v, true, false)
			_, ok3 := codec.Scanned(dst, raw)
			if !ok || !ok2 || !ok3 {
				t.Fatal(c)
			}
		}); n > 0 {
			t.Errorf("%s %s: %v allocations", c.columnType, c.collation, n)
		}
	}
}

func BenchmarkEqual(b *testing.B) {
	for _, c := range []struct {
		columnType, collation string
		v                     Value
	}{
		{"bigint", "", Int(42)},
		{"varchar(50)", "utf8mb4_0900_ai_ci", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_0900_as_cs", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_0900_ai_ci", text("jemand-ü@example.com")},
		{"varchar(50)", "utf8mb4_general_ci", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_uca1400_ai_ci", text("someone@example.com")},
		{"varchar(50)", "utf8mb4_uca1400_ai_ci", text("jemand-ü@example.com")},
		{"decimal(10,2)", "", Decimal("12.50")},
	} {
		b.Run(c.columnType+c.collation, func(b *testing.B) {
			codec := codec(b, c.columnType, c.collation)
			dst := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				codec.Equal(dst, c.v)
			}
		})
	}
}
