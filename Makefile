# Builds, checks and tests etl-craft. Needs Go with cgo; `make test` also uses Maven, pip and apt-get, for the servers in
# internal/testservers.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SERVERS := $(or $(TMPDIR),/tmp)/etl-craft-servers-$(shell id -u)
PKG     := ./...

.PHONY: build test demo airflow-test bench servers servers-stop clean

# The program, as bin/etl-craft.
build:
	go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/etl-craft ./cmd/etl-craft

# Every check and test. `make test PKG=./locks/...` takes a part.
test:
	@scripts/test.sh $(PKG)

# A week of real flights through every action, in a new folder.
demo: build
	bin/etl-craft demo "$$(mktemp -d)/flights"

# The servers of the tests, to stay up for repeated runs of go test or make test: eval "$$(make -s servers)"
servers:
	@internal/testservers/all.sh start "$(SERVERS)"

# The measurements of bench/RESULTS.md, against servers that are up meanwhile. `make bench BENCH="-only cold"` takes a part.
bench:
	@exported=$$(internal/testservers/postgres.sh start "$(SERVERS)-bench") && eval "$$exported" && go run ./bench $(BENCH); \
		status=$$?; internal/testservers/postgres.sh stop "$(SERVERS)-bench"; exit $$status

# The DAG files of `etl-craft airflow` in a real Airflow, which is fetched from PyPI into a throw-away folder.
airflow-test:
	@internal/airflowtest/run.sh

servers-stop:
	@internal/testservers/all.sh stop "$(SERVERS)"

clean:
	rm -rf bin
