// Package e2e tests Shunt from outside: real MySQL and MariaDB servers behind
// the real binary, real drivers in front. It imports none of Shunt's packages.
//
// TestMain builds shunt once. Each flavour (SHUNT_E2E_FLAVOURS, by default
// mysql,mariadb) has one Set of four throwaway servers that all tests share,
// each test in a schema of its own; a test that stops servers starts its own.
// Run `make e2e`, or `go test ./e2e` where both servers are installed.
//
// A test gets a shunt process with start (process_test.go). When the test ends,
// a checker asks CHECK VIRTUAL INDEX for every index of the test's schema, and
// fails it if an entry is missing: whatever a test does, no row may be lost.
//
// TestScripts, TestDifferential, TestGenerated and TestRandomSessions compare Shunt with one
// plain server: statements by topic, generated ones, and sessions of many.
//
// -short leaves out what takes longer than a few seconds, or makes it smaller.
// SHUNT_NEVERMISS sets the duration of the never-miss test. SHUNT_E2E_RACE=1
// builds the binary with the race detector.
package e2e
