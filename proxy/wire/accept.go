package wire

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
)

var (
	// ErrDenied: Accept refused the user; the client was told 1045.
	ErrDenied = errors.New("access denied")
	// ErrHandshake: the client's bytes are no handshake that is served here.
	ErrHandshake = errors.New("bad handshake")
	// ErrLeft: the client closed the connection without a word, as a load
	// balancer does that looks whether the port answers.
	ErrLeft = errors.New("the client left before it said anything")
)

// serverCapabilities is what Shunt can do for clients. Absent for a reason:
// see the package's documentation.
const serverCapabilities = mysql.CLIENT_COMPRESS | mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM | mysql.CLIENT_LONG_PASSWORD | mysql.CLIENT_FOUND_ROWS |
	mysql.CLIENT_LONG_FLAG | mysql.CLIENT_CONNECT_WITH_DB |
	mysql.CLIENT_IGNORE_SPACE | mysql.CLIENT_PROTOCOL_41 |
	mysql.CLIENT_INTERACTIVE | mysql.CLIENT_TRANSACTIONS |
	mysql.CLIENT_SECURE_CONNECTION | mysql.CLIENT_MULTI_STATEMENTS |
	mysql.CLIENT_MULTI_RESULTS | mysql.CLIENT_PS_MULTI_RESULTS |
	mysql.CLIENT_PLUGIN_AUTH | mysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA |
	mysql.CLIENT_LOCAL_FILES | mysql.CLIENT_QUERY_ATTRIBUTES |
	mysql.CLIENT_CONNECT_ATTRS | mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_SESSION_TRACK

// AnswerCapabilities are those that change the packets of answers.
const AnswerCapabilities = mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_SESSION_TRACK | mysql.CLIENT_OPTIONAL_RESULTSET_METADATA

const (
	defaultDeadline = 10 * time.Second
	// maxHandshake bounds packets of a client that isn't authenticated.
	maxHandshake = 64 << 10
	saltSize     = 20
	// maxAttrs bounds connection attributes, as servers do. In a handshake they
	// can't be longer, in a COM_CHANGE_USER they could.
	maxAttrs = 64 << 10
	// farewell bounds the sending of an error to a client that is refused
	// before it is authenticated.
	farewell = 100 * time.Millisecond
)

// Accept performs the handshake with a new client. The connection is
// authenticated then, but the client waits for its OK: the caller checks
// Conn.Schema and ends the handshake with WriteOK or WriteError.
//
// On an error the client was told where that makes sense, and nc is closed.
// The error is ErrDenied, ErrHandshake, ErrLeft or of the connection.
func Accept(ctx context.Context, nc net.Conn, o Options) (*Conn, error) {
	if o.Deadline <= 0 {
		o.Deadline = defaultDeadline
	}
	if o.MaxPacket <= 0 {
		o.MaxPacket = DefaultMaxPacket
	}
	c := NewConn(nc)
	c.ID, c.max = o.ConnectionID, o.MaxPacket
	_ = nc.SetDeadline(time.Now().Add(o.Deadline))
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })

	h := handshake{Conn: c, o: o}
	err := h.run()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		h.fail(err)
		_ = c.nc.Close()
		c.w.drop()
		return nil, fmt.Errorf("handshake with %v: %w", nc.RemoteAddr(), err)
	}
	_ = nc.SetDeadline(time.Time{})
	c.w.SetTimeout(o.WriteTimeout)
	if c.TLS {
		c.idle = nil
	}
	return c, nil
}

// Reject tells a new client why it isn't served, instead of a handshake, and
// closes nc. The SQLSTATE is left out: before the handshake clients take it
// for a part of the message, so servers don't send it either.
func Reject(nc net.Conn, e mysqlerr.Error) error {
	_ = nc.SetDeadline(time.Now().Add(lingerTime))
	w := NewWriter(nc)
	err := w.WritePacket(append([]byte{mysql.ERR_HEADER, byte(e.Code), byte(e.Code >> 8)}, e.Message...))
	if err == nil {
		err = w.Flush()
	}
	if cerr := nc.Close(); err == nil {
		err = cerr
	}
	return err
}

func host(nc net.Conn) string {
	switch a := nc.RemoteAddr().(type) {
	case *net.TCPAddr:
		return a.IP.String()
	case *net.UnixAddr, nil:
		return "localhost"
	default:
		return a.String()
	}
}

// refusal is an error that the client is told.
type refusal struct {
	kind   error
	packet *Error
	// bare: the client is older than the SQLSTATE in ERR packets.
	bare bool
}

func (r *refusal) Error() string   { return r.packet.Error() }
func (r *refusal) Unwrap() []error { return []error{r.kind, r.packet} }

