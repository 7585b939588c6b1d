package demo

import (
	"fmt"
	"strings"
)

// Schema of the sample data. The shards have plain indexes on the columns that
// are looked up, so that the comparison with and without a virtual index shows
// the fan-out and not a table scan.
var tables = []string{
	`CREATE TABLE countries (
	code CHAR(2) NOT NULL PRIMARY KEY,
	name VARCHAR(60) NOT NULL
)`,
	`CREATE TABLE users (
	id BIGINT NOT NULL PRIMARY KEY,
	email VARCHAR(120) NOT NULL,
	name VARCHAR(80) NOT NULL,
	country CHAR(2) NOT NULL,
	joined DATE NOT NULL,
	KEY email (email)
)`,
	`CREATE TABLE orders (
	id BIGINT NOT NULL PRIMARY KEY,
	user_id BIGINT NOT NULL,
	tracking VARCHAR(20) NOT NULL,
	product VARCHAR(60) NOT NULL,
	total DECIMAL(10,2) NOT NULL,
	KEY user_id (user_id),
	KEY tracking (tracking)
)`,
}

var (
	firstNames = []string{"Ada", "Grace", "Alan", "Barbara", "Edsger", "Frances", "Donald", "Radia", "Ken", "Margaret", "Dennis", "Hedy"}
	lastNames  = []string{"Lovelace", "Hopper", "Turing", "Liskov", "Dijkstra", "Allen", "Knuth", "Perlman", "Thompson", "Hamilton", "Ritchie", "Lamarr"}
	products   = []string{"Lamp", "Chair", "Desk", "Notebook", "Fountain pen", "Teapot", "Umbrella", "Clock", "Backpack", "Radio"}
	countries  = [][2]string{
		{"DE", "Germany"},
		{"FR", "France"},
		{"GB", "United Kingdom"},
		{"IT", "Italy"},
		{"JP", "Japan"},
		{"NL", "Netherlands"},
		{"SE", "Sweden"},
		{"US", "United States"},
	}
)

type user struct {
	id                           int
	email, name, country, joined string
}

// userAt is the user with this id, from 1.
func userAt(id int) user {
	first, last := firstNames[id%len(firstNames)], lastNames[id/len(firstNames)%len(lastNames)]
	return user{
		id:      id,
		email:   fmt.Sprintf("%s.%s.%d@example.com", strings.ToLower(first), strings.ToLower(last), id),
		name:    first + " " + last,
		country: countries[id%len(countries)][0],
		joined:  fmt.Sprintf("20%02d-%02d-%02d", 10+id%15, 1+id%12, 1+id%28),
	}
}

func (u user) values() string {
	return fmt.Sprintf("(%d,'%s','%s','%s','%s')", u.id, u.email, u.name, u.country, u.joined)
}

type order struct {
	id, userID               int
	tracking, product, total string
}

// orderAt is the order with this id, from 1, where there are that many users.
func orderAt(id, users int) order {
	return order{
		id: id,
		// Each user gets orders in turn; a step that shares no factor with
		// most user counts keeps neighbours apart.
		userID:   (id-1)*7919%users + 1,
		tracking: fmt.Sprintf("SH%09d%02d", id, id*31%97),
		product:  products[id%len(products)],
		total:    fmt.Sprintf("%d.%02d", 5+id%400, id%100),
	}
}

func (o order) values() string {
	return fmt.Sprintf("(%d,%d,'%s','%s',%s)", o.id, o.userID, o.tracking, o.product, o.total)
}

// insert is one statement for the rows from to to.
func insert(into string, from, to int, values func(int) string) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + into + " VALUES ")
	for i := from; i <= to; i++ {
		if i > from {
			b.WriteByte(',')
		}
		b.WriteString(values(i))
	}
	return b.String()
}
