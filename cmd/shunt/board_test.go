package main

import (
	"testing"

	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/storage/home"
)

// TestBoard: what members share at a home is as the cluster is promised.
func TestBoard(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, at *throwaway.Server) {
		h, err := home.Open(t.Context(), home.Config{Addr: at.Addr(), User: at.User, Password: at.Password})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		clustertest.CheckBoard(t, board{h})
	})
}
