package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// purgeBatch is how many rows one transaction of a purge deletes. A run is deleted whole: one that has more rows has a
// transaction of its own.
var purgeBatch int64 = 1000

// purgePage is how many old runs or rows are looked at in one read.
const purgePage = 500

// purgeTells is the time between two words about a purge that takes long.
const purgeTells = 5 * time.Second

// PurgeRequest says what is old.
type PurgeRequest struct {
	OlderThan string `json:"older_than"` // 90d, 12w or 48h; at least a day
	Pipeline  string `json:"pipeline,omitempty"`
	DryRun    bool   `json:"-"`
}

// PurgeDocument is etl-craft/purge/1: what was deleted, or would be.
type PurgeDocument struct {
	Schema    string       `json:"schema"`
	DryRun    bool         `json:"dry_run"`
	Pipeline  *string      `json:"pipeline"` // null for all
	OlderThan string       `json:"older_than"`
	Before    Time         `json:"before"` // what ended before this is old
	Runs      int64        `json:"runs"`
	Rows      int64        `json:"rows"` // of all tables
	Tables    []PurgeTable `json:"tables"`
	Files     int64        `json:"files"` // logs of attempts, and the statements beside them
	Bytes     int64        `json:"bytes"` // of the files
	// LogsElsewhere are attempts whose logs lie outside the log folder, and were left alone.
	LogsElsewhere int64    `json:"logs_elsewhere"`
	LogsMissing   int64    `json:"logs_missing"` // attempts whose logs are not there, or not on this host
	LogsFailed    int64    `json:"logs_failed"`  // logs that cannot be removed, whose runs stay
	Kept          KeptRuns `json:"kept"`
}

// PurgeTable is a table of a PurgeDocument.
type PurgeTable struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
}

// KeptRuns are the numbers of old runs that stay, by what needs them.
type KeptRuns struct {
	Newest   int64 `json:"newest"`   // the newest of its pipeline
	Gates    int64 `json:"gates"`    // a dependency can still choose it
	Backfill int64 `json:"backfill"` // of the newest backfill of its pipeline
	Running  int64 `json:"running"`  // a task has not ended
}

// Total is the sum.
func (k KeptRuns) Total() int64 { return k.Newest + k.Gates + k.Backfill + k.Running }

// Purge deletes runs that ended long ago, with all that belongs to them and their logs, and old rows that belong to no run, in
// batches between which others can work. What a dependency, a resume or a backfill needs stays. An interrupt ends it between
// two batches; the same command goes on.
func (e *Engine) Purge(ctx context.Context, req PurgeRequest) (*PurgeDocument, error) {
	age, err := parseAge(req.OlderThan)
	if err != nil {
		return nil, err
	}
	now, err := e.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	p := &purge{
		e: e, req: req, before: now.Add(-age), rows: store.Purged{}, gone: map[int64]bool{}, told: time.Now(),
		doc: &PurgeDocument{Schema: "etl-craft/purge/1", DryRun: req.DryRun, OlderThan: req.OlderThan, Before: Time{now.Add(-age)}},
	}
	if req.Pipeline != "" {
		g, err := e.Store.Graph(ctx, req.Pipeline)
		if err != nil {
			return nil, err
		}
		p.doc.Pipeline, p.pipelineID = &g.Pipeline.Code, g.Pipeline.ID
	}
	if req.DryRun {
		return p.document(p.all(ctx))
	}
	arguments, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	ctx = findingRun(ctx)
	return p.document(e.audited(ctx, store.ActionRecord{Command: "purge", Arguments: string(arguments), PipelineID: p.pipelineID}, func() error {
		err := p.all(ctx)
		if noted := e.noteResult(ctx, p.result()); err == nil {
			err = noted
		}
		return err
	}))
}

var agePattern = regexp.MustCompile(`^([0-9]{1,5})([hdw])$`)

