package console

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
)

// entries answers GET /v1/indexes/{schema}/{table}/{index}?key=&gt=&lt=&limit=
// with entries in key order. Keys are hexadecimal canonical encodings.
func entries(w http.ResponseWriter, r *http.Request, s Served) {
	t := s.Catalog().Table(r.PathValue("schema"), r.PathValue("table"))
	if t == nil || t.Index(r.PathValue("index")) == nil {
		http.Error(w, "no such virtual index", http.StatusNotFound)
		return
	}
	q := r.URL.Query()
	var bounds [3][]byte
	for i, name := range []string{"key", "gt", "lt"} {
		b, err := hex.DecodeString(q.Get(name))
		if err != nil {
			http.Error(w, name+" must be hexadecimal, as in the answer's keys", http.StatusBadRequest)
			return
		}
		if q.Has(name) {
			bounds[i] = b
		}
	}
	limit := 100
	if l := q.Get("limit"); l != "" {
		var err error
		if limit, err = strconv.Atoi(l); err != nil || limit < 1 || limit > 10000 {
			http.Error(w, "limit must be a number from 1 to 10000", http.StatusBadRequest)
			return
		}
	}
	from, to := bounds[1], bounds[2]
	if from != nil {
		from = append(from, 0) // the next key after it
	}
	if bounds[0] != nil {
		from, to = bounds[0], append(append([]byte(nil), bounds[0]...), 0)
	}
	rows, err := s.Entries(t.Index(r.PathValue("index")), from, to, limit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"entries": rows})
}
