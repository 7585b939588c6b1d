package text

// TableFactor is where the text may name a table in a FROM clause.
type TableFactor struct {
	First, Last int // tokens of [schema.]table
	schema      string
	name        string
	Aliased     bool
	Bare        bool     // TABLE t, which takes no alias
	Hints       [][2]int // tokens of index hints
}

// fromLevel is the state of TableFactors within one pair of parentheses.
type fromLevel struct {
	selects bool // SELECT was seen: a FROM is its, not that of TRIM(x FROM y)
	from    bool // in a FROM clause
	factor  bool // a table, or a parenthesis, comes next
}

// TableFactors finds where FROM clauses name tables. It may be wrong: splice
// proves what it found.
func (st *Statement) TableFactors() []TableFactor {
	var out []TableFactor
	levels := []fromLevel{{}}
	for i := 0; i < len(st.Tokens); i++ {
		l := &levels[len(levels)-1]
		switch {
		case st.Op(i, "("):
			inner := fromLevel{from: l.factor, factor: l.factor}
			l.factor = false
			levels = append(levels, inner)
			continue
		case st.Op(i, ")"):
			if len(levels) > 1 {
				levels = levels[:len(levels)-1]
			}
			continue
		case st.Op(i, ","):
			l.factor = l.from
			continue
		case st.Op(i, "{"):
			i++ // { OJ
			continue
		}
		if l.factor {
			switch w := st.Word(i); w {
			case "select", "with", "values", "table":
			case "lateral":
				continue
			default:
				l.factor = false
				if w == "dual" && !st.Op(i+1, ".") || w == "json_table" && st.Op(i+1, "(") {
					continue
				}
				if f, next, ok := st.tableFactor(i); ok {
					out = append(out, f)
					i = next - 1
				}
				continue
			}
		}
		switch st.Word(i) {
		case "update", "delete":
			if len(levels) == 1 && (i == 0 || st.Op(i-1, ")")) {
				i = st.writeFactors(i, l)
			}
		case "set":
			if len(levels) == 1 {
				l.from, l.factor = false, false
			}
		case "select":
			*l = fromLevel{selects: true}
		case "with", "values":
			l.from, l.factor = false, false
		case "table":
			// TABLE t, as a query
			if i == 0 || st.Op(i-1, "(") || st.Is(i-1, "union") || st.Is(i-1, "all") || st.Is(i-1, "distinct") || st.Is(i-1, "except") || st.Is(i-1, "intersect") || st.Op(i-1, ")") {
				l.factor = false
				if f, next, ok := st.tableFactor(i + 1); ok {
					f.Bare = true
					out = append(out, f)
					i = next - 1
				}
			}
		case "from":
			if l.selects {
				l.from, l.factor = true, true
			}
		case "join", "straight_join":
			l.factor = l.from
		case "where", "group", "having", "order", "limit", "window", "union", "except", "intersect", "minus", "for", "into", "lock", "procedure", "offset", "fetch":
			if !st.Op(i-1, ".") && !st.Op(i+1, ".") {
				l.from, l.factor = false, false
			}
		}
	}
	return out
}

// tableFactor reads [schema.]table [[AS] alias] [index hints] at token i.
func (st *Statement) tableFactor(i int) (f TableFactor, next int, ok bool) {
	if f.name, ok = st.Identifier(i); !ok {
		return f, i, false
	}
	f.First, f.Last = i, i
	if st.Op(i+1, ".") {
		f.schema = f.name
		if f.name, ok = st.Identifier(i + 2); !ok {
			return f, i, false
		}
		f.Last = i + 2
	}
	i = f.Last + 1
	if st.Is(i, "partition") && st.Op(i+1, "(") {
		return f, i, true
	}
	switch {
	case st.Is(i, "as"):
		f.Aliased = true
		i += 2
	case i < len(st.Tokens) && (st.Tokens[i].Kind == Quoted || st.Tokens[i].Kind == Word && !afterTable(st.Word(i))):
		f.Aliased = true
		i++
	}
	for st.Is(i, "use") || st.Is(i, "force") || st.Is(i, "ignore") {
		h := i
		if !st.Is(i+1, "index") && !st.Is(i+1, "key") {
			break
		}
		for i += 2; i < len(st.Tokens) && !st.Op(i, "("); i++ { // FOR ORDER BY
		}
		for ; i < len(st.Tokens) && !st.Op(i, ")"); i++ {
		}
		if i >= len(st.Tokens) {
			return f, h, true
		}
		f.Hints = append(f.Hints, [2]int{h, i})
		i++
		if st.Op(i, ",") && (st.Is(i+1, "use") || st.Is(i+1, "force") || st.Is(i+1, "ignore")) {
			f.Hints[len(f.Hints)-1][1] = i
			i++
		}
	}
	return f, i, true
}

// writeFactors moves to where an UPDATE or DELETE names its tables: i is its
// first word, what is returned the token before the first table.
func (st *Statement) writeFactors(i int, l *fromLevel) int {
	deletes := st.Is(i, "delete")
	for st.Is(i+1, "low_priority") || st.Is(i+1, "quick") || st.Is(i+1, "ignore") {
		i++
	}
	if deletes && !st.Is(i+1, "from") {
		l.selects = true // DELETE a, b FROM ...
		return i
	}
	if deletes {
		i++
		// DELETE FROM a, b USING ...
		for j := i + 1; j < len(st.Tokens); j++ {
			if st.Is(j, "using") {
				i = j
				break
			}
			if _, ok := st.Identifier(j); (!ok && !st.Op(j, ".") && !st.Op(j, ",") && !st.Op(j, "*")) || st.Is(j, "where") {
				break
			}
		}
	}
	l.from, l.factor = true, true
	return i
}

// afterTable knows the words that may follow a table's name and are no alias.
func afterTable(w string) bool {
	switch w {
	case "join", "inner", "cross", "left", "right", "natural", "straight_join", "on", "using", "set", "where", "group", "having", "order", "limit",
		"window", "union", "except", "intersect", "minus", "for", "into", "lock", "use", "force", "ignore", "partition", "procedure", "tablesample", "offset", "fetch":
		return true
	}
	return false
}

// Qualifies tells whether schema.table before a column is one of the query's
// references, whose copy is in another schema. as is the alias that it has there, "" for table.
type Qualifies func(schema, table string) (as string, is bool)

// SchemaQualifiers finds `schema.` in schema.table.column and schema.table.*, and the table where that has another alias.
func (st *Statement) SchemaQualifiers(is Qualifies) []Cut {
	var out []Cut
	for i := 0; i+4 < len(st.Tokens); i++ {
		if !st.Op(i+1, ".") || !st.Op(i+3, ".") || st.Op(i-1, ".") {
			continue
		}
		schema, ok1 := st.Identifier(i)
		table, ok2 := st.Identifier(i + 2)
		_, ok3 := st.Identifier(i + 4)
		if !ok1 || !ok2 || !ok3 && !st.Op(i+4, "*") {
			continue
		}
		switch as, ok := is(schema, table); {
		case ok && as != "":
			out = append(out, Cut{Start: st.Tokens[i].Start, End: st.Tokens[i+2].End, Ref: -1, Alias: as})
		case ok:
			out = append(out, Cut{Start: st.Tokens[i].Start, End: st.Tokens[i+1].End, Ref: -1})
		}
	}
	return out
}
