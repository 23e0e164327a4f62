//go:build !faultpoints

// Package faultpoint lets crash tests stop the process at a named point. A binary built without the tag faultpoints
// has none.
package faultpoint

// Hit marks a point that a crash test may choose.
func Hit(string) {}
