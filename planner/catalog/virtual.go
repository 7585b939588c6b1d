package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// VirtualSchema holds the durable values of virtual columns, on the shards of the rows that have them.
const VirtualSchema = "shunt_virtual"

// The columns of a virtual column's table there: the key, how many rows are counted, and the value. A doubtful
// one is to be computed anew.
const (
	VirtualKey      = "shunt_k"
	VirtualCount    = "shunt_n"
	VirtualValue    = "shunt_v"
	VirtualDoubtful = "shunt_doubtful"
	// VirtualOrder is what the value's row is ordered by, of Last and First.
	VirtualOrder = "shunt_o"
	// VirtualBatch is the number of the batch that has written the value last: a shard's batches are numbered.
	VirtualBatch = "shunt_batch"
)

// Aggregate is what a virtual column does with the rows of a key.
type Aggregate string

const (
	CountRows  Aggregate = "COUNT(*)"
	CountNulls Aggregate = "COUNT" // but those where the argument is NULL
	Sum        Aggregate = "SUM"
	Min        Aggregate = "MIN"
	Max        Aggregate = "MAX"
	// Last and First are the argument of the row with the greatest and the least Order.
	Last  Aggregate = "LAST"
	First Aggregate = "FIRST"
)

// VirtualColumn is a column of a table that is computed over the rows of another one, or of the same:
//
//	(SELECT COUNT(*) FROM messages m WHERE m.conversation_id = conversations.id)
//
// conversations.id is its Key, messages its Child, conversation_id the ChildKey.
type VirtualColumn struct {
	ID uint32
	// Generation counts how often it was built: each has a durable table of its own, so that who reads while it is built
	// anew finds what it was told of.
	Generation uint32
	Of         TableName // the table that has it
	Name       string
	// Expression is the query as it was written.
	Expression string
	Key        string
	Child      TableName
	ChildKey   string
	Aggregate  Aggregate
	Argument   string // "": that of COUNT(*)
	Order      string // of Last and First
	// Where are the conditions, with ChildMark for the child's name and ParentKeyMark for the parent's key.
	Where string
	// Filtered: there are others than that of the keys. Filters are these, where a row's values decide each of them.
	Filtered bool
	Filters  []ChildFilter
	// Types of the durable table's columns, as CREATE TABLE has them.
	KeyType, ValueType, OrderType string
	// ValueCharset and ValueCollation are those of a text.
	ValueCharset, ValueCollation string
	Status                       IndexStatus
	// Error says why Status is Failed, or why it is built again.
	Error string
	// Watched: another Shunt keeps it, and whole values of some keys may be in memory here.
	Watched bool
}

// ChildFilter is a condition of a child's row: a column is NULL (Null), or equals one of some values; Not: it isn't NULL, and equals none.
type ChildFilter struct {
	Column string
	// Type and Collation are those that the column had.
	Type, Collation string
	Null, Not       bool
	// Keys are those of the values (package keys).
	Keys []string
}

// Marks in VirtualColumn.Where.
const (
	ChildMark     = "\x01"
	ParentKeyMark = "\x02"
)

// Definition is the query with a name for the child's rows, and an expression for the key.
func (v *VirtualColumn) Definition(child, key string) string {
	query := "SELECT " + v.Call(child) + " FROM " + v.Child.Quoted() + " AS " + child + " WHERE " + v.Condition(child, key)
	if v.Ordered() {
		query += " ORDER BY " + child + "." + QuoteName(v.Order)
		if v.Aggregate == Last {
			query += " DESC"
		}
		query += " LIMIT 1"
	}
	return "(" + query + ")"
}

// Condition is WHERE's.
func (v *VirtualColumn) Condition(child, key string) string {
	return strings.NewReplacer(ChildMark, child, ParentKeyMark, key).Replace(v.Where)
}

// Call is the aggregate function's.
func (v *VirtualColumn) Call(child string) string {
	switch v.Aggregate {
	case CountRows:
		return string(CountRows)
	case Last, First:
		return child + "." + QuoteName(v.Argument)
	case CountNulls, Sum, Min, Max:
	}
	return string(v.Aggregate) + "(" + child + "." + QuoteName(v.Argument) + ")"
}

// Counts reports that the value is never NULL.
func (v *VirtualColumn) Counts() bool { return v.Aggregate == CountRows || v.Aggregate == CountNulls }

