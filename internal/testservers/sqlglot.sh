#!/usr/bin/env bash
# Fetches sqlglot, a parser of many dialects of SQL, for tests of statements that no server is at hand for.
#
#   sqlglot.sh    prints "export ETL_CRAFT_TEST_SQLGLOT=PYTHON", a Python that runs sqlglot/check.py: see there
#
# It is safe to repeat. Version and checksum are pinned in sqlglot/requirements.txt; pip fetches it once into
# ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test. The emulator of Snowflake has a sqlglot of its own, another version.
#
# Needs bash, flock and python3 with venv.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

[ $# -eq 0 ] || die "usage: $(basename "$0")"
need python3 "install it with venv (Debian: apt-get install python3-venv)"
python_with sqlglot "$(cd "$(dirname "$0")" && pwd)/sqlglot/requirements.txt"
exported ETL_CRAFT_TEST_SQLGLOT "$python"
