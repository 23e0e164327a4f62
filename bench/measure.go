package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type bench struct {
	options
	dir, program, self string
	server             string // URL of the PostgreSQL server, "" for none
}

// cost is what one process took.
type cost struct {
	wall, cpu time.Duration // cpu is that of the process and, where it is local, of the PostgreSQL server
	said      time.Duration // until the last line of output
	peak      int64         // bytes, of the process
}

// clocked keeps output, and when the last of it came.
type clocked struct {
	text bytes.Buffer
	last time.Time
}

func (c *clocked) Write(p []byte) (int, error) {
	c.last = time.Now()
	return c.text.Write(p)
}

// untilSaid leaves out what processes do after their last line: they end their session, for which open-source Spark takes
// half a minute, though nobody waits for it that long.
func untilSaid(costs []cost) []cost {
	costs = slices.Clone(costs)
	for i := range costs {
		costs[i].wall = costs[i].said
	}
	return costs
}

// run runs a command to its end and says what it took.
func run(server *serverCPU, command string, args ...string) (cost, error) {
	cmd := exec.Command(command, args...)
	var out clocked
	cmd.Stdout, cmd.Stderr = &out, &out
	before := server.now()
	start := time.Now()
	err := cmd.Run()
	c := cost{wall: time.Since(start), said: out.last.Sub(start)}
	if err != nil {
		return c, fmt.Errorf("%s %s: %w\n%s", filepath.Base(command), strings.Join(args, " "), err, out.text.String())
	}
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() + server.now() - before
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.peak = usage.Maxrss * 1024
	}
	return c, nil
}

// serverCPU reads the CPU time of a PostgreSQL server on this machine; nil reads none.
type serverCPU struct{ postmaster int }

// newServerCPU is nil when the server runs elsewhere, or its user may not read files of the server.
func newServerCPU(db *sql.DB) *serverCPU {
	var file string
	if err := db.QueryRow("SELECT pg_read_file('postmaster.pid')").Scan(&file); err != nil {
		return nil
	}
	first, _, _ := strings.Cut(file, "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || len(stat(pid)) == 0 {
		return nil
	}
	return &serverCPU{pid}
}

// now adds up the postmaster, its children that have ended and those that live.
func (s *serverCPU) now() time.Duration {
	if s == nil {
		return 0
	}
	ticks := int64(0)
	add := func(fields []string, which ...int) {
		for _, i := range which {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks += n
		}
	}
	if own := stat(s.postmaster); own != nil {
		add(own, utime, stime, cutime, cstime)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		pid, _ := strconv.Atoi(filepath.Base(p))
		if fields := stat(pid); fields != nil && fields[ppid] == strconv.Itoa(s.postmaster) {
			add(fields, utime, stime)
		}
	}
	return time.Duration(ticks) * time.Second / 100
}

// Fields of /proc/PID/stat behind the name of the program; see proc(5).
const ppid, utime, stime, cutime, cstime = 1, 11, 12, 13, 14

func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// median is the cost in the middle of each measure.
func median(costs []cost) cost {
	middle := func(of func(cost) int64) int64 {
		values := make([]int64, len(costs))
		for i, c := range costs {
			values[i] = of(c)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return cost{
		wall: time.Duration(middle(func(c cost) int64 { return int64(c.wall) })),
		cpu:  time.Duration(middle(func(c cost) int64 { return int64(c.cpu) })),
		peak: middle(func(c cost) int64 { return c.peak }),
	}
}
