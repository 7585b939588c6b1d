package mysqlerr

import (
	"cmp"
	"fmt"
)

// Error is an error with its MySQL code, as a client is told it.
type Error struct {
	Code    uint16
	State   string // SQLSTATE, five characters
	Message string
}

func (e Error) Error() string { return e.Message }

// New is an error with its code's SQLSTATE.
func New(code uint16, message string) Error {
	return Error{Code: code, State: State(code), Message: message}
}

// Newf is New with a format.
func Newf(code uint16, format string, args ...any) Error {
	return New(code, fmt.Sprintf(format, args...))
}

// Section is where the documents say when Shunt gives an error of the code, and what to do.
func Section(code uint16) string { return fmt.Sprintf("docs/errors.md#%d", code) }

// State is a code's SQLSTATE, HY000 for codes that the table lacks.
func State(code uint16) string { return cmp.Or(states[code], "HY000") }