// parseAge reads 90d, 12w or 48h. Less than a day is refused: it is a slip rather than a wish.
func parseAge(text string) (time.Duration, error) {
	m := agePattern.FindStringSubmatch(text)
	if m == nil {
		return 0, fault.New(fault.Usage, "--older-than %q is no age", text).WithHint("write it as 90d, 12w or 48h")
	}
	n, _ := strconv.Atoi(m[1]) // at most five digits
	age := time.Duration(n) * map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[m[2]]
	switch {
	case age < 24*time.Hour:
		return 0, fault.New(fault.Usage, "--older-than %s is less than a day", text).WithHint("--older-than 1d, or more")
	case age > 36500*24*time.Hour:
		return 0, fault.New(fault.Usage, "--older-than %s is more than 100 years", text)
	}
	return age, nil
}

// purge is one under way.
type purge struct {
	e          *Engine
	req        PurgeRequest
	before     time.Time
	pipelineID int64 // 0 for all
	doc        *PurgeDocument
	rows       store.Purged
	logs       *logFolder
	batch      []int64        // runs of one pipeline to delete together
	batchRows  int64          // that belong to them
	gone       map[int64]bool // runs that a dry run would have deleted
	told       time.Time
}

func (p *purge) document(err error) (*PurgeDocument, error) {
	if err != nil && !fault.Has(err, fault.FileNotRemoved) {
		return nil, err
	}
	p.doc.Rows = p.rows.Rows()
	p.doc.Runs = p.rows[store.TableRuns]
	for _, table := range store.PurgeTables {
		p.doc.Tables = append(p.doc.Tables, PurgeTable{table, p.rows[table]})
	}
	return p.doc, err
}

// result is what is recorded of a purge, an interrupted one too.
func (p *purge) result() map[string]any {
	return map[string]any{"before": Time{p.before}, "runs": p.rows[store.TableRuns], "rows": p.rows.Rows(), "files": p.doc.Files, "bytes": p.doc.Bytes}
}

func (p *purge) all(ctx context.Context) error {
	err := p.everything(ctx)
	if err != nil && ctx.Err() != nil {
		return purgeStopped()
	}
	return err
}

func (p *purge) everything(ctx context.Context) (err error) {
	if err := p.mayDelete(ctx); err != nil {
		return err
	}
	if p.logs, err = openLogFolder(p.e.Config.Orchestration.LogDir); err != nil {
		return err
	}
	defer func() { _ = p.logs.close() }()
	pipelines := []int64{p.pipelineID}
	if p.pipelineID == 0 {
		if pipelines, err = p.e.Store.AllPipelines(ctx); err != nil {
			return err
		}
	}
	for _, id := range pipelines {
		if err := p.runs(ctx, id); err != nil {
			return err
		}
	}
	for _, table := range store.LooseTables {
		if err := p.loose(ctx, table); err != nil {
			return err
		}
	}
	if p.doc.LogsFailed > 0 {
		return fault.New(fault.FileNotRemoved, "%d log(s) cannot be removed, and their runs stay; everything else is purged", p.doc.LogsFailed).
			WithHint("see who owns the folders in %s", p.e.Config.Orchestration.LogDir)
	}
	return nil
}

// mayDelete refuses before anything is removed when the user may not delete rows.
func (p *purge) mayDelete(ctx context.Context) error {
	if p.e.Config.Engine.Type != config.Postgres {
		return nil
	}
	rights, err := p.e.Store.Rights(ctx)
	if err != nil || rights.Purge {
		return err
	}
	return fault.New(fault.EngineUnreachable, "the user %s may not delete rows of the Engine DB", rights.User).
		WithHint("as the role for purge that etl-craft doctor --grants prints")
}

// runs purges the old runs of a pipeline, the oldest first: what gates look at, the newest ones, is then the same all the time.
func (p *purge) runs(ctx context.Context, pipelineID int64) error {
	for after := int64(0); ; {
		page, err := p.e.Store.OldRuns(ctx, pipelineID, p.before, after, purgePage)
		if err != nil {
			return err
		}
		for _, run := range page {
			after = run.ID
			if run.Kept != "" {
				p.doc.Kept.count(run.Kept)
				continue
			}
			if len(p.batch) > 0 && p.batchRows+run.Rows.Rows() > purgeBatch {
				if err := p.flush(ctx, pipelineID); err != nil {
					return err
				}
			}
			p.batch, p.batchRows = append(p.batch, run.ID), p.batchRows+run.Rows.Rows()
			if p.req.DryRun {
				p.rows.Add(run.Rows)
				p.gone[run.ID] = true
			}
		}
		if len(page) < purgePage {
			return p.flush(ctx, pipelineID)
		}
	}
}

