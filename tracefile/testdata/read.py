"""Reads Parquet files with pandas and with DuckDB, which must agree, and prints each row as JSON.
Reads an .npy file with numpy and prints its values."""

import json
import sys

import duckdb
import numpy
import pandas

*parquets, npy = sys.argv[1:]
times = ("time", "start")


def plain(value):
    """Converts a value for JSON; None if it is missing."""
    if value is None or value is pandas.NaT or value != value:
        return None
    if isinstance(value, float):
        if value != int(value):
            raise SystemExit(f"{value} is not a whole number")
        return int(value)
    return value.item() if hasattr(value, "item") else value


for parquet in parquets:
    frame = pandas.read_parquet(parquet)
    for time in frame.columns.intersection(times):
        if str(frame[time].dtype) != "datetime64[ns, UTC]":
            raise SystemExit(f"pandas: {time} is {frame[time].dtype}")
        frame[time] = frame[time].astype("int64")
    by_pandas = [{k: plain(v) for k, v in row.items()} for row in frame.to_dict("records")]

    columns = ", ".join(f'epoch_ns("{c}") AS "{c}"' if c in times else f'"{c}"' for c in frame.columns)
    query = duckdb.sql(f"SELECT {columns} FROM read_parquet('{parquet}')")
    by_duckdb = [dict(zip(query.columns, row)) for row in query.fetchall()]

    if by_pandas != by_duckdb:
        raise SystemExit("pandas and DuckDB read different rows")
    for row in by_duckdb:
        print(json.dumps(row))
vector = numpy.load(npy)
print(json.dumps({"dtype": str(vector.dtype), "values": vector.tolist()}))
