package warehousetest

import (
	"context"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// conflicting reports a conflict of writers once, after what commits has committed, as a warehouse does whose answer to the
// commit was lost and whose own second try found it done.
type conflicting struct {
	warehouses.Warehouse
	armed, told bool // armed by the record of the commit
}

func (w *conflicting) Session(ctx context.Context) (warehouses.Session, error) {
	s, err := w.Warehouse.Session(ctx)
	return &conflictingSession{s, w}, err
}

func (w *conflicting) after(err error) error {
	if err != nil || !w.armed || w.told {
		return err
	}
	w.told = true
	return &fault.Error{Code: fault.WriteConflict, Message: "another writer was faster", Retryable: true}
}

type conflictingSession struct {
	warehouses.Session
	w *conflicting
}

func (s *conflictingSession) Commit(ctx context.Context) error {
	return s.w.after(s.Session.Commit(ctx))
}

func (s *conflictingSession) Exec(ctx context.Context, statement warehouses.SQL) (int64, error) {
	n, err := s.Session.Exec(ctx, statement)
	if !s.w.Dialect().Transactional {
		err = s.w.after(err)
	}
	return n, err
}

// committedConflict appends to a target, and for the first time: the batch is there once.
func committedConflict(b *bench) {
	for _, rows := range [][]Row{nil, {row("1", "a", "x")}} {
		b := b.fresh()
		b.setUp("APPEND_TABLE", rows...)
		w := &conflicting{Warehouse: b.env.Warehouse}
		b.env.Warehouse = w
		b.must(Request{Action: "APPEND_TABLE", Columns: three, Rows: []Row{row("2", "b", "x"), row("3", "c", "x")}})
		if !w.told {
			b.Error("nothing was committed")
		}
	}
}
