package spoken

import "testing"

// What a pooled connection or a replica would answer for itself stays on the
// primaries.
func TestAsksConnection(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"SELECT * FROM users WHERE id = 5":                                         false,
		"SELECT * FROM users WHERE id = Last_Insert_Id()":                          true,
		"SELECT *, @@IDENTITY FROM users":                                          true,
		"SELECT u.id FROM users u JOIN information_schema.tables t ON 1":           true,
		"SELECT u.id FROM users u JOIN mysql.user m ON m.user = u.email":           true,
		"SELECT NEXTVAL(s), id FROM users":                                         true,
		"SELECT NEXT VALUE FOR s, id FROM users":                                   true,
		"SELECT mysql FROM users WHERE note = 'the schema'":                        false,
		"SELECT id FROM users WHERE email = 'x' ORDER BY id LIMIT 1 -- by the way": false,
	} {
		if got := AsksConnection(sql); got != want {
			t.Errorf("%s: %v", sql, got)
		}
	}
}