// Ordered reports that the value is one row's.
func (v *VirtualColumn) Ordered() bool { return v.Aggregate == Last || v.Aggregate == First }

// Durable is the table of its values.
func (v *VirtualColumn) Durable() TableName {
	return TableName{VirtualSchema, fmt.Sprintf("c%d_%d", v.ID, v.Generation)}
}

// Value is the durable value as an expression, where durable names the row of the durable table, NULL if there is none.
func (v *VirtualColumn) Value(durable string) string { return v.ValueWith(durable, VirtualHot{}) }

// VirtualRead is a virtual column that a statement reads, of all rows or of those with a key.
type VirtualRead struct {
	Column *VirtualColumn
	// Key is the component of the key (keys.Codec), nil: of all; Literal is the key as SQL.
	Key     []byte
	Literal string
	Part    bool // what the durable value lacks is wanted, though the whole value is known
}

// VirtualHot is what the durable value of a key lacks. Known: it is the value itself, of N rows, as a literal.
type VirtualHot struct {
	Parts []VirtualPart
	Known bool
	N     int64
	Value string
}

// VirtualPart is to be added to a durable value, or stands in its place, unless that is of a later batch than Batch.
type VirtualPart struct {
	Batch uint64
	Whole bool
	N     int64
	Value string // a literal; "NULL": there is none
	Order string // of an Ordered one's row; "NULL": there is none
}

// Whole reports that a value can be written in a statement with the type that the durable one has.
func (v *VirtualColumn) Whole() bool { return v.cast() != "" }

// cast is what CAST calls that type, "" where it has no name for it.
func (v *VirtualColumn) cast() string {
	switch base, _, _ := strings.Cut(v.ValueType, "("); {
	case v.Ordered():
		return "" // it is rarely of such a type
	case v.Counts():
		return "SIGNED"
	case strings.HasSuffix(v.ValueType, "zerofill"):
	case base == "bigint unsigned", base == "bigint" && strings.HasSuffix(v.ValueType, " unsigned"):
		return "UNSIGNED"
	case base == "bigint":
		return "SIGNED"
	case base == "decimal" && !strings.Contains(v.ValueType, " "), base == "date", base == "datetime":
		return strings.ToUpper(v.ValueType)
	}
	return ""
}

// Literal is that of a value that is known.
func (v *VirtualColumn) Literal(h VirtualHot) string {
	switch {
	case v.Counts():
		return strconv.FormatInt(h.N, 10)
	case v.Aggregate == Sum && h.N <= 0:
		return "NULL"
	}
	return h.Value
}

// Known is a value that is known as an expression: it needs no durable one.
func (v *VirtualColumn) Known(h VirtualHot) string {
	value, cast := v.Literal(h), v.cast()
	value = "CAST(" + value + " AS " + cast + ")"
	if greatest := greatestOf[cast]; greatest != "" {
		return "IF(1, " + value + ", " + greatest + ")"
	}
	return value
}

// greatestOf are values beside which a MariaDB takes an integer for a BIGINT: by itself, 17 is an INT there.
var greatestOf = map[string]string{"SIGNED": "9223372036854775807", "UNSIGNED": "18446744073709551615"}

// ValueWith is Value together with what it lacks.
func (v *VirtualColumn) ValueWith(durable string, h VirtualHot) string {
	n, value := "COALESCE("+durable+"."+VirtualCount+", 0)", durable+"."+VirtualValue
	order := durable + "." + VirtualOrder
	for _, p := range h.Parts {
		later := fmt.Sprintf("COALESCE(%s.%s, 0) > %d", durable, VirtualBatch, p.Batch)
		switch {
		case p.Whole:
			n, value = fmt.Sprintf("IF(%s, %s, %d)", later, n, p.N), fmt.Sprintf("IF(%s, %s, %s)", later, value, p.Value)
			if v.Ordered() {
				order = fmt.Sprintf("IF(%s, %s, %s)", later, order, p.Order)
			}
			continue
		case p.N != 0:
			n = fmt.Sprintf("(%s + IF(%s, 0, %d))", n, later, p.N)
		}
		switch {
		case v.Ordered() && p.Order != "NULL": // what is in it is in it
			than := fmt.Sprintf("COALESCE(%s %s %s, TRUE)", order, map[Aggregate]string{Last: "<", First: ">"}[v.Aggregate], p.Order)
			value, order = fmt.Sprintf("IF(%s, %s, %s)", than, p.Value, value), fmt.Sprintf("IF(%s, %s, %s)", than, p.Order, order)
		case p.Value == "NULL" || v.Counts() || v.Ordered():
		case v.Aggregate == Sum:
			value = fmt.Sprintf("(COALESCE(%s, 0) + IF(%s, 0, %s))", value, later, p.Value)
		case v.Aggregate == Min: // what is in it is in it
			value = fmt.Sprintf("COALESCE(LEAST(%[1]s, %[2]s), %[1]s, %[2]s)", value, p.Value)
		default:
			value = fmt.Sprintf("COALESCE(GREATEST(%[1]s, %[2]s), %[1]s, %[2]s)", value, p.Value)
		}
	}
	switch {
	case v.Counts():
		return n
	case v.Aggregate == Sum:
		return "IF(" + n + " > 0, " + value + ", NULL)"
	}
	return value
}