func refuse(kind error, code uint16, format string, args ...any) error {
	return &refusal{kind: kind, packet: new(Error(mysqlerr.Newf(code, format, args...)))}
}

type handshake struct {
	*Conn
	o    Options
	salt [saltSize]byte
	// older are salts that the connection has had before. Clients' libraries
	// answer by one of these when they change the user with mysql_native_password,
	// whatever salt comes with the question, since servers keep theirs for it.
	older [][saltSize]byte
}

func (h *handshake) run() error {
	if err := newSalt(h.salt[:]); err != nil {
		return err
	}
	err := h.write(h.greeting())
	var p []byte
	if err == nil {
		p, err = h.read()
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%w: %w", ErrLeft, err)
	case err != nil:
		return err
	}
	resp, err := parseResponse(p)
	if err != nil {
		return err
	}
	if resp.tlsRequest {
		if h.o.TLS == nil {
			return refuse(ErrHandshake, mysqlerr.HandshakeError, "Bad handshake: TLS is not available")
		}
		if err := h.startTLS(); err != nil {
			return err
		}
		if p, err = h.read(); err != nil {
			return err
		}
		if resp, err = parseResponse(p); err != nil {
			return err
		}
		if resp.tlsRequest {
			return refuse(ErrHandshake, mysqlerr.HandshakeError, "Bad handshake")
		}
	} else if h.o.RequireTLS && !h.Local() { // nobody listens on a socket
		return refuse(ErrHandshake, mysqlerr.SecureTransportRequired, "Connections using insecure transport are prohibited while --require_secure_transport=ON.")
	}
	h.User = resp.user
	h.Schema = resp.schema
	h.Charset = resp.charset
	h.Attrs = resp.attrs
	h.Capabilities = resp.capabilities & h.capabilities()
	h.zstdLevel = resp.zstdLevel
	if err := h.authenticate(&resp); err != nil {
		return err
	}
	h.Conn.salt, h.asked = h.salt, h.salt
	return nil
}

func (h *handshake) capabilities() uint32 {
	caps := serverCapabilities
	if h.o.TLS != nil {
		caps |= mysql.CLIENT_SSL
	}
	if !h.mariaDB() {
		caps |= mysql.CLIENT_OPTIONAL_RESULTSET_METADATA // unknown to MariaDB
	}
	return caps
}

// greeting is Protocol::HandshakeV10.
func (h *handshake) greeting() []byte {
	caps := h.capabilities()
	p := append([]byte{mysql.ClassicProtocolVersion}, h.o.ServerVersion...)
	p = append(p, 0)
	p = binary.LittleEndian.AppendUint32(p, h.ID)
	p = append(p, h.salt[:8]...)
	p = append(p, 0)
	p = binary.LittleEndian.AppendUint16(p, uint16(caps))
	p = append(p, mysql.DEFAULT_COLLATION_ID)
	p = binary.LittleEndian.AppendUint16(p, mysql.SERVER_STATUS_AUTOCOMMIT)
	p = binary.LittleEndian.AppendUint16(p, uint16(caps>>16))
	p = append(p, saltSize+1)
	p = append(p, make([]byte, 10)...)
	p = append(p, h.salt[8:]...)
	p = append(p, 0)
	p = append(p, h.greets()...)
	return append(p, 0)
}

// greets is the plugin of the greeting.
func (h *handshake) greets() string {
	if h.mariaDB() && selfSigned(h.o.TLS) != nil {
		return mysql.AUTH_NATIVE_PASSWORD // see vouch
	}
	return mysql.AUTH_CACHING_SHA2_PASSWORD
}

func (h *handshake) mariaDB() bool {
	return strings.Contains(strings.ToLower(h.o.ServerVersion), "mariadb")
}

// newSalt makes a random salt without NUL, which ends strings, and '$', which
// some servers and clients keep for themselves.
func newSalt(salt []byte) error {
	if _, err := rand.Read(salt); err != nil {
		return err
	}
	for i, b := range salt {
		if b &= 0x7F; b == 0 || b == '$' {
			b++
		}
		salt[i] = b
	}
	return nil
}

// response is Protocol::HandshakeResponse41 or Protocol::SSLRequest.
type response struct {
	tlsRequest   bool
	capabilities uint32 // as the client sent them
	charset      uint16
	user, schema string
	auth         []byte
	plugin       string // "" where the client has no PLUGIN_AUTH
	attrs        Attributes
	zstdLevel    uint8 // 0 where it isn't sent
}

