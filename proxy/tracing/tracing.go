// Package tracing sends traces of statements to a collector, by OTLP over HTTP: a span for each
// statement that is traced, with one below it for each shard's part.
//
// A statement is traced as its client has it: where that names a parent (W3C's traceparent), by that
// parent's flag "sampled", and else by a share. Spans are made once a statement has ended, of what was
// measured of it: one that isn't traced costs a look at its text.
//
// Attributes have OpenTelemetry's names where there are such; of Shunt's own begin with "shunt.". No
// literal is in them.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// TraceParent is the name that a client gives a parent by: a query attribute, or a key of a comment.
const TraceParent = "traceparent"

// Options say where traces go, and of what.
type Options struct {
	// Endpoint is a URL; without a path /v1/traces is asked.
	Endpoint string
	Headers  map[string]string
	// Sample is the share of the statements without a parent that is traced: from 0 to 1.
	Sample float64
	// Service is what a trace calls Shunt; Version is the program's.
	Service, Version string
	Log              *slog.Logger
}

// Tracer sends traces until it is closed. Its methods may be called by many at a time.
type Tracer struct {
	sample   float64
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a tracer. No collector has to be there: what it doesn't take is dropped.
func New(ctx context.Context, o Options) (*Tracer, error) {
	at, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("trace statements: %w", err)
	}
	if at.Path == "" || at.Path == "/" {
		at.Path = "/v1/traces"
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(at.String()), otlptracehttp.WithHeaders(o.Headers), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return nil, fmt.Errorf("trace statements: %w", err)
	}
	about, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(semconv.ServiceName(o.Service), semconv.ServiceVersion(o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("trace statements: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(about), sdk.WithBatcher(&exporter{SpanExporter: to, endpoint: o.Endpoint, log: o.Log}))
	return &Tracer{o.Sample, provider, provider.Tracer("github.com/shunt-sql/shunt", trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))}, nil
}

// Close sends what is left, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// exporter tells once that traces aren't taken, until they are again.
type exporter struct {
	sdk.SpanExporter
	endpoint string
	log      *slog.Logger
	failed   atomic.Bool
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if before := e.failed.Swap(err != nil); err != nil && !before {
		e.log.Warn("traces are dropped: the collector doesn't take them", "endpoint", e.endpoint, "error", err)
	}
	return nil // else the library would tell each time
}

// Parent is what a client says of the trace that its statement belongs to: the value of the query
// attribute, else of a comment at the text's end or beginning, as sqlcommenter writes it:
//
//	SELECT 1 /*route='/a',traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/
func Parent(sql, attribute string) string {
	if attribute != "" {
		return attribute
	}
	sql = strings.TrimSpace(sql)
	if strings.HasSuffix(sql, "*/") {
		if p := inComment(sql[strings.LastIndex(sql, "/*")+1:]); p != "" {
			return p
		}
	}
	if strings.HasPrefix(sql, "/*") {
		comment, _, _ := strings.Cut(sql, "*/")
		return inComment(comment)
	}
	return ""
}

func inComment(comment string) string {
	_, value, ok := strings.Cut(comment, TraceParent+"='")
	if !ok {
		return ""
	}
	value, _, _ = strings.Cut(value, "'")
	return value
}

// Wants reports whether a statement with this parent, or "", is traced.
func (t *Tracer) Wants(parent string) bool {
	if len(parent) == len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") {
		flags, err := strconv.ParseUint(parent[len(parent)-2:], 16, 8)
		if err == nil && remote(parent).IsValid() {
			return trace.TraceFlags(flags).IsSampled()
		}
	}
	return rand.Float64() < t.sample
}

// remote is the parent's span; it isn't valid where there is none.
func remote(parent string) trace.SpanContext {
	return trace.SpanContextFromContext(within(parent))
}

func within(parent string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{TraceParent: parent})
}

