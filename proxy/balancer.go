package proxy

import (
	"net"
	"net/netip"
	"slices"
)

// SetProxyProtocol sets the networks from which each connection begins with a
// header of the PROXY protocol; connections from elsewhere must have none.
func (p *Proxy) SetProxyProtocol(networks []netip.Prefix) { p.balancers.Store(&networks) }

// balancer reports a peer whose connections begin with such a header.
func (p *Proxy) balancer(nc net.Conn) bool {
	networks := p.balancers.Load()
	if networks == nil || len(*networks) == 0 {
		return false
	}
	from, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := from.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(*networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}
