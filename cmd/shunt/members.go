package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
)

// membersTime bounds how long SHOW MEMBERS waits for shards that hang.
const membersTime = 5 * time.Second

// members are the rows of SHOW MEMBERS: those that have the store together, or this process.
func (s *service) members(ctx context.Context) ([]proxy.MemberRow, error) {
	if s.member == nil {
		return []proxy.MemberRow{s.alone()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, membersTime)
	defer cancel()
	all, err := s.member.cluster.Members(ctx)
	if err != nil && len(all) == 0 {
		return nil, fmt.Errorf("no shard tells of the members: %w", err)
	}
	rows := make([]proxy.MemberRow, len(all))
	for i, m := range all {
		rows[i] = proxy.MemberRow{
			Member: m.Member, Addr: m.Addr, State: m.State, Since: timeText(m.Since), Told: toldText(m.Told, s.shardName),
			Catalog: m.Catalog, Connections: m.Connections, Open: m.Open, Version: m.Version,
		}
	}
	return rows, nil // of shards that didn't answer State tells
}

// alone is the row of a process that shares its store with nobody.
func (s *service) alone() proxy.MemberRow {
	row := proxy.MemberRow{Member: s.cluster.Self(), Addr: toldAddr(s.cfg), State: "alone", Since: timeText(s.began), Version: version}
	if d := s.directory.Load(); d != nil {
		row.Catalog = d.Catalog().Version
	}
	if l, ok := s.cluster.(*cluster.Local); ok {
		row.Open = l.Opened()
	}
	for _, p := range s.pools {
		st := p.Stats()
		row.Connections += st.InUse + st.Idle
	}
	return row
}

// toldAddr is where clients reach this process, for people: by the machine's name where the
// configuration names an address that other machines have too.
func toldAddr(cfg *config.Config) string {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if ip := net.ParseIP(host); err != nil || host != "" && host != "localhost" && (ip == nil || !ip.IsLoopback() && !ip.IsUnspecified()) {
		return cfg.Listen
	}
	name, err := os.Hostname()
	if err != nil {
		return cfg.Listen
	}
	return net.JoinHostPort(name, port)
}

// shardName is for people.
func (s *service) shardName(id catalog.ShardID) string {
	for _, sh := range s.layout.shards {
		if sh.ID == id {
			return sh.Name
		}
	}
	return fmt.Sprint(id)
}

// toldText says since which epoch something may be open on a shard, and which one it is in:
// "s0: 11 of 12, s1: 3 of 3".
func toldText(told []cluster.ToldOn, name func(catalog.ShardID) string) string {
	parts := make([]string, len(told))
	for i, t := range told {
		parts[i] = fmt.Sprintf("%s: %d of %d", name(t.Shard), t.Epoch, t.Now)
	}
	return strings.Join(parts, ", ")
}
