package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Config is a whole configuration, defaults filled in.
type Config struct {
	// File is where it was read from, for messages.
	File string
	// Listen is the MySQL protocol's address, HTTP that of metrics, health,
	// console and REST ("" turns it off).
	Listen, HTTP string
	// Socket is a Unix socket for clients of this machine, "" for none.
	Socket string
	// ProxyProtocol are the networks from which each connection begins with a
	// header of the PROXY protocol.
	ProxyProtocol []netip.Prefix
	// ServerVersion is what clients are told; "" is the shards'.
	ServerVersion string
	// HTTPToken is asked for by HTTP, but for health; "" for nothing, which only
	// an address on loopback may do.
	HTTPToken string
	// DataDir holds the store, relative to the working directory.
	DataDir string
	// LogLevel is the least severe level that is logged.
	LogLevel slog.Level
	// TLS is nil where clients can't use TLS.
	TLS *TLS
	// MaxConnections bounds the clients' connections; the next one is refused
	// with error 1040.
	MaxConnections int
	// SessionMaxBytes bounds what a client's connection may have kept between statements,
	// SessionsMaxBytes what all may together (error 3170).
	SessionMaxBytes, SessionsMaxBytes int64
	// ShardConnections bounds Shunt's connections to each shard.
	ShardConnections int
	// MaxPreparedStatements bounds the prepared statements of a client's
	// connection; the next one is refused with error 1461.
	MaxPreparedStatements int
	// ShardPreparedStatements bounds those that Shunt keeps on each of its
	// connections to a shard.
	ShardPreparedStatements int
	// MaxReplicaLag is how far a replica may be behind its shard to be read from.
	MaxReplicaLag time.Duration
	// ShardTimeout is how long a shard may give no sign of life until what waits
	// for it fails.
	ShardTimeout time.Duration
	// MaxAllowedPacket bounds what a client sends as one command, in bytes; more is
	// error 1153.
	MaxAllowedPacket int
	// MinFreeDisk in bytes: below it, writes to indexed tables are refused.
	MinFreeDisk uint64
	// StatementShapes is how many shapes of statements are counted apart; 0: none.
	// StatementSamples: the values of each shape's longest one are kept.
	StatementShapes  int
	StatementSamples bool
	StatementLog     *StatementLog // nil: none
	Tracing          *Tracing      // nil: none
	// LookupCache in bytes: hot records of virtual indexes kept in memory; 0: none.
	LookupCache int64
	// StoreCache in bytes: blocks of the store kept in memory.
	StoreCache int64
	// KeptAnswers in bytes: answers of covering indexes; 0: none.
	KeptAnswers int64
	// DrainTimeout is how long a stop waits for open transactions.
	DrainTimeout time.Duration

	Timeouts Timeouts

	// GatherMaxRows and GatherMaxBytes bound what one query copies to be
	// answered on one server.
	GatherMaxRows, GatherMaxBytes int64

	// CursorMaxBytes bounds the rows of all open cursors together.
	CursorMaxBytes int64

	Users  []User
	Shards []Shard
	// Scratch is the server for such copies; nil: one of the shards.
	Scratch        *Shard
	Schemas        []Schema
	Indexes        []Index
	Maintenance    Maintenance
	VirtualColumns VirtualColumns
	Store          Store
}

// Timeouts toward clients: defaults of the session variables of these names, and
// Query, after which Shunt ends a statement that reads; 0 is never.
type Timeouts struct {
	Wait, Interactive, NetRead, NetWrite, Query, Commit time.Duration
}

