// Package door has what keeps clients out, or waiting, before they are logged in.
//
// Denials hold up the answers to failed log-ins, the more the longer they go on. Handshakes bounds
// the connections that aren't logged in yet, of all addresses and of one. Strangers bounds what is
// logged of connections that nobody logs in by. All three count by address and are bounded
// themselves: anybody who reaches the port can make them grow.
package door
