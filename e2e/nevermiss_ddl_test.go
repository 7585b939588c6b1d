package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissDDL has the writers and readers of TestNeverMiss work while
// indexes are rebuilt, moved, switched and made anew, and the table below them
// is altered, renamed and emptied.
func TestNeverMissDDL(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		duration := suite.Size(6*time.Second, 15*time.Second)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d, %s", seed, duration)
		n := &contest{t: t, tolerated: []uint16{
			1146,       // the table is called otherwise at the moment, here or on one shard
			1412,       // a snapshot is older than the table's definition, or one shard has the new one
			1180,       // the same has ended the transaction
			1932, 1033, // MariaDB's words for the same in the midst of an ALTER TABLE
		}}
		n.p = start(t, f, setup{
			tables:      []string{"people: {shard_key: tenant}", "people2: {shard_key: tenant}", "templates: {shard_key: tenant}"},
			maintenance: contestMaintenance,
		})
		n.prepare()
		d := &changer{contest: n, rnd: rand.New(rand.NewPCG(seed, 5000))}
		if f.name == throwaway.MariaDB {
			// Its online ALTER beside writers sometimes leaves an index that it
			// then calls corrupted (1712), which no proxy can mend.
			d.algorithm = ", ALGORITHM=COPY"
		}
		n.run(seed, duration, 20*time.Millisecond, d.change)
		for name := range onPeople {
			n.p.waitIndex(n.db, name)
		}
		n.verify()
		t.Logf("%d reads, %d writes, %d transactions, %d changes", n.reads.Load(), n.writes.Load(), n.transactions.Load(), d.done)
	})
}

// onPeople are the virtual indexes of a contest.
var onPeople = map[string]string{"idx_email": "email", "idx_city_email": "city, email", "idx_id": "id"}

// changer changes the table and its indexes under the writers and readers.
type changer struct {
	*contest
	rnd  *rand.Rand
	done int
	// stops, if set, is held while a Shunt stands still.
	stops *sync.Mutex
	// again are errors behind which a change was sent again.
	again []string
	// algorithm is what an ALTER TABLE ends with.
	algorithm string
	// homes are those that members can move indexes to.
	homes []string
	// parts are how many partitions the indexes have on the members' homes, if not 1.
	parts map[string]int
}

// exec is for statements that must work, whatever goes on beside them. One that a disturbed Shunt was sent is sent again,
// to any.
func (c *changer) exec(query string) {
	ctx, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	for sent := 1; ; sent++ {
		by := c.pick(c.rnd)
		_, err := by.db.ExecContext(ctx, query)
		// A rebuild that reads don't notice, or one that an audit asked for.
		disturbed := len(c.ways) == 1 || by.wasDisturbed()
		beside := strings.Contains(query, "PARTITIONS") && err != nil && strings.Contains(err.Error(), "being built")
		switch {
		case err == nil, beside, sent > 1 && doneBefore(err):
			c.done++
			return
		case c.outages && ctx.Err() == nil && (c.explained(by, err) || disturbed && strings.Contains(err.Error(), "send the same statement again")):
			c.again = append(c.again, fmt.Sprintf("%s%s: %v", query, by, err))
			if connectionLost(err) {
				c.awaitUp()
			}
		default:
			c.fail("%s%s, sent the %d. time: %v", query, by, sent, err)
			return
		}
	}
}

// changeTime bounds a change with all that holds it up.
const changeTime = 3 * time.Minute

// doneBefore are the errors of a change that was done by the time it was sent again.
func doneBefore(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains([]uint16{
		1050, 1051, 1146, // a table is there, or isn't
		1060, 1061, 1091, // a column or index
		1359, 1360, // a trigger
	}, e.Number)
}

func (c *changer) either(texts ...string) string { return texts[c.rnd.IntN(len(texts))] }

