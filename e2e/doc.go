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
// Where what is compared comes from:
//
//	testdata/corpus    statements by topic, the source of docs/sql.md
//	testdata/regress   differences that were found, shrunk
//	generate           seed -> tables and statements whose answers are determined
//	tpch               TPC-H's tables, rows and queries
//	drivers            script.txt, one script of every kind of statement, and a client in each
//	                   language that prints what its driver makes of each answer
//	drivers/cli        the command-line clients' script, and the schema that is dumped
//	apps               settings of applications that make test-apps uses over Shunt and over
//	                   one server (apps_test.go)
//
// Of the drivers go-gorm (a module of its own), node/knex.js, python/sqlalchemy_orm.py and
// ruby/activerecord.rb are libraries of objects and migrations.
//
// -short is make test: it leaves out what takes longer than a few seconds, or makes it smaller, and
// runs on one flavour, by its name, what no flavour matters for (oneFlavour). Without it, everything
// runs on every flavour (make check).
// SHUNT_NEVERMISS sets the duration of the never-miss tests. SHUNT_E2E_RACE=1
// builds the binary with the race detector.
package e2e
