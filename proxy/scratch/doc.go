// Package scratch has the tables that gathers copy rows into: where they are, what they are called,
// how a connection for them is set, and that they are dropped, whatever happens.
package scratch
