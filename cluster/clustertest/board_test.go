package clustertest

import "testing"

func TestBoard(t *testing.T) {
	t.Parallel()
	CheckBoard(t, &Board{})
}
