package proxy

import "testing"

func TestFreshness(t *testing.T) {
	t.Parallel()
	for _, user := range []bool{false, true} {
		users := map[string]User{}
		s := &session{proxy: &Proxy{}}
		s.proxy.users.Store(&users)
		s.account.users, s.account.user = &users, User{FastVirtualColumns: user, FastIndexReads: !user}
		for _, c := range []struct {
			literal string
			fast    bool
			refused bool
		}{
			{"default", user, false},
			{"FAST", true, false},
			{"exact", false, false},
			{"", false, true},
			{"1", false, true},
			{"DEFAULT", user, false},
		} {
			if err := s.settings.own.virtualColumns.assign("shunt_virtual_columns", c.literal); (err != nil) != c.refused {
				t.Errorf("%q: %v", c.literal, err)
			}
			if s.fastVirtual() != c.fast || s.fastIndexes() != !user {
				t.Errorf("a user who has %v, behind SET to %q: %v; of indexes %v", user, c.literal, s.fastVirtual(), s.fastIndexes())
			}
		}
	}
}
