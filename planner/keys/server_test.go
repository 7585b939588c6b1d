package keys

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	_ "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
)

// The tests of this file ask real servers whether keys agree with their
// comparisons. SHUNT_TEST_MYSQL and SHUNT_TEST_MARIADB hold the address
// (127.0.0.1:3306) of a server with a user root without password;
// SHUNT_TEST_SEED repeats a run; SHUNT_TEST_EXHAUSTIVE=1 tries every code point
// in every collation (some ten minutes a server).

type server struct {
	*sql.DB
	name    string
	mariaDB bool
	schema  string
	seed    uint64
}

func eachServer(t *testing.T, run func(t *testing.T, s *server)) {
	t.Parallel()
	for _, s := range []server{{name: "MYSQL"}, {name: "MARIADB", mariaDB: true}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			addr := os.Getenv("SHUNT_TEST_" + s.name)
			if addr == "" {
				t.Skipf("SHUNT_TEST_%s is not set: it holds the address of a server to compare with", s.name)
			}
			s.seed = rand.Uint64()
			if text := os.Getenv("SHUNT_TEST_SEED"); text != "" {
				if _, err := fmt.Sscan(text, &s.seed); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("SHUNT_TEST_SEED=%d", s.seed)
			s.schema = strings.ToLower(fmt.Sprintf("shunt_keys_%s_%d", t.Name()[4:12], os.Getpid()))
			s.schema = strings.ReplaceAll(s.schema, "/", "_")
			var err error
			s.DB, err = sql.Open("mysql", "root@tcp("+addr+")/?charset=utf8mb4&maxAllowedPacket=0")
			if err != nil {
				t.Fatal(err)
			}
			// One connection: settings and the current schema hold for all.
			s.SetMaxOpenConns(1)
			s.exec(t, "DROP DATABASE IF EXISTS "+s.schema)
			s.exec(t, "CREATE DATABASE "+s.schema+" CHARACTER SET utf8mb4")
			s.exec(t, "USE "+s.schema)
			t.Cleanup(func() {
				s.exec(t, "DROP DATABASE "+s.schema)
				s.Close()
			})
			run(t, &s)
		})
	}
}

func (s *server) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := s.Exec(query); err != nil {
		t.Fatalf("%v: %.300s", err, query)
	}
}