func parseResponse(p []byte) (r response, err error) {
	bad := refuse(ErrHandshake, mysqlerr.HandshakeError, "Bad handshake")
	if len(p) < 2 {
		return r, bad
	}
	low := uint32(binary.LittleEndian.Uint16(p))
	if low&mysql.CLIENT_PROTOCOL_41 == 0 || low&mysql.CLIENT_SECURE_CONNECTION == 0 {
		return r, &refusal{
			kind: ErrHandshake, bare: low&mysql.CLIENT_PROTOCOL_41 == 0,
			packet: new(Error(mysqlerr.New(mysqlerr.NotSupportedAuthMode, "Client does not support authentication protocol requested by server; consider upgrading MySQL client"))),
		}
	}
	if len(p) < 32 {
		return r, bad
	}
	r.capabilities = binary.LittleEndian.Uint32(p)
	r.charset = uint16(p[8])
	p = p[32:]
	if len(p) == 0 {
		if r.capabilities&mysql.CLIENT_SSL == 0 {
			return r, bad
		}
		r.tlsRequest = true
		return r, nil
	}
	user, p, ok := takeNul(p)
	if !ok {
		return r, bad
	}
	r.user = string(user)
	if r.capabilities&mysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
		r.auth, p, ok = TakeLenBytes(p)
	} else if ok = len(p) > 0 && len(p) > int(p[0]); ok {
		r.auth, p = p[1:1+int(p[0])], p[1+int(p[0]):]
	}
	if !ok {
		return r, bad
	}
	// What follows may be missing or lack its NUL at the packet's end: servers
	// let that pass, and there are clients that rely on it.
	if r.capabilities&mysql.CLIENT_CONNECT_WITH_DB != 0 {
		r.schema, p = takeName(p)
	}
	if r.capabilities&mysql.CLIENT_PLUGIN_AUTH != 0 {
		r.plugin, p = takeName(p)
	}
	if r.capabilities&mysql.CLIENT_CONNECT_ATTRS != 0 {
		r.attrs, p = parseAttrs(p)
	}
	if r.capabilities&mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0 && len(p) > 0 {
		r.zstdLevel = p[0]
	}
	return r, nil
}

func takeName(p []byte) (string, []byte) {
	if s, rest, ok := takeNul(p); ok {
		return string(s), rest
	}
	return string(p), nil
}

// parseAttrs parses the connection attributes, up to the first that is wrong:
// they are for display alone. rest is what follows them.
func parseAttrs(p []byte) (attrs Attributes, rest []byte) {
	p, rest, ok := TakeLenBytes(p)
	if !ok || len(p) == 0 {
		return nil, rest
	}
	p = p[:min(len(p), maxAttrs)]
	for len(p) > 0 {
		var k, v []byte
		if k, p, ok = TakeLenBytes(p); !ok {
			break
		}
		if v, p, ok = TakeLenBytes(p); !ok {
			break
		}
		attrs = append(attrs, Attribute{string(k), string(v)})
	}
	return attrs, rest
}

func (h *handshake) startTLS() error {
	// The client needn't wait after its request: what is buffered is the
	// beginning of TLS, never of a packet.
	under := &prefixed{Conn: h.nc, before: append([]byte(nil), h.r.buf[h.r.pos:h.r.end]...)}
	seq := h.r.Sequence()
	h.r.pos = h.r.end
	h.r.Release()
	conn := tls.Server(under, h.o.TLS)
	if err := conn.Handshake(); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	h.nc, h.TLS, h.certificate = conn, true, selfSigned(h.o.TLS)
	h.r, h.w = NewReader(conn), NewWriter(conn)
	h.r.SetSequence(seq)
	return nil
}

