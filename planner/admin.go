package planner

import (
	"strconv"
	"strings"
)

// planAdmin reads Shunt's own statements; ok is false where it is none of them.
//
//	CREATE VIRTUAL INDEX i ON [s.]t (c, ..) [PARTITIONS n]
//	DROP | REBUILD | CHECK VIRTUAL INDEX i ON [s.]t
//	ALTER VIRTUAL INDEX i ON [s.]t PARTITIONS n | DISABLE | ENABLE
//	SHOW VIRTUAL INDEXES [FROM [s.]t]
//	SHOW MAINTENANCE JOBS
//	SHOW SHARDS
//	EXPLAIN ROUTE statement
func planAdmin(st *statement) (plan Plan, ok bool, err *Error) {
	defer func() {
		if err != nil {
			err.Own = true
		}
	}()
	verb := st.word(0)
	switch {
	case verb == "show" && st.is(1, "shards"):
		return adminEnd(st, &Admin{Op: ShowShards}, 2)
	case verb == "show" && st.is(1, "maintenance") && st.is(2, "jobs"):
		return adminEnd(st, &Admin{Op: ShowMaintenanceJobs}, 3)
	case verb == "show" && st.is(1, "virtual") && st.is(2, "indexes"):
		a := &Admin{Op: ShowVirtualIndexes}
		if !st.is(3, "from") && !st.is(3, "in") {
			return adminEnd(st, a, 3)
		}
		name, next, err := st.tableAt(4)
		if err != nil {
			return nil, true, err
		}
		a.Index.Table = name
		return adminEnd(st, a, next)
	case verb == "explain" && st.is(1, "route"):
		rest := strings.TrimSpace(st.src[st.toks[1].end:])
		if len(st.toks) == 2 {
			return nil, true, st.near(2)
		}
		return &Admin{Op: ExplainRoute, Explain: strings.TrimSpace(strings.TrimSuffix(rest, ";"))}, true, nil
	}
	if !st.is(1, "virtual") || !st.is(2, "index") {
		return nil, false, nil
	}
	a := &Admin{}
	switch verb {
	case "create":
		a.Op = CreateVirtualIndex
	case "drop":
		a.Op = DropVirtualIndex
	case "rebuild":
		a.Op = RebuildVirtualIndex
	case "check":
		a.Op = CheckVirtualIndex
	case "alter":
		a.Op = AlterPartitions // or another one, see readAlter
	default:
		return nil, false, nil
	}
	i, err := a.readIndex(st)
	if err != nil {
		return nil, true, err
	}
	return adminEnd(st, a, i)
}

// readIndex reads a statement about a virtual index behind its first words; i is the
// token behind it.
func (a *Admin) readIndex(st *statement) (i int, err *Error) {
	name, found := st.identifier(3)
	if !found || !st.is(4, "on") {
		return 0, st.near(3)
	}
	a.Index.Name = name
	if a.Index.Table, i, err = st.tableAt(5); err != nil {
		return 0, err
	}
	switch a.Op {
	case CreateVirtualIndex:
		if a.Index.Columns, i, err = st.nameList(i); err != nil || !st.is(i, "partitions") {
			return i, err
		}
		a.Index.Partitions, err = st.partitions(i + 1)
		return i + 2, err
	case AlterPartitions:
		return a.readAlter(st, i)
	default: // the others end after the table
		return i, nil
	}
}

func (a *Admin) readAlter(st *statement, i int) (int, *Error) {
	switch st.word(i) {
	case "disable":
		a.Op = DisableVirtualIndex
		return i + 1, nil
	case "enable":
		a.Op = EnableVirtualIndex
		return i + 1, nil
	case "partitions":
		var err *Error
		a.Index.Partitions, err = st.partitions(i + 1)
		return i + 2, err
	}
	return 0, st.near(i)
}

// nameList reads (a, b, c); next is the token behind it.
func (st *statement) nameList(i int) (names []string, next int, err *Error) {
	if !st.op(i, "(") {
		return nil, 0, st.near(i)
	}
	for i++; ; i++ {
		name, found := st.identifier(i)
		if !found {
			return nil, 0, st.near(i)
		}
		names = append(names, name)
		if i++; st.op(i, ")") {
			return names, i + 1, nil
		}
		if !st.op(i, ",") {
			return nil, 0, st.near(i)
		}
	}
}

func adminEnd(st *statement, a *Admin, i int) (Plan, bool, *Error) {
	if i < len(st.toks) {
		return nil, true, st.near(i)
	}
	return a, true, nil
}

// maxPartitions: each is a writer of its own.
const maxPartitions = 1024

func (st *statement) partitions(i int) (int, *Error) {
	n, err := strconv.Atoi(st.text(i))
	if err != nil || n < 1 || n > maxPartitions {
		return 0, syntaxError("PARTITIONS must be a number from 1 to %d", maxPartitions)
	}
	return n, nil
}
