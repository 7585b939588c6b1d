package main

import (
	"errors"
	"testing"

	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/storage/home"
)

// TestBoard: what members share at a home is as the cluster is promised.
func TestBoard(t *testing.T) {
	t.Parallel()
	for _, flavour := range []throwaway.Flavour{throwaway.MySQL, throwaway.MariaDB} {
		t.Run(string(flavour), func(t *testing.T) {
			t.Parallel()
			src, err := throwaway.Find(t.Context(), flavour)
			if errors.Is(err, throwaway.ErrNotFound) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			set, err := throwaway.Start(t.Context(), src, throwaway.Options{Servers: 1, Password: "board"})
			if err != nil {
				t.Fatal(err)
			}
			defer set.Stop()
			at := set.Servers[0]
			h, err := home.Open(t.Context(), home.Config{Addr: at.Addr(), User: at.User, Password: at.Password})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			clustertest.CheckBoard(t, board{h})
		})
	}
}
