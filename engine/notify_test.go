package engine

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver is a webhook that checks signatures with the library that receivers use.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []store.NotificationBody
	ids    []string
	answer func(number int) int // status for the request with this number, from 1; nil is 204
}

func newReceiver(t *testing.T, b *bench) *receiver {
	t.Helper()
	r := &receiver{}
	verifier, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		if err := verifier.Verify(text, req.Header); err != nil || req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v: %v", req.Method, req.Header, err)
		}
		var body store.NotificationBody
		if err := json.Unmarshal(text, &body); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies = append(r.bodies, body)
		r.ids = append(r.ids, req.Header.Get(standardwebhooks.HeaderWebhookID))
		status := http.StatusNoContent
		if r.answer != nil {
			status = r.answer(len(r.bodies))
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	hook := config.Webhook{Name: "ops", URL: r.URL + "/hook?token=hidden", Secret: webhookSecret, On: []string{"FAILED", "CANCELLED", "SLA_BREACHED"}, Timeout: 5 * time.Second}
	b.change = func(c *config.Config) { c.Notifications = []config.Webhook{hook}; c.Profile = "prod" }
	return r
}

// events is what the webhook was told, as "EVENT pipeline".
func (r *receiver) events() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, body := range r.bodies {
		all = append(all, body.Event+" "+body.Pipeline)
	}
	return strings.Join(all, ", ")
}

func (b *bench) notifications() string {
	b.t.Helper()
	doc, err := b.engine().Notifications(context.Background(), "", 100, false)
	if err != nil {
		b.t.Fatal(err)
	}
	var all []string
	for _, n := range doc.Notifications {
		all = append([]string{n.Event + " " + n.Status}, all...)
	}
	return strings.Join(all, ", ")
}

func TestWebhookIsTold(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	b.apply("a", "b: a")
	b.script.on("a", fails)
	doc, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	if got := r.events(); got != "FAILED SALES" {
		t.Fatalf("told %q", got)
	}
	body := r.bodies[0]
	if body.PipelineRunID != doc.PipelineRunID || body.Profile != "prod" || body.Tasks["SKIPPED"] != 1 || len(body.FailedTasks) != 1 || body.FailedTasks[0].Task != "a" ||
		*body.FailedTasks[0].ErrorStep != "stage the SELECT" || *body.FailedTasks[0].ErrorHint != "divide by something else" {
		t.Errorf("%+v", body)
	}
	b.script.on("a", nil)
	b.mustRun(RunRequest{RunID: doc.PipelineRunID}) // SUCCESS is not told
	if got := b.notifications(); got != "FAILED DELIVERED" {
		t.Errorf("recorded %q", got)
	}
}

// TestWebhookDown has no answer, then refusals: the run is none the worse, and a later command delivers, once.
func TestWebhookDown(t *testing.T) {
	delays := retryDelays
	retryDelays = []time.Duration{10 * time.Millisecond, time.Hour}
	defer func() { retryDelays = delays }()
	b := newBench(t)
	r := newReceiver(t, b)
	b.apply("a")
	b.script.on("a", fails)
	r.answer = func(int) int { return http.StatusServiceUnavailable }
	doc, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	if doc.Status != store.Failed {
		t.Fatal(doc.Status)
	}
	if got := b.notifications(); got != "FAILED PENDING" {
		t.Fatalf("recorded %q", got)
	}
	list, err := b.engine().Notifications(context.Background(), "SALES", 1, false)
	if err != nil {
		t.Fatal(err)
	}
	n := list.Notifications[0]
	if *n.HTTPStatus != 503 || n.Error.Message != "it answered 503 Service Unavailable" || n.NextTryAt == nil || n.Tries != 2 {
		t.Fatalf("%+v", n)
	}
	r.answer = nil
	if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_NOTIFICATIONS SET NEXT_TRY_AT = CREATED_AT"); err != nil {
		t.Fatal(err)
	}
	b.script.on("a", nil)
	b.mustRun(RunRequest{RunID: doc.PipelineRunID})
	if got := b.notifications(); got != "FAILED DELIVERED" {
		t.Fatalf("recorded %q", got)
	}
	if len(r.ids) != 3 {
		t.Errorf("%d requests", len(r.ids))
	}
	for _, id := range r.ids {
		if id != r.ids[0] {
			t.Errorf("one notification has the ids %v", r.ids)
		}
	}
}

