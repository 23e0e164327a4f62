// Package demo writes two small projects: the demo, a week of real flights with its data, and the project that a new
// user starts from. It writes files and runs nothing.
package demo

import (
	"embed"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sqlfiles "github.com/etl-craft/etl-craft/sql_files"

	"github.com/etl-craft/etl-craft/internal/fault"
)

//go:embed flights
var flightsProject embed.FS

//go:embed initproject
var initProject embed.FS

//go:embed data/*.csv.gz
var data embed.FS

//go:embed gitignore.txt
var gitignore []byte

// Query is a result worth reading once every day is loaded. SQL is for the demo's warehouse and only reads.
type Query struct {
	Title string
	SQL   string
}

// Days are the run dates of the demo, oldest first, as YYYY-MM-DD.
func Days() []string {
	return []string{"2013-02-04", "2013-02-05", "2013-02-06", "2013-02-07", "2013-02-08", "2013-02-09", "2013-02-10"}
}

// Pipelines are the codes of the demo's pipelines in the order in which they run on each day.
func Pipelines() []string { return []string{"LANDING", "FLIGHTS"} }

// Write makes dir the demo project, with its data. It refuses a folder that already holds a file it would write, and
// then writes nothing; only a .gitignore that is there is left as it is. The SELECTs name the data by its absolute path, so that the project runs from any working
// directory; a project that is moved must be written again.
func Write(dir string) error {
	root, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	files := project{".gitignore": gitignore}
	dataPath := sqlText(globText(filepath.ToSlash(filepath.Join(root, "data"))))
	err = errors.Join(
		files.add(flightsProject, "flights", "", nil),
		files.add(data, "data", "data", nil),
		files.add(sqlfiles.FS, ".", "sql_files", func(text string) string {
			return strings.ReplaceAll(text, "read_csv('data/", "read_csv('"+dataPath+"/")
		}),
	)
	if err != nil {
		return err
	}
	return files.write(root)
}

// WriteInit makes dir a small working project that needs no data: one pipeline of three tasks. It refuses a folder
// that already holds a file it would write, and then writes nothing; only a .gitignore that is there is left as it is.
func WriteInit(dir string) error {
	files := project{".gitignore": gitignore}
	if err := files.add(initProject, "initproject", "", nil); err != nil {
		return err
	}
	return files.write(dir)
}

// project is the content of files by their slash-separated path in the project folder.
type project map[string][]byte

// add takes every file of from below root, under the folder to, through edit unless that is nil.
func (p project) add(from fs.FS, root, to string, edit func(string) string) error {
	return fs.WalkDir(from, root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		if edit != nil {
			content = []byte(edit(string(content)))
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p[filepath.ToSlash(filepath.Join(to, name))] = content
		return nil
	})
}

func (p project) write(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if name != ".gitignore" {
			return fault.New(fault.FileExists, "%s exists already", path).
				WithHint("choose an empty folder, or remove the project in %s first", dir)
		}
		delete(p, name)
	}
	for name, content := range p {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// globText keeps read_csv from taking a character of the path for a pattern.
func globText(path string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(path)
}

func sqlText(path string) string { return strings.ReplaceAll(path, "'", "''") }
