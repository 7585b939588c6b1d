package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/follow"
)

// checkBinlogs tells what shards and accounts lack for their binary logs to be followed, where they are to be: a failure
// if they can't be though they must, else a note. Shards that aren't reached have been told of.
func (x *checked) checkBinlogs(ctx context.Context, cfg *config.Config, reached []reachedShard) {
	must := cfg.Maintenance.Follow == config.FollowBinlog
	if cfg.Maintenance.Follow == config.FollowScan {
		return
	}
	var notes []string
	noted := map[string][]string{} // the shards of a note
	for i, sh := range cfg.Shards {
		if reached[i].err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, reachTimeout)
		problems, err := follow.Check(ctx, sourceOf(shardConfig(sh), slog.New(slog.DiscardHandler)))
		cancel()
		lacking := make([]string, len(problems))
		var most follow.Weight
		for n, p := range problems {
			lacking[n], most = p.String(), max(most, p.Weight)
		}
		told := strings.Join(lacking, "; ")
		if err != nil && !errors.Is(err, follow.ErrUnfit) {
			told, most = fmt.Sprintf("read it: %v", err), follow.Fatal
		}
		switch {
		case most == follow.Fatal && must:
			x.fail(fmt.Errorf("shard %s at %s: its binary log can't be followed (maintenance.follow): %s", sh.Name, sh.Addr, told))
			continue
		case told == "":
			continue
		case most >= follow.Most && !must:
			told = "the binary log isn't followed, and tables are scanned instead: " + told
		default:
			told = "some tables are scanned behind what the binary log doesn't tell: " + told
		}
		if len(noted[told]) == 0 {
			notes = append(notes, told)
		}
		noted[told] = append(noted[told], sh.Name)
	}
	for _, told := range notes {
		x.note("shard %s: %s", strings.Join(noted[told], ", "), told)
	}
}
