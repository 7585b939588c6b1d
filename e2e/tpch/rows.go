package tpch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Value lists of clause 4.2.2.13.
var (
	regions = []string{"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}
	nations = []struct {
		name   string
		region int
	}{
		{"ALGERIA", 0},
		{"ARGENTINA", 1},
		{"BRAZIL", 1},
		{"CANADA", 1},
		{"EGYPT", 4},
		{"ETHIOPIA", 0},
		{"FRANCE", 3},
		{"GERMANY", 3},
		{"INDIA", 2},
		{"INDONESIA", 2},
		{"IRAN", 4},
		{"IRAQ", 4},
		{"JAPAN", 2},
		{"JORDAN", 4},
		{"KENYA", 0},
		{"MOROCCO", 0},
		{"MOZAMBIQUE", 0},
		{"PERU", 1},
		{"CHINA", 2},
		{"ROMANIA", 3},
		{"SAUDI ARABIA", 4},
		{"VIETNAM", 2},
		{"RUSSIA", 3},
		{"UNITED KINGDOM", 3},
		{"UNITED STATES", 1},
	}
	colours = strings.Fields(`almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse
		chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro ghost
		goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium metallic
		midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder puff purple red rose rosy
		royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow`)
	types1     = []string{"STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"}
	types2     = []string{"ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"}
	types3     = []string{"TIN", "NICKEL", "BRASS", "STEEL", "COPPER"}
	container1 = []string{"SM", "LG", "MED", "JUMBO", "WRAP"}
	container2 = []string{"CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"}
	segments   = []string{"AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"}
	priorities = []string{"1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"}
	instructs  = []string{"DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"}
	modes      = []string{"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"}
	nouns      = strings.Fields(`foxes ideas theodolites pinto beans instructions dependencies excuses platelets asymptotes courts dolphins
		multipliers sauternes warthogs frets dinos attainments somas Tiresias' patterns forges braids hockey players frays warhorses dugouts
		notornis epitaphs pearls tithes waters orbits gifts sheaves depths sentiments decoys realms pains grouches escapades packages requests
		accounts deposits`)
	adjectives = strings.Fields(`furious sly careful blithe quick fluffy slow quiet ruthless thin close dogged daring brave stealthy permanent
		enticing idle busy regular final ironic even bold silent special pending unusual express`)
	verbs = strings.Fields(`sleep wake are cajole haggle nag use boost affix detect integrate maintain nod was lose sublate solve thrash promise
		engage hinder print x-ray breach eat grow impress mold poach serve run dazzle snooze doze unwind kindle play hang believe doubt`)
)

const firstDay, lastDay = "1992-01-01", "1998-12-31"

// currentDate of clause 4.2.2.12.
var currentDate = day("1995-06-17")

func day(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

type maker struct {
	*rand.Rand
	scale float64
	emit  func(table string, row string) error
	err   error
}

// Rows makes all rows of a scale factor (1 is 6 million lineitems), and hands
// each over as its literals in parentheses, table by table but lineitem beside
// orders. It ends at the first error.
func Rows(scale float64, seed uint64, emit func(table, row string) error) error {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 22)), scale: scale, emit: emit}
	m.all()
	return m.err
}

func (m *maker) count(of int) int { return max(1, int(float64(of)*m.scale)) }

func (m *maker) pick(of []string) string { return of[m.IntN(len(of))] }

// between is a number from both ends on.
func (m *maker) between(low, high int) int { return low + m.IntN(high-low+1) }

// money is a number of hundredths as a decimal.
func money(cents int) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s%d.%02d", sign, cents/100, cents%100)
}

// comment is some grammatical text of at most so many characters.
func (m *maker) comment(most int) string {
	var b strings.Builder
	for words := 3 + m.IntN(8); words > 0; words-- {
		w := m.pick([][]string{nouns, adjectives, verbs}[words%3])
		if b.Len()+1+len(w) > most {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.ReplaceAll(w, "'", ""))
	}
	return b.String()
}

func (m *maker) address() string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, "
	b := make([]byte, m.between(10, 40))
	for i := range b {
		b[i] = letters[m.IntN(len(letters))]
	}
	return strings.TrimSpace(string(b))
}

func (m *maker) phone(nation int) string {
	return fmt.Sprintf("%d-%03d-%03d-%04d", nation+10, m.between(100, 999), m.between(100, 999), m.between(1000, 9999))
}

func (m *maker) row(table, format string, args ...any) {
	if m.err == nil {
		m.err = m.emit(table, fmt.Sprintf("("+format+")", args...))
	}
}

// retailPrice in cents (clause 4.2.3).
func retailPrice(part int) int { return 90000 + (part/10)%20001 + 100*(part%1000) }

// supplierOf is the i-th supplier of a part (clause 4.2.3).
func supplierOf(part, i, suppliers int) int {
	return (part+i*(suppliers/4+(part-1)/suppliers))%suppliers + 1
}

