package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/faultpoint"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// deliveryPatience is how long after its work a command begins to try to deliver. What is not delivered by then is left to
// later commands.
var deliveryPatience = 5 * time.Second

// giveUpAfter is how old a notification may become before it is no longer tried.
const giveUpAfter = 24 * time.Hour

// retryDelays are between the tries of one notification; the last one repeats.
var retryDelays = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// subscriptions are the events that the configured webhooks are told of unless a pipeline says otherwise.
func subscriptions(webhooks []config.Webhook) store.Subscriptions {
	all := store.Subscriptions{}
	for _, w := range webhooks {
		all[w.Name] = w.On
	}
	return all
}

// courier delivers notifications beside everything else, in one goroutine at most.
type courier struct {
	mu     sync.Mutex
	done   chan struct{} // closed when the goroutine has ended; nil when there is none
	cancel context.CancelFunc
	more   bool      // something became due meanwhile
	until  time.Time // no try begins later; zero for no limit
}

// deliverSoon delivers what is due beside everything else. settleDeliveries waits for it.
func (e *Engine) deliverSoon(ctx context.Context) {
	if len(e.Config.Notifications) == 0 {
		return
	}
	c := &e.courier
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more = true; c.done != nil {
		return
	}
	// What ctx belongs to may end before a webhook has answered.
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	c.done, c.until = done, time.Time{}
	go func() {
		defer close(done)
		for c.again() {
			e.deliverDue(ctx)
		}
	}()
}

// again reports whether there is more to deliver; when not, the goroutine ends.
func (c *courier) again() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.more {
		c.cancel()
		c.done = nil
		return false
	}
	c.more = false
	return true
}

// settle waits until the goroutine has ended. It begins no try after until, and none is waited for when ctx has ended.
func (c *courier) settle(ctx context.Context, until time.Time) {
	c.mu.Lock()
	done, cancel := c.done, c.cancel
	c.until = until
	c.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
		cancel()
		<-done
	}
}

// mayTry reports whether another try may begin.
func (e *Engine) mayTry(ctx context.Context) bool {
	e.courier.mu.Lock()
	defer e.courier.mu.Unlock()
	return !e.stopped(ctx) && (e.courier.until.IsZero() || time.Now().Before(e.courier.until))
}

// endsRuns are the commands that may have something to tell.
var endsRuns = []string{"run", "cancel", "skip", "mark", "reconcile"}

// settleDeliveries delivers what is due, and tries once more what has just failed for the first time. No command fails
// because of it. A try that has begun ends within its own timeout.
func (e *Engine) settleDeliveries(ctx context.Context) {
	until := time.Now().Add(deliveryPatience)
	e.courier.settle(ctx, until)
	if len(e.Config.Notifications) == 0 {
		return
	}
	for {
		again := e.deliverDue(ctx)
		if again == 0 || time.Until(until) < again || e.stopped(ctx) {
			return
		}
		select {
		case <-time.After(again):
		case <-e.Stop:
		case <-ctx.Done():
		}
	}
}

// deliverDue tries the notifications that are due, each webhook's one after the other, and returns how soon one that failed
// for the first time is tried again; 0 for none.
func (e *Engine) deliverDue(ctx context.Context) (again time.Duration) {
	ends := make(chan time.Duration)
	for i := range e.Config.Notifications {
		go func() { ends <- e.deliverTo(ctx, &e.Config.Notifications[i]) }()
	}
	for range e.Config.Notifications {
		again = sooner(again, <-ends)
	}
	return again
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// deliverTo sends a webhook what is due. One that does not answer at all is left alone after the first try.
func (e *Engine) deliverTo(ctx context.Context, w *config.Webhook) (again time.Duration) {
	for e.mayTry(ctx) {
		m, err := e.Store.ClaimNotification(ctx, w.Name, w.Timeout+time.Minute)
		if err != nil && ctx.Err() == nil {
			e.Log.Warn("notifications are left for later: " + err.Error())
		}
		if err != nil || m == nil {
			return again
		}
		d := e.try(ctx, w, m)
		faultpoint.Hit("notification sent")
		// What came of the try is recorded even if the command is interrupted meanwhile.
		if err := e.Store.EndNotification(context.WithoutCancel(ctx), d); err != nil {
			e.Log.Warn(fmt.Sprintf("what webhook %s answered could not be recorded, so it is told again: %v", w.Name, err))
			return again
		}
		if d.Status == store.NotificationPending && m.Try == 1 {
			again = sooner(again, d.RetryIn)
		}
		if d.Status != store.NotificationDelivered && d.HTTPStatus == 0 {
			return again
		}
	}
	return again
}

// try sends a webhook one message.
func (e *Engine) try(ctx context.Context, w *config.Webhook, m *store.Message) store.Delivery {
	d := store.Delivery{ID: m.ID, Status: store.NotificationDelivered}
	var err error
	if d.HTTPStatus, err = post(ctx, w, m.MessageID, m.Body); err == nil {
		return d
	}
	d.Status, d.Error = store.NotificationFailed, err.Error()
	d.RetryIn = retryDelays[min(m.Try, len(retryDelays))-1]
	outlook := "it is given up"
	if m.Age+d.RetryIn < giveUpAfter {
		d.Status, outlook = store.NotificationPending, "it is tried again"
	}
	e.Log.Warn(fmt.Sprintf("webhook %s did not take notification %d (try %d): %v; %s", w.Name, m.ID, m.Try, err, outlook))
	return d
}

// client posts to webhooks. It does not follow redirects: the signed message is for the address that was configured.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// post sends one message, signed as https://www.standardwebhooks.com describes. The error does not show the URL.
func post(ctx context.Context, w *config.Webhook, id, body string) (status int, err error) {
	within, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(within, http.MethodPost, w.URL, strings.NewReader(body))
	if err != nil {
		return 0, errors.New("the url of the webhook cannot be used")
	}
	now := time.Now()
	signature, err := sign(w.Secret, id, now, body)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "etl-craft")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	answer, err := client.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		switch {
		case within.Err() == nil:
		case ctx.Err() != nil:
			err = fmt.Errorf("the command ended before it answered: %w", ctx.Err())
		default:
			err = fmt.Errorf("no answer within %v", w.Timeout)
		}
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return answer.StatusCode, fmt.Errorf("it answered %s", answer.Status)
	}
	return answer.StatusCode, nil
}

