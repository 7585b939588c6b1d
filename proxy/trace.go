package proxy

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/insights"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/tracing"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// SetTracer has statements traced, nil for none. It returns the tracer before, to be closed.
func (p *Proxy) SetTracer(t *tracing.Tracer) (before *tracing.Tracer) { return p.tracer.Swap(t) }

// traced is the attribute that names a statement's parent; nil where none is traced.
func (s *session) traced() *wire.WantedAttribute {
	if s.proxy.tracer.Load() == nil {
		return nil
	}
	s.parent = wire.WantedAttribute{Name: tracing.TraceParent}
	return &s.parent
}

// failedPart is what a shard failed with, of the code 0 for none.
type failedPart struct {
	shard catalog.ShardID
	code  uint16
}

// fails notes the error of a shard's part.
func (o *measured) fails(id catalog.ShardID, code uint16) {
	if o.failed.code == 0 {
		o.failed = failedPart{id, code}
	}
}

// trace traces the statement that has been measured, if that is wanted. It returns the trace's number.
func (s *session) trace(t *tracing.Tracer, o *measured) string {
	parent := tracing.Parent(o.sql, s.parent.Value)
	if !t.Wants(parent) {
		return ""
	}
	st := tracing.Statement{
		Parent: parent, Began: o.start, Took: o.Took, System: "mysql", Schema: o.settings.Schema, Text: o.digest(), Digest: digestID(insights.ID(o.settings.Schema, o.digest())),
		User: s.client.User, Client: s.client.Host, Connection: s.client.ID, Route: o.Plan, Access: o.Access,
		Code: o.Code, Rows: o.Rows, Affected: o.Affected, Copied: o.Copied, Waits: o.Waits, Waited: o.Waited, Vain: o.Vain,
	}
	if s.mariaDB() {
		st.System = "mariadb"
	}
	c, failed := s.catalog(), o.failed
	for _, p := range o.Parts {
		id := catalog.ShardID(p.Shard)
		part := tracing.Part{Shard: c.ShardName(id), Thread: p.Thread, After: shard.At(p.Began).Sub(o.start), Took: p.Took}
		if pool := s.proxy.pool(id); pool != nil {
			part.Addr = pool.Addr()
		}
		if failed.code != 0 && failed.shard == id {
			part.Code, failed.code = failed.code, 0 // it may have been asked again
		}
		st.Parts = append(st.Parts, part)
	}
	return t.Record(&st)
}
