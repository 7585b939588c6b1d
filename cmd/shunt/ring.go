package main

import (
	"log/slog"
	"os"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// ringVariable set to off has Go's poller do what io_uring does otherwise.
const ringVariable = "SHUNT_IO_URING"

// newRing has clients' and shards' connections served by io_uring while there is one
// processor. nil: Go's poller serves.
func newRing(log *slog.Logger) *wire.Ring {
	if os.Getenv(ringVariable) == "off" {
		return nil
	}
	r, err := wire.NewRing()
	if err != nil {
		log.Info("connections are served without io_uring, for more processor time", "reason", err)
		return nil
	}
	return r
}
