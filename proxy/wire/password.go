package wire

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // what the protocol pads with
	"crypto/x509"
	"encoding/pem"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Where a hash can't be compared with what a client answers, the client is asked
// for the password itself: with sha256_password always, with
// caching_sha2_password where only the hash of mysql_native_password is kept, or the
// client reckons otherwise (swapped). It comes through TLS or a Unix socket as it is, else under the public key of this
// process, which clients ask for.

// passwordKey is made at the first need, and lasts as long as the process.
var passwordKey = sync.OnceValues(func() (k struct {
	private *rsa.PrivateKey
	public  []byte
}, err error,
) {
	if k.private, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return k, err
	}
	der, err := x509.MarshalPKIXPublicKey(&k.private.PublicKey)
	k.public = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return k, err
})

// What asks for the key is one byte, by plugin.
const (
	keyOfSha256  = 1
	keyOfCaching = 2
)

// secure reports a connection that nobody can listen to.
func (h *handshake) secure() bool {
	_, local := h.raw.LocalAddr().(*net.UnixAddr)
	return h.TLS || local
}

// password reads the client's password from the packet that answers the question
// for it, or from the next one. ok is false where it is none; nothing that could
// be heard in clear text is taken.
func (h *handshake) password(plugin string, p []byte) (password []byte, ok bool, err error) {
	if h.secure() {
		if n := len(p) - 1; n >= 0 && p[n] == 0 {
			return p[:n], true, nil
		}
	}
	key, err := passwordKey()
	if err != nil {
		return nil, false, err
	}
	asks := byte(keyOfCaching)
	if plugin == mysql.AUTH_SHA256_PASSWORD {
		asks = keyOfSha256
	}
	if len(p) == 1 && p[0] == asks {
		if err := h.write(append([]byte{mysql.MORE_DATE_HEADER}, key.public...)); err != nil {
			return nil, false, err
		}
		if p, err = h.read(); err != nil {
			return nil, false, err
		}
	}
	clear, err := rsa.DecryptOAEP(sha1.New(), nil, key.private, p, nil) //nolint:gosec // as above
	if err != nil || len(clear) == 0 {
		return nil, false, nil //nolint:nilerr // a wrong password
	}
	for i := range clear {
		clear[i] ^= h.salt[i%saltSize]
	}
	n := len(clear) - 1
	return clear[:n], clear[n] == 0, nil
}

// lostNative reports a client that has no mysql_native_password any more, as
// MySQL's own from 9 on.
func lostNative(attrs Attributes) bool {
	major, _, _ := strings.Cut(attrs.Get("_client_version"), ".")
	n, err := strconv.Atoi(major)
	return attrs.Get("_client_name") == "libmysql" && err == nil && n >= 9
}
