// Package infile reads the lines and fields of a file that LOAD DATA LOCAL INFILE sends, as servers
// read them. It knows no table: package proxy makes statements of the values.
package infile
