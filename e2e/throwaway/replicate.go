package throwaway

import "fmt"

// ReplicationArgs are options for servers of which some replicate from others.
func ReplicationArgs(f Flavour) []string {
	args := []string{"--log-bin=binlog", "--relay-log=relay", "--sync-binlog=0"}
	if f == MySQL {
		args = append(args, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
	}
	return args
}

// Replicates are the statements that make a server a replica of another from that
// one's beginning on.
func (s *Server) Replicates(from *Server) []string {
	if s.set.Source.Flavour == MariaDB {
		return []string{
			fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='%s', MASTER_PASSWORD='%s', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1", from.port, from.User, from.Password),
			"START SLAVE",
		}
	}
	return []string{
		fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='%s', SOURCE_PASSWORD='%s', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=100000, SOURCE_HEARTBEAT_PERIOD=1", from.port, from.User, from.Password),
		"START REPLICA",
	}
}
