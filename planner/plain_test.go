package planner

import (
	"reflect"
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/planner/plan"
)

// TestPlain: a SELECT that has any other way of being executed isn't taken for one that is bound and
// sent, which looks for no other.
func TestPlain(t *testing.T) {
	t.Parallel()
	if !plainSelect(&plan.Rows{}) {
		t.Error("a SELECT by itself isn't plain")
	}
	neutral := []string{"Catalog", "Kind", "Params", "AsksConnection", "AsksNoID", "Repeatable", "Plain", "Covering", "Tables", "Unnamed", "Own"}
	for f := range reflect.TypeFor[plan.Rows]().Fields() {
		if slices.Contains(neutral, f.Name) {
			continue
		}
		r := &plan.Rows{}
		switch v := reflect.ValueOf(r).Elem().FieldByIndex(f.Index); v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.String:
			v.SetString("x")
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Interface:
			v.Set(reflect.ValueOf(&plan.Limited{}))
		default:
			t.Errorf("%s is a %s", f.Name, v.Kind())
			continue
		}
		if plainSelect(r) {
			t.Errorf("a SELECT with %s is plain", f.Name)
		}
	}
}
