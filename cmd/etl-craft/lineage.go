package main

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func (p *program) lineageCommand() *cli.Command {
	return &cli.Command{
		Name: "lineage", Usage: "shows which tables are made of which, and by which tasks",
		Description: "etl-craft lineage\netl-craft lineage --table shop.customers\netl-craft lineage --table shop.customers --downstream --depth 1\netl-craft lineage --files --diagram mermaid",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "table", Usage: "`TABLE` to begin with, schema.table; else all"},
			&cli.BoolFlag{Name: "upstream", Usage: "only what the table is made of"},
			&cli.BoolFlag{Name: "downstream", Usage: "only what is made of it"},
			&cli.IntFlag{Name: "depth", Usage: "at most `N` steps from the table; else all"},
			diagramFlag(),
			&cli.BoolFlag{Name: "files", Usage: "reads the files instead of the Engine DB, which need not exist"},
		},
		Action: func(c *cli.Context) (err error) {
			if err := checkLineage(c); err != nil {
				return err
			}
			project, err := p.open(c, needs{store: !c.Bool("files")})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Lineage(c.Context, engine.LineageRequest{
				Table: c.String("table"), Upstream: c.Bool("upstream"), Downstream: c.Bool("downstream"), Depth: c.Int("depth"), Files: c.Bool("files"),
			})
			if err != nil {
				return err
			}
			return p.answer(doc, func() string {
				switch c.String("diagram") {
				case "mermaid":
					return lineageDiagram(doc).mermaid()
				case "dot":
					return lineageDiagram(doc).dot("lineage")
				}
				return lineageText(doc, c.Int("depth"))
			}, nil)
		},
	}
}

func checkLineage(c *cli.Context) error {
	for _, name := range []string{"upstream", "downstream", "depth"} {
		if c.IsSet(name) && c.String("table") == "" {
			return fault.New(fault.Usage, "--%s needs --table", name).WithHint("etl-craft lineage --table schema.table --%s", name)
		}
	}
	if c.IsSet("depth") && c.Int("depth") < 1 {
		return fault.New(fault.Usage, "--depth is %d; it takes 1 or more", c.Int("depth")).WithHint("leave it out for all steps")
	}
	return checkDiagram(c)
}

// lineageDiagram has arrows from tables to what is made of them.
func lineageDiagram(doc *engine.LineageDocument) *diagram {
	d := newDiagram()
	for _, t := range doc.Tables {
		d.box(t.Table)
	}
	for _, e := range doc.Edges {
		d.arrow(e.From, e.To, taskText(e.LineageTask))
	}
	return d
}

// lineageText is a tree on each side of the table that was asked for, or one downwards from the tables that are made of no
// other; then what could not be traced.
func lineageText(doc *engine.LineageDocument, depth int) string {
	var lines aligned
	switch {
	case doc.Table != nil:
		asked := tableNamed(doc, *doc.Table)
		lines.add(asked.Table, tasksText(asked.WrittenBy))
		if asked.Upstream != nil {
			lines.tree("upstream", newLineageTree(doc, true), asked.Table, depth)
		}
		if asked.Downstream != nil {
			lines.tree("downstream", newLineageTree(doc, false), asked.Table, depth)
		}
	case len(doc.Tables) == 0:
		lines.add("no task reads or writes a table", "")
	default:
		tree := newLineageTree(doc, false)
		for _, root := range tree.findRoots(doc) {
			lines.add(root, tasksText(tableNamed(doc, root).WrittenBy))
			tree.walk(root, "", nil, 0, &lines)
		}
	}
	text := lines.String()
	if len(doc.Untraced) == 0 {
		return text
	}
	var untraced [][2]string
	for _, u := range doc.Untraced {
		name := u.Pipeline
		if u.Task != nil {
			name += "." + *u.Task
		}
		untraced = append(untraced, [2]string{name, u.Reason})
	}
	return text + "\nnot traced\n" + columns(untraced)
}

func tableNamed(doc *engine.LineageDocument, name string) *engine.LineageTable {
	i := slices.IndexFunc(doc.Tables, func(t engine.LineageTable) bool { return t.Table == name })
	return &doc.Tables[i]
}

func taskText(t engine.LineageTask) string { return t.Pipeline + "." + t.Task + " " + orDash(t.Action) }

