package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

var (
	scratchName = regexp.MustCompile(`^etl_(?:stage|change|new)_([0-9]{1,18})_[0-9a-f]+$`)
	keptName    = regexp.MustCompile(`^(.+)__etl_keep_[0-9a-f]+$`)
)

// dropPatience is how long a scratch table may be in use before it is left alone.
const dropPatience = 10 * time.Second

// left looks for tables that were made for a while only, beside the targets.
func (d *doctor) left(ctx context.Context, s warehouses.Session, schemas []warehouses.QualifiedName) {
	var scratch, kept []warehouses.QualifiedName
	for _, schema := range schemas {
		rows, err := s.Rows(ctx, d.e.Dialect.Render("left_tables", warehouses.LeftNames{
			Database: d.e.Dialect.Text(schema.Database), Schema: d.e.Dialect.Text(schema.Schema)}), math.MaxInt)
		if err != nil {
			d.failed(areaAbandoned, "scratch tables", err)
			continue
		}
		for _, r := range rows {
			name := warehouses.QualifiedName{Database: schema.Database, Schema: schema.Schema, Table: r[0]}
			switch {
			case scratchName.MatchString(r[0]):
				scratch = append(scratch, name)
			case keptName.MatchString(r[0]):
				kept = append(kept, name)
			}
		}
	}
	d.scratch(ctx, s, scratch)
	for _, k := range kept {
		of := k
		of.Table = keptName.FindStringSubmatch(k.Table)[1]
		dialect := d.e.Dialect
		d.warn(areaAbandoned, "kept tables", fmt.Sprintf("when %s is wrong or missing: ALTER TABLE %s RENAME TO %s; when it is right: DROP TABLE %s",
			of, dialect.Table(k), dialect.Ident(of.Table), dialect.Table(k)),
			"%s holds the rows of %s from before a replacement that did not end; it is never dropped by etl-craft", k, of)
	}
	if len(kept) == 0 {
		d.ok(areaAbandoned, "kept tables", "none")
	}
}

func (d *doctor) scratch(ctx context.Context, s warehouses.Session, tables []warehouses.QualifiedName) {
	dropped := 0
	for _, t := range tables {
		why, err := d.unlessUsed(ctx, s, t, func() error {
			if !d.req.Fix {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, dropPatience)
			defer cancel()
			_, err := s.Exec(ctx, d.e.Dialect.Render("drop_table", struct{ Table warehouses.SQL }{d.e.Dialect.Table(t)}))
			return err
		})
		switch {
		case err != nil:
			d.warn(areaAbandoned, "scratch tables", fault.As(err).Hint, "%s is left alone: %s", t, fault.As(err).Error())
		case why != "":
			d.warn(areaAbandoned, "scratch tables", "", "%s is left alone: %s", t, why)
		case d.req.Fix:
			dropped++
			d.fixed("dropped: %s", t)
		default:
			d.warn(areaAbandoned, "scratch tables", commandToMend, "%s was left by an attempt that has ended", t)
		}
	}
	switch {
	case dropped > 0:
		d.ok(areaAbandoned, "scratch tables", "%d dropped", dropped)
	case len(tables) == 0:
		d.ok(areaAbandoned, "scratch tables", "none")
	}
}

// unlessUsed does something about a scratch table under the lock of its target, when that table is provably abandoned; else
// it says why not.
func (d *doctor) unlessUsed(ctx context.Context, s warehouses.Session, t warehouses.QualifiedName, do func() error) (why string, err error) {
	if d.req.LockerError != nil {
		return "without locks nobody knows whether its task runs", nil
	}
	id, err := strconv.ParseInt(scratchName.FindStringSubmatch(t.Table)[1], 10, 64)
	if err != nil {
		return "", err
	}
	owner, err := d.e.Store.ScratchOwner(ctx, id)
	if err != nil {
		return "", err
	}
	// Another Engine DB may have given out the same id: its task has another target, as a rule.
	if owner == nil || !strings.HasPrefix(strings.ToLower(owner.Target), strings.ToLower(dotted(t.Database, t.Schema, ""))) {
		return fmt.Sprintf("this Engine DB has no task run %d with a target in %s", id, t.Schema), nil
	}
	if why := unended(owner, id); why != "" {
		return why, nil
	}
	key := locks.TargetKey(s.Facts().Identity, strings.ToLower(owner.Target))
	lock, err := d.e.Locker.TryLock(ctx, key, locks.Holder{What: "target " + owner.Target})
	if err != nil {
		return "", err
	}
	if lock == nil {
		return "the target " + owner.Target + " is locked by another process", nil
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if owner, err = d.e.Store.ScratchOwner(ctx, id); err != nil || owner == nil {
		return "its task run is gone", err
	}
	if why := unended(owner, id); why != "" {
		return why, nil
	}
	return "", do()
}

func unended(owner *store.ScratchOwner, id int64) string {
	if owner.Live == 0 {
		return ""
	}
	return fmt.Sprintf("attempt %d of task run %d has not ended", owner.Live, id)
}
