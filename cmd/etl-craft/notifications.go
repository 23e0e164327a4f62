package main

import (
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func (p *program) notificationsCommand() *cli.Command {
	return &cli.Command{
		Name: "notifications", Usage: "lists what webhooks were told of runs, the newest first, and what came of it",
		Description: "etl-craft notifications --pipeline SALES\netl-craft notifications --deliver\netl-craft notifications --test ops",
		Flags: []cli.Flag{
			pipelineFlag(false),
			&cli.IntFlag{Name: "limit", Value: 20, Usage: "at most `N` notifications"},
			&cli.BoolFlag{Name: "deliver", Usage: "first deliver what is due, as every command that works on runs does at its end"},
			&cli.StringFlag{Name: "test", Usage: "send the webhook `NAME` a message with the event TEST, and list nothing"},
		},
		Action: func(c *cli.Context) (err error) {
			if c.Int("limit") < 1 {
				return fault.New(fault.Usage, "--limit is a number above 0")
			}
			name := c.String("test")
			if c.IsSet("test") && name == "" {
				return fault.New(fault.Usage, "--test names no webhook")
			}
			if name != "" && (c.Bool("deliver") || c.IsSet("pipeline") || c.IsSet("limit")) {
				return fault.New(fault.Usage, "--test stands alone")
			}
			project, err := p.open(c, needs{store: name == ""})
			if err != nil {
				return err
			}
			defer project.closeInto(&err)
			if name != "" {
				return p.testWebhook(c, project, name)
			}
			doc, err := project.Notifications(c.Context, c.String("pipeline"), c.Int("limit"), c.Bool("deliver"))
			if err != nil {
				return err
			}
			return p.answer(doc, func() string { return notificationsText(doc, p.out) }, nil)
		},
	}
}

func (p *program) testWebhook(c *cli.Context, project *openProject, name string) error {
	status, err := project.TestWebhook(c.Context, name)
	if err != nil {
		return err
	}
	doc := struct {
		Schema     string `json:"schema"`
		Webhook    string `json:"webhook"`
		HTTPStatus int    `json:"http_status"`
	}{"etl-craft/notification-test/1", name, status}
	return p.answer(doc, func() string { return fmt.Sprintf("webhook %s took the test message: HTTP %d\n", name, status) }, nil)
}

func notificationsText(doc *engine.NotificationsDocument, s *screen) string {
	if len(doc.Notifications) == 0 {
		return "no notifications\n"
	}
	var rows [][]string
	for _, n := range doc.Notifications {
		next, answer := "-", "-"
		if n.NextTryAt != nil {
			next = n.NextTryAt.UTC().Format(timeText)
		}
		switch {
		case n.Error != nil:
			answer = n.Error.Message
		case n.HTTPStatus != nil:
			answer = fmt.Sprintf("HTTP %d", *n.HTTPStatus)
		}
		rows = append(rows, []string{
			strconv.FormatInt(n.ID, 10), s.state(n.Status), n.Webhook, n.Event, n.Pipeline, strconv.FormatInt(n.PipelineRunID, 10),
			n.CreatedAt.UTC().Format(timeText), strconv.Itoa(n.Tries), next, answer,
		})
	}
	return s.table([]string{number + "ID", "STATE", "WEBHOOK", "EVENT", "PIPELINE", number + "RUN", "SINCE (UTC)", number + "TRIES", "NEXT TRY (UTC)", "ANSWER"}, rows)
}