// TestWebhookGone gives an old notification up, and says what failed without the address.
func TestWebhookGone(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	b.apply("a")
	b.script.on("a", fails)
	r.Close()
	patience := deliveryPatience
	deliveryPatience = time.Millisecond
	defer func() { deliveryPatience = patience }()
	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_NOTIFICATIONS SET CREATED_AT = '2020-01-01T00:00:00.000000Z', NEXT_TRY_AT = '2020-01-01T00:00:00.000000Z'"); err != nil {
		t.Fatal(err)
	}
	deliveryPatience = patience
	doc, err := b.engine().Notifications(context.Background(), "", 1, true)
	if err != nil {
		t.Fatal(err)
	}
	n := doc.Notifications[0]
	if n.Status != store.NotificationFailed || n.NextTryAt != nil || n.HTTPStatus != nil || n.Error == nil || !strings.Contains(n.Error.Message, "connection refused") || strings.Contains(n.Error.Message, "hidden") {
		t.Fatalf("%+v %v", n, n.Error)
	}
	_, err = b.engine().TestWebhook(context.Background(), "ops")
	wantCode(t, err, fault.NotificationFailed, "ops", "connection refused")
	if strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
	_, err = b.engine().TestWebhook(context.Background(), "opps")
	wantCode(t, err, fault.Usage, "did you mean ops?")
}

// TestWebhookDoesNotFollow sends the signed message to the configured address only.
func TestWebhookDoesNotFollow(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	from := httptest.NewServer(http.RedirectHandler(r.URL, http.StatusTemporaryRedirect))
	defer from.Close()
	change := b.change
	b.change = func(c *config.Config) { change(c); c.Notifications[0].URL = from.URL }
	_, err := b.engine().TestWebhook(context.Background(), "ops")
	wantCode(t, err, fault.NotificationFailed, "307")
	if got := r.events(); got != "" {
		t.Errorf("told %q", got)
	}
}

// TestSLAPassesWhileRunning tells of an SLA while the run goes on, and only then of how it ended.
func TestSLAPassesWhileRunning(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	b.applyTo("SALES", "sla_hours: 1\nnotifications: { ops: [SUCCESS, SLA_BREACHED] }\n", "a")
	told := make(chan struct{})
	r.answer = func(n int) int {
		if n == 1 {
			close(told)
		}
		return 200
	}
	b.script.on("a", func(ctx context.Context, a *handlers.Attempt) (handlers.Result, error) {
		if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_PIPELINES_RUN_LOG SET START_DATE = '2020-01-01T00:00:00.000000Z'"); err != nil {
			return handlers.Result{}, err
		}
		return until(told)(ctx, a)
	})
	doc := b.mustRun(RunRequest{})
	wantStates(t, doc, store.Success, "a=SUCCESS")
	if got := r.events(); got != "SLA_BREACHED SALES, SUCCESS SALES" {
		t.Errorf("told %q", got)
	}
	if r.bodies[0].Status != store.InProgress || r.bodies[0].EndedAt != nil || *r.bodies[1].SLAStatus != "BREACHED" {
		t.Errorf("%+v", r.bodies)
	}
	history, err := b.engine().History(context.Background(), "SALES", 1)
	if err != nil || *history.Runs[0].SLAStatus != "BREACHED" {
		t.Error(history, err)
	}
}

// TestReconcileFindsSLA records the SLA of a run that nobody works on.
func TestReconcileFindsSLA(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	b.applyTo("SALES", "sla_hours: 1\n", "a", "b: a")
	b.script.on("a", func(context.Context, *handlers.Attempt) (handlers.Result, error) {
		close(b.stop)
		return wrote(1), nil
	})
	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.Interrupted)
	b.stop = make(chan struct{})
	if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_PIPELINES_RUN_LOG SET START_DATE = '2020-01-01T00:00:00.000000Z'"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		doc, err := b.engine().Reconcile(context.Background(), "")
		if err != nil || len(doc.Breached) != want {
			t.Fatalf("%+v %v", doc, err)
		}
	}
	if got := r.events(); got != "SLA_BREACHED SALES" {
		t.Errorf("told %q", got)
	}
}