// Statement is what a trace tells of one.
type Statement struct {
	// Parent is its client's, or "".
	Parent string
	Began  time.Time
	Took   time.Duration
	// System is mysql or mariadb. Text is without literals, and Digest names it.
	System, Schema, Text, Digest string
	User, Client                 string
	// Connection is the number that SHOW PROCESSLIST tells.
	Connection     uint32
	Route, Access  string
	Code           uint16 // of its error, 0 for none
	Rows, Affected int64
	Copied         int64
	Waits, Vain    int
	Waited         time.Duration
	Parts          []Part
}

// Part is a shard's.
type Part struct {
	Shard, Addr string
	// Thread is as insights.Part's.
	Thread uint32
	// After is from when the statement began until the part did. No times of day are compared, which
	// may be set meanwhile.
	After, Took time.Duration
	Code        uint16
}

// Record sends a statement that Wants has wanted. It returns the trace's number.
func (t *Tracer) Record(s *Statement) (id string) {
	operation, _, _ := strings.Cut(s.Text, " ")
	operation = strings.ToUpper(operation)
	attributes := append(about(s.System, s.Schema, operation), semconv.DBQueryText(s.Text),
		semconv.UserName(s.User), semconv.ClientAddress(s.Client),
		attribute.Int64("shunt.connection", int64(s.Connection)), attribute.String("shunt.digest", s.Digest),
		attribute.String("shunt.route", s.Route), attribute.String("shunt.access", s.Access), attribute.StringSlice("shunt.shards", shards(s.Parts)),
		semconv.DBResponseReturnedRows(int(s.Rows)), attribute.Int64("shunt.rows_affected", s.Affected))
	if s.Copied > 0 {
		attributes = append(attributes, attribute.Int64("shunt.rows_copied", s.Copied))
	}
	if s.Waits > 0 {
		attributes = append(attributes, attribute.Int("shunt.waits", s.Waits), attribute.Float64("shunt.wait_ms", float64(s.Waited.Microseconds())/1e3))
	}
	if s.Vain > 0 {
		attributes = append(attributes, attribute.Int("shunt.lookups_in_vain", s.Vain))
	}
	ctx, span := t.tracer.Start(within(s.Parent), name(operation, s.Schema), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(s.Began), trace.WithAttributes(attributes...))
	for _, p := range s.Parts {
		t.part(ctx, s, operation, p)
	}
	fail(span, s.Code)
	span.End(trace.WithTimestamp(s.Began.Add(s.Took)))
	return span.SpanContext().TraceID().String()
}

func (t *Tracer) part(ctx context.Context, s *Statement, operation string, p Part) {
	attributes := append(about(s.System, s.Schema, operation), attribute.String("shunt.shard", p.Shard), attribute.Int64("shunt.thread", int64(p.Thread)))
	if host, port, err := net.SplitHostPort(p.Addr); err == nil {
		attributes = append(attributes, semconv.ServerAddress(host))
		if n, err := strconv.Atoi(port); err == nil {
			attributes = append(attributes, semconv.ServerPort(n))
		}
	} else {
		attributes = append(attributes, semconv.ServerAddress(p.Addr))
	}
	_, span := t.tracer.Start(ctx, p.Shard, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(s.Began.Add(p.After)), trace.WithAttributes(attributes...))
	fail(span, p.Code)
	span.End(trace.WithTimestamp(s.Began.Add(p.After + p.Took)))
}

// about are the attributes that all spans have.
func about(system, schema, operation string) []attribute.KeyValue {
	return append(make([]attribute.KeyValue, 0, 20), semconv.DBSystemNameKey.String(system), semconv.DBNamespace(schema), semconv.DBOperationName(operation))
}

// name is a span's, of which there are few.
func name(operation, schema string) string { return strings.TrimSpace(operation + " " + schema) }

func shards(parts []Part) []string {
	out := make([]string, len(parts))
	for i := range parts {
		out[i] = parts[i].Shard
	}
	return out
}

// fail notes an error by its code: its message may have literals in it.
func fail(span trace.Span, code uint16) {
	if code == 0 {
		return
	}
	number := strconv.Itoa(int(code))
	span.SetStatus(codes.Error, "error "+number)
	span.SetAttributes(semconv.ErrorTypeKey.String(number), semconv.DBResponseStatusCode(number))
}
