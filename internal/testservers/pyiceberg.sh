#!/usr/bin/env bash
# Fetches pyiceberg, for tests that read back with another implementation what DuckDB wrote into Iceberg tables.
#
#   pyiceberg.sh    prints "export ETL_CRAFT_TEST_PYICEBERG=PYTHON", a Python that runs pyiceberg/rows.py: see there
#
# It is safe to repeat. pip fetches what pyiceberg/requirements.txt pins once into
# ${XDG_CACHE_HOME:-$HOME/.cache}/etl-craft-test, 280 MB.
#
# Needs bash, flock and python3, from 3.11, with venv.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

[ $# -eq 0 ] || die "usage: $(basename "$0")"
need python3 "install it with venv (Debian: apt-get install python3-venv)"
python_with pyiceberg "$(cd "$(dirname "$0")" && pwd)/pyiceberg/requirements.txt"
exported ETL_CRAFT_TEST_PYICEBERG "$python"
