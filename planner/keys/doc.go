// Package keys turns column values into canonical keys: byte strings that are
// equal exactly where the server says the values are equal, and sort as the
// server sorts them.
//
// A Value is what a statement says (a literal, a bound parameter). A Codec, from
// For, is how one column's type, character set and collation turn values into
// components. A key is the concatenation of the components of an index's
// columns. The package does no I/O, imports nothing of ours and knows no SQL
// beyond literals.
//
// # Doubt
//
// The virtual index must never miss a row, so everything here answers exactly
// or not at all. ok == false is doubt: a lookup then does not use the index, a
// write sets an unknown mark, a scan marks the shard. There is no "nearly":
//
//   - Stored(v) is what the column holds after v was stored: it must be the
//     component that Scanned gives when that row is read back. Too low a
//     promise costs a mark; a wrong one is a missing entry.
//   - Equal(v) must be the component of exactly the rows for which `col = v`
//     is true, whichever way the server gets there (comparison, index lookup,
//     IN, prepared statement). It must not be wider either: verify_keys asks a
//     shard `col = v` and removes the entry when nothing comes, so a row of the
//     same component that the server does not find would lose its entry.
//   - Order(v) is a bound. All rows with lo <= col <= hi, and so also with
//     lo < col < hi, lie in [Order(lo), Successor(Order(hi))). Never leave the
//     Successor out, not for < either: a long or fractional v gives the bound
//     below itself.
//   - LikePrefix(p) covers all rows of col LIKE 'p%'.
//
// Doubt also covers what is not of the value but of the statement, which the
// caller must see to: COLLATE clauses, a character set of the client that
// differs from the connection's, NULL stored in NOT NULL columns, sessions with
// PAD_CHAR_TO_FULL_LENGTH (Codec.PadSensitive).
//
// # Encoding
//
// A change by which a value gets another key is a new Encoding: who writes other keys than a member
// reads doesn't serve beside it.
//
// A component begins with a tag byte. No component is the beginning of another
// one, so components concatenate without separators, and a prefix of an index's
// columns is a byte prefix of its keys.
//
//	00                              NULL, first in every order
//	01 body end                     string, binary string, enum member, UUID, INET4, INET6
//	03 xxxxxxxxxxxxxxxx             negative integer: int64, big endian
//	04 xxxxxxxxxxxxxxxx             integer from 0 on: uint64, big endian
//	02, 05                          bounds below and above all 64-bit integers
//	08 ^point ^pairs.. ff           negative decimal
//	09                              decimal zero, of whatever sign
//	0a point pairs.. 00             positive decimal
//
// Integer columns of all widths and signs share one encoding. So do temporal
// types, packed into integers: dates and datetimes as
// ((year*13+month)*32+day)*86400e6 + microseconds of the day (a DATE is its
// midnight), TIME as signed microseconds. Decimals have their value as
// 0.DIGITS * 10^(point-128), the digits two a byte plus one, without leading and
// trailing zeros; the negative ones are inverted.
//
// Text bodies are the collation's weights. Where nothing is padded (NO PAD
// collations, binary strings):
//
//	xx         a byte of the weights, not 00
//	00 ff      a zero byte of the weights
//	00 01      the end
//	00 02 h*8  the cut (below)
//
// Under PAD SPACE a text compares as if spaces followed it without end: 'a'
// equals 'a ', and "a\t" is less than 'a'. Cutting trailing spaces off would
// give the first and lose the second. So weights are read in units (1 byte in
// single-byte and _bin collations, else 2), and a unit that weighs as a space
// (SP) never stands alone. Where it comes, what follows the run of n of them is
// compared with SP, since that is what decides against a text that ends here:
//
//	SP 01 n    then a unit below SP: the longer the run, the greater
//	SP 02      the end: nothing but SP follows
//	SP 03 ^n   then a unit above SP: the longer the run, the smaller
//	SP 00 h*8  the cut, a unit below SP follows it or its run
//	SP 04 h*8  the cut, a unit above SP follows
//
// Of weights with several levels (uca1400_as_ci) each is such a component.
//
// n is one byte up to 254, else ff and four bytes.
//
// Bodies are cut at the first unit boundary from 256 bytes on; what follows is
// replaced by its xxhash. Two long texts then share a key only where the hashes
// collide (one shard too many, until a scan), and the order of cut texts among
// each other is lost, which is why Order gives the body up to the cut only.
//
// # Where the exactness comes from
//
// Weights are those of Vitess's colldata, and of MariaDB's uca1400 collations the
// server's own (uca1400.txt). server_test.go compares them, for each
// collation that For accepts, with what real MySQL 9 and MariaDB 10.11 answer
// to = and <; with SHUNT_TEST_EXHAUSTIVE over every code point of the BMP and
// samples beyond. server_types_test.go does the same for values of every type in
// columns of every type, through comparisons, forced index lookups, IN,
// BETWEEN, LIKE and prepared statements. What was found to differ is refused or
// in doubt:
//
//   - Vitess gives U+FFFF no weight in the UCA 4.0.0 collations (unicode_ci and
//     its languages), and ends UCS-2, UTF-16 and UTF-32 strings at U+FFFD under
//     general_ci and the UCA ones. Texts with these characters are in doubt.
//   - utf8mb4_0900_ai_ci, MySQL's name, has the weights of UCA 9 on MySQL, and those of
//     uca1400_nopad_ai_ci on MariaDB from 11.4.5 on.
//   - A column in a single-byte character set may hold bytes that stand for no
//     character; they are read as '?'. There a '?' that was read is in doubt.
//     MySQL's ascii refuses such bytes, MariaDB's takes them.
//   - MariaDB rounds a decimal constant to the column's scale when it looks it
//     up in an index: c = 1.005 finds 1.01, with an index only. Constants of a
//     larger scale are in doubt on both servers.
//   - MariaDB compares CHAR columns of NO PAD collations in an index with their
//     padding: 'a' and "a\x00" are equal by the collation and not found by each
//     other. Such columns are refused.
//   - MySQL looks a CHAR column up in an index by what it would hold of a constant, and
//     takes white space that is cut off for nothing: c = "abcde\n" finds 'abcde' in a
//     CHAR(5) with a PAD SPACE collation, with an index only. Such constants are in doubt.
//   - BETWEEN and IN may compare numbers as floats as soon as one of the
//     operands is a string or a float. Equality of integers stays exact below
//     2^53, and strings and floats are accepted only there; order on BIGINT
//     takes neither.
//   - The servers refuse -0.4 in an unsigned column, although it rounds to 0.
//   - A number of more than 16 digits loses the last ones in a UTF-32 column.
//   - An ENUM row reads as ” for the member ” and for the error value, and
//     only the first equals ”.
//   - Which fractional seconds a column keeps of a longer literal depends on
//     sql_mode and on the server (MySQL rounds, MariaDB truncates).
//   - A DECIMAL compares with a string as two floats, a VARCHAR with a number
//     too; BINARY(n) is padded with zero bytes in lookups by a shorter value.
//
// LIKE compares characters, keys have weights. A contraction (Czech ch) would
// hide a prefix; so LikePrefix takes printable ASCII in collations where no
// ASCII character begins one, and there the first level's weights of the prefix
// begin the weights of every match.
package keys