// TestNotificationProblems names what is wrong with a pipeline's own notifications.
func TestNotificationProblems(t *testing.T) {
	b := newBench(t)
	newReceiver(t, b)
	b.applyTo("SALES", "notifications: { opps: [FAILED] }\n", "a")
	problems := func() string {
		doc, err := b.engine().Validate(context.Background(), ValidateRequest{Pipeline: "SALES"})
		if doc == nil {
			t.Fatal(err)
		}
		var all []string
		for _, p := range doc.Problems {
			if p.Code == fault.NotificationInvalid {
				all = append(all, p.Level+" "+p.Message)
			}
		}
		return strings.Join(all, "; ")
	}
	if got := problems(); got != "WARN the profile prod has no webhook opps, so that nobody is told" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		`{"NOTIFICATIONS": {"ops": ["FAILD"]}}`: `FAIL the webhook ops is to be told of "FAILD", which is no event`,
		`{"NOTIFICATIONS": ["ops"]}`:            `FAIL PIPELINE_PARAMETERS holds notifications that cannot be read`,
	} {
		if _, err := b.store.Backend().Writer.Exec("UPDATE CFG_PIPELINES SET PIPELINE_PARAMETERS = ?", text); err != nil {
			t.Fatal(err)
		}
		if got := problems(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestRefusedNotificationBlocksNothing has a webhook that never takes the news of one run: it hears of the others.
func TestRefusedNotificationBlocksNothing(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	b.apply("a")
	b.script.on("a", fails)
	refused := map[string]bool{}
	r.answer = func(n int) int {
		if body := r.bodies[n-1]; len(refused) == 0 || refused[body.RunDate] {
			refused[body.RunDate] = true
			return http.StatusBadRequest
		}
		return http.StatusNoContent
	}
	delays := retryDelays
	retryDelays = []time.Duration{time.Hour}
	defer func() { retryDelays = delays }()
	for _, date := range []string{"2026-09-01", "2026-09-02", "2026-09-03"} {
		if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_NOTIFICATIONS SET NEXT_TRY_AT = CREATED_AT WHERE NEXT_TRY_AT IS NOT NULL"); err != nil {
			t.Fatal(err)
		}
		_, err := b.run(RunRequest{RunDate: date})
		wantCode(t, err, fault.RunFailed)
	}
	if got := b.notifications(); got != "FAILED PENDING, FAILED DELIVERED, FAILED DELIVERED" {
		t.Errorf("recorded %q", got)
	}
}

// TestSlowWebhook answers well, but only when the test lets it: tries are one at a time, none begins when the command's
// patience or the first interrupt is over, and the last one is waited for.
func TestSlowWebhook(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	b.apply("a")
	b.script.on("a", fails)
	patience := deliveryPatience
	deliveryPatience = 0
	for _, date := range []string{"2026-09-01", "2026-09-02", "2026-09-03"} {
		_, err := b.run(RunRequest{RunDate: date})
		wantCode(t, err, fault.RunFailed)
	}
	deliveryPatience = patience
	if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_NOTIFICATIONS SET STATUS = 'PENDING', NEXT_TRY_AT = CREATED_AT"); err != nil {
		t.Fatal(err)
	}
	before := len(r.ids)
	arrived, let := make(chan struct{}, 10), make(chan struct{})
	r.answer = func(int) int {
		arrived <- struct{}{}
		<-let
		return http.StatusNoContent
	}
	e := b.engine()
	for range 20 {
		e.deliverSoon(context.Background())
	}
	<-arrived
	close(b.stop) // the first interrupt
	ended := make(chan struct{})
	go func() {
		e.settleDeliveries(context.Background())
		close(ended)
	}()
	select {
	case <-ended:
		t.Error("the try that had begun was not waited for")
	case <-arrived:
		t.Error("another try began")
	case <-time.After(50 * time.Millisecond):
	}
	close(let)
	<-ended
	if n := len(r.ids) - before; n != 1 {
		t.Errorf("%d tries", n)
	}
	b.stop = make(chan struct{})
}

// TestDeliveriesAtOnce asks for deliveries from everywhere.
func TestDeliveriesAtOnce(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, b)
	b.apply("a")
	b.script.on("a", fails)
	e := b.engine()
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 20 {
				e.deliverSoon(context.Background())
				if i%2 == 0 {
					e.settleDeliveries(context.Background())
				}
			}
		})
	}
	_, err := e.Run(context.Background(), RunRequest{Pipeline: "SALES"})
	wantCode(t, err, fault.RunFailed)
	wait.Wait()
	if got := r.events(); got != "FAILED SALES" {
		t.Errorf("told %q", got)
	}
}

// TestNotificationsAreGivenUp ends those of a webhook that is configured no more.
func TestNotificationsAreGivenUp(t *testing.T) {
	b := newBench(t)
	newReceiver(t, b)
	b.apply("a")
	b.script.on("a", fails)
	deliver := b.change
	patience := deliveryPatience
	deliveryPatience = 0
	defer func() { deliveryPatience = patience }()
	_, err := b.run(RunRequest{})
	wantCode(t, err, fault.RunFailed)
	if _, err := b.store.Backend().Writer.Exec("UPDATE AUD_NOTIFICATIONS SET STATUS = 'PENDING', NEXT_TRY_AT = CREATED_AT, ERROR = NULL, CREATED_AT = '2020-01-01T00:00:00.000000Z'"); err != nil {
		t.Fatal(err)
	}
	b.change = func(c *config.Config) { deliver(c); c.Notifications[0].Name = "renamed" }
	if _, err := b.engine().Reconcile(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	if got := b.notifications(); got != "FAILED FAILED" {
		t.Errorf("recorded %q", got)
	}
}
