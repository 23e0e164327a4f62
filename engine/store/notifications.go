package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// SLABreached is the event of a run that has taken longer than its pipeline's SLA. The other events are the statuses that
// a run ends with.
const SLABreached = "SLA_BREACHED"

// Statuses of a Notification.
const (
	NotificationPending   = "PENDING"
	NotificationDelivered = "DELIVERED"
	NotificationFailed    = "FAILED" // given up
)

// Subscriptions are the events that each webhook is told of, by its name.
type Subscriptions map[string][]string

// Subscribe makes the transactions that end a run, or find its SLA passed, write a notification for each webhook in all
// whose list has the event, or that the pipeline's own list names for it. It is called before anything else.
func (s *Store) Subscribe(profile string, all Subscriptions) {
	s.profile, s.subscriptions = profile, all
}

// subscriptionsKey is the key of PIPELINE_PARAMETERS under which a pipeline's own Subscriptions are.
const subscriptionsKey = "NOTIFICATIONS"

// readSubscriptions reads a pipeline's own from its PIPELINE_PARAMETERS, nil when it has none.
func readSubscriptions(parameters string) (Subscriptions, error) {
	if parameters == "" {
		return nil, nil
	}
	var of struct {
		Own Subscriptions `json:"NOTIFICATIONS"`
	}
	err := json.Unmarshal([]byte(parameters), &of)
	return of.Own, err
}

// subscriptions reads PIPELINE_PARAMETERS, of whose faults wrong tells.
func subscriptions(to *Subscriptions, wrong *error) scanFunc {
	return func(v any) error {
		parameters, err := asText(v)
		if err == nil {
			*to, *wrong = readSubscriptions(parameters)
		}
		return err
	}
}

