package storage

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// ErrNoHomes: virtual indexes are in the directory of one process.
var ErrNoHomes = errors.New("virtual indexes have no servers to lie on: this Shunt keeps them in data_dir (store: local)")

// Move is what a store on several servers does.
func (s *Store) Move(catalog.IndexID, string, bool) error { return ErrNoHomes }

// EndMove does nothing: nothing was moved.
func (s *Store) EndMove(catalog.IndexID) error { return nil }

// Outage is nil.
func (s *Store) Outage(catalog.IndexID) error { return nil }

// Away is none.
func (s *Store) Away(catalog.IndexID) []string { return nil }

// Forsake is what a store on several servers does.
func (s *Store) Forsake(catalog.IndexID) error { return ErrNoHomes }

// Sweep does nothing.
func (s *Store) Sweep(context.Context) error { return nil }
