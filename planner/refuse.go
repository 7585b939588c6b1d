package planner

import "fmt"

// MySQL's codes and states for what the planner itself answers.
const (
	codeNotSupported   = 1235 // ER_NOT_SUPPORTED_YET
	stateNotSupported  = "42000"
	codeParse          = 1064 // ER_PARSE_ERROR
	codeNoDatabase     = 1046 // ER_NO_DB_ERROR
	codeUnknownShard   = 1105 // ER_UNKNOWN_ERROR
	codeParamCount     = 1210 // ER_WRONG_ARGUMENTS
	codeNotPrepared    = 1295 // ER_UNSUPPORTED_PS
	codeTooLong        = 1153 // ER_NET_PACKET_TOO_LARGE
	codeUnknownTable   = 1146 // ER_NO_SUCH_TABLE
	stateUnknownTable  = "42S02"
	codeUnknownSchema  = 1049 // ER_BAD_DB_ERROR
	codeUnknownProgram = 1305 // ER_SP_DOES_NOT_EXIST
	stateGeneral       = "HY000"
	stateNoDatabase    = "3D000"
	stateConnectionBad = "08S01"
)

func noDatabase() *Error {
	return &Error{Code: codeNoDatabase, State: stateNoDatabase, Message: "No database selected"}
}

func unknownSchema(name string) *Error {
	return &Error{Code: codeUnknownSchema, State: stateNotSupported, Message: "Unknown database '" + name + "'"}
}

// notSupported is the refusal of what Shunt can't do rightly yet. The text
// names what is missing and the way out.
func notSupported(format string, args ...any) *Error {
	return &Error{Code: codeNotSupported, State: stateNotSupported, Message: fmt.Sprintf(format, args...)}
}
