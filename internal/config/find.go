package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// FileName is the configuration's name in a project folder.
const FileName = "etl-craft.yml"

// Find returns the absolute path of the configuration: explicit (--config), else $ETL_CRAFT_CONFIG, else the nearest
// etl-craft.yml upward from the working directory. The first two may name the project folder. CONFIG_NOT_FOUND when
// there is none.
func Find(explicit string) (string, error) {
	if explicit != "" {
		return named(explicit, "--config")
	}
	if path := os.Getenv("ETL_CRAFT_CONFIG"); path != "" {
		return named(path, "$ETL_CRAFT_CONFIG")
	}
	start, err := os.Getwd()
	if err != nil {
		return "", fault.New(fault.ConfigNotFound, "the working directory cannot be read: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, FileName)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fault.New(fault.ConfigNotFound, "no %s in %s or above it", FileName, start).
				WithHint("etl-craft init my-project")
		}
	}
}

func named(path, by string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fault.New(fault.ConfigNotFound, "%s cannot be used: %w", by, err)
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
		_, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.ConfigNotFound, "%s, named by %s, does not exist", path, by).
			WithHint("name an %s or its folder; etl-craft init my-project makes one", FileName)
	}
	if err != nil {
		return "", fault.New(fault.ConfigNotFound, "%s, named by %s, cannot be read: %w", path, by, err)
	}
	return path, nil
}
