package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// PreparedText is PREPARE, EXECUTE or DEALLOCATE PREPARE: what SQL has for statements that
// are themselves texts. A proxy that knows them has no use for a plan.
type PreparedText struct {
	Verb PreparedVerb
	// Name is the statement's; "" for MariaDB's EXECUTE IMMEDIATE.
	Name string
	// From is the literal or user variable that has the text, as written.
	From string
	// Using are the literals and user variables that EXECUTE has for parameters.
	Using []string
}

// PreparedVerb is what is done with a PreparedText.
type PreparedVerb uint8

const (
	Prepare PreparedVerb = iota
	Execute
	Deallocate
)

// ReadPreparedText reads a PreparedText, nil for any other statement.
func ReadPreparedText(sql string, s Settings, cat *catalog.Catalog) (*PreparedText, error) {
	st, err := lexStatement(sql, s, cat)
	if err != nil || st.hinted {
		return nil, nil //nolint:nilerr // planning says it
	}
	p, i := &PreparedText{}, 1
	switch {
	case st.is(0, "prepare"):
	case st.is(0, "execute"):
		p.Verb = Execute
	case (st.is(0, "deallocate") || st.is(0, "drop")) && st.is(1, "prepare"):
		p.Verb, i = Deallocate, 2
	default:
		return nil, nil
	}
	if p.Verb == Execute && cat.MariaDB && st.is(i, "immediate") && i+1 < len(st.toks) && !st.is(i+1, "using") {
		if p.From, i, err = st.preparedValue(i+1, cat); err != nil {
			return nil, err
		}
	} else {
		name, ok := st.identifier(i)
		if !ok {
			return nil, st.near(i)
		}
		p.Name = name
		i++
	}
	switch {
	case p.Verb == Prepare:
		if !st.is(i, "from") {
			return nil, st.near(i)
		}
		if p.From, i, err = st.preparedValue(i+1, cat); err != nil {
			return nil, err
		}
	case p.Verb == Execute && st.is(i, "using"):
		for more := true; more; more = st.op(i, ",") {
			var value string
			if value, i, err = st.preparedValue(i+1, cat); err != nil {
				return nil, err
			}
			p.Using = append(p.Using, value)
		}
	}
	if i < len(st.toks) {
		return nil, st.near(i)
	}
	return p, nil
}

// preparedValue is the literal or user variable at i, and what is behind it. MySQL has
// literals for the text alone, MariaDB expressions as well.
func (st *statement) preparedValue(i int, cat *catalog.Catalog) (value string, next int, err *Error) {
	begin := i
	if st.op(i, "-") {
		i++
	}
	if i >= len(st.toks) {
		return "", i, st.near(i)
	}
	switch st.toks[i].kind {
	case tokVar:
		if strings.HasPrefix(st.text(i), "@@") || i > begin {
			return "", i, st.near(begin)
		}
	case tokString, tokInt, tokDecimal, tokFloat, tokHex, tokBit:
		if (i > begin || st.toks[i].kind != tokString) && (st.is(begin-1, "from") || !cat.MariaDB) || st.is(begin-1, "using") && !cat.MariaDB {
			return "", i, st.near(begin)
		}
	case tokWord:
		if st.is(i, "null") && cat.MariaDB {
			break
		}
		fallthrough
	default:
		return "", i, st.expressionToPrepare(begin, cat)
	}
	i++
	if i < len(st.toks) && !st.op(i, ",") && !st.is(i, "using") {
		return "", i, st.expressionToPrepare(begin, cat)
	}
	return st.src[st.toks[begin].start:st.toks[i-1].end], i, nil
}

func (st *statement) expressionToPrepare(i int, cat *catalog.Catalog) *Error {
	if !cat.MariaDB {
		return st.near(i)
	}
	return notSupported("PREPARE and EXECUTE with an expression are not supported: SET a user variable to it, and give that")
}

// notPrepared is a statement that can't be prepared, as servers say it.
func notPrepared() *Error {
	return &Error{Code: codeNotPrepared, State: stateGeneral, Message: "This command is not supported in the prepared statement protocol yet"}
}
