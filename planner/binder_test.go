package planner

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
)

// TestBinderBegins: of the statement before a binder keeps nothing but room.
func TestBinderBegins(t *testing.T) {
	t.Parallel()
	planned, err := New().Plan("SELECT c FROM sbtest1 WHERE id = ?", shapeSettings, buildCatalog(t, 4, benchDDL))
	if err != nil {
		t.Fatal(err)
	}
	r, params := planned.(*plan.Rows), []keys.Value{keys.Int(5)}
	open := func(v reflect.Value) reflect.Value { // or it could neither be set nor looked at
		return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	}
	var used binder
	for i, v := range reflect.ValueOf(&used).Elem().Fields() {
		v = open(v)
		switch v.Kind() {
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		case reflect.Array:
			v.Index(0).Set(reflect.New(v.Type().Elem().Elem()))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int:
			v.SetInt(7)
		case reflect.Uint64:
			v.SetUint(7)
		case reflect.Interface:
			v.Set(reflect.ValueOf(oneShard))
		default:
			t.Fatalf("field %s: how is it set?", i.Name)
		}
	}
	used.begin(r, params, nil)
	fresh := reflect.ValueOf(newBinder(r, params, nil)).Elem()
	for i, v := range reflect.ValueOf(&used).Elem().Fields() {
		want := fresh.FieldByIndex(i.Index)
		if v.Kind() == reflect.Slice && v.Len() == 0 && want.Len() == 0 {
			continue // it is room
		}
		if !reflect.DeepEqual(open(v).Interface(), open(want).Interface()) {
			t.Errorf("field %s is left from the statement before", i.Name)
		}
	}
}
