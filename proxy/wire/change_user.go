package wire

import (
	"encoding/binary"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// ChangeUser authenticates the client anew, as COM_CHANGE_USER asks with its
// payload. The caller then takes User, Schema, Charset and Attrs over into Conn
// and answers OK. After an error, which the client was told, it closes the
// connection, as servers do.
func (c *Conn) ChangeUser(payload []byte, o Options) (*Login, error) {
	if o.Deadline <= 0 {
		o.Deadline = defaultDeadline
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(o.Deadline))
	defer func() { _ = c.nc.SetReadDeadline(time.Time{}) }()
	h := handshake{Conn: c, o: o, salt: c.salt, older: [][saltSize]byte{c.salt, c.asked}}
	resp, err := h.changeUser(payload)
	c.asked = h.salt
	if err != nil {
		h.fail(err)
		return nil, err
	}
	return &Login{resp.user, resp.schema, resp.charset, resp.attrs}, nil
}

// Login is what a client asks for when it changes its user.
type Login struct {
	User, Schema string
	Charset      uint16
	Attrs        Attributes
}

func (h *handshake) changeUser(payload []byte) (response, error) {
	r, err := parseChangeUser(payload, h.Capabilities, h.Charset)
	if err != nil {
		return r, err
	}
	if h.Capabilities&mysql.CLIENT_PLUGIN_AUTH != 0 {
		// What was sent along answers the greeting's salt, which has been
		// answered once. Who knows plugins can be asked anew.
		if err := newSalt(h.salt[:]); err != nil {
			return r, err
		}
		if r.auth = nil; r.plugin != mysql.AUTH_NATIVE_PASSWORD {
			r.plugin = ""
		}
	}
	return r, h.authenticate(&r)
}

// parseChangeUser parses what follows the command's byte. charset stays where
// the client, an old one, sends none.
func parseChangeUser(p []byte, capabilities uint32, charset uint16) (r response, err error) {
	bad := refuse(ErrHandshake, mysqlerr.UnknownCommand, "Malformed COM_CHANGE_USER")
	r.capabilities, r.charset = capabilities, charset
	user, p, ok := takeNul(p)
	if !ok || len(p) == 0 || len(p) < 1+int(p[0]) {
		return r, bad
	}
	r.user = string(user)
	r.auth, p = p[1:1+int(p[0])], p[1+int(p[0]):]
	r.schema, p = takeName(p)
	if len(p) >= 2 {
		r.charset, p = binary.LittleEndian.Uint16(p), p[2:]
	}
	if capabilities&mysql.CLIENT_PLUGIN_AUTH != 0 {
		r.plugin, p = takeName(p)
	}
	if capabilities&mysql.CLIENT_CONNECT_ATTRS != 0 {
		r.attrs, _ = parseAttrs(p)
	}
	return r, nil
}