// writeSubscriptions puts own into PIPELINE_PARAMETERS and leaves all else there as it is.
func writeSubscriptions(parameters string, own Subscriptions) (string, error) {
	have, err := readSubscriptions(parameters)
	if err == nil && maps.EqualFunc(have, own, slices.Equal) {
		return parameters, nil
	}
	all := map[string]json.RawMessage{}
	if parameters != "" {
		if err := json.Unmarshal([]byte(parameters), &all); err != nil {
			return "", err
		}
	}
	delete(all, subscriptionsKey)
	if len(own) > 0 {
		if all[subscriptionsKey], err = json.Marshal(own); err != nil {
			return "", err
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// NotificationBody is etl-craft/notification/1, what a webhook is sent: the run as it was when the event happened.
type NotificationBody struct {
	Schema     string `json:"schema"`
	Event      string `json:"event"`       // SUCCESS, FAILED, SKIPPED, CANCELLED or SLA_BREACHED
	OccurredAt string `json:"occurred_at"` // UTC with microseconds, as the next two times
	Profile    string `json:"profile"`

	Pipeline      string   `json:"pipeline"`
	PipelineRunID int64    `json:"pipeline_run_id"`
	RunKey        string   `json:"run_key"`
	RunDate       string   `json:"run_date"`
	Trigger       string   `json:"trigger"`
	Status        string   `json:"status"`
	SkipReason    *string  `json:"skip_reason"`
	SLAStatus     *string  `json:"sla_status"`
	SLAHours      *float64 `json:"sla_hours"`
	StartedAt     string   `json:"started_at"`
	EndedAt       *string  `json:"ended_at"` // null while it is not over
	StartedBy     string   `json:"started_by"`
	EndedBy       *string  `json:"ended_by"`

	Tasks       map[string]int `json:"tasks"`        // how many have which status
	FailedTasks []FailedTask   `json:"failed_tasks"` // the first twenty
}

// FailedTask is a task of a NotificationBody.
type FailedTask struct {
	Task         string  `json:"task"`
	TaskRunID    int64   `json:"task_run_id"`
	Status       string  `json:"status"` // FAILED or CANCELLED
	Attempts     int     `json:"attempts"`
	ErrorCode    *string `json:"error_code"`
	ErrorStep    *string `json:"error_step"`
	ErrorMessage *string `json:"error_message"`
	ErrorHint    *string `json:"error_hint"`
}

const failedTasksShown = 20

// slaFacts are what decides about the SLA of a run and whom to tell.
type slaFacts struct {
	hours  *float64
	status string // as recorded, "" while undecided
	own    Subscriptions
}

func (t *tx) slaFacts(runID int64) (f slaFacts, err error) {
	var parameters string
	if err = t.row("sla", runID).Scan(&f.hours, text(&parameters), text(&f.status)); err != nil {
		return f, err
	}
	if len(t.s.subscriptions) > 0 {
		f.own, _ = readSubscriptions(parameters) // rows that cannot be read are a problem of validate; no run fails for them
	}
	return f, nil
}

// passed reports whether the run has taken longer than its SLA.
func (f slaFacts) passed(run lockedRun) bool {
	return f.hours != nil && run.now.Sub(run.started).Hours() > *f.hours
}

// decided is the SLA status of a run that ends now, "" without an SLA.
func (f slaFacts) decided(run lockedRun) string {
	switch {
	case f.status != "":
		return f.status
	case f.hours == nil:
		return ""
	case f.passed(run):
		return "BREACHED"
	}
	return "MET"
}

// notify writes what the webhooks that listen for the event are told.
func (t *tx) notify(runID int64, f slaFacts, event string) error {
	var to []string
	for _, webhook := range slices.Sorted(maps.Keys(t.s.subscriptions)) {
		events, ok := f.own[webhook]
		if !ok {
			events = t.s.subscriptions[webhook]
		}
		if slices.Contains(events, event) {
			to = append(to, webhook)
		}
	}
	if len(to) == 0 {
		return nil
	}
	run, err := scanRun(t.row("run_by_id", runID))
	if err != nil || run.Trigger == TriggerStandIn {
		return err
	}
	tasks, err := t.taskRuns(runID)
	if err != nil {
		return err
	}
	var now time.Time
	if err := t.row("now").Scan(instant(&now)); err != nil {
		return err
	}
	body, err := json.Marshal(t.s.body(run, tasks, f, event, now))
	if err != nil {
		return err
	}
	for _, webhook := range to {
		if _, err := t.exec("add_notification", "msg_"+uuid.NewString(), runID, event, webhook, string(body)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) body(run *Run, tasks []TaskRun, f slaFacts, event string, now time.Time) NotificationBody {
	b := NotificationBody{
		Schema: "etl-craft/notification/1", Event: event, OccurredAt: timeText(now), Profile: s.profile,
		Pipeline: run.PipelineCode, PipelineRunID: run.ID, RunKey: run.Key, RunDate: run.Date, Trigger: run.Trigger, Status: run.Status,
		SkipReason: orNil(run.SkipReason), SLAStatus: orNil(run.SLAStatus), SLAHours: f.hours, StartedAt: timeText(run.StartedAt),
		StartedBy: run.StartedBy.Name, EndedBy: orNil(run.EndedBy.Name), Tasks: map[string]int{}, FailedTasks: []FailedTask{},
	}
	if run.EndedAt != nil {
		ended := timeText(*run.EndedAt)
		b.EndedAt = &ended
	}
	for _, task := range tasks {
		b.Tasks[task.Status]++
		if task.Status != Failed && task.Status != Cancelled || len(b.FailedTasks) == failedTasksShown {
			continue
		}
		b.FailedTasks = append(b.FailedTasks, FailedTask{
			Task: task.TaskCode, TaskRunID: task.ID, Status: task.Status, Attempts: task.Attempts, ErrorCode: orNil(task.ErrorCode),
			ErrorStep: orNil(task.ErrorStep), ErrorMessage: orNil(task.Error), ErrorHint: orNil(task.ErrorHint),
		})
	}
	return b
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// BreachSLA records that an unfinished run has taken longer than its SLA. It reports whether that is so and was new.
func (s *Store) BreachSLA(ctx context.Context, runID int64) (breached bool, err error) {
	err = s.write(ctx, "record the SLA", func(t *tx) error {
		run, err := t.lockRun(runID)
		if err != nil || run.status != Queued && run.status != InProgress {
			return err
		}
		f, err := t.slaFacts(runID)
		if err != nil || f.status != "" || !f.passed(run) {
			return err
		}
		if _, err := t.exec("breach_sla", runID); err != nil {
			return err
		}
		breached = true
		return t.notify(runID, f, SLABreached)
	})
	return breached && err == nil, err
}

// RunsWithOpenSLA lists the unfinished runs whose SLA has not been decided, of one pipeline or, with 0, of all.
func (s *Store) RunsWithOpenSLA(ctx context.Context, pipelineID int64) ([]int64, error) {
	var ids []int64
	err := s.read(ctx, "read the runs with an SLA", func(t *tx) error {
		return t.each("runs_with_open_sla", func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, pipelineID)
	})
	return ids, err
}

// Message is a notification that this process has taken to deliver.
type Message struct {
	ID        int64
	MessageID string // the same at every try
	Body      string
	Try       int           // the number of this try, from 1
	Age       time.Duration // since the event
}

// ClaimNotification takes the oldest notification of a webhook that is due, nil when there is none. For the time of lease
// no other process takes it.
func (s *Store) ClaimNotification(ctx context.Context, webhook string, lease time.Duration) (*Message, error) {
	var m Message
	err := s.write(ctx, "take a notification", func(t *tx) error {
		var created, now time.Time
		err := t.row("claim_notification", webhook, lease.Seconds()).Scan(&m.ID, &m.MessageID, &m.Body, &m.Try, instant(&created), instant(&now))
		m.Age = now.Sub(created)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &m, err
}

// Delivery is what came of one try.
type Delivery struct {
	ID         int64
	Status     string        // NotificationPending for another try
	RetryIn    time.Duration // of NotificationPending
	HTTPStatus int           // 0 when there was no answer
	Error      string        // "" when it was delivered
}

// EndNotification records what came of one try.
func (s *Store) EndNotification(ctx context.Context, d Delivery) error {
	return s.write(ctx, "record the delivery", func(t *tx) error {
		_, err := t.exec("end_notification", d.ID, d.Status, d.RetryIn.Seconds(), orNull(d.HTTPStatus), orNull(d.Error))
		return err
	})
}

// GiveUpNotifications ends those that are older than age.
func (s *Store) GiveUpNotifications(ctx context.Context, age time.Duration) error {
	return s.write(ctx, "give notifications up", func(t *tx) error {
		_, err := t.exec("give_up_notifications", -age.Seconds())
		return err
	})
}

// Notification is a row of AUD_NOTIFICATIONS to read.
type Notification struct {
	ID         int64
	MessageID  string
	Pipeline   string
	RunID      int64
	Event      string
	Webhook    string
	Status     string
	CreatedAt  time.Time
	Tries      int
	LastTryAt  *time.Time
	NextTryAt  *time.Time
	HTTPStatus *int
	Error      string
}

// Notifications reads the newest ones, of one pipeline or, with 0, of all, the newest first.
func (s *Store) Notifications(ctx context.Context, pipelineID int64, limit int) ([]Notification, error) {
	var list []Notification
	err := s.read(ctx, "read the notifications", func(t *tx) error {
		return t.each("notifications", func(rows *sql.Rows) error {
			var n Notification
			err := rows.Scan(&n.ID, &n.MessageID, &n.Pipeline, &n.RunID, &n.Event, &n.Webhook, &n.Status, instant(&n.CreatedAt), &n.Tries,
				instantOrNil(&n.LastTryAt), instantOrNil(&n.NextTryAt), &n.HTTPStatus, text(&n.Error))
			list = append(list, n)
			return err
		}, pipelineID, limit)
	})
	return list, err
}
