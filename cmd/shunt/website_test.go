package main

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// TestWebsiteCloses: what answers a request is waited for, since what it shows is closed next; who asks
// then isn't answered by it.
func TestWebsiteCloses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := newWebsite(l, slog.New(slog.DiscardHandler))
	asked, closing, ended := make(chan struct{}), make(chan struct{}), false
	var h http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done() // as who sends events does
		<-closing
		ended = true
	})
	w.show(h)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.addr, nil)
		if err != nil {
			panic(err)
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	<-asked
	go close(closing)
	w.close()
	if !ended {
		t.Error("it was closed while a request was answered")
	}
	w.close()
	if w.answering.TryRLock() {
		t.Error("a request would be answered behind its end")
	}
}
