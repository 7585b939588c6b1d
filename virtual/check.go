package virtual

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// checkTries is how often a value is looked at before it is wrong: rows may change between two looks.
const checkTries = 5

// Check compares the values of a column with the rows. A value is wrong that is another than its rows' at each look.
func (e *Engine) Check(ctx context.Context, id uint32) (checked, wrong int, err error) {
	c := e.column(id)
	if c == nil {
		return 0, 0, errGone
	}
	r, wants, err := e.differing(ctx, c, nil)
	if err != nil {
		return 0, 0, err
	}
	checked = r
	for range checkTries {
		if len(wants) == 0 {
			return checked, 0, nil
		}
		if _, wants, err = e.differing(ctx, c, wants); err != nil {
			return 0, 0, err
		}
	}
	return checked, len(wants), nil
}

// differing are the keys, of some or of all, whose values aren't those of the rows: durable, or kept in memory.
func (e *Engine) differing(ctx context.Context, c *column, only map[string]string) (looked int, out map[string]string, err error) {
	if err := e.freshAll(ctx, c.def.ID); err != nil {
		return 0, nil, err
	}
	c.work.Lock()
	defer c.work.Unlock()
	r := newReader(c, e.o.Catalog())
	if r == nil {
		return 0, nil, errors.New("its tables aren't known")
	}
	literals := map[string]string{}
	sum := func(into map[string]amount, one bool) Each {
		return func(raw []byte, n int64, value, order []byte) error {
			key, literal, ok := r.keyOf(raw)
			if !ok {
				return nil
			}
			a, err := c.kind.read(n, value, order)
			if one {
				into[key] = a
			} else {
				into[key] = c.kind.plus(into[key], a)
			}
			literals[key] = literal
			return err
		}
	}
	var keys []string
	for _, key := range sorted(only) {
		keys = append(keys, only[key])
	}
	rows, durable := map[string]amount{}, map[catalog.ShardID]map[string]amount{}
	for home := range c.homes.All {
		durable[home] = map[string]amount{}
		if err := e.o.Shards.Durable(ctx, home, c.def, nil, sum(durable[home], true)); err != nil {
			return 0, nil, err
		}
	}
	whole := map[string]amount{}
	e.mu.Lock()
	for key, k := range c.kept {
		whole[key] = k.value
	}
	e.mu.Unlock()
	for on := range c.child.All {
		if err := e.o.Shards.Measure(ctx, on, c.def, keys, sum(rows, false)); err != nil {
			return 0, nil, err
		}
	}
	out = map[string]string{}
	for key, literal := range literals {
		if _, asked := only[key]; only != nil && !asked {
			continue
		}
		looked++
		if value, kept := whole[key]; kept && !c.kind.sameValue(rows[key], value) {
			out[key] = literal
		}
		for home := range r.homes(key).All {
			if !c.kind.sameValue(rows[key], durable[home][key]) {
				out[key] = literal
			}
		}
	}
	return looked, out, nil
}
