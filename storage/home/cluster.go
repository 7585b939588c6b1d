package home

import (
	"context"
	"database/sql"
	"errors"
)

// cluster is what a home is that has a copy of all on each of several nodes, and goes on while a majority of them
// does. Which node is used is for the cluster to say, never for who calls.
//
//	                   the node in use             what tells the home from others (flavour.server)
//	Group Replication  the primary of a majority   the group's name
//	Galera             the one that home names     that node, since its start
//
// Rule as of now: a node is asked as of what the cluster has agreed on by then (BEFORE, wsrep_sync_wait), and one that
// can't say so doesn't answer. Counter-example: a primary is cut off from the others, which elect another one. An entry
// is added there, and its row is written; who asks for it asks the first, over connections that are as ever.
//
// Rule one node (Galera): all write at one node, since others' locks don't count, only what they write.
// Counter-example: Add reads at one node, under the head's lock, that nothing is being built; StartBuild commits at
// another one, and a scan reads the shard; then Add commits, since both have written other rows, and puts the entry
// where soon nobody reads.
//
// So a node of Galera takes over when the one in use is no more of the cluster: nothing is on its way from there
// then that could come later. Each transaction has the row of home locked: those that are open at the
// former node end when it comes back and gets the change, and later ones see it.
type cluster int

const (
	alone cluster = iota
	group         // Group Replication with a single primary
	galera
)

// galeraNode is a node since its start: settings read which, as a status is costly to read.
const galeraNode = "@shunt_node"

var errElsewhere = errors.New("this node isn't the one of its cluster to be used: another one is, or none as long as the nodes that reach each other are no majority")

// settings are those of a connection. A primary that is cut off, or no member any more, refuses reads by them.
func (c cluster) settings() []string {
	switch c {
	case group:
		return []string{"group_replication_consistency = 'BEFORE'"}
	case galera:
		status := func(name string) string {
			return "(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = '" + name + "')"
		}
		return []string{
			"wsrep_sync_wait = 1", "wsrep_dirty_reads = OFF",
			galeraNode + " = CONVERT(CONCAT('galera ', " + status("wsrep_cluster_state_uuid") + ", ' ', " + status("wsrep_gcomm_uuid") + ") USING utf8mb4) COLLATE utf8mb4_bin",
		}
	case alone:
	}
	return nil
}

// standing are the checks that a node is of its cluster. A primary without a majority would not answer.
func (c cluster) standing() []condition {
	if c != group {
		return nil // Galera refuses by itself (1047)
	}
	return []condition{{
		`SELECT COALESCE(SUM(MEMBER_ID = @@GLOBAL.server_uuid AND MEMBER_STATE = 'ONLINE' AND MEMBER_ROLE = 'PRIMARY') = 1
		AND 2 * SUM(MEMBER_STATE <> 'UNREACHABLE') > COUNT(*), 0) FROM performance_schema.replication_group_members`, errElsewhere,
	}}
}

// reads is a condition of lookups; where it doesn't hold there is no index, and all shards are asked. A member that was
// told to leave its group takes nothing any more, nor waits for anybody: see rule as of now.
func (c cluster) reads() string {
	if c != group {
		return ""
	}
	return " AND @@GLOBAL.super_read_only = 0"
}

// same are the checks that a server is the home that is in use, and the node of it.
func (f flavour) same() []condition {
	is := condition{"SELECT server = " + f.server + " FROM home", ErrOtherServer}
	if f.cluster != galera {
		return []condition{is}
	}
	return []condition{
		{"SELECT SUBSTRING_INDEX(server, ' ', 2) = SUBSTRING_INDEX(" + f.server + ", ' ', 2) FROM home", ErrOtherServer},
		{is.query, errElsewhere},
	}
}

// takeOver makes this node the one in use, if it may be. It waits until it knows who is of the cluster now.
func (c cluster) takeOver() string {
	if c != galera {
		return ""
	}
	const members = "(SELECT CONVERT(node_uuid USING utf8mb4) COLLATE utf8mb4_bin FROM mysql.wsrep_cluster_members)"
	return "SET STATEMENT wsrep_sync_wait = 15 FOR UPDATE home SET server = " + galeraNode +
		" WHERE SUBSTRING_INDEX(server, ' ', 2) = SUBSTRING_INDEX(" + galeraNode + ", ' ', 2)" +
		" AND SUBSTRING_INDEX(server, ' ', -1) NOT IN " + members + " AND SUBSTRING_INDEX(" + galeraNode + ", ' ', -1) IN " + members
}

// left are errors of a node that isn't, or no longer, the one to be used.
func (c cluster) left(err error) bool {
	if errors.Is(err, errElsewhere) {
		return true
	}
	switch n := errorNumber(err); c {
	case galera:
		// ER_UNKNOWN_COM_ERROR, ER_ERROR_DURING_COMMIT: the node isn't of the cluster. ER_LOCK_WAIT_TIMEOUT of a read:
		// what the cluster has can't be told (wsrep_sync_wait).
		return n == 1047 || n == 1180 || n == 1205
	case group:
		// ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE: it is no primary. ER_RUN_HOOK_ERROR: it can't commit.
		// ER_GRP_TRX_CONSISTENCY_*: what the group has agreed on can't be told.
		return n == 1290 || n == 1836 || n == 3100 || 3796 <= n && n <= 3800
	case alone:
	}
	return false
}

// here holds a transaction at the node in use. See rule one node.
func (h *Home) here(ctx context.Context, tx *sql.Tx) error {
	if h.flavour.cluster != galera || h.unchecked {
		return nil
	}
	var same bool
	err := tx.QueryRowContext(ctx, "SELECT server = "+h.flavour.server+" FROM home LOCK IN SHARE MODE").Scan(&same)
	if err == nil && !same {
		err = errElsewhere
	}
	return err
}
