package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// page is the results page, one section per kind of measurement.
type page struct {
	b                   *bench
	colds, chains, acts []string
	pasts, wides        []string
	crowds, validates   []string
	rehashes            []string
	fars, plans         []string
	latencies           []string
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

func (p *page) farAction(w warehouse, a action, pairs int, engine, hand cost) {
	row := fmt.Sprintf("| %s | %s | %d | %s | %s | %s | **%s** | %s | %s |", w.title, a.name, pairs, s(engine.wall), s(hand.wall), s(engine.wall-hand.wall),
		ratio(engine.wall, hand.wall), mb(engine.peak), mb(hand.peak))
	say("%s", row)
	p.fars = append(p.fars, row)
}

func (p *page) latency(w warehouse, start, query, table time.Duration) {
	row := fmt.Sprintf("| %s | %s | %s | %s |", w.title, ms(start), ms(query), ms(table))
	say("%s", row)
	p.latencies = append(p.latencies, row)
}

func (p *page) plan(w warehouse, a action, engine, hand counted) {
	row := fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d |", w.title, a.name, engine.statements, engine.reads, engine.commits, hand.statements, hand.reads, hand.commits)
	say("%s", row)
	p.plans = append(p.plans, row)
}

func (p *page) validate(pipelines, tasks int, args []string, c cost) {
	row := fmt.Sprintf("| `%s` | %d × %d | %s | %s | %s | 3 s |", strings.Join(args, " "), pipelines, tasks, ms(c.wall), ms(c.cpu), mb(c.peak))
	say("%s", row)
	p.validates = append(p.validates, row)
}

func (p *page) rehash(w warehouse, engine, hand cost) {
	row := fmt.Sprintf("| %s | %d | %s | %s | **%s** | %s |", w.title, 10*p.b.rows, ms(engine.wall), ms(hand.wall), ratio(engine.wall, hand.wall), mb(engine.peak))
	say("%s", row)
	p.rehashes = append(p.rehashes, row)
}

func (p *page) wide(n int, apply, run, status cost) {
	row := fmt.Sprintf("| %d | %s | %s | %s | %s | %s |", n, ms(apply.wall), ms(run.wall), ms(run.wall/time.Duration(n)), mb(run.peak), ms(status.wall))
	say("%s", row)
	p.wides = append(p.wides, row)
}

func (p *page) crowd(processes, tasks int, alone cost, wall, median, slowest time.Duration) {
	row := fmt.Sprintf("| %d | %s | %s | %s | %s | %s |", processes, ms(alone.wall), ms(wall), ms(wall/time.Duration(processes)), ms(median), ms(slowest))
	say("%s", row)
	p.crowds = append(p.crowds, row)
}

func (p *page) history(engine, title string, empty, full time.Duration) {
	row := fmt.Sprintf("| %s | %s | %s | %s | **%s** | 1.2 |", engine, title, ms(empty), ms(full), ratio(full, empty))
	say("%s", row)
	p.pasts = append(p.pasts, row)
}

func s(d time.Duration) string  { return fmt.Sprintf("%.1f s", d.Seconds()) }
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
	before := sections(path)
	section := func(title, text, header string, rows []string) {
		if len(rows) == 0 { // not measured this time
			t.WriteString(before[title])
			return
		}
		if p.b.warehouses != "" || p.b.options.actions != "" {
			cells := 1
			if p.b.options.actions != "" && strings.HasPrefix(header, "| warehouse | action |") {
				cells = 2
			}
			rows = append(others(before[title], rows, cells), rows...)
		}
		columns := strings.Count(header, "|") - 1
		fmt.Fprintf(&t, "\n## %s\n\n%s\n\n%s\n|%s\n%s\n", title, text, header, strings.Repeat("---|", columns), strings.Join(rows, "\n"))
	}
	section("From start to end", "21 runs each, SQLite + DuckDB.", "| command | wall | CPU | peak | bar |", p.colds)
	section("Validate", "Every pipeline of a large project, lineage and order of readers and writers included.", "| command | pipelines × tasks | wall | CPU | peak | bar |", p.validates)
	section("Overhead per task", fmt.Sprintf("A chain of %d tasks that append one row each, against as many transactions with one INSERT.\nOverhead is the difference, per task.", p.b.tasks),
		"| Engine DB + warehouse | engine | by hand | overhead | overhead, CPU | peak | bar |", p.chains)
	section("Actions", fmt.Sprintf("%d rows in the target, %d in the SELECT: half of them changed, three tenths as they were, one fifth new. CPU includes the server's.", p.b.rows, p.b.stage),
		"| warehouse | action | engine | by hand | wall, ratio | CPU, ratio | peak, engine | peak, by hand | bar |", p.acts)
	section("Actions on Iceberg, Trino and Databricks", fmt.Sprintf("As above; all keys of DELETE_ROWS, which flags, are in the target. Time is that until the last line of output, without the end of the session.\nThe servers run on the same machine, with %d CPUs for all.", runtime.NumCPU()),
		"| warehouse | action | pairs | engine | by hand | difference | wall, ratio | peak, engine | peak, by hand |", p.fars)
	section("Small statements", "What a process takes that signs in and sends `SELECT 1`, and what each further statement takes.",
		"| warehouse | process | `SELECT 1` | `CREATE TABLE` of one row, `DROP TABLE` |", p.latencies)
	section("Statements and commits", "As `plan` shows them for a target that has rows: all statements but BEGIN and COMMIT, those of them that only read, and how many commits there are:\ntransactions, and statements outside of one that write, scratch tables included. What the engine asks before it plans is not in it.",
		"| warehouse | action | statements | reads | commits | by hand: statements | reads | commits |", p.plans)
	section("Rehash", "Every hash of a target made anew, against the same UPDATE by hand; the engine counts the rows, and those that change, before.",
		"| warehouse | rows | engine | by hand | wall, ratio | peak |", p.rehashes)
	section("Ten thousand tasks", "Layers of 100 tasks that append one row each, each waiting for two of the layer before. SQLite + DuckDB.",
		"| tasks | apply, nothing new | run | run, per task | peak | status |", p.wides)
	section("Many processes at once", "Pipelines of three tasks, each in a process of its own, started at the same moment; Engine DB and warehouse on one PostgreSQL server.\nAll succeed, and every task ran once.",
		"| processes | one alone | all | all, per process | median of them | slowest |", p.crowds)
	section("After a million task runs", fmt.Sprintf("An Engine DB with %d task runs, as many attempts, and the gates and actions that go with them, against an empty one, in turns.\nAdmission is everything up to the rows of a new run behind a gate, dispatch what is recorded per task before its first statement;\nthe others are whole processes.", p.b.taskRuns),
		"| Engine DB | | empty | with history | ratio | bar |", p.pasts)
	return os.WriteFile(path, []byte(t.String()), 0o644)
}

// sections are those of a page that was written before, each with the empty line in front.
func sections(path string) map[string]string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for i, part := range strings.Split(string(text), "\n## ") {
		if title, _, _ := strings.Cut(part, "\n"); i > 0 {
			found[title] = "\n## " + strings.TrimRight(part, "\n") + "\n"
		}
	}
	return found
}

// others are the rows of a section that was written before, whose first cells none has now.
func others(section string, rows []string, cells int) (kept []string) {
	first := func(row string) string { return strings.Join(strings.SplitN(row, " |", cells+1)[:cells], " |") }
	_, table, _ := strings.Cut(section, "---|\n")
	for row := range strings.Lines(table) {
		row = strings.TrimSuffix(row, "\n")
		if !slices.ContainsFunc(rows, func(r string) bool { return first(r) == first(row) }) {
			kept = append(kept, row)
		}
	}
	return kept
}

// machine names the processor.
func machine() string {
	out, err := exec.Command("sh", "-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1").Output()
	if name := strings.TrimSpace(string(out)); err == nil && name != "" {
		return name
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}
