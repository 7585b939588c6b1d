package wire

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // mysql_native_password is made of it
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Credential is what a user is authenticated with: what servers keep of a
// password. The zero Credential is that of an empty password.
type Credential struct {
	// native is SHA1(SHA1(password)), sha2 SHA256(SHA256(password)); nil where
	// it isn't known. Who knows sha2 alone can't be served a client that knows
	// only mysql_native_password, and the other way round.
	native, sha2 []byte
}

// PasswordCredential is that of a password in plain text.
func PasswordCredential(password string) Credential {
	if password == "" {
		return Credential{}
	}
	n := sha1.Sum([]byte(password)) //nolint:gosec // as above
	n = sha1.Sum(n[:])              //nolint:gosec // as above
	s := sha256.Sum256([]byte(password))
	s = sha256.Sum256(s[:])
	return Credential{n[:], s[:]}
}

// Is reports whether a password is the credential's.
func (c Credential) Is(password string) bool {
	p := PasswordCredential(password)
	return c.empty() == p.empty() && (c.native == nil || bytes.Equal(c.native, p.native)) && (c.sha2 == nil || bytes.Equal(c.sha2, p.sha2))
}

// sha2Prefix begins a hash for caching_sha2_password. (What MySQL itself keeps
// for it, $A$005$..., can only be compared with the password.)
const sha2Prefix = "sha2:"

// Hashes are the texts that HashCredential reads: what mysql_native_password
// keeps, and what caching_sha2_password compares.
func (c Credential) Hashes() []string {
	return []string{"*" + strings.ToUpper(hex.EncodeToString(c.native)), sha2Prefix + hex.EncodeToString(c.sha2)}
}

var errHashes = errors.New("expected '*' and 40 hexadecimal digits, or sha2: and 64, one of each at most (shunt password prints both)")

// HashCredential is that of one hash or both. None at all would be that of a user
// without a password.
func HashCredential(hashes ...string) (Credential, error) {
	var c Credential
	if len(hashes) == 0 {
		return c, errHashes
	}
	for _, h := range hashes {
		to, size, text := &c.sha2, sha256.Size, ""
		var ok bool
		if text, ok = strings.CutPrefix(h, sha2Prefix); !ok {
			to, size = &c.native, sha1.Size
			text, ok = strings.CutPrefix(h, "*")
		}
		b, err := hex.DecodeString(text)
		if !ok || err != nil || len(b) != size || *to != nil {
			return Credential{}, errHashes
		}
		*to = b
	}
	return c, nil
}

// empty reports that of a user without a password.
func (c Credential) empty() bool { return c.native == nil && c.sha2 == nil }

// serves reports whether a plugin's answers can be checked.
func (c Credential) serves(plugin string) bool {
	return c.empty() || c.hash(plugin) != nil
}

// plugin is one that serves.
func (c Credential) plugin() string {
	if c.sha2 == nil {
		return mysql.AUTH_NATIVE_PASSWORD
	}
	return mysql.AUTH_CACHING_SHA2_PASSWORD
}

func (c Credential) hash(plugin string) []byte {
	if plugin == mysql.AUTH_NATIVE_PASSWORD {
		return c.native
	}
	return c.sha2
}

// accepts checks a plugin's answer to a salt. The answer hides the password's
// hash under what only who knows its hash can make, and so shows it.
func (c Credential) accepts(plugin string, salt, answer []byte) bool {
	if c.empty() {
		return len(answer) == 0
	}
	want := c.hash(plugin)
	if want == nil || len(answer) != len(want) {
		return false
	}
	if plugin == mysql.AUTH_NATIVE_PASSWORD {
		mask := sha1.Sum(append(append([]byte(nil), salt...), want...)) //nolint:gosec // as above
		got := sha1.Sum(mysql.Xor(mask[:], answer))                     //nolint:gosec // as above
		return subtle.ConstantTimeCompare(got[:], want) == 1
	}
	return revealed(want, answer, want, salt)
}

// revealed undoes an answer of caching_sha2_password that hides under the hash of
// mask, and reports whether it is the password's.
func revealed(want, answer []byte, mask ...[]byte) bool {
	under := sha256.Sum256(slices.Concat(mask...))
	got := sha256.Sum256(mysql.Xor(under[:], answer))
	return subtle.ConstantTimeCompare(got[:], want) == 1
}

// swapped reports an answer to caching_sha2_password that is right but for salt and
// hash, which are in mysql_native_password's order. Elixir's MyXQL answers so, and
// knows nothing of being accepted for it: MySQL, which asks for the password itself
// wherever the answer isn't right, always asks it.
func (c Credential) swapped(salt, answer []byte) bool {
	return c.sha2 != nil && len(answer) == len(c.sha2) && revealed(c.sha2, answer, salt, c.sha2)
}
