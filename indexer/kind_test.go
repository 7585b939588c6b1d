package indexer

import (
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/storage"
)

// TestJobKinds: whatever the queue takes somebody does, and the other way round.
func TestJobKinds(t *testing.T) {
	t.Parallel()
	var done []string
	for _, k := range jobKinds() {
		done = append(done, k.typ)
	}
	queued := storage.JobTypes()
	slices.Sort(done)
	slices.Sort(queued)
	if !slices.Equal(done, queued) {
		t.Errorf("the indexer does %q, the queue takes %q", done, queued)
	}
}
