package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// loggerName is the logger of lines that name none.
const loggerName = "etl_craft.engine"

// attemptLog is the log of one attempt, a file of its own.
type attemptLog struct {
	*slog.Logger
	path string
	file *os.File
}

// openLog opens the log of an attempt, readable by its owner only. Every record carries the attributes. At level debug the
// records also go to those who watch.
func (e *Engine) openLog(path string, attributes ...slog.Attr) (*attemptLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fault.New(fault.Internal, "the folder of the logs cannot be made: %w", err).WithHint("see orchestration.log_dir")
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.New(fault.Internal, "the log cannot be opened: %w", err).WithHint("see orchestration.log_dir")
	}
	level := min(e.LogLevel, slog.LevelInfo)
	var h slog.Handler = NewLogHandler(file, e.LogFormat, level)
	if e.LogLevel <= slog.LevelDebug {
		h = both{h, e.Log.Handler()}
	}
	return &attemptLog{Logger: slog.New(h.WithAttrs(attributes)), path: path, file: file}, nil
}

func (l *attemptLog) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// both passes records to two handlers.
type both [2]slog.Handler

func (b both) Enabled(ctx context.Context, level slog.Level) bool {
	return b[0].Enabled(ctx, level) || b[1].Enabled(ctx, level)
}

func (b both) Handle(ctx context.Context, r slog.Record) error {
	for _, h := range b {
		if !h.Enabled(ctx, r.Level) {
			continue
		}
		if err := h.Handle(ctx, r.Clone()); err != nil {
			return err
		}
	}
	return nil
}

func (b both) WithAttrs(attributes []slog.Attr) slog.Handler {
	return both{b[0].WithAttrs(attributes), b[1].WithAttrs(attributes)}
}

func (b both) WithGroup(name string) slog.Handler {
	return both{b[0].WithGroup(name), b[1].WithGroup(name)}
}

// NewLogHandler writes log lines: as JSON when format is "json", else as
//
//	INFO etl_craft.handlers.sql [task_run_id=412 pipeline=SALES task=load_customers attempt=1 at=2026-09-01T05:00:01.123456Z]: stage the SELECT (0.84s)
//
// The attribute logger names the logger. An attribute of several lines, such as a statement, follows the line, indented.
func NewLogHandler(w io.Writer, format string, level slog.Level) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: jsonNames})
	}
	return &textHandler{w: w, mu: &sync.Mutex{}, level: level, logger: loggerName}
}

func jsonNames(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.TimeKey:
		return slog.String("at", a.Value.Time().UTC().Format(timeLayout))
	case a.Key == slog.MessageKey:
		a.Key = "message"
	}
	return a
}

type textHandler struct {
	w          io.Writer
	mu         *sync.Mutex
	level      slog.Level
	logger     string
	attributes []slog.Attr
}

func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *textHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	next := *h
	next.attributes = nil
	for _, a := range append(h.attributes[:len(h.attributes):len(h.attributes)], attributes...) {
		if a.Key == "logger" {
			next.logger = a.Value.String()
			continue
		}
		next.attributes = append(next.attributes, a)
	}
	return &next
}

// WithGroup is not used in the engine; names stay as they are.
func (h *textHandler) WithGroup(string) slog.Handler { return h }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	logger := h.logger
	fields := make([]string, 0, len(h.attributes)+r.NumAttrs()+1)
	for _, a := range h.attributes {
		fields = append(fields, a.Key+"="+a.Value.String())
	}
	var below strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		switch text := a.Value.String(); {
		case a.Key == "logger":
			logger = text
		case a.Key == "sql" || strings.Contains(text, "\n"):
			below.WriteString("    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n")
		default:
			fields = append(fields, a.Key+"="+text)
		}
		return true
	})
	fields = append(fields, "at="+r.Time.UTC().Format(timeLayout))
	line := fmt.Sprintf("%s %s [%s]: %s\n%s", r.Level, logger, strings.Join(fields, " "), r.Message, below.String())
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, line)
	return err
}
