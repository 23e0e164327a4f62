package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts turns SIGINT, SIGTERM and SIGHUP into the two ways to stop: the first closes stop, the second cancels ctx. Until
// a command asks for both, the first already cancels. A terminal that closes may send SIGHUP twice, which counts once.
type interrupts struct {
	ctx  context.Context
	stop chan struct{}

	mu      sync.Mutex
	drains  bool
	stopped bool
	cancel  context.CancelFunc
	signals chan os.Signal
}

func catchInterrupts() *interrupts {
	i := &interrupts{stop: make(chan struct{}), signals: make(chan os.Signal, 4)}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	signal.Notify(i.signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(i.signals, syscall.SIGHUP)
	}
	go func() {
		for s := range i.signals {
			i.interrupt(s)
		}
	}()
	return i
}

func (i *interrupts) interrupt(s os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped && s == syscall.SIGHUP {
		return
	}
	if i.stopped || !i.drains {
		i.cancel()
	}
	if !i.stopped {
		i.stopped = true
		close(i.stop)
	}
}

// drain makes the first signal a request to finish what runs.
func (i *interrupts) drain() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drains = true
	return i.stop
}

func (i *interrupts) end() {
	signal.Stop(i.signals)
	close(i.signals)
	i.cancel()
}
