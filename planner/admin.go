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
		a.Op = AlterPartitions
	default:
		return nil, false, nil
	}
	name, found := st.identifier(3)
	if !found || !st.is(4, "on") {
		return nil, true, st.near(3)
	}
	a.Index.Name = name
	table, i, err := st.tableAt(5)
	if err != nil {
		return nil, true, err
	}
	a.Index.Table = table
	switch a.Op {
	case CreateVirtualIndex:
		if !st.op(i, "(") {
			return nil, true, st.near(i)
		}
		for i++; ; i++ {
			col, found := st.identifier(i)
			if !found {
				return nil, true, st.near(i)
			}
			a.Index.Columns = append(a.Index.Columns, col)
			i++
			if st.op(i, ")") {
				break
			}
			if !st.op(i, ",") {
				return nil, true, st.near(i)
			}
		}
		i++
		if st.is(i, "partitions") {
			if a.Index.Partitions, err = st.partitions(i + 1); err != nil {
				return nil, true, err
			}
			i += 2
		}
	case AlterPartitions:
		switch st.word(i) {
		case "disable":
			a.Op = DisableVirtualIndex
			i++
		case "enable":
			a.Op = EnableVirtualIndex
			i++
		case "partitions":
			if a.Index.Partitions, err = st.partitions(i + 1); err != nil {
				return nil, true, err
			}
			i += 2
		default:
			return nil, true, st.near(i)
		}
	default: // the others end after the table
	}
	return adminEnd(st, a, i)
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
