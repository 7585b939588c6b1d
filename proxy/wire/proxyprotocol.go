package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// ErrProxyHeader: what came is no header of the PROXY protocol.
var ErrProxyHeader = errors.New("bad PROXY protocol header")

const (
	// maxProxyLine is the longest header of version 1, its end included.
	maxProxyLine = 107
	proxyV2      = "\r\n\r\n\x00\r\nQUIT\n"
)

// AcceptProxied reads the header that a load balancer sends in front of a
// connection (versions 1 and 2 of haproxy's proxy-protocol.txt), and returns nc
// with the client's address as its remote one. LOCAL and UNKNOWN are the load
// balancer's own connections: they keep its address. Nothing behind the header is
// read. After an error the peer was told, and nc is closed.
func AcceptProxied(ctx context.Context, nc net.Conn, deadline time.Duration) (net.Conn, error) {
	if deadline <= 0 {
		deadline = defaultDeadline
	}
	_ = nc.SetReadDeadline(time.Now().Add(deadline))
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	from, err := readProxyHeader(nc)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			nc.Close() // a look at whether the port answers
		} else {
			_ = Reject(nc, mysqlerr.New(mysqlerr.HandshakeError, "Bad handshake: from this address a header of the PROXY protocol is expected first"))
		}
		return nil, err
	}
	_ = nc.SetReadDeadline(time.Time{})
	if !from.IsValid() {
		return nc, nil
	}
	addr := net.TCPAddrFromAddrPort(from)
	if tcp, ok := nc.(*net.TCPConn); ok {
		return &proxiedTCP{tcp, addr}, nil
	}
	return &proxied{nc, addr}, nil
}

// proxiedTCP is still a socket to all who look for one.
type proxiedTCP struct {
	*net.TCPConn
	client net.Addr
}

func (p *proxiedTCP) RemoteAddr() net.Addr { return p.client }

type proxied struct {
	net.Conn
	client net.Addr
}

func (p *proxied) RemoteAddr() net.Addr { return p.client }

// readProxyHeader returns the client's address, the zero one where the header
// names none.
func readProxyHeader(r io.Reader) (netip.AddrPort, error) {
	// No header is shorter, and this much tells the versions apart.
	head := make([]byte, len(proxyV2), maxProxyLine)
	if _, err := io.ReadFull(r, head); err != nil {
		return netip.AddrPort{}, err
	}
	if string(head) == proxyV2 {
		return readProxyV2(r)
	}
	if !bytes.HasPrefix(head, []byte("PROXY ")) {
		return netip.AddrPort{}, ErrProxyHeader
	}
	// Byte by byte: what follows the line is the client's.
	for !bytes.HasSuffix(head, []byte("\r\n")) {
		if len(head) == maxProxyLine {
			return netip.AddrPort{}, ErrProxyHeader
		}
		head = head[:len(head)+1]
		if _, err := io.ReadFull(r, head[len(head)-1:]); err != nil {
			return netip.AddrPort{}, unexpected(err)
		}
	}
	return parseProxyV1(string(head[:len(head)-2]))
}

// parseProxyV1 parses such as "PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306".
func parseProxyV1(line string) (netip.AddrPort, error) {
	f := strings.Split(line, " ")
	if f[1] == "UNKNOWN" {
		return netip.AddrPort{}, nil
	}
	if len(f) != 6 || f[1] != "TCP4" && f[1] != "TCP6" {
		return netip.AddrPort{}, ErrProxyHeader
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		addr, err := netip.ParseAddr(f[2+i])
		if err != nil || addr.Is4() != (f[1] == "TCP4") || addr.Zone() != "" {
			return netip.AddrPort{}, ErrProxyHeader
		}
		port, err := strconv.ParseUint(f[4+i], 10, 16)
		if err != nil || strconv.FormatUint(port, 10) != f[4+i] {
			return netip.AddrPort{}, ErrProxyHeader
		}
		ends[i] = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	}
	return ends[0], nil
}

// readProxyV2 reads what follows the signature: version and command, family and
// protocol, the length of the rest; addresses, then fields that nobody needs here.
func readProxyV2(r io.Reader) (netip.AddrPort, error) {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return netip.AddrPort{}, unexpected(err)
	}
	n := int(binary.BigEndian.Uint16(h[2:]))
	var b [36]byte
	addresses := b[:min(n, len(b))]
	if _, err := io.ReadFull(r, addresses); err != nil {
		return netip.AddrPort{}, unexpected(err)
	}
	if _, err := io.CopyN(io.Discard, r, int64(n-len(addresses))); err != nil {
		return netip.AddrPort{}, unexpected(err)
	}
	const local, proxy = 0x20, 0x21
	const unspecified, tcp4, tcp6, unix = 0x00, 0x11, 0x21, 0x31
	size := 0
	switch {
	case h[0] == local:
		return netip.AddrPort{}, nil
	case h[0] != proxy:
		return netip.AddrPort{}, fmt.Errorf("%w: version and command %#x", ErrProxyHeader, h[0])
	case h[1] == unspecified, h[1] == unix:
		return netip.AddrPort{}, nil
	case h[1] == tcp4:
		size = 4
	case h[1] == tcp6:
		size = 16
	}
	if size == 0 || len(addresses) < 2*size+4 {
		return netip.AddrPort{}, fmt.Errorf("%w: family %#x with %d bytes", ErrProxyHeader, h[1], n)
	}
	addr, _ := netip.AddrFromSlice(addresses[:size])
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(addresses[2*size:])), nil
}
