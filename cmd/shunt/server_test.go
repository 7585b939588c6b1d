package main

import (
	"errors"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// eachServer runs a test with an empty server of each kind that there is.
func eachServer(t *testing.T, run func(t *testing.T, at *throwaway.Server)) {
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
			set, err := throwaway.Start(t.Context(), src, throwaway.Options{Servers: 1, Password: "test"})
			if err != nil {
				t.Fatal(err)
			}
			defer set.Stop()
			run(t, set.Servers[0])
		})
	}
}
