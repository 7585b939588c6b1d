// Package console serves HTTP: /metrics, /healthz, /readyz, the console (/), and the entries of virtual
// indexes (/v1).
//
// What it tells of is a Served: mostly Shunt's own statements, which each page shows beside their rows.
// Whoever may not know the token gets metrics and health alone, and another site's page in somebody's
// browser not even these. A browser logs in with the token and has a cookie then (guard.go, login.go).
//
//	console   the paths, and what is served without the console's pages
//	pages     what a page is, and the list of all: a page is a file, and a line there
//	table, drawing, histogram, figures   what pages are made of; layout.html has their templates
//	pace      rates, by samples that all who look share
//	overview, statements, statement, indexes, advice, route, sessions, shards, maintenance   the pages
//
// Pages are made on the server and work without a script; assets/console.js has what changes put into
// them, by server-sent events of the same path.
//
// Invariants: what isn't a GET holds a token of the console's own forms; a page loads nothing but its own
// files (policy); a statement that a page executes is Shunt's own, never a client's.
package console
