package planner

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/spoken"
)

func (a *analysis) function(name string) {
	if e := spoken.RefusedFunction(name); e != nil {
		a.refuse(e)
	}
	switch {
	case spoken.ClockFunction(name):
		a.clock = true
	case spoken.VolatileFunction(name):
		a.setVolatile(strings.ToUpper(name) + "()")
	}
	if varies, stored := a.cat.Functions[name]; stored {
		a.clock = true
		if varies {
			a.setVolatile("the stored function " + name + "()")
		}
	}
}

func (a *analysis) setVolatile(name string) {
	if a.volatile == "" {
		a.volatile = name
	}
}
