package tpch

// Tables are the CREATE TABLE statements with the keys of clause 1.4.2, in the
// order in which they can be filled. Foreign keys are left out; their columns
// have indexes.
var Tables = []Table{
	{"region", "reference", `CREATE TABLE region (
  r_regionkey INT NOT NULL, r_name CHAR(25) NOT NULL, r_comment VARCHAR(152),
  PRIMARY KEY (r_regionkey))`},
	{"nation", "reference", `CREATE TABLE nation (
  n_nationkey INT NOT NULL, n_name CHAR(25) NOT NULL, n_regionkey INT NOT NULL, n_comment VARCHAR(152),
  PRIMARY KEY (n_nationkey), KEY (n_regionkey))`},
	{"supplier", "s_suppkey", `CREATE TABLE supplier (
  s_suppkey INT NOT NULL, s_name CHAR(25) NOT NULL, s_address VARCHAR(40) NOT NULL, s_nationkey INT NOT NULL,
  s_phone CHAR(15) NOT NULL, s_acctbal DECIMAL(15,2) NOT NULL, s_comment VARCHAR(101) NOT NULL,
  PRIMARY KEY (s_suppkey), KEY (s_nationkey))`},
	{"part", "p_partkey", `CREATE TABLE part (
  p_partkey INT NOT NULL, p_name VARCHAR(55) NOT NULL, p_mfgr CHAR(25) NOT NULL, p_brand CHAR(10) NOT NULL,
  p_type VARCHAR(25) NOT NULL, p_size INT NOT NULL, p_container CHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL,
  p_comment VARCHAR(23) NOT NULL,
  PRIMARY KEY (p_partkey))`},
	{"partsupp", "ps_partkey", `CREATE TABLE partsupp (
  ps_partkey INT NOT NULL, ps_suppkey INT NOT NULL, ps_availqty INT NOT NULL, ps_supplycost DECIMAL(15,2) NOT NULL,
  ps_comment VARCHAR(199) NOT NULL,
  PRIMARY KEY (ps_partkey, ps_suppkey), KEY (ps_suppkey))`},
	{"customer", "c_custkey", `CREATE TABLE customer (
  c_custkey INT NOT NULL, c_name VARCHAR(25) NOT NULL, c_address VARCHAR(40) NOT NULL, c_nationkey INT NOT NULL,
  c_phone CHAR(15) NOT NULL, c_acctbal DECIMAL(15,2) NOT NULL, c_mktsegment CHAR(10) NOT NULL, c_comment VARCHAR(117) NOT NULL,
  PRIMARY KEY (c_custkey), KEY (c_nationkey))`},
	{"orders", "o_orderkey", `CREATE TABLE orders (
  o_orderkey BIGINT NOT NULL, o_custkey INT NOT NULL, o_orderstatus CHAR(1) NOT NULL, o_totalprice DECIMAL(15,2) NOT NULL,
  o_orderdate DATE NOT NULL, o_orderpriority CHAR(15) NOT NULL, o_clerk CHAR(15) NOT NULL, o_shippriority INT NOT NULL,
  o_comment VARCHAR(79) NOT NULL,
  PRIMARY KEY (o_orderkey), KEY (o_custkey), KEY (o_orderdate))`},
	{"lineitem", "l_orderkey", `CREATE TABLE lineitem (
  l_orderkey BIGINT NOT NULL, l_partkey INT NOT NULL, l_suppkey INT NOT NULL, l_linenumber INT NOT NULL,
  l_quantity DECIMAL(15,2) NOT NULL, l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, l_tax DECIMAL(15,2) NOT NULL,
  l_returnflag CHAR(1) NOT NULL, l_linestatus CHAR(1) NOT NULL, l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL,
  l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, l_comment VARCHAR(44) NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber), KEY (l_partkey, l_suppkey), KEY (l_suppkey), KEY (l_shipdate))`},
}

// Table is one of the eight. Key is the shard key, or "reference".
type Table struct{ Name, Key, Create string }

// Placement is the table's line in Shunt's configuration.
func (t Table) Placement() string {
	if t.Key == "reference" {
		return t.Name + ": {placement: reference}"
	}
	return t.Name + ": {shard_key: " + t.Key + "}"
}
