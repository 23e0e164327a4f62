// Command etl-craft runs pipelines of SQL tasks. It turns flags into a call on the engine and the engine's document into
// text or JSON, and does nothing else.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

// version is set when the program is built.
var version = "dev"

func main() { os.Exit(run()) }

// run is the whole program; it returns the exit code.
func run() int {
	signal.Ignore(syscall.SIGPIPE) // a reader of the output that goes away stops nothing
	return newProgram(os.Stdout, os.Stderr).run(os.Args[1:])
}
