package engine

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// longestRetryDelay bounds a wait that grows with RETRY_BACKOFF.
const longestRetryDelay = time.Hour

// retryPolicy is how often, and after what wait, a failed attempt of a task is tried again.
type retryPolicy struct {
	retries int
	delay   time.Duration
	backoff float64
}

func (w *work) retryPolicy(t *store.Task) (retryPolicy, error) {
	p := retryPolicy{retries: w.e.Config.Orchestration.Retries, delay: time.Minute, backoff: 2}
	invalid := func(name, text string) (retryPolicy, error) {
		return p, fault.New(fault.ParameterInvalid, "%s of task %s is %q", name, t.Code, text)
	}
	if text, ok := t.Params["RETRIES"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			return invalid("RETRIES", text)
		}
		p.retries = n
	}
	if text, ok := t.Params["RETRY_DELAY_SECONDS"]; ok {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return invalid("RETRY_DELAY_SECONDS", text)
		}
		p.delay = time.Duration(seconds) * time.Second
	}
	if text, ok := t.Params["RETRY_BACKOFF"]; ok {
		factor, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(factor) || factor < 1 {
			return invalid("RETRY_BACKOFF", text)
		}
		p.backoff = factor
	}
	return p, nil
}

// wait is how long after a failed attempt the next one is due; false when the retries are used up.
func (p retryPolicy) wait(used int) (time.Duration, bool) {
	if used >= p.retries {
		return 0, false
	}
	seconds := p.delay.Seconds() * math.Pow(p.backoff, float64(used))
	return time.Duration(min(seconds, longestRetryDelay.Seconds()) * float64(time.Second)), true
}

// retriesUsed counts the retries since somebody last decided to try the task again. Attempts that were interrupted or
// lost count neither way.
func retriesUsed(earlier []store.Attempt) int {
	used := 0
	for i := len(earlier) - 1; i >= 0; i-- {
		switch a := &earlier[i]; {
		case a.Status == store.Lost || a.Status == store.Cancelled:
		case a.NotBefore == nil:
			return used
		default:
			used++
		}
	}
	return used
}

// waiting is a task that may start at a time of this process's clock.
type waiting struct {
	task *store.Task
	due  time.Time
}

// queue holds the tasks that may start: those that are due, and those whose retry is due later.
type queue struct {
	ready []*store.Task
	later []waiting
}

func (q *queue) add(t *store.Task, due time.Time) {
	if time.Until(due) <= 0 {
		q.ready = append(q.ready, t)
		return
	}
	q.later = append(q.later, waiting{t, due})
}

// next takes the first task that may start now; nil when there is none.
func (q *queue) next() *store.Task {
	var later []waiting
	for _, w := range q.later {
		if time.Until(w.due) <= 0 {
			q.ready = append(q.ready, w.task)
		} else {
			later = append(later, w)
		}
	}
	q.later = later
	if len(q.ready) == 0 {
		return nil
	}
	t := q.ready[0]
	q.ready = q.ready[1:]
	return t
}

// alarm rings when the next retry is due; nil when none is waited for.
func (q *queue) alarm() <-chan time.Time {
	if len(q.later) == 0 {
		return nil
	}
	first := q.later[0].due
	for _, w := range q.later[1:] {
		if w.due.Before(first) {
			first = w.due
		}
	}
	return time.After(time.Until(first))
}

func retryText(wait time.Duration) string {
	if wait == 0 {
		return "; it is tried again"
	}
	return fmt.Sprintf("; it is tried again in %s", wait.Round(time.Second))
}
