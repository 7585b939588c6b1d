package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// sysbenchRows is the size of the table that sysbench works on.
const sysbenchRows = 100_000

// warmUpSeconds of each run of sysbench aren't counted.
const warmUpSeconds = 1

// sysbench prepares a run against a target. Uniform, since the default
// distribution has writers wait for each other's row locks, which says nothing
// about a proxy.
func sysbench(ctx context.Context, t target, script, command string, more ...string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(t.addr)
	args := []string{
		script, "--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-user=" + t.user, "--mysql-password=" + t.password,
		"--mysql-db=sbtest", "--table-size=" + strconv.Itoa(sysbenchRows), "--rand-type=uniform",
	}
	return exec.CommandContext(ctx, "sysbench", append(append(args, more...), command)...)
}

// prepareSysbench makes and fills the table.
func prepareSysbench(ctx context.Context, t target) error {
	if out, err := sysbench(ctx, t, "oltp_point_select", "prepare").CombinedOutput(); err != nil {
		return fmt.Errorf("sysbench prepare: %w\n%s", err, out)
	}
	return nil
}

// runSysbench measures one run. Its output marks the moments at which the
// proxy's processor time is read: the end of the warm-up, where sysbench
// starts to count anew, and the end.
func runSysbench(ctx context.Context, t target, script string, prepared bool, threads int, seconds int) (h half, err error) {
	mode := "disable"
	if prepared {
		mode = "auto"
	}
	cmd := sysbench(ctx, t, script, "run", "--threads="+strconv.Itoa(threads), "--time="+strconv.Itoa(warmUpSeconds+seconds),
		"--report-checkpoints="+strconv.Itoa(warmUpSeconds), "--histogram=on", "--db-ps-mode="+mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return h, fmt.Errorf("sysbench: %w", err)
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		return h, fmt.Errorf("start sysbench: %w", err)
	}
	h, text, failed := readSysbench(out, t.cpuTime)
	if err := cmd.Wait(); err != nil {
		return h, fmt.Errorf("sysbench: %w\n%s%s", err, text, complaints.String())
	}
	if failed != nil {
		return h, fmt.Errorf("sysbench: %w\n%s%s", failed, text, complaints.String())
	}
	return h, nil
}

// readSysbench reads its output: what follows the second "SQL statistics" is
// of what ran after the warm-up.
func readSysbench(out io.Reader, cpuTime func() (time.Duration, error)) (h half, all string, err error) {
	var (
		text       strings.Builder
		reports    int
		cpu        [2]time.Duration
		statements float64
		histogram  []bucket
		inBuckets  bool
	)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		fmt.Fprintln(&text, line)
		switch {
		case line == "Latency histogram (values are in milliseconds)":
			histogram, inBuckets = nil, true
		case line == "SQL statistics:":
			inBuckets = false
			if reports++; reports <= len(cpu) {
				if cpu[reports-1], err = cpuTime(); err != nil {
					_, _ = io.Copy(io.Discard, out)
					return h, text.String(), err
				}
			}
		case inBuckets && strings.Contains(line, "|"):
			if b, ok := parseBucket(line); ok {
				histogram = append(histogram, b)
			}
		case strings.HasPrefix(line, "queries:"):
			// queries:  46218  (23105.32 per sec.)
			fields := strings.Fields(line)
			if len(fields) < 3 {
				return h, text.String(), fmt.Errorf("unexpected line %q", line)
			}
			if statements, err = strconv.ParseFloat(fields[1], 64); err != nil {
				return h, text.String(), fmt.Errorf("unexpected line %q: %w", line, err)
			}
			if h.statements, err = strconv.ParseFloat(strings.TrimPrefix(fields[2], "("), 64); err != nil {
				return h, text.String(), fmt.Errorf("unexpected line %q: %w", line, err)
			}
		}
	}
	if reports != 2 || len(histogram) == 0 || statements == 0 {
		return h, text.String(), fmt.Errorf("unexpected output")
	}
	h.cpu = time.Duration(float64(cpu[1]-cpu[0]) / statements)
	h.p50, h.p95, h.p99 = percentile(histogram, 0.50), percentile(histogram, 0.95), percentile(histogram, 0.99)
	return h, text.String(), nil
}

// bucket of sysbench's histogram, which is logarithmic: bucketWidth is each
// value by the one before, and empty ones are left out.
type bucket struct {
	value time.Duration
	count float64
}

const bucketWidth = 1.0182

// parseBucket reads "       0.162 |**************       137".
func parseBucket(line string) (b bucket, ok bool) {
	value, bar, _ := strings.Cut(line, "|")
	ms, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return b, false
	}
	b.count, err = strconv.ParseFloat(strings.TrimSpace(strings.TrimLeft(bar, "*")), 64)
	b.value = time.Duration(ms * float64(time.Millisecond))
	return b, err == nil
}

// percentile takes a bucket's events as evenly spread, or ratios would jump by
// a bucket's width.
func percentile(histogram []bucket, share float64) time.Duration {
	var total, seen float64
	for _, b := range histogram {
		total += b.count
	}
	for _, b := range histogram {
		if seen += b.count; seen >= share*total {
			above := (seen - share*total) / b.count
			return time.Duration(float64(b.value) * (1 - above*(1-1/bucketWidth)))
		}
	}
	return 0
}
