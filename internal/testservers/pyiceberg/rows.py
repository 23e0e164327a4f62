"""Prints what an Iceberg table holds, as another implementation than the one that wrote it reads it.

    rows.py ADDRESS NAMESPACE TABLE

ADDRESS is what iceberg.sh exports. A JSON object: "fields" (name, type, required), "partitions", "snapshots" (how many), "rows" as
lists of values in the fields' order, and as text where JSON has no such type. The rows are in no order.
"""

import json
import math
import sys
import urllib.parse

from pyiceberg.catalog import load_catalog


def text(value):
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


def finite(value):
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def main(address, namespace, name):
    url = urllib.parse.urlsplit(address)
    query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
    endpoint = "http://" + url.netloc
    catalog = load_catalog(
        "test",
        **{
            "type": "rest",
            "uri": endpoint,
            "warehouse": query["warehouse"],
            "credential": query["client_id"] + ":" + query["client_secret"],
            "oauth2-server-uri": endpoint + "/v1/oauth/tokens",
            "s3.endpoint": "http://" + query["s3_endpoint"],
            "s3.access-key-id": query["s3_key_id"],
            "s3.secret-access-key": query["s3_secret"],
            "s3.region": query["s3_region"],
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        }
    )
    table = catalog.load_table((namespace, name))
    fields = table.schema().fields
    rows = [[finite(row[f.name]) for f in fields] for row in table.scan().to_arrow().to_pylist()]
    json.dump(
        {
            "fields": [{"name": f.name, "type": str(f.field_type), "required": f.required} for f in fields],
            "partitions": [p.name for p in table.spec().fields],
            "snapshots": len(table.metadata.snapshots),
            "rows": rows,
        },
        sys.stdout,
        default=text,
        allow_nan=False,
    )


if len(sys.argv) != 4:
    sys.exit(__doc__)
main(*sys.argv[1:])
