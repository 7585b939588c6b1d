package throwaway

import (
	"context"
	"fmt"
	"strings"
)

// StartGroup starts n servers that can be a group of Group Replication with a single primary: see Forms and Joins.
func StartGroup(ctx context.Context, src Source, n int, o Options) (*Set, error) {
	var addrs []string
	for range n {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	o.Servers = n
	for i := range n {
		o.Each = append(o.Each, []string{
			"--log-bin=binlog", "--relay-log=relay", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--performance-schema=ON",
			"--report-host=127.0.0.1", "--plugin-load-add=group_replication.so",
			"--loose-group-replication-group-name=5e60b0a4-0000-4000-8000-000000000001",
			"--loose-group-replication-local-address=" + addrs[i],
			"--loose-group-replication-group-seeds=" + strings.Join(addrs, ","),
			"--loose-group-replication-start-on-boot=OFF", "--loose-group-replication-bootstrap-group=OFF",
			"--loose-group-replication-recovery-get-public-key=ON", "--loose-group-replication-ip-allowlist=127.0.0.1",
			"--loose-group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER", "--loose-group-replication-member-expel-timeout=0",
		})
	}
	return Start(ctx, src, o)
}

// Forms are the statements by which a server begins the group.
func (s *Server) Forms() []string {
	return append(append([]string{"SET GLOBAL group_replication_bootstrap_group = ON"}, s.Joins()...), "SET GLOBAL group_replication_bootstrap_group = OFF")
}

// Joins are those by which one joins it, after each start.
func (s *Server) Joins() []string {
	return []string{
		fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_USER = '%s', SOURCE_PASSWORD = '%s' FOR CHANNEL 'group_replication_recovery'", s.User, s.Password),
		"START GROUP_REPLICATION",
	}
}
