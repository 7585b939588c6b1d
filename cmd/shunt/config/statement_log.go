package config

import "time"

// StatementLog is the log of statements.
type StatementLog struct {
	File     string
	Slow     time.Duration
	Share    float64
	Literals bool
}

func readStatementLog(v value) *StatementLog {
	l := &StatementLog{Slow: time.Second, Share: 1}
	v.require(v.fields(statementLogKeys(l)...), "file")
	return l
}

// statementLogKeys are those of statement_log.
func statementLogKeys(l *StatementLog) []field {
	return []field{
		{name: "file", otherwise: "(required)", help: "a file that lines are added to, or `stderr`. SIGHUP opens it anew, as a rotation wants it", read: func(v value) { l.File = v.nonEmpty("a file, or stderr") }},
		{name: "slow", otherwise: "1s", help: "statements that take so long are logged; `0s`: all", read: func(v value) { l.Slow = v.duration(0) }},
		{name: "share", otherwise: "1", help: "the share of these that is logged, from 0 to 1", read: func(v value) { l.Share = v.share() }},
		{name: "literals", otherwise: "false", help: "their text as the client has sent it, and the values of prepared ones; else ? stands for each literal", read: func(v value) { l.Literals = v.boolean() }},
	}
}
