package proxy

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// merge streams the answers of several shards through a merge to the client.
func (s *session) merge(context.Context, request, *planner.Bound) (empty catalog.ShardSet, err error) {
	return empty, errors.New("merge")
}
