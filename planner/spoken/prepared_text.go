package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
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

// maxOwn bounds the bytes of a statement that stands in another one.
const maxOwn = 1 << 20

// PreparedVerb is what is done with a PreparedText.
type PreparedVerb uint8

const (
	Prepare PreparedVerb = iota
	Execute
	Deallocate
)

// Prepared reads a PreparedText, nil for any other statement. A text of more than 1 MiB is none.
func (t *Text) Prepared() (*PreparedText, error) {
	if len(t.SQL) > maxOwn || !t.mayHave("prepare", "execute") {
		return nil, nil
	}
	cat := t.Catalog
	st, err := t.Statement()
	if err != nil || st.Hinted {
		return nil, nil //nolint:nilerr // planning says it
	}
	p, i := &PreparedText{}, 1
	switch {
	case st.Is(0, "prepare"):
	case st.Is(0, "execute"):
		p.Verb = Execute
	case (st.Is(0, "deallocate") || st.Is(0, "drop")) && st.Is(1, "prepare"):
		p.Verb, i = Deallocate, 2
	default:
		return nil, nil
	}
	if p.Verb == Execute && cat.MariaDB && st.Is(i, "immediate") && i+1 < len(st.Tokens) && !st.Is(i+1, "using") {
		if p.From, i, err = preparedValue(st, i+1, cat); err != nil {
			return nil, err
		}
	} else {
		name, ok := st.Identifier(i)
		if !ok {
			return nil, st.Near(i)
		}
		p.Name = name
		i++
	}
	switch {
	case p.Verb == Prepare:
		if !st.Is(i, "from") {
			return nil, st.Near(i)
		}
		if p.From, i, err = preparedValue(st, i+1, cat); err != nil {
			return nil, err
		}
	case p.Verb == Execute && st.Is(i, "using"):
		for more := true; more; more = st.Op(i, ",") {
			var value string
			if value, i, err = preparedValue(st, i+1, cat); err != nil {
				return nil, err
			}
			p.Using = append(p.Using, value)
		}
	}
	if i < len(st.Tokens) {
		return nil, st.Near(i)
	}
	return p, nil
}

// preparedValue is the literal or user variable at i, and what is behind it. MySQL has
// literals for the text alone, MariaDB expressions as well.
func preparedValue(st *text.Statement, i int, cat *catalog.Catalog) (value string, next int, err *text.Error) {
	begin := i
	if st.Op(i, "-") {
		i++
	}
	if i >= len(st.Tokens) {
		return "", i, st.Near(i)
	}
	switch st.Tokens[i].Kind {
	case text.Variable:
		if strings.HasPrefix(st.Text(i), "@@") || i > begin {
			return "", i, st.Near(begin)
		}
	case text.String, text.Int, text.Decimal, text.Float, text.Hex, text.Bit:
		if (i > begin || st.Tokens[i].Kind != text.String) && (st.Is(begin-1, "from") || !cat.MariaDB) || st.Is(begin-1, "using") && !cat.MariaDB {
			return "", i, st.Near(begin)
		}
	case text.Word:
		if st.Is(i, "null") && cat.MariaDB {
			break
		}
		fallthrough
	default:
		return "", i, expressionToPrepare(st, begin, cat)
	}
	i++
	if i < len(st.Tokens) && !st.Op(i, ",") && !st.Is(i, "using") {
		return "", i, expressionToPrepare(st, begin, cat)
	}
	return st.Src[st.Tokens[begin].Start:st.Tokens[i-1].End], i, nil
}

func expressionToPrepare(st *text.Statement, i int, cat *catalog.Catalog) *text.Error {
	if !cat.MariaDB {
		return st.Near(i)
	}
	return text.NotSupported("PREPARE and EXECUTE with an expression are not supported: SET a user variable to it, and give that")
}

// notPrepared is a statement that can't be prepared, as servers say it.
func notPrepared() *text.Error {
	return text.NewError(mysqlerr.UnsupportedPS, "This command is not supported in the prepared statement protocol yet")
}
