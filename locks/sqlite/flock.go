package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

const (
	exclusive = syscall.LOCK_EX
	shared    = syscall.LOCK_SH

	probeTries = 100
	probePause = time.Millisecond
)

// openLocked opens the file and takes its lock without waiting; nil, nil when somebody holds it. The file is closed in
// programs that this process starts (os.OpenFile sets O_CLOEXEC), so none of them can keep the lock.
func openLocked(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open a lock: %w", err)
		}
		ok, err := obtain(file)
		if err != nil || !ok {
			return nil, errors.Join(err, file.Close())
		}
		same, err := stillAt(path, file)
		if err != nil {
			return nil, errors.Join(err, unlock(file))
		}
		if same {
			return file, nil
		}
		// The file was removed or replaced between open and lock: nobody else sees this one.
		if err := unlock(file); err != nil {
			return nil, err
		}
	}
}

// obtain takes the lock. It is refused by a holder, and for an instant by somebody who probes; only where a shared lock
// is refused too there is a holder.
func obtain(file *os.File) (bool, error) {
	for range probeTries {
		if ok, err := tryFlock(file, exclusive); ok || err != nil {
			return ok, err
		}
		if ok, err := tryFlock(file, shared); !ok || err != nil {
			return false, err
		}
		if err := flock(file, syscall.LOCK_UN); err != nil {
			return false, err
		}
		time.Sleep(rand.N(probePause))
	}
	return false, nil
}

// tryFlock reports false when a lock of somebody else is in the way.
func tryFlock(file *os.File, how int) (bool, error) {
	err := flock(file, how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return &os.PathError{Op: "flock", Path: file.Name(), Err: err}
		}
	}
}

// unlock frees the lock before it closes the file: a child that is between fork and exec has the file open as well.
func unlock(file *os.File) error { return errors.Join(flock(file, syscall.LOCK_UN), file.Close()) }

func rewrite(file *os.File, text []byte) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt(text, 0)
	return err
}

// stillAt reports whether path names file.
func stillAt(path string, file *os.File) (bool, error) {
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	current, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, current), nil
}
