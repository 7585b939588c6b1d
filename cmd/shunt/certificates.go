package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

// expiresSoon is from when on a certificate's end is told.
const expiresSoon = 14 * 24 * time.Hour

// certificate is one that Shunt shows to somebody: to clients, or to a shard by its name.
type certificate struct {
	of   string
	cert *x509.Certificate
}

func ownCertificates(cfg *config.Config) (out []certificate) {
	add := func(of string, file []byte) {
		// The first one is Shunt's, its authorities' follow. Who read the file has seen that it is one.
		if b, _ := pem.Decode(file); b != nil {
			if c, err := x509.ParseCertificate(b.Bytes); err == nil {
				out = append(out, certificate{of, c})
			}
		}
	}
	if cfg.TLS != nil {
		add("clients", cfg.TLS.Cert)
	}
	for _, s := range cfg.Shards {
		if s.TLS != nil {
			add("shard "+s.Name, s.TLS.Cert)
		}
	}
	return out
}

// note says what is, or soon will be, wrong with the time that it is good for; "" for nothing.
func (c certificate) note(now time.Time) string {
	const day = "2006-01-02 15:04 MST"
	what := fmt.Sprintf("Shunt's certificate for %s (%s)", c.of, c.cert.Subject)
	switch from, to := c.cert.NotBefore, c.cert.NotAfter; {
	case now.Before(from):
		return fmt.Sprintf("%s isn't valid before %s: who verifies it refuses to connect", what, from.UTC().Format(day))
	case now.After(to):
		return fmt.Sprintf("%s has expired on %s: who verifies it refuses to connect", what, to.UTC().Format(day))
	case to.Sub(now) < expiresSoon:
		return fmt.Sprintf("%s expires on %s", what, to.UTC().Format(day))
	}
	return ""
}

// certificates tells until when those of the configuration in force are good.
type certificates struct {
	log *slog.Logger
	now atomic.Pointer[[]certificate]
}

func (c *certificates) set(cfg *config.Config) {
	own := ownCertificates(cfg)
	for _, x := range own {
		if note := x.note(time.Now()); note != "" {
			c.log.Warn(note)
		}
	}
	c.now.Store(&own)
}

var expiresDesc = prometheus.NewDesc("shunt_certificate_expires_timestamp_seconds", "When a certificate of Shunt's own expires.", []string{"of"}, nil)

func (c *certificates) Describe(ch chan<- *prometheus.Desc) { ch <- expiresDesc }

func (c *certificates) Collect(ch chan<- prometheus.Metric) {
	for _, x := range *c.now.Load() {
		ch <- prometheus.MustNewConstMetric(expiresDesc, prometheus.GaugeValue, float64(x.cert.NotAfter.Unix()), x.of)
	}
}
