package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"
)

// assetTypes are what the console's files are.
var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

const assetsAt = "/assets/"

// isAsset reports one of the console's files, which tell nothing of what is served.
func isAsset(url string) bool { return strings.HasPrefix(url, assetsAt) }

// assetSum is of all of them: browsers keep them until it is another.
var assetSum = sync.OnceValue(func() string {
	h := sha256.New()
	files, _ := assets.ReadDir("assets")
	for _, f := range files {
		text, _ := assets.ReadFile("assets/" + f.Name())
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})

func assetPath(name string) string { return assetsAt + name + "?" + assetSum() }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	protect(w.Header())
	w.Header().Set("Content-Type", assetTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(text)
}
