package proxy

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// session_track_transaction_info: the state of the transaction in eight letters, and
// with CHARACTERISTICS the statements that would begin one like it. The letters say
// what has been done in it, over all shards together. Clients without DEPRECATE_EOF are told
// with OK packets only: EOF packets lack the flag that servers set there.
// https://dev.mysql.com/doc/refman/9.0/en/server-system-variables.html#sysvar_session_track_transaction_info

// transactionInfo is that variable.
type transactionInfo uint8

const (
	infoOff transactionInfo = iota
	infoState
	infoCharacteristics
)

func (t *tracked) assignTransactionInfo(literal string) {
	switch strings.ToLower(literal) {
	case "off", "0", "default":
		t.transaction = infoOff
	case "state", "1":
		t.transaction = infoState
	case "characteristics", "2":
		t.transaction = infoCharacteristics
	}
}

// The letters, by their places.
const (
	markKind       = iota // T: begun by the client, I: by a statement without autocommit
	markReadsOther        // r
	markReads             // R
	_                     // w: tables without transactions
	markWrites            // W
	markUnsafe            // s
	markResult            // S: rows were answered
	markLocked            // L: LOCK TABLES
)

const noTransaction = "________"

// known is what a client knows of its transaction. MySQL tells of those that begin
// with BEGIN, whatever session_track_transaction_info says.
type known struct {
	// begun is the last one that the client began itself, with a snapshot or without.
	begun    *transaction
	snapshot bool
	// state and text are what the client was told last, "" for none.
	state, text string
	// marks have been made in the transaction of, and by the statement at hand,
	// which spends what SET TRANSACTION chose.
	of         *transaction
	marks      [8]bool
	statement  [8]bool
	spends     bool
	answers    uint64 // of the client's connection, before the statement
	unfollowed *transaction
}

// begunByClient notes that s.tx was begun by BEGIN or AND CHAIN.
func (s *session) begunByClient(snapshot bool) {
	if !s.tracks() || s.mariaDB() && s.settings.tracked.transaction == infoOff {
		return
	}
	s.known.begun, s.known.snapshot, s.changes.transaction = s.tx, snapshot, true
}

// followTransaction is called when session_track_transaction_info was SET: what has
// been done before is not known.
func (s *session) followTransaction(before transactionInfo) {
	now := s.settings.tracked.transaction
	if !s.tracks() || now == infoOff {
		return
	}
	s.changes.transaction = true
	if before == infoOff {
		s.known.unfollowed = s.tx
		if s.known.state = ""; s.mariaDB() {
			s.known.state = "?" // it tells even that there is none
		}
	}
}

// markTransaction notes what a statement does, before it is done.
func (s *session) markTransaction(planned plan.Plan, r *request) {
	if s.settings.tracked.transaction == infoOff || !s.tracks() {
		return
	}
	k := &s.known
	k.statement, k.answers = [8]bool{}, s.client.Answers
	text := r.written
	switch {
	case text != nil:
	case r.prepared != nil:
		text = s.textOf(r.prepared.source)
	default:
		text = r.readText(s)
	}
	m := text.Marks(planned)
	k.statement[markReads], k.statement[markReadsOther] = m.Reads, m.ReadsOther
	k.statement[markWrites], k.statement[markUnsafe] = m.Writes, m.Unsafe
	rows, ok := planned.(*plan.Rows)
	k.spends = ok && len(rows.Tables) > 0 && rows.Kind != plan.Show
}

// marked ends a statement: what it did stays with its transaction. Of what one did
// that has failed MariaDB tells only with the next change.
func (s *session) marked(failed bool) {
	if s.settings.tracked.transaction != infoOff && s.tracks() {
		s.gatherMarks()
		if failed && s.mariaDB() {
			s.known.state = s.transactionState()
		}
		s.known.statement, s.known.spends, s.known.answers = [8]bool{}, false, s.client.Answers
	}
}

// gatherMarks adds those of the statement at hand to its transaction's.
func (s *session) gatherMarks() {
	k := &s.known
	if k.of != s.tx {
		k.of, k.marks = s.tx, [8]bool{}
		k.marks[markReads] = s.tx != nil && s.tx == k.begun && k.snapshot
	}
	for i, on := range k.statement {
		k.marks[i] = k.marks[i] || on
	}
	k.marks[markResult] = k.marks[markResult] || s.client.Answers != k.answers
}

// transactionState is what the client is told of its transaction.
func (s *session) transactionState() string {
	k := &s.known
	if s.tx == nil || s.tx != k.begun {
		k.begun = nil // no more
	}
	state := []byte(noTransaction)
	if s.settings.tracked.transaction == infoOff {
		if k.begun != nil {
			if strings.HasPrefix(k.state, "T") && !s.changes.transaction {
				return k.state // no more of this one is told
			}
			if state[markKind] = 'T'; k.snapshot {
				state[markReads] = 'R'
			}
		}
		return string(state)
	}
	if s.tableLocks != nil {
		state[markLocked] = 'L'
	}
	if s.tx == nil || s.tx.hidden || s.tx == k.unfollowed {
		return string(state)
	}
	s.gatherMarks()
	if state[markKind] = 'I'; s.tx == k.begun {
		state[markKind] = 'T'
	}
	for i, letter := range "TrRwWsSL" {
		if k.marks[i] {
			state[i] = byte(letter)
		}
	}
	return string(state)
}

// beginsLike are the statements that would begin a transaction like this one, or
// like the next: what was said for it, not what the session has for all.
func (s *session) beginsLike() string {
	c, begun, snapshot := s.settings.once, false, false
	switch {
	case s.tx != nil && s.tx == s.known.unfollowed:
		return ""
	case s.tx != nil && !s.tx.hidden:
		c, begun, snapshot = s.tx.said, s.tx == s.known.begun, s.tx == s.known.begun && s.known.snapshot
	case s.known.spends:
		c = characteristics{}
	}
	var out []string
	said := func(text string) bool { return text != "" && text != serverDefault }
	if said(c.isolation) {
		out = append(out, "SET TRANSACTION "+c.isolation+";")
	}
	switch {
	case begun:
		var with []string
		if snapshot {
			with = append(with, "WITH CONSISTENT SNAPSHOT")
		}
		if said(c.access) {
			with = append(with, c.access)
		}
		out = append(out, strings.TrimSuffix("START TRANSACTION "+strings.Join(with, ", "), " ")+";")
	case said(c.access):
		out = append(out, "SET TRANSACTION "+c.access+";")
	}
	return strings.Join(out, " ")
}

// tellTransaction appends what has changed of the transaction. something: the client
// is told that something has, and of nothing more where that is all.
func (s *session) tellTransaction(out []byte) (_ []byte, something bool) {
	k := &s.known
	if s.settings.tracked.transaction == infoOff && s.mariaDB() {
		return out, false
	}
	was := k.state
	if was == "" {
		was = noTransaction
	}
	state := s.transactionState()
	something = s.changes.transaction || state != was
	if state != was {
		out, k.state = wire.AppendChange(out, wire.TrackTransactionState, state), state
	}
	if s.settings.tracked.transaction == infoOff {
		k.text = ""
		return out, something
	}
	text := s.beginsLike()
	if text == k.text && !s.changes.transaction {
		return out, something
	}
	k.text = text
	if s.settings.tracked.transaction == infoCharacteristics {
		out = wire.AppendChange(out, wire.TrackTransaction, text)
	}
	return out, true
}