// prefixed is a connection of which some bytes were read already.
type prefixed struct {
	net.Conn
	before []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.before) > 0 {
		n := copy(b, p.before)
		p.before = p.before[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// NetConn lets peek find the socket.
func (p *prefixed) NetConn() net.Conn { return p.Conn }

// authenticate checks the client's password. A user that isn't known goes
// through the same exchange with a password that nobody has, so that neither
// messages nor time tell whether a user exists.
//
// A client whose plugin fits no hash is asked for the password itself: over TLS, a Unix
// socket, or under an RSA key of the process. Such are clients with sha256_password, and MySQL
// 9's for a user of whom only the native hash is known.
func (h *handshake) authenticate(resp *response) error {
	cred, known := h.o.Users(resp.user)
	if !known {
		cred = PasswordCredential(rand.Text())
	}
	plugin, auth := resp.plugin, resp.auth
	pluggable := h.Capabilities&mysql.CLIENT_PLUGIN_AUTH != 0
	// full is caching_sha2_password with the password itself. Where it would need
	// a public key, mysql_native_password is asked for as long as clients have it:
	// not all drivers ask for keys.
	full := pluggable && plugin != mysql.AUTH_NATIVE_PASSWORD && !cred.serves(mysql.AUTH_CACHING_SHA2_PASSWORD) && (h.secure() || lostNative(resp.attrs))
	switch {
	case !pluggable:
		plugin = mysql.AUTH_NATIVE_PASSWORD
	case plugin == mysql.AUTH_CACHING_SHA2_PASSWORD && (full || cred.serves(plugin)) && (len(auth) > 0 || plugin == h.greets()):
	case plugin == mysql.AUTH_NATIVE_PASSWORD && len(auth) > 0 && cred.serves(plugin):
	default:
		// libmysqlclient with default-auth=mysql_native_password answers a
		// greeting of another plugin with empty data and wants to be asked.
		if plugin != mysql.AUTH_NATIVE_PASSWORD && plugin != mysql.AUTH_SHA256_PASSWORD {
			plugin = mysql.AUTH_CACHING_SHA2_PASSWORD
		}
		if plugin != mysql.AUTH_SHA256_PASSWORD && !full && !cred.serves(plugin) {
			plugin = cred.plugin()
		}
		p := append([]byte{mysql.EOF_HEADER}, plugin...)
		p = append(p, 0)
		p = append(p, h.salt[:]...)
		p = append(p, 0)
		if err := h.write(p); err != nil {
			return err
		}
		var err error
		if auth, err = h.read(); err != nil {
			return err
		}
	}
	// With an empty password caching_sha2_password sends one NUL.
	if len(auth) == 1 && auth[0] == 0 {
		auth = nil
	}
	var accepted bool
	full = plugin == mysql.AUTH_CACHING_SHA2_PASSWORD && (full || cred.swapped(h.salt[:], auth))
	switch {
	case len(auth) > 0 && (full || plugin == mysql.AUTH_SHA256_PASSWORD):
		if full {
			if err := h.write([]byte{mysql.MORE_DATE_HEADER, mysql.CACHE_SHA2_FULL_AUTH}); err != nil {
				return err
			}
			var err error
			if auth, err = h.read(); err != nil {
				return err
			}
		}
		password, ok, err := h.password(plugin, auth)
		if err != nil {
			return err
		}
		accepted = ok && cred.Is(string(password))
	default:
		accepted = cred.accepts(plugin, h.salt[:], auth)
	}
	if plugin == mysql.AUTH_NATIVE_PASSWORD {
		answered := h.salt
		for _, salt := range h.older {
			if cred.accepts(plugin, salt[:], auth) {
				accepted, answered = true, salt
			}
		}
		h.vouches = cred.vouch(answered[:], h.certificate)
	}
	if !accepted || !known {
		using := "NO"
		if len(auth) > 0 {
			using = "YES"
		}
		if h.o.Denied != nil {
			h.o.Denied(resp.user)
		}
		return refuse(ErrDenied, mysqlerr.AccessDenied, "Access denied for user '%s'@'%s' (using password: %s)", resp.user, h.Host, using)
	}
	if plugin == mysql.AUTH_CACHING_SHA2_PASSWORD && len(auth) > 0 && !full {
		return h.w.WritePacket([]byte{mysql.MORE_DATE_HEADER, mysql.CACHE_SHA2_FAST_AUTH})
	}
	return nil
}

// read reads a packet; what is written next follows it.
func (h *handshake) read() ([]byte, error) {
	p, err := h.r.ReadPacket(maxHandshake)
	h.w.SetSequence(h.r.Sequence())
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, ErrPacketTooLarge), errors.Is(err, ErrSequence):
		return nil, refuse(ErrHandshake, mysqlerr.HandshakeError, "Bad handshake")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{kind: err, packet: new(Error(mysqlerr.New(mysqlerr.NetReadInterrupted, "Got timeout reading communication packets")))}
	}
	return nil, unexpected(err)
}

// write sends a packet; what is read next follows it.
func (h *handshake) write(p []byte) error {
	if err := h.w.WritePacket(p); err != nil {
		return err
	}
	h.r.SetSequence(h.w.Sequence())
	return h.w.Flush()
}

// fail tells the client why the handshake failed, if it can be told.
func (h *handshake) fail(err error) {
	var r *refusal
	if !errors.As(err, &r) {
		return
	}
	_ = h.nc.SetDeadline(time.Now().Add(farewell))
	p := r.packet.Append(nil)
	if r.bare {
		p = append([]byte{mysql.ERR_HEADER, byte(r.packet.Code), byte(r.packet.Code >> 8)}, r.packet.Message...)
	}
	if h.w.WritePacket(p) == nil && h.w.Flush() == nil && !errors.Is(r.kind, ErrDenied) {
		linger(h.raw, maxHandshake, farewell)
	}
}
