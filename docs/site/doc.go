// Command site makes a static site of the documents in docs, without a server and with a search:
//
//	go run ./docs/site DIR
//
// docs/README.md is its map: each page stands in one of its four lists. Links to what is no page lead to the
// repository. llms.txt is the same map for language models.
package main
