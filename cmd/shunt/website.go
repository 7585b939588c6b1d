package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// website is the HTTP server, which is there before what it shows.
type website struct {
	addr   string
	server *http.Server
	now    atomic.Pointer[http.Handler]
	done   chan struct{}
	// answering is held by each request, and for ever once it is closed: what it shows isn't closed
	// under who looks at it for long.
	answering sync.RWMutex
	closing   sync.Once
}

// newWebsite serves on l until it is closed.
func newWebsite(l net.Listener, log *slog.Logger) *website {
	w := &website{addr: l.Addr().String(), done: make(chan struct{})}
	w.show(http.NotFoundHandler())
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(w.done)
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server ended", "error", err)
		}
	}()
	return w
}

// show has requests from now on answered by h.
func (w *website) show(h http.Handler) {
	if w != nil {
		w.now.Store(&h)
	}
}

func (w *website) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !w.answering.TryRLock() {
		http.Error(rw, "stopping", http.StatusServiceUnavailable)
		return
	}
	defer w.answering.RUnlock()
	(*w.now.Load()).ServeHTTP(rw, r)
}

func (w *website) close() {
	w.closing.Do(func() {
		_ = w.server.Close()
		<-w.done
		w.answering.Lock()
	})
}
