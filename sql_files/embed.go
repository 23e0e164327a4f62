// Package sqlfiles holds the SELECTs of the demo project: what a project keeps in its own sql_files folder.
package sqlfiles

import "embed"

// FS has the files under the paths that SOURCE_SQL_FILE names, such as flights/schedule.sql.
//
//go:embed flights/*.sql
var FS embed.FS