// rows runs a query and returns its rows as text; nil is NULL.
func (s *server) rows(t *testing.T, query string) [][][]byte {
	t.Helper()
	rows, err := s.Query(query)
	if err != nil {
		t.Fatalf("%v: %.300s", err, query)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out [][][]byte
	for rows.Next() {
		row := make([][]byte, len(columns))
		dest := make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// insert adds rows (texts of VALUES tuples) to a table in few statements.
func (s *server) insert(t *testing.T, table string, tuples []string) {
	t.Helper()
	for chunk := range slices.Chunk(tuples, 4000) {
		s.exec(t, "INSERT INTO "+table+" VALUES "+strings.Join(chunk, ","))
	}
}

// Pieces of strings that are hard on collations.
var pieces = strings.Fields(`
	a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G H I J K L M N O P Q R S T U V W X Y Z
	0 1 9 - _ . ' " \ ! ~ é É è ê ë ē ü Ü ö Ö ä Ä å Å æ Æ ø Ø ß ẞ œ ñ Ñ ç ş ı İ ł Ł đ Đ ð þ ž Ž š Š č Č ć ř ů ň ť ď ľ ĺ ő ű ă â î ț ơ ư ạ ế
	ch Ch CH cH ll Ll lj LJ Lj nj NJ dž DŽ ǆ ǅ Ǆ ǉ ǌ cs Cs dz dzs Dzs ddzs gy ggy ly lly ny nny sz ssz ty tty zs zzs ccs aa AA Aa aA ae AE oe ue rr th TH ng ph rh ij ss SS
	l· l· L· kʼ oʻ g‘ ъ ь й Й и ё е ж ђ љ њ џ і ї ґ α ά Α ς σ Σ ω ώ ϊ א ב שׁ ا آ أ ى ي ک ك ه ة
	ก เก แก ไทย เ แ า ำ ່ ເກ ກ က ခ င် ကို ක ක්ෂ अ क क् ष क्ष ं া ক্ষ ய் க்ஷ ಕ್ಷ 가 각 갂 ᄀ ᅡ ᆨ ꥠ あ ア ぁ ァ ｱ か が カ ガ ー ｰ ゝ ゞ ヽ ヾ は ば ぱ っ つ 一 丁 七 万 中 国 國 龥 㐀 豈 日本 ㌀ ㍻ ﷺ ﬁ ﬆ ① Ⅳ ½ ™ Ω Ω K Å
	😀 😁 👍 👍🏽 👨‍👩‍👧 🇩🇪 🇫 𝒜 𝐚 𐐀 𐐨 𠀀 𪛖 🜀
	‘ ’ “ – — … « » ¿ § © ¢ £ ¥ ₣ ₿ € ° ·
`)

var rarePieces = []string{
	" ", "  ", " ", " ", "\t", "\n", "\x00", "\x01", "\x1f", "\x7f", "\u0080", "\u0081", "\u009f", "\u00a0", "\u00ad",
	"\u0300", "\u0301", "\u0308", "\u030a", "\u0323", "\u0327", "\u0328", "\u0335", "\u0345", "\u034f", "\u0338", "\u20d2", "\u3099", "\u309a",
	"\u200b", "\u200c", "\u200d", "\u200e", "\u2028", "\u2060", "\u3000", "\u2003", "\ufeff", "\ufe0f", "\ufffd", "\ufffe", "\uffff",
	"\ud7ff", "\ue000", "\uf8ff", "\U00010000", "\U0010ffff", "\U000e0001", "\U000e0100", "\U0001f3fb", "\U00020000", "\U0002f800", "\U00016fe0", "\U00017000", "\U0001b170", "\u0378", "\u2ff0",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(6) {
		switch r.IntN(8) {
		case 0, 1:
			b.WriteString(rarePieces[r.IntN(len(rarePieces))])
		case 2:
			for {
				if c := rune(r.IntN(0x11000)); utf8.ValidRune(c) {
					b.WriteRune(c)
					break
				}
			}
		default:
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
	}
	return b.String()
}

// variant changes s so that it often stays equal.
func variant(r *rand.Rand, s string) string {
	switch r.IntN(7) {
	case 0:
		return s + strings.Repeat(" ", 1+r.IntN(3))
	case 1:
		return strings.ToUpper(s)
	case 2:
		return strings.ToLower(s)
	case 3:
		return strings.TrimRight(s, " ")
	case 4:
		return s + rarePieces[r.IntN(len(rarePieces))]
	case 5:
		return strings.NewReplacer("é", "e", "ü", "u\u0308", "ß", "ss", "å", "a\u030a", "ｱ", "ア", "가", "\u1100\u1161").Replace(s)
	}
	i := r.IntN(len(s) + 1)
	for !utf8.ValidString(s[:i]) {
		i--
	}
	return s[:i] + rarePieces[r.IntN(len(rarePieces))] + s[i:]
}

func randomTexts(r *rand.Rand, n int) []string {
	texts := []string{"", " ", "  "}
	for len(texts) < n {
		s := randomText(r)
		texts = append(texts, s)
		for range r.IntN(3) {
			texts = append(texts, variant(r, s))
		}
	}
	return texts
}

func everyCodePoint() []string {
	var texts []string
	for c := rune(0); c <= 0x10ffff; c++ {
		if c == 0x32000 {
			c = 0xdff00
		}
		if c == 0xe1100 {
			c = 0x10ff00
		}
		if utf8.ValidRune(c) {
			texts = append(texts, string(c))
		}
	}
	return texts
}

// TestCollationsOnServer: for every collation that For accepts, the order of
// the keys is the order of the server.
func TestCollationsOnServer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		exhaustive := os.Getenv("SHUNT_TEST_EXHAUSTIVE") != ""
		only := os.Getenv("SHUNT_TEST_COLLATION")
		accepted, refused := 0, 0
		pick := rand.New(rand.NewPCG(s.seed, 3))
		for _, row := range s.collations(t) {
			charset, name := row[0], row[1]
			if only != "" && only != name {
				continue
			}
			c, err := For("varchar(60)", charset, name, s.mariaDB)
			if err != nil {
				refused++
				continue
			}
			if c.class != classText {
				continue
			}
			accepted++
			if only == "" && suite.Size(pick.IntN(3) > 0, false) {
				continue // a third of them a run, others with each seed
			}
			r := rand.New(rand.NewPCG(s.seed, 1))
			t.Run(name, func(t *testing.T) {
				texts := randomTexts(r, suite.Size(300, 2000))
				if exhaustive || c.text.charset.width == 1 {
					texts = append(texts, everyCodePoint()...)
				}
				if c.text.uca1400 != nil && charset == "utf8mb4" { // the others have the same weights
					texts = append(texts, contractionTexts(r)...)
				}
				s.checkOrder(t, c, charset, name, texts)
				s.checkLiterals(t, c, r)
				s.checkLike(t, c, r)
			})
		}
		t.Logf("%d collations accepted, %d refused", accepted, refused)
	})
}

func (s *server) collations(t *testing.T) [][2]string {
	query := "SELECT character_set_name, collation_name FROM information_schema.collations WHERE character_set_name IS NOT NULL ORDER BY id"
	if s.mariaDB {
		query = "SELECT character_set_name, full_collation_name FROM information_schema.collation_character_set_applicability ORDER BY 1, 2"
	}
	var out [][2]string
	for _, row := range s.rows(t, query) {
		out = append(out, [2]string{string(row[0]), string(row[1])})
	}
	return out
}

type keyed struct {
	text string
	key  []byte
}

func sqlText(s string) string { return fmt.Sprintf("_utf8mb4 X'%x'", s) }

// checkOrder stores the texts in the order of their keys and asks the server
// to compare neighbours, and pairs at random.
func (s *server) checkOrder(t *testing.T, c *Codec, charset, name string, texts []string) {
	var sorted []keyed
	for _, text := range texts {
		if key, ok := c.Stored(nil, String([]byte(text), "utf8mb4"), true, false); ok {
			sorted = append(sorted, keyed{text, key})
		}
	}
	slices.SortFunc(sorted, func(a, b keyed) int { return bytes.Compare(a.key, b.key) })
	s.exec(t, "DROP TABLE IF EXISTS texts")
	s.exec(t, "CREATE TABLE texts (id INT PRIMARY KEY, s VARCHAR(60) CHARACTER SET "+charset+" COLLATE "+name+") CHARACTER SET utf8mb4")
	tuples := make([]string, len(sorted))
	for i, x := range sorted {
		tuples[i] = fmt.Sprintf("(%d,%s)", i, sqlText(x.text))
	}
	s.insert(t, "texts", tuples)
	failures := 0
	check := func(a, b int, equal, less bool) {
		order := bytes.Compare(sorted[a].key, sorted[b].key)
		if equal == (order == 0) && less == (order < 0) {
			return
		}
		if failures++; failures <= 4 {
			t.Errorf("%s: %+q %x and %+q %x: server: equal %v, less %v", name,
				sorted[a].text, sorted[a].key, sorted[b].text, sorted[b].key, equal, less)
		}
	}
	for _, row := range s.rows(t, "SELECT a.id, a.s = b.s, a.s < b.s FROM texts a JOIN texts b ON b.id = a.id + 1") {
		var i int
		fmt.Sscan(string(row[0]), &i)
		check(i, i+1, row[1][0] == '1', row[2][0] == '1')
	}
	for step := 2; step < 2000; step = step*3 + 1 {
		for _, row := range s.rows(t, fmt.Sprintf("SELECT a.id, a.s = b.s, a.s < b.s FROM texts a JOIN texts b ON b.id = a.id + %d WHERE a.id < 2000", step)) {
			var i int
			fmt.Sscan(string(row[0]), &i)
			check(i, i+step, row[1][0] == '1', row[2][0] == '1')
		}
	}
	misread := 0
	for _, row := range s.rows(t, "SELECT id, s FROM texts") {
		var i int
		fmt.Sscan(string(row[0]), &i)
		got, ok := c.Scanned(nil, row[1])
		if ok && !bytes.Equal(got, sorted[i].key) || !ok && !c.text.charset.holes && c.text.odd == "" {
			if misread++; misread <= 4 {
				t.Errorf("%s: %+q stored as %x, read back %+q: %x, %v", name, sorted[i].text, sorted[i].key, row[1], got, ok)
			}
		}
	}
	if failures+misread > 0 {
		t.Errorf("%s: %d wrong, %d misread, of %d", name, failures, misread, len(sorted))
	}
}

// checkLiterals compares the column of texts with literals of the utf8mb4
// connection.
func (s *server) checkLiterals(t *testing.T, c *Codec, r *rand.Rand) {
	type row struct {
		id  int
		key []byte
	}
	var rows []row
	var texts []string
	for _, x := range s.rows(t, "SELECT id, s FROM texts WHERE id < 3000 ORDER BY RAND() LIMIT 200") {
		var id int
		fmt.Sscan(string(x[0]), &id)
		if key, ok := c.Scanned(nil, x[1]); ok {
			rows = append(rows, row{id, key})
			texts = append(texts, string(x[1]))
		}
	}
	var conditions []string
	want := map[int]string{}
	for i, x := range rows {
		text := variant(r, texts[i])
		v := String([]byte(text), "utf8mb4")
		key, ok := c.Equal(nil, v)
		if !ok {
			continue
		}
		conditions = append(conditions, fmt.Sprintf("(id = %d AND s = %s)", x.id, v.Literal()))
		if bytes.Equal(key, x.key) {
			want[x.id] = text
		}
	}
	for _, x := range s.rows(t, "SELECT id FROM texts WHERE "+strings.Join(conditions, " OR ")) {
		var id int
		fmt.Sscan(string(x[0]), &id)
		if _, ok := want[id]; !ok {
			t.Errorf("row %d equals its literal for the server only", id)
		}
		delete(want, id)
	}
	for id, text := range want {
		t.Errorf("row %d equals %+q by key only", id, text)
	}
}

// checkLike: every row that LIKE finds is between the bounds.
func (s *server) checkLike(t *testing.T, c *Codec, r *rand.Rand) {
	prefixes := []string{"a", "A", "l", "L", "s", "ss", "c", "ch", "aa", "k", "i", "I", "n", "1", "-", ".", "'", " ", "a ", "  a", "lj", "dz", "ae", "f", "th", "o"}
	for range 10 {
		prefixes = append(prefixes, string(rune(' '+r.IntN(95)))+string(rune(' '+r.IntN(95))))
	}
	found := 0
	for _, prefix := range prefixes {
		v := String([]byte(prefix), "utf8mb4")
		from, to, ok := c.LikePrefix(v)
		if !ok || strings.ContainsAny(prefix, `%_\`) {
			continue
		}
		for _, x := range s.rows(t, "SELECT s FROM texts WHERE s LIKE "+String([]byte(prefix+"%"), "utf8mb4").Literal()) {
			key, ok := c.Scanned(nil, x[0])
			if !ok {
				continue
			}
			found++
			if bytes.Compare(key, from) < 0 || bytes.Compare(key, to) >= 0 {
				t.Errorf("%+q LIKE %q: %x is not in [%x, %x)", x[0], prefix+"%", key, from, to)
			}
		}
	}
	if c.text.like && found == 0 {
		t.Error("LIKE found no rows: the test is empty")
	}
}
