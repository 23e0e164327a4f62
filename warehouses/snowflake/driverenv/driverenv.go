// Package driverenv keeps Snowflake's driver from looking around when it is loaded: from asking the cloud's metadata service
// where it runs, and from loading a native library of its own for telemetry. It reads both settings from the environment, the
// second before main begins. This package imports nothing that could begin later than the driver, and its path sorts before
// the driver's, so that it is initialized first.
package driverenv

import "os"

func init() {
	_ = os.Setenv("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
	_ = os.Setenv("SF_DISABLE_MINICORE", "true")
}
