package e2e

import (
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestNeverMissCluster is TestNeverMissMembers of Shunts whose store is a cluster of three nodes, which are killed, and stand still,
// one at a time: mostly the one in use.
func TestNeverMissCluster(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		neverMissMembers(t, f, contestTime(t, time.Minute, time.Minute), f.cluster(t))
	})
}