// User may connect to Shunt.
type User struct {
	Name string
	// Password is empty where only its hashes are known, or where it is.
	Password   string
	Credential wire.Credential
	// Schemas are those that the user may see; nil: all.
	Schemas []string
	// ReadOnly: no statement that changes or locks anything.
	ReadOnly bool
	// RequireTLS refuses connections without TLS (error 3159), but for a socket.
	RequireTLS bool
	// ReadFromReplicas is where reads outside of transactions go, unless a session
	// has SET its own.
	ReadFromReplicas bool
	// FastVirtualColumns and FastIndexReads: reads of virtual columns, and by covering indexes, wait for nothing, likewise.
	FastVirtualColumns, FastIndexReads bool
	// MaxConnections at a time and MaxRate of statements a second (error 1226); 0:
	// no bound.
	MaxConnections, MaxRate int
	// MaxShardConnections of each shard for his statements at a time; 0: his share.
	MaxShardConnections int
}

// Shard is a backend server, and the account that Shunt uses there.
type Shard struct {
	Name, Addr     string
	User, Password string
	// TLS is nil where the connection isn't encrypted.
	TLS *ShardTLS
	// Replicas hold copies of its rows, by replication, for reads. Their Name is
	// the shard's.
	Replicas []Shard
	// Nodes, of a server of the store, are the addresses of the other nodes of its cluster.
	Nodes []string
}

// Schema places the tables of one schema.
type Schema struct {
	Name   string
	Tables []Table
	// Default is for the tables that aren't named. Its Name is empty.
	Default Table
}

// Table is a table's placement.
type Table struct {
	Name      string
	Placement catalog.Placement
	// ShardKey is the column that Hash goes by; "" means the first column of
	// the primary key.
	ShardKey string
	// Shard names the one that holds a Single table.
	Shard string
	// UniqueByShard is check_unique: false, of an Anywhere table: its unique keys needn't hold
	// over all shards.
	UniqueByShard bool
}

// Index is a virtual index that is made at start if it doesn't exist.
type Index struct {
	Name          string
	Schema, Table string
	Columns       []string
	// Include are further columns for which answers of reads are kept.
	Include []string
	// Partitions is 1 unless set.
	Partitions int
}

// Maintenance sets how the indexer works.
type Maintenance struct {
	// Follow is how changes whose keys can't be computed come into indexes: one of the constants below.
	Follow string
	// Delay from a write to the scan that follows it.
	Delay time.Duration
	// ScanDuty is the largest share of time, above 0 up to 1, for which a
	// shard is being scanned, and of Shunt's processors for all scans.
	ScanDuty float64
	// MaxThreadsRunning is how many threads may run on a shard until scans wait; 0: any number.
	MaxThreadsRunning int
	// ReconcileEvery is how often each table is scanned on each shard without
	// any cause; 0 means never.
	ReconcileEvery time.Duration
	// Workers is the number of jobs that run at the same time.
	Workers int
	// Audit is the share, 0 to 1, of index-routed reads that are also asked
	// of the skipped shards.
	Audit float64
}

// VirtualColumns sets how values of virtual columns are kept.
type VirtualColumns struct {
	// ConsolidateEvery is how long what is hot isn't durable at most, ConsolidateAt how many values.
	ConsolidateEvery time.Duration
	ConsolidateAt    int
	// KeepFor is how long a whole value stays in memory without a read of it, KeepMost how many do at most.
	KeepFor  time.Duration
	KeepMost int
}

// What Maintenance.Follow may be.
const (
	FollowBinlog = "binlog" // by the shards' binary logs
	FollowAuto   = "auto"   // by those that can be followed
	FollowScan   = "scan"
)

// Schema finds a schema's placements; nil if the configuration doesn't name it.
func (c *Config) Schema(name string) *Schema {
	for i := range c.Schemas {
		if c.Schemas[i].Name == name {
			return &c.Schemas[i]
		}
	}
	return nil
}

// Table says how a table is placed: by its own entry, else by its schema's
// default, else by hash of its primary key.
func (c *Config) Table(schema, name string) Table {
	s := c.Schema(schema)
	if s == nil {
		return Table{Name: name}
	}
	for _, t := range s.Tables {
		if t.Name == name {
			return t
		}
	}
	t := s.Default
	t.Name = name
	return t
}
