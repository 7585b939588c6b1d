package proxy

import "testing"

func TestAssignReadFrom(t *testing.T) {
	t.Parallel()
	var s settings
	for _, c := range []struct {
		literal string
		want    int64
		refused bool
	}{
		{"replica", readFromReplica, false},
		{"PRIMARY", readFromPrimary, false},
		{"", readFromPrimary, true},
		{"1", readFromPrimary, true},
		{"default", readFromUser, false},
	} {
		if err := assignReadFrom(&s, c.literal); (err != nil) != c.refused || s.own.readFrom != c.want {
			t.Errorf("%q: %d, %v", c.literal, s.own.readFrom, err)
		}
	}
}
