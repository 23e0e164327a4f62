"""Runs fakesnow, with its arguments, and repairs three things that a client of gosnowflake needs.

NULL timestamps: fakesnow builds their Arrow struct without a mask, so that gosnowflake reads 1970-01-01. They get one.

Errors of DuckDB that fakesnow does not know (constraints, values out of range, transactions) become HTTP 500, which gosnowflake
repeats until its deadline and reports without the text. They become errors of SQL: 100072 for NOT NULL, else 603, both 22000.

What fakesnow cannot translate becomes HTTP 500 too. It becomes error 9999 (99999).
"""

import sys

import duckdb
import fakesnow.arrow
import fakesnow.cli
import fakesnow.cursor
import pyarrow
import pyarrow.compute
from snowflake.connector.errors import ProgrammingError

timestamps_without_mask = fakesnow.arrow.timestamp_to_sf_struct
execute_unknowing = fakesnow.cursor.FakeSnowflakeCursor.execute


def timestamps(values):
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    struct = timestamps_without_mask(values)
    if values.null_count == 0:
        return struct
    fields = [struct.type.field(i) for i in range(struct.type.num_fields)]
    children = [pyarrow.compute.fill_null(struct.field(i), 0) for i in range(struct.type.num_fields)]
    return pyarrow.StructArray.from_arrays(arrays=children, fields=fields, mask=pyarrow.compute.is_null(values))


def execute(self, *args, **kwargs):
    try:
        return execute_unknowing(self, *args, **kwargs)
    except duckdb.Error as e:
        number = 100072 if "NOT NULL constraint" in str(e) else 603
        raise ProgrammingError(msg=str(e), errno=number, sqlstate="22000") from None
    except (AssertionError, NotImplementedError, ValueError) as e:
        message = "fakesnow: unsupported: %s: %s" % (type(e).__name__, e)
        raise ProgrammingError(msg=message, errno=9999, sqlstate="99999") from None


fakesnow.arrow.timestamp_to_sf_struct = timestamps
fakesnow.cursor.FakeSnowflakeCursor.execute = execute

if __name__ == "__main__":
    sys.exit(fakesnow.cli.main(sys.argv[1:]))
