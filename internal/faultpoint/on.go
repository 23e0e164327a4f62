//go:build faultpoints

// Package faultpoint lets crash tests stop the process at a named point. A binary built without the tag faultpoints
// has none.
package faultpoint

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

var (
	mu   sync.Mutex
	seen = map[string]int{}
)

// Hit sends the process itself the signal of $ETL_CRAFT_FAULT when that names this point: "kill=POINT" or
// "stop=POINT", with "#N" behind the name for its N-th time. $ETL_CRAFT_FAULT_TRACE names a file that gets every point
// that was passed, one a line.
func Hit(point string) {
	mu.Lock()
	defer mu.Unlock()
	seen[point]++
	if path := os.Getenv("ETL_CRAFT_FAULT_TRACE"); path != "" {
		trace(path, fmt.Sprintf("%s#%d", point, seen[point]))
	}
	how, want, _ := strings.Cut(os.Getenv("ETL_CRAFT_FAULT"), "=")
	if want != point && want != fmt.Sprintf("%s#%d", point, seen[point]) || want == point && seen[point] > 1 {
		return
	}
	switch how {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		awake := make(chan os.Signal, 1)
		signal.Notify(awake, syscall.SIGCONT)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-awake // the kernel may stop another thread first, and this one would run on for a moment
	}
}

func trace(path, line string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_, _ = fmt.Fprintln(f, line)
}
