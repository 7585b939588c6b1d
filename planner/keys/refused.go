package keys

import "strings"

// What can't be keyed exactly, found by comparing with real servers
// (server_test.go). A collation that is neither here nor among Vitess's tables
// is refused too.

// refusedTypes says why a type has no keys.
var refusedTypes = map[string]string{
	"float":     "a FLOAT reads back rounded and compares as a longer number",
	"double":    "its comparisons with decimal literals are not exact",
	"real":      "its comparisons with decimal literals are not exact",
	"timestamp": "its value depends on the session's time_zone",
	"json":      "JSON values compare by their own rules",
	"set":       "SET values compare as strings or as numbers",
	"bit":       "BIT values are bytes and compare as numbers",
	"vector":    "VECTOR values hold floating-point numbers",
	"geometry":  spatial, "point": spatial, "linestring": spatial, "polygon": spatial,
	"multipoint": spatial, "multilinestring": spatial, "multipolygon": spatial,
	"geometrycollection": spatial, "geomcollection": spatial,
}

const spatial = "spatial values have no order"

// refusedCharsets: strings come to Shunt as UTF-8, and several byte sequences
// of these stand for one character or for none, so that the stored bytes, which
// are what compares, can't be told.
var refusedCharsets = map[string]string{
	"big5": multiByte, "gbk": multiByte, "gb2312": multiByte, "gb18030": multiByte,
	"sjis": multiByte, "cp932": multiByte, "ujis": multiByte, "eucjpms": multiByte, "euckr": multiByte,
	"tis620": "its Thai reordering is in no library that Shunt can use",
}

const multiByte = "its multi-byte character set does not convert exactly"

// refusedCollations by the name's ending.
var refusedCollations = []struct{ suffix, why string }{
	{"_czech_cs", "its four-pass weights are in no library that Shunt can use"},
	{"latin1_german2_ci", "its expansions are in no library that Shunt can use"},
	{"_general_mysql500_ci", "it exists for tables of MySQL 5.0 only"},
	{"utf8mb3_tolower_ci", "it is the server's own"},
	{"_croatian_mysql561_ci", "its contractions are in no library that Shunt can use"},
	{"_myanmar_ci", "its contractions are in no library that Shunt can use"},
	{"_thai_520_w2", "its second level is in no library that Shunt can use"},
}

// refusedCollation says why a collation's comparisons can't be keyed exactly,
// "" where nothing is known against it. The name is without "nopad".
func refusedCollation(name string) string {
	charset, variant, _ := strings.Cut(name, "_")
	switch {
	case variant == "uca1400_ai_cs":
		return "its levels without accents are in no library that Shunt can use"
	case strings.Contains(variant, "uca1400_") && uca1400Levels[variant] == nil:
		return "its language's UCA 14 weights are in no library that Shunt can use"
	}
	if why, ok := refusedCharsets[charset]; ok {
		return why
	}
	for _, r := range refusedCollations {
		// utf8mb4_czech_ci is fine; the names end differently.
		if strings.HasSuffix(name, r.suffix) {
			return r.why
		}
	}
	return ""
}
