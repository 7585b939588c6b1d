// Package throwaway finds, starts and removes MySQL and MariaDB servers for the
// end-to-end tests and for `shunt demo`.
//
// A Source is where a server program comes from: one on PATH, one inside a root
// file system (run by chroot, which needs root), or a container image. Find
// looks for a given flavour, FindAny takes the first that will do. Neither
// installs anything, except that Install fetches MariaDB's server package.
//
// Start initialises one data directory and copies it for each server of the
// Set, which takes a second instead of several; a set with a Base copies that
// one's. All servers listen on 127.0.0.1 with free ports, keep everything under
// one temporary directory, favour a fast start and little memory over
// durability, and are ended by their own process id. They die with the process
// that started them, even by kill -9; then only the directory is left.
// Containers initialise one each; a process of its own (keeper) removes them
// when this one ends, however it does.
//
// The package knows nothing of Shunt.
package throwaway
