package deadlock

import (
	"iter"
	"maps"
	"slices"
)

// circles yields transactions that wait for each other, each circle with the one that
// began last. When that has gone there may be more.
func circles(open map[Transaction]Open, edges map[Thread][]Thread) iter.Seq2[Transaction, []Transaction] {
	return func(yield func(Transaction, []Transaction) bool) {
		of := map[Thread]Transaction{}
		for tx, x := range open {
			for _, t := range x.Threads {
				of[t] = tx
			}
		}
		gone := map[Transaction]bool{}
		byAge := slices.SortedFunc(maps.Keys(open), func(x, y Transaction) int { return open[x].Began.Compare(open[y].Began) })
		for i := 0; i < len(byAge); {
			circle := circleFrom(byAge[i], open, of, edges, gone)
			if circle == nil {
				i++
				continue
			}
			victim := slices.MaxFunc(circle, func(x, y Transaction) int { return open[x].Began.Compare(open[y].Began) })
			gone[victim] = true
			if !yield(victim, circle) {
				return
			}
		}
	}
}

// circleFrom are the transactions on a way from one back to it, nil for none.
func circleFrom(start Transaction, open map[Transaction]Open, of map[Thread]Transaction, edges map[Thread][]Thread, gone map[Transaction]bool) []Transaction {
	seen := map[Thread]bool{}
	var path []Transaction
	var from func(threads []Thread) bool
	from = func(threads []Thread) bool {
		for _, t := range threads {
			for _, next := range edges[t] {
				tx := of[next]
				switch {
				case tx == start:
					return true
				case seen[next] || gone[tx]:
				case tx == nil: // another's, which waits on this shard alone
					seen[next] = true
					if from([]Thread{next}) {
						return true
					}
				default:
					for _, t := range open[tx].Threads {
						seen[t] = true
					}
					path = append(path, tx)
					if from(open[tx].Threads) {
						return true
					}
					path = path[:len(path)-1]
				}
			}
		}
		return false
	}
	if gone[start] || !from(open[start].Threads) {
		return nil
	}
	return append(path, start)
}