func tasksText(tasks []engine.LineageTask) string {
	var texts []string
	for _, t := range tasks {
		texts = append(texts, taskText(t))
	}
	return strings.Join(texts, ", ")
}

// aligned are lines of two aligned columns.
type aligned [][2]string

func (a *aligned) add(left, right string) { *a = append(*a, [2]string{left, right}) }

func (a aligned) String() string {
	width := 0
	for _, line := range a {
		width = max(width, utf8.RuneCountInString(line[0]))
	}
	var b strings.Builder
	for _, line := range a {
		b.WriteString(line[0])
		if line[1] != "" {
			b.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(line[0])+2) + line[1])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (a *aligned) tree(side string, tree *lineageTree, root string, depth int) {
	if len(tree.next[root]) == 0 {
		a.add(side+": nothing", "")
		return
	}
	a.add(side, "")
	tree.depth = depth
	tree.walk(root, "", nil, 0, a)
}

// lineageTree is the lineage in one direction. Each table is shown with its branches once, where it is nearest to the root.
type lineageTree struct {
	next  map[string][]branch
	steps map[string]int // from the root
	more  map[string]bool
	shown map[string]bool
	depth int // steps after which it is cut; 0 shows all
}

type branch struct {
	table string
	tasks []engine.LineageTask
}

func newLineageTree(doc *engine.LineageDocument, up bool) *lineageTree {
	t := &lineageTree{next: map[string][]branch{}, steps: map[string]int{}, more: map[string]bool{}, shown: map[string]bool{}}
	for _, table := range doc.Tables {
		steps := table.Downstream
		if up {
			steps = table.Upstream
		}
		if steps != nil {
			t.steps[table.Table] = *steps
		}
		t.more[table.Table] = table.More
	}
	for _, e := range doc.Edges {
		from, to := e.From, e.To
		if up {
			from, to = to, from
		}
		branches := t.next[from]
		i := slices.IndexFunc(branches, func(b branch) bool { return b.table == to })
		if i < 0 {
			branches = append(branches, branch{table: to})
			i = len(branches) - 1
		}
		branches[i].tasks = append(branches[i].tasks, e.LineageTask)
		t.next[from] = branches
	}
	return t
}

// findRoots finds tables that lead to all, and the steps from them: those that are made of no other table, then one of each
// ring that none of them leads to.
func (t *lineageTree) findRoots(doc *engine.LineageDocument) []string {
	made := map[string]bool{}
	for _, e := range doc.Edges {
		made[e.To] = made[e.To] || e.From != e.To
	}
	var roots, queue []string
	for _, table := range doc.Tables {
		if !made[table.Table] {
			roots = append(roots, table.Table)
			t.steps[table.Table] = 0
		}
	}
	spread := func() {
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			for _, b := range t.next[at] {
				if _, seen := t.steps[b.table]; !seen {
					t.steps[b.table] = t.steps[at] + 1
					queue = append(queue, b.table)
				}
			}
		}
	}
	queue = slices.Clone(roots)
	spread()
	for _, table := range doc.Tables {
		if _, seen := t.steps[table.Table]; !seen {
			roots = append(roots, table.Table)
			t.steps[table.Table] = 0
			queue = []string{table.Table}
			spread()
		}
	}
	return roots
}

// walk shows the branches of a table, which stands steps below the root; trail leads there.
func (t *lineageTree) walk(table, prefix string, trail []string, steps int, lines *aligned) {
	t.shown[table] = true
	trail = append(trail, table)
	for i, b := range t.next[table] {
		fork, indent := "├─ ", "│  "
		if i == len(t.next[table])-1 {
			fork, indent = "└─ ", "   "
		}
		name := prefix + fork + b.table
		expand := false
		switch {
		case slices.Contains(trail, b.table):
			name += " (ring)"
		case t.depth > 0 && t.steps[b.table] >= t.depth:
			if t.more[b.table] {
				name += " …"
			}
		case len(t.next[b.table]) == 0:
		case t.shown[b.table]:
			name += " (see above)"
		case t.steps[b.table] != steps+1:
			name += " (see below)"
		default:
			expand = true
		}
		lines.add(name, tasksText(b.tasks))
		if expand {
			t.walk(b.table, prefix+indent, trail, steps+1, lines)
		}
	}
}
