package text

import (
	"fmt"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// NewError is an error with MySQL's state for its code.
func NewError(code uint16, message string) *Error {
	return &Error{Code: code, State: mysqlerr.State(code), Message: message}
}

// NewErrorf is NewError of a formatted message.
func NewErrorf(code uint16, format string, args ...any) *Error {
	return NewError(code, fmt.Sprintf(format, args...))
}

// NoDatabase is the error (1046) of a name without a schema in a session without one.
func NoDatabase() *Error {
	return NewError(mysqlerr.NoDB, "No database selected")
}

// UnknownSchema is the error (1049) of a schema that there isn't.
func UnknownSchema(name string) *Error {
	return NewError(mysqlerr.BadDB, "Unknown database '"+name+"'")
}

// NotSupported is the refusal of what Shunt can't do rightly yet. The text
// names what is missing and the way out.
func NotSupported(format string, args ...any) *Error {
	return NewErrorf(mysqlerr.NotSupportedYet, format, args...)
}
