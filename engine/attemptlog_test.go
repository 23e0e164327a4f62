package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"
)

func TestLogLines(t *testing.T) {
	at := time.Date(2026, 9, 1, 5, 0, 1, 123456000, time.UTC)
	record := func(level slog.Level, message string, args ...any) slog.Record {
		r := slog.NewRecord(at, level, message, 0)
		r.Add(args...)
		return r
	}
	attributes := []slog.Attr{slog.Int("task_run_id", 412), slog.String("pipeline", "SALES"), slog.String("task", "load_customers"), slog.Int("attempt", 1)}

	var text bytes.Buffer
	h := NewLogHandler(&text, "text", slog.LevelInfo).WithAttrs(attributes)
	lines := []slog.Record{
		record(slog.LevelInfo, "stage the SELECT (0.84s)", "logger", "etl_craft.handlers.sql"),
		record(slog.LevelError, "the statement that failed", "sql", "SELECT 1\nFROM t"),
		record(slog.LevelDebug, "not shown"),
	}
	for _, r := range lines {
		if !h.Enabled(context.Background(), r.Level) {
			continue
		}
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	const where = "[task_run_id=412 pipeline=SALES task=load_customers attempt=1 at=2026-09-01T05:00:01.123456Z]"
	want := "INFO etl_craft.handlers.sql " + where + ": stage the SELECT (0.84s)\n" +
		"ERROR etl_craft.engine " + where + ": the statement that failed\n    SELECT 1\n    FROM t\n"
	if text.String() != want {
		t.Errorf("lines:\n%s\nwant:\n%s", text.String(), want)
	}

	var js bytes.Buffer
	h = NewLogHandler(&js, "json", slog.LevelInfo).WithAttrs(attributes)
	if err := h.Handle(context.Background(), lines[0]); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(js.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["at"] != "2026-09-01T05:00:01.123456Z" || got["message"] != "stage the SELECT (0.84s)" || got["logger"] != "etl_craft.handlers.sql" || got["task"] != "load_customers" {
		t.Errorf("JSON: %s", js.String())
	}
}