func sign(secret, id string, at time.Time, body string) (string, error) {
	webhook, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	if key, ok := strings.CutPrefix(secret, "whsec_"); ok {
		webhook, err = standardwebhooks.NewWebhook(key)
	}
	if err != nil {
		return "", err
	}
	return webhook.Sign(id, at, []byte(body))
}

// noteSLA records that the run has taken longer than its SLA, and tells who listens.
func (w *work) noteSLA(ctx context.Context, now store.Signal) {
	if !now.SLAPassed {
		return
	}
	breached, err := w.e.Store.BreachSLA(ctx, w.run.ID)
	if err != nil || !breached {
		return // the Engine DB is asked again at the next look; or another process has recorded it
	}
	w.e.Log.Warn(fmt.Sprintf("run %d has taken longer than the %v hours of its SLA", w.run.ID, *w.g.Pipeline.SLAHours), "pipeline", w.g.Pipeline.Code)
	w.e.deliverSoon(ctx)
}

// NotificationsDocument is etl-craft/notifications/1.
type NotificationsDocument struct {
	Schema        string                 `json:"schema"`
	Notifications []NotificationDocument `json:"notifications"` // the newest first
}

// NotificationDocument is one notification of a NotificationsDocument.
type NotificationDocument struct {
	ID            int64          `json:"id"`
	MessageID     string         `json:"message_id"`
	Pipeline      string         `json:"pipeline"`
	PipelineRunID int64          `json:"pipeline_run_id"`
	Event         string         `json:"event"`
	Webhook       string         `json:"webhook"`
	Status        string         `json:"status"` // PENDING, DELIVERED or FAILED
	CreatedAt     Time           `json:"created_at"`
	Tries         int            `json:"tries"`
	LastTryAt     *Time          `json:"last_try_at"`
	NextTryAt     *Time          `json:"next_try_at"`
	HTTPStatus    *int           `json:"http_status"` // null when there was no answer
	Error         *ErrorDocument `json:"error"`
}

// Notifications lists the newest notifications, of one pipeline or, with "", of all. With deliver it first tries those
// that are due.
func (e *Engine) Notifications(ctx context.Context, pipeline string, limit int, deliver bool) (*NotificationsDocument, error) {
	pipelineID, err := e.pipelineID(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	if deliver {
		if len(e.Config.Notifications) == 0 {
			return nil, noWebhooks(e.Config.Profile)
		}
		e.settleDeliveries(ctx)
		if err := e.Store.GiveUpNotifications(ctx, giveUpAfter+time.Hour); err != nil {
			return nil, err
		}
	}
	list, err := e.Store.Notifications(ctx, pipelineID, limit)
	if err != nil {
		return nil, err
	}
	doc := &NotificationsDocument{Schema: "etl-craft/notifications/1", Notifications: []NotificationDocument{}}
	for _, n := range list {
		var failed *ErrorDocument
		if n.Error != "" {
			failed = &ErrorDocument{Code: string(fault.NotificationFailed), Message: n.Error}
		}
		doc.Notifications = append(doc.Notifications, NotificationDocument{
			ID: n.ID, MessageID: n.MessageID, Pipeline: n.Pipeline, PipelineRunID: n.RunID, Event: n.Event, Webhook: n.Webhook, Status: n.Status,
			CreatedAt: Time{n.CreatedAt}, Tries: n.Tries, LastTryAt: timeOrNil(n.LastTryAt), NextTryAt: timeOrNil(n.NextTryAt),
			HTTPStatus: n.HTTPStatus, Error: failed,
		})
	}
	return doc, nil
}

func noWebhooks(profile string) error {
	return fault.New(fault.Usage, "the profile %s has no webhooks", profile).WithHint("add one under notifications in etl-craft.yml")
}

// TestWebhook sends a message with the event TEST, which is not recorded, and returns the status of the answer.
func (e *Engine) TestWebhook(ctx context.Context, name string) (int, error) {
	if len(e.Config.Notifications) == 0 {
		return 0, noWebhooks(e.Config.Profile)
	}
	var known []string
	for i := range e.Config.Notifications {
		w := &e.Config.Notifications[i]
		if w.Name != name {
			known = append(known, w.Name)
			continue
		}
		body := fmt.Sprintf(`{"schema":"etl-craft/notification/1","event":"TEST","profile":%q}`, e.Config.Profile)
		status, err := post(ctx, w, "msg_"+newKey(), body)
		if err != nil {
			return status, fault.New(fault.NotificationFailed, "webhook %s did not take the test message: %w", name, err).
				WithHint("look at url and secret of notifications.%s", name)
		}
		return status, nil
	}
	hint := "known: " + strings.Join(known, ", ")
	if near := nearest.Of(name, known); near != "" {
		hint += "; did you mean " + near + "?"
	}
	return 0, fault.New(fault.Usage, "the profile %s has no webhook %s", e.Config.Profile, name).WithHint("%s", hint)
}
