package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"
)

func TestCertificateNote(t *testing.T) {
	from, to := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	c := certificate{"clients", &x509.Certificate{Subject: pkix.Name{CommonName: "shunt"}, NotBefore: from, NotAfter: to}}
	for _, x := range []struct {
		now  time.Time
		want string
	}{
		{from.Add(-time.Second), "(CN=shunt) isn't valid before 2030-01-01 00:00 UTC"},
		{from.Add(time.Second), ""},
		{to.Add(-expiresSoon - time.Second), ""},
		{to.Add(-expiresSoon + time.Second), "expires on 2031-01-01 00:00 UTC"},
		{to.Add(time.Second), "has expired on 2031-01-01 00:00 UTC"},
	} {
		if got := c.note(x.now); x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("at %v: %q", x.now, got)
		}
	}
}
