package replica

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// position is what a primary has written to its binary log, or what a replica has
// applied of that. Two are compared by the first of these that both have: sets,
// domains, file and offset.
type position struct {
	// set is MySQL's gtid_executed; nil where gtid_mode isn't ON.
	set mysql.GTIDSet
	// domains are the highest sequence numbers by MariaDB's replication domain; nil
	// on MySQL.
	domains map[string]uint64
	// file is "" for none.
	file   string
	offset uint64
}

// reached reports whether p, a replica's, holds a primary's.
func (p position) reached(primary position) bool {
	switch {
	case primary.set != nil && p.set != nil:
		return p.set.Contain(primary.set)
	case primary.domains != nil && p.domains != nil:
		for domain, n := range primary.domains {
			if p.domains[domain] < n {
				return false
			}
		}
		return true
	case primary.file == "" || p.file == "":
		return false
	}
	c := compareFiles(p.file, primary.file)
	return c > 0 || c == 0 && p.offset >= primary.offset
}

// equal reports whether nothing happened between two positions of a primary.
func (p position) equal(q position) bool {
	if p.file != q.file || p.offset != q.offset || !maps.Equal(p.domains, q.domains) || (p.set == nil) != (q.set == nil) {
		return false
	}
	return p.set == nil || p.set.Equal(q.set)
}

// compareFiles orders binary logs by their numbers: binlog.999999 is before
// binlog.1000000.
func compareFiles(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func parseSet(text string) (mysql.GTIDSet, error) {
	set, err := mysql.ParseMysqlGTIDSet(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil, fmt.Errorf("GTIDs %q: %w", text, err)
	}
	return set, nil
}

// parseDomains reads MariaDB's "domain-server-sequence,...".
func parseDomains(text string) (map[string]uint64, error) {
	out := map[string]uint64{}
	for gtid := range strings.SplitSeq(text, ",") {
		if gtid = strings.TrimSpace(gtid); gtid == "" {
			continue
		}
		parts := strings.Split(gtid, "-")
		if len(parts) != 3 {
			return nil, fmt.Errorf("GTIDs %q: expected domain-server-sequence", text)
		}
		n, err := strconv.ParseUint(parts[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("GTIDs %q: %w", text, err)
		}
		out[parts[0]] = max(out[parts[0]], n)
	}
	return out, nil
}
