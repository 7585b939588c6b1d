package config

import (
	"net/url"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Tracing is where traces of statements go.
type Tracing struct {
	Endpoint string
	Sample   float64
	Headers  map[string]string
	Service  string
}

func readTracing(v value) *Tracing {
	t := &Tracing{Sample: 0.01, Service: "shunt"}
	v.require(v.fields(tracingKeys(t)...), "endpoint")
	return t
}

// tracingKeys are those of tracing.
func tracingKeys(t *Tracing) []field {
	return []field{
		{name: "endpoint", otherwise: "(required)", help: "the URL of a collector that takes OTLP over HTTP, `http://127.0.0.1:4318`; without a path `/v1/traces` is asked", read: func(v value) {
			t.Endpoint = v.nonEmpty("a URL like http://127.0.0.1:4318")
			if u, err := url.Parse(t.Endpoint); t.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
				v.errorf("%q is no URL: expected one like http://127.0.0.1:4318", t.Endpoint)
			}
		}},
		{name: "sample", otherwise: "0.01", help: "the share of the statements without a parent that is traced, from 0 to 1; those with one are as its flag says", read: func(v value) { t.Sample = v.share() }},
		{name: "headers", otherwise: "(none)", help: "headers of each request, `{Authorization: Bearer TOKEN}`", read: func(v value) {
			t.Headers = map[string]string{}
			v.pairs("a mapping like {Authorization: Bearer TOKEN}", func(name string, key ast.Node, h value) {
				if text, ok := h.text("a header's value"); ok {
					if strings.ContainsAny(name+text, "\r\n") {
						h.errorf("has a line's end: expected a header of one line")
					}
					t.Headers[name] = text
				}
			})
		}},
		{name: "service", otherwise: "shunt", help: "what traces call this Shunt (`service.name`)", read: func(v value) { t.Service = v.nonEmpty("a name") }},
	}
}
