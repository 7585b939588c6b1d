package text

import "testing"

func TestContainsFold(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"SELECT LAST_INSERT_ID()": true, "last_insert_id": true, "last_insert_i": false, "": false, "LastInsertId": false} {
		if ContainsFold(s, "last_insert_id") != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}