func (m *maker) all() {
	for i, name := range regions {
		m.row("region", "%d, '%s', '%s'", i, name, m.comment(115))
	}
	for i, n := range nations {
		m.row("nation", "%d, '%s', %d, '%s'", i, n.name, n.region, m.comment(114))
	}
	suppliers, parts, customers, orders := m.count(10_000), m.count(200_000), m.count(150_000), m.count(1_500_000)
	for i := 1; i <= suppliers; i++ {
		nation := m.IntN(25)
		comment := m.comment(100)
		// 5 of 10,000 complain, 5 recommend (clause 4.2.3); more where there are few.
		switch m.IntN(max(suppliers/5, 20)) {
		case 0:
			comment = "about Customer slow Complaints"
		case 1:
			comment = "the Customer Recommends"
		}
		m.row("supplier", "%d, 'Supplier#%09d', '%s', %d, '%s', %s, '%s'", i, i, m.address(), nation, m.phone(nation), money(m.between(-99999, 999999)), comment)
	}
	for i := 1; i <= parts; i++ {
		var name []string
		for _, at := range m.Perm(len(colours))[:5] {
			name = append(name, colours[at])
		}
		mfgr := m.between(1, 5)
		kind := m.pick(types1) + " " + m.pick(types2) + " " + m.pick(types3)
		m.row("part", "%d, '%s', 'Manufacturer#%d', 'Brand#%d%d', '%s', %d, '%s %s', %s, '%s'", i, strings.Join(name, " "), mfgr, mfgr, m.between(1, 5), kind,
			m.between(1, 50), m.pick(container1), m.pick(container2), money(retailPrice(i)), m.comment(22))
	}
	for i := 1; i <= parts; i++ {
		seen := map[int]bool{}
		for j := range 4 {
			s := supplierOf(i, j, suppliers)
			if seen[s] {
				continue // of few suppliers
			}
			seen[s] = true
			m.row("partsupp", "%d, %d, %d, %s, '%s'", i, s, m.between(1, 9999), money(m.between(100, 100000)), m.comment(198))
		}
	}
	for i := 1; i <= customers; i++ {
		nation := m.IntN(25)
		m.row("customer", "%d, 'Customer#%09d', '%s', %d, '%s', %s, '%s', '%s'", i, i, m.address(), nation, m.phone(nation), money(m.between(-99999, 999999)),
			m.pick(segments), m.comment(116))
	}
	first := day(firstDay)
	days := int(day(lastDay).Sub(first).Hours()/24) - 151
	for i := range orders {
		// Of each 32 keys the first 8 are used.
		key := i/8*32 + i%8 + 1
		customer := m.between(1, customers)
		for customer%3 == 0 && customers > 3 { // a third never order
			customer = m.between(1, customers)
		}
		date := first.AddDate(0, 0, m.IntN(days+1))
		total, open := 0, 0
		lines := m.between(1, 7)
		for line := 1; line <= lines; line++ {
			part := m.between(1, parts)
			quantity := m.between(1, 50)
			price := quantity * retailPrice(part)
			discount, tax := m.IntN(11), m.IntN(9)
			shipped := date.AddDate(0, 0, m.between(1, 121))
			committed := date.AddDate(0, 0, m.between(30, 90))
			received := shipped.AddDate(0, 0, m.between(1, 30))
			flag, status := "N", "O"
			if !received.After(currentDate) {
				flag = m.pick([]string{"R", "A"})
			}
			if shipped.After(currentDate) {
				open++
			} else {
				status = "F"
			}
			total += price * (100 - discount) * (100 + tax) / 10000
			m.row("lineitem", "%d, %d, %d, %d, %d, %s, %s, %s, '%s', '%s', '%s', '%s', '%s', '%s', '%s', '%s'", key, part, supplierOf(part, m.IntN(4), suppliers),
				line, quantity, money(price), money(discount), money(tax), flag, status, shipped.Format(time.DateOnly), committed.Format(time.DateOnly),
				received.Format(time.DateOnly), m.pick(instructs), m.pick(modes), m.comment(43))
		}
		status := "P"
		switch open {
		case 0:
			status = "F"
		case lines:
			status = "O"
		}
		comment := m.comment(78)
		if m.IntN(50) == 0 {
			comment = "the special pending requests"
		}
		m.row("orders", "%d, %d, '%s', %s, '%s', '%s', 'Clerk#%09d', 0, '%s'", key, customer, status, money(total), date.Format(time.DateOnly), m.pick(priorities),
			m.between(1, m.count(1000)), comment)
	}
}

// Insert collects rows into INSERT statements of some hundred rows.
type Insert struct {
	// Exec runs a statement.
	Exec  func(sql string) error
	texts map[string]*strings.Builder
	rows  map[string]int
}

// Add is for Rows.
func (i *Insert) Add(table, row string) error {
	if i.texts == nil {
		i.texts, i.rows = map[string]*strings.Builder{}, map[string]int{}
	}
	b := i.texts[table]
	if b == nil {
		b = &strings.Builder{}
		i.texts[table] = b
	}
	if b.Len() == 0 {
		b.WriteString("INSERT INTO " + table + " VALUES ")
	} else {
		b.WriteByte(',')
	}
	b.WriteString(row)
	if i.rows[table]++; i.rows[table] < 500 {
		return nil
	}
	return i.flush(table)
}

func (i *Insert) flush(table string) error {
	b := i.texts[table]
	if b == nil || b.Len() == 0 {
		return nil
	}
	sql := b.String()
	b.Reset()
	i.rows[table] = 0
	return i.Exec(sql)
}

// Flush sends what is left.
func (i *Insert) Flush() error {
	for _, t := range Tables {
		if err := i.flush(t.Name); err != nil {
			return err
		}
	}
	return nil
}