// Quoted is the name for a statement.
func (t TableName) Quoted() string { return QuoteName(t.Schema) + "." + QuoteName(t.Name) }

// Virtual are a catalog's virtual columns.
type Virtual struct {
	Columns []*VirtualColumn
	durable *Schema
}

// WithVirtual adds virtual columns to a catalog that nobody has seen yet: those whose tables it has.
func (c *Catalog) WithVirtual(columns []*VirtualColumn) {
	c.Virtual = nil
	v := &Virtual{durable: &Schema{Name: VirtualSchema, Tables: map[string]*Table{}}}
	for _, col := range columns {
		of := c.Table(col.Of.Schema, col.Of.Name)
		if of == nil {
			continue
		}
		key := of.Column(col.Key)
		if key == nil || of.Column(col.Name) != nil {
			continue
		}
		v.Columns = append(v.Columns, col)
		v.durable.Tables[col.Durable().Name] = durableTable(of, key, col)
	}
	if len(v.Columns) > 0 {
		c.Virtual = v
	}
}

// Beside reports that the durable row of a key is on the shard of the parent's row alone; else all shards that have
// the table have all durable rows.
func (v *VirtualColumn) Beside(of *Table) bool {
	return of.Placement == Single || of.Placement == Hash && of.ShardKey != nil && strings.EqualFold(of.ShardKey.Name, v.Key)
}

func durableTable(of *Table, key *Column, v *VirtualColumn) *Table {
	k := *key
	k.Name, k.Position, k.Nullable, k.AutoIncrement, k.Default, k.Generated = VirtualKey, 0, false, false, nil, false
	t := &Table{
		Schema: VirtualSchema, Name: v.Durable().Name, Shards: of.Shards, Placement: of.Placement,
		Columns: []*Column{&k, {Name: VirtualCount, Position: 1, Type: "bigint"}},
	}
	if !v.Counts() {
		of, _, _ := strings.Cut(v.ValueType, " CHARACTER SET")
		value := &Column{Name: VirtualValue, Position: 2, Type: of, Charset: v.ValueCharset, Collation: v.ValueCollation, Nullable: true}
		t.Columns = append(t.Columns, value)
	}
	if v.Ordered() {
		t.Columns = append(t.Columns, &Column{Name: VirtualOrder, Position: 3, Type: v.OrderType, Nullable: true})
	}
	t.Columns = append(t.Columns, &Column{Name: VirtualDoubtful, Position: len(t.Columns), Type: "tinyint"})
	t.Columns = append(t.Columns, &Column{Name: VirtualBatch, Position: len(t.Columns), Type: "bigint unsigned"})
	t.PrimaryKey = t.Columns[:1]
	t.Unique = [][]*Column{t.PrimaryKey}
	switch {
	case !v.Beside(of):
		t.Placement = Reference
	case of.Placement == Hash:
		t.ShardKey = &k
	}
	return t
}

// VirtualColumn finds a table's virtual column by name (column names compare case-insensitively); nil if none.
func (c *Catalog) VirtualColumn(of TableName, name string) *VirtualColumn {
	if c.Virtual == nil {
		return nil
	}
	i := slices.IndexFunc(c.Virtual.Columns, func(v *VirtualColumn) bool {
		return strings.EqualFold(v.Name, name) && c.fold(v.Of.Schema) == c.fold(of.Schema) && c.fold(v.Of.Name) == c.fold(of.Name)
	})
	if i < 0 {
		return nil
	}
	return c.Virtual.Columns[i]
}
