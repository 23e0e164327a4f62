package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// page is the results page, one section per kind of measurement.
type page struct {
	b                   *bench
	colds, chains, acts []string
}

func newPage(b *bench) *page { return &page{b: b} }

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (p *page) cold(title string, c cost, bar string) {
	row := fmt.Sprintf("| %s | %s | %s | %s | %s |", title, ms(c.wall), ms(c.cpu), mb(c.peak), bar)
	say("%s", row)
	p.colds = append(p.colds, row)
}

func (p *page) chain(title string, run, hand cost, bar string) {
	n := time.Duration(p.b.tasks)
	row := fmt.Sprintf("| %s | %s | %s | **%s** | %s | %s | %s |", title,
		ms(run.wall/n), ms(hand.wall/n), ms((run.wall-hand.wall)/n), ms((run.cpu-hand.cpu)/n), mb(run.peak), bar)
	say("%s", row)
	p.chains = append(p.chains, row)
}

func (p *page) action(w warehouse, a action, engine, hand cost) {
	cpu := ratio(engine.cpu, hand.cpu)
	if w.name == "postgres" && w.server == nil {
		cpu = "–"
	}
	bar := ""
	if strings.HasPrefix(a.name, "SCD") {
		bar = "1.3"
	}
	row := fmt.Sprintf("| %s | %s | %s | %s | **%s** | %s | %s | %s | %s |", w.title, a.name, ms(engine.wall), ms(hand.wall),
		ratio(engine.wall, hand.wall), cpu, mb(engine.peak), mb(hand.peak), bar)
	say("%s", row)
	p.acts = append(p.acts, row)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
func mb(n int64) string         { return fmt.Sprintf("%d MB", n>>20) }
func ratio(a, b time.Duration) string {
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}

func (p *page) write(path string) error {
	var t strings.Builder
	fmt.Fprintf(&t, "# Results\n\n")
	fmt.Fprintf(&t, "Made by `make bench` on %s, %d CPUs, %s, on %s. Medians; `engine` is the whole process `etl-craft run`, `by hand` a process that\nruns hand-written SQL through the same driver and leaves the same rows, which is checked after each pair.\n",
		machine(), runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format("2006-01-02"))
	section := func(title, text, header string, rows []string) {
		if len(rows) == 0 {
			return
		}
		columns := strings.Count(header, "|") - 1
		fmt.Fprintf(&t, "\n## %s\n\n%s\n\n%s\n|%s\n%s\n", title, text, header, strings.Repeat("---|", columns), strings.Join(rows, "\n"))
	}
	section("From start to end", "21 runs each, SQLite + DuckDB.", "| command | wall | CPU | peak | bar |", p.colds)
	section("Overhead per task", fmt.Sprintf("A chain of %d tasks that append one row each, against as many transactions with one INSERT.\nOverhead is the difference, per task.", p.b.tasks),
		"| Engine DB + warehouse | engine | by hand | overhead | overhead, CPU | peak | bar |", p.chains)
	section("Actions", fmt.Sprintf("%d rows in the target, %d in the SELECT: half of them changed, three tenths as they were, one fifth new. CPU includes the server's.", p.b.rows, p.b.stage),
		"| warehouse | action | engine | by hand | wall, ratio | CPU, ratio | peak, engine | peak, by hand | bar |", p.acts)
	return os.WriteFile(path, []byte(t.String()), 0o644)
}

// machine names the processor.
func machine() string {
	out, err := exec.Command("sh", "-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1").Output()
	if name := strings.TrimSpace(string(out)); err == nil && name != "" {
		return name
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}