func (k *KeptRuns) count(why string) {
	switch why {
	case store.KeptNewest:
		k.Newest++
	case store.KeptGate:
		k.Gates++
	case store.KeptBackfill:
		k.Backfill++
	case store.KeptRunning:
		k.Running++
	}
}

// flush purges the runs of the batch. The files, of which nobody would know without the rows, go in the transaction that
// deletes the rows, when it is sure that they go; then the folders, into which nobody writes without the rows.
func (p *purge) flush(ctx context.Context, pipelineID int64) error {
	batch := p.batch
	p.batch, p.batchRows = nil, 0
	if len(batch) == 0 {
		return nil
	}
	return p.inTurn(ctx, func() error {
		if p.req.DryRun {
			paths, err := p.e.Store.LogPaths(ctx, batch)
			for _, logs := range paths {
				p.files(logs)
			}
			return err
		}
		var removed []string
		_, rows, err := p.e.Store.PurgeRuns(ctx, pipelineID, p.before, batch, func(_ int64, logs []string) bool {
			removed = append(removed, logs...)
			return p.files(logs)
		})
		if err != nil {
			return err
		}
		p.rows.Add(rows)
		p.logs.removeFolders(removed)
		return nil
	})
}

// files removes the logs of a run. False says that one is left, whose run has to stay so that the log is known.
func (p *purge) files(logs []string) bool {
	all := true
	for _, path := range logs {
		files, bytes, err := p.logs.remove(path, p.req.DryRun)
		p.doc.Files, p.doc.Bytes = p.doc.Files+files, p.doc.Bytes+bytes
		switch {
		case err == errElsewhere:
			p.doc.LogsElsewhere++
		case err != nil:
			if p.doc.LogsFailed++; p.doc.LogsFailed == 1 {
				p.e.Log.Warn(fmt.Sprintf("%v; its run stays (%s)", err, fault.As(err).Hint))
			}
			all = false
		case files == 0:
			p.doc.LogsMissing++
		}
	}
	return all
}

// loose purges old rows that belong to no run.
func (p *purge) loose(ctx context.Context, table string) error {
	for after := int64(0); ; {
		ids, next, err := p.e.Store.OldRows(ctx, table, p.pipelineID, p.before, after, purgePage, func(run int64) bool { return p.gone[run] })
		if err != nil {
			return err
		}
		n := int64(len(ids))
		if n > 0 && !p.req.DryRun {
			err = p.inTurn(ctx, func() error {
				n, err = p.e.Store.PurgeRows(ctx, table, ids)
				return err
			})
			if err != nil {
				return err
			}
		}
		if n > 0 {
			p.rows[table] += n
		}
		if after = next; next == 0 {
			return nil
		}
	}
}

func purgeStopped() error {
	return fault.New(fault.Interrupted, "interrupted").WithHint("the same command goes on")
}

// inTurn does one batch, unless somebody wants to stop, says how far it is, and rests as long as the batch took: a process
// that waits for SQLite's one writer looks for it from time to time only.
func (p *purge) inTurn(ctx context.Context, batch func() error) error {
	if p.e.stopped(ctx) {
		return purgeStopped()
	}
	begin := time.Now()
	if err := batch(); err != nil {
		return err
	}
	if p.req.DryRun {
		return nil
	}
	if time.Since(p.told) > purgeTells {
		p.told = time.Now()
		p.e.Log.Info(fmt.Sprintf("purged %d runs and %d rows so far", p.rows[store.TableRuns], p.rows.Rows()))
	}
	select {
	case <-time.After(time.Since(begin)):
	case <-p.e.Stop:
	case <-ctx.Done():
	}
	return nil
}
