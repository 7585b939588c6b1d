package proxy

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/planner"
)

// gather fills a scratch schema and runs the client's query there.
func (s *session) gather(context.Context, request, *planner.Bound) error {
	return errors.New("gather")
}
