package config

import (
	"net/netip"
	"regexp"
)

// readNetworks reads the networks whose peers are load balancers.
func readNetworks(v value) []netip.Prefix {
	const expected = "a list of networks like [10.0.0.0/8, 192.0.2.7]"
	var out []netip.Prefix
	v.items(expected, func(_ int, item value) {
		s := item.nonEmpty("a network like 10.0.0.0/8, or an address")
		if s == "" {
			return
		}
		if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			return
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			item.errorf("%q is no network: expected one like 10.0.0.0/8, or an address", s)
			return
		}
		if p != p.Masked() {
			item.errorf("%s has bits behind its mask: expected %s", s, p.Masked())
		}
		out = append(out, p)
	})
	return out
}

// clientVersion is what drivers can read.
var clientVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+[-+.~A-Za-z0-9_:]*$`)

func readServerVersion(v value) string {
	s := v.nonEmpty("a version like 8.4.0")
	if s != "" && (!clientVersion.MatchString(s) || len(s) > 60) {
		v.errorf("%q is no server's version: expected one like 8.4.0 or 10.11.6-MariaDB, of at most 60 characters", s)
	}
	return s
}
