package main

import (
	"context"

	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/shared"
)

// unfinishedDDL is what the store keeps of DDL, in the proxy's words.
type unfinishedDDL struct{ store store }

var _ proxy.UnfinishedStore = unfinishedDDL{}

func (u unfinishedDDL) Refresh(ctx context.Context) (others bool, err error) {
	if several, ok := u.store.(*shared.Store); ok {
		return true, several.Refresh(ctx)
	}
	return false, nil
}

func (u unfinishedDDL) Unfinished() (map[string]proxy.UnfinishedDDL, error) {
	kept, err := u.store.Unfinished()
	out := map[string]proxy.UnfinishedDDL{}
	for key, x := range kept {
		out[key] = proxy.UnfinishedDDL{
			Op: x.Op, Schema: x.Schema, Text: x.Text, Tables: x.Tables, Schemas: x.Schemas, At: x.At,
			Shards: x.Shards, Done: x.Done, Unknown: x.Unknown, Others: x.Others, By: x.By, Running: x.Running,
		}
	}
	return out, err
}

func (u unfinishedDDL) KeepUnfinished(key string, x proxy.UnfinishedDDL, synced bool) error {
	return u.store.KeepUnfinished(key, storage.UnfinishedDDL{
		Op: x.Op, Schema: x.Schema, Text: x.Text, Tables: x.Tables, Schemas: x.Schemas, At: x.At,
		Shards: x.Shards, Done: x.Done, Unknown: x.Unknown, Others: x.Others, By: x.By, Running: x.Running,
	}, synced)
}

func (u unfinishedDDL) ForgetUnfinished(key string) error { return u.store.ForgetUnfinished(key) }