func (c *changer) change() {
	index := c.either("idx_email", "idx_city_email", "idx_id")
	switch c.rnd.IntN(10) {
	case 0:
		c.exec("REBUILD VIRTUAL INDEX " + index + " ON people")
	case 1:
		c.exec("ALTER VIRTUAL INDEX " + index + " ON people DISABLE")
		c.exec("ALTER VIRTUAL INDEX " + index + " ON people ENABLE")
	case 2:
		if len(c.ways) > 1 {
			var homes []string
			for range 1 + c.rnd.IntN(max(1, c.parts[index])) {
				homes = append(homes, c.either(c.homes...))
			}
			c.exec("REBUILD VIRTUAL INDEX " + index + " ON people HOME " + strings.Join(homes, ", "))
			break
		}
		c.ready(index)
		c.exec(fmt.Sprintf("ALTER VIRTUAL INDEX %s ON people PARTITIONS %d", index, 1+c.rnd.IntN(5)))
	case 3:
		c.exec("DROP VIRTUAL INDEX " + index + " ON people")
		create := "CREATE VIRTUAL INDEX " + index + " ON people (" + onPeople[index] + ")"
		if len(c.ways) > 1 {
			if c.parts == nil {
				c.parts = map[string]int{}
			}
			c.parts[index] = 1 + c.rnd.IntN(len(c.homes))
			create += fmt.Sprint(" PARTITIONS ", c.parts[index])
		}
		c.exec(create)
	case 4:
		c.exec("ALTER TABLE people ADD COLUMN more INT NOT NULL DEFAULT 1" + c.algorithm)
		c.exec("ALTER TABLE people DROP COLUMN more" + c.algorithm)
	case 5: // keys of the same values change
		c.exec("ALTER TABLE people MODIFY email VARCHAR(80) COLLATE " + c.either("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci") + c.algorithm)
	case 6:
		c.exec("ALTER TABLE people MODIFY id " + c.either("BIGINT", "INT", "BIGINT UNSIGNED") + " NOT NULL" + c.algorithm)
	case 7:
		// Whoever resolves what became of his rows looks for people.
		c.exec("RENAME TABLE people TO people2")
		c.exec("RENAME TABLE people2 TO people")
	case 8:
		c.exec("CREATE TRIGGER touched BEFORE UPDATE ON people FOR EACH ROW SET NEW.n = NEW.n")
		c.exec("DROP TRIGGER touched")
	case 9:
		c.truncate()
	}
	if c.rnd.IntN(2) == 0 {
		c.ready(index)
	}
}

// ready waits until reads use an index, so that they do at times.
func (c *changer) ready(index string) {
	if !c.outages {
		c.p.waitIndex(c.db, index)
		return
	}
	for began := time.Now(); time.Since(began) < changeTime; time.Sleep(20 * time.Millisecond) {
		by := c.pick(c.rnd)
		for _, r := range c.rowsBy(by, "SHOW VIRTUAL INDEXES") {
			if r["Name"] != index {
				continue
			}
			switch r["Status"] {
			case "ready":
				return
			case "failed":
				c.fail("index %s%s failed: %s", index, by, r["Error"])
				return
			}
		}
	}
	c.fail("index %s isn't ready", index)
}

// rowsBy is none after an error.
func (c *changer) rowsBy(by going, query string) []row {
	rows, err := rowsOf(context.Background(), by.db, query)
	if err != nil {
		c.readFailed(context.Background(), by, query, err)
	}
	return rows
}

// truncate empties the table while no writer writes.
func (c *changer) truncate() {
	if c.stops != nil {
		if !c.stops.TryLock() {
			return // writers wait for a Shunt that stands still
		}
		defer c.stops.Unlock()
	}
	c.still.Lock()
	defer c.still.Unlock()
	for _, l := range c.ledgers {
		var ids []int
		for id := range l.view() {
			ids = append(ids, id)
		}
		l.begin(ids...)
	}
	c.exec("TRUNCATE TABLE people")
	if c.numbered != nil {
		c.exec("TRUNCATE TABLE counted")
		clear(c.numbered.acknowledged)
	}
	for _, l := range c.ledgers {
		rows := map[int]stored{}
		for id := range l.view() {
			rows[id] = stored{}
		}
		l.settle(rows)
	}
}
