package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// logFolder is orchestration.log_dir, out of which no link leads.
type logFolder struct {
	dir  string
	root *os.Root // nil when there is no such folder
}

func openLogFolder(dir string) (*logFolder, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &logFolder{dir: dir}, nil
	}
	if err != nil {
		return nil, fault.New(fault.Internal, "the folder of the logs cannot be opened: %w", err).WithHint("see orchestration.log_dir")
	}
	return &logFolder{dir, root}, nil
}

func (l *logFolder) close() error {
	if l.root == nil {
		return nil
	}
	return l.root.Close()
}

// errElsewhere is for a log that is not in the folder.
var errElsewhere = errors.New("not in the folder of the logs")

// remove removes the log of an attempt and the plan beside it, those that are there, and says how many and how large they
// were. With dryRun it only looks.
func (l *logFolder) remove(path string, dryRun bool) (files, bytes int64, err error) {
	name, err := filepath.Rel(l.dir, path)
	if err != nil || !filepath.IsLocal(name) {
		return 0, 0, errElsewhere
	}
	if l.root == nil {
		return 0, 0, nil
	}
	for _, name := range []string{name, strings.TrimSuffix(name, ".log") + ".plan.sql"} {
		info, err := l.root.Lstat(name)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil && !dryRun {
			err = l.root.Remove(name)
		}
		var known syscall.Errno
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		case err != nil && !errors.As(err, &known): // a link leads out of the folder
			return files, bytes, errElsewhere
		case err != nil:
			return files, bytes, fault.New(fault.Internal, "the log cannot be removed: %w", err).WithHint("see who owns %s", filepath.Join(l.dir, name))
		default:
			files++
			bytes += info.Size()
		}
	}
	return files, bytes, nil
}

// removeFolders removes the folders that these logs were in, those that are empty.
func (l *logFolder) removeFolders(paths []string) {
	if l.root == nil {
		return
	}
	done := map[string]bool{}
	for _, path := range paths {
		name, err := filepath.Rel(l.dir, filepath.Dir(path))
		if err != nil || name == "." || !filepath.IsLocal(name) || done[name] {
			continue
		}
		done[name] = true
		if info, err := l.root.Lstat(name); err != nil || !info.IsDir() {
			continue
		}
		_ = l.root.Remove(name) // fails when something else is in it
	}
}
