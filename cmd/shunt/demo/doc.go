// Package demo is `shunt demo`: throwaway shards on loopback with sample data
// behind a proxy in this process, and what to try on it.
//
// Run goes through these steps, and undoes all of them when its context ends,
// wherever it is:
//
//	preflight   ports free, disk space, a server program (installed if need be)
//	shards      e2e/throwaway starts them in a temporary directory
//	serve       the same engine as `shunt serve`, its store in that directory
//	load        users and orders through the proxy, over several connections
//	index       two virtual indexes, their build shown
//	compare     one query by email with and without its index
//	print       how to connect, and five things to try
//
// With Options.Members several Shunts serve: processes of their own, so that they can be killed,
// behind a balancer (balancer.go), their store on the shards. One that ends is started again.
//
// With Options.Check it then executes what it printed, through the plain mysql
// client if there is one and the Go driver, and verifies answers and routes.
//
// The data is a function of the row's number alone (data.go), so that the check
// knows every answer without reading it from Shunt.
package demo
