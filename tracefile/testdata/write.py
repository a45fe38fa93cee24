"""Writes a recording in the ways in which pandas and DuckDB write its columns:

    write.py RECORDING.parquet DIRECTORY

Files in DIRECTORY/all have the whole recording, those in DIRECTORY/first only its first group, and
those in DIRECTORY/required only the required columns."""

import pathlib
import sys

import duckdb
import pandas

base, directory = sys.argv[1], pathlib.Path(sys.argv[2])
for name in "all", "first", "required":
    (directory / name).mkdir()
frame = pandas.read_parquet(base)
whole, first = directory / "all", directory / "first"


def with_columns(**columns):
    return frame.assign(**columns)


def parquet(name, data, **options):
    data.to_parquet(whole / f"parquet-{name}.parquet", **options)


def csv(name, data, ending="csv", **options):
    data.to_csv(whole / f"{name}.{ending}", **{"index": False, **options})


times = ["interval_ns", "usage_ns", "throttled_time_ns", "burst_time_ns", "period_ns", "burst_ns", "nominal_interval_ns", "waited_ns"]
counts = ["periods", "throttled_periods", "burst_periods"]
quota = frame.quota_ns.astype("Int64")
unix = frame.time.dt.tz_localize(None).astype("datetime64[ns]").astype("int64")

# Parquet.
parquet("default", frame)
parquet("brotli", frame, compression="brotli")
parquet("spark", frame, flavor="spark")
parquet("index", frame.set_index("time"))
parquet("two-indexes", frame.set_index(["group", "time"]))
parquet("nullable", with_columns(quota_ns=quota, name=frame.name.astype("category")))
parquet("floats", frame.astype({c: "float64" for c in times + counts}))
parquet("texts", with_columns(time=frame.time.astype(str)).astype({c: str for c in times + counts}))
parquet("time-ms", with_columns(time=frame.time.dt.as_unit("ms").dt.tz_convert("Asia/Kolkata")))
parquet("late-nulls", with_columns(late=frame.late.astype("boolean").where(frame.late)))
parquet("more", with_columns(mood="good", points=[[1, 2]] * len(frame), index=7).rename_axis("row"))
only = frame[frame.group == frame.group[0]]
nulls = ["name", "quota_ns", "burst_ns"]
only.to_parquet(first / "parquet-subset.parquet")
only.to_csv(first / "subset.csv")
only.assign(**{c: None for c in nulls}).to_parquet(first / "none.parquet")
required = frame[["time", "group", "interval_ns", "usage_ns"]]
required.to_parquet(directory / "required" / "parquet.parquet")
required.to_csv(directory / "required" / "pandas.csv")

# CSV.
csv("default", frame, index=True)
csv("no-index", frame)
csv("gzip", frame, "csv.gz")
csv("bzip2", frame, "csv.bz2")
csv("gzip-unnamed", frame, "dat", compression="gzip")
for word in "NaN", "null", "None", "NA", "N/A", "<NA>", "\\N":
    csv(f"missing-{word.strip('<>').replace('/', '')}", frame, na_rep=word)
for name, separator in ("semicolons", ";"), ("tabs", "\t"), ("bars", "|"):
    csv(name, frame, sep=separator)
csv("quoted", frame, quoting=1)
csv("quoted-mark", frame, quoting=1, encoding="utf-8-sig")
csv("mark", frame, encoding="utf-8-sig")
csv("crlf", frame, lineterminator="\r\n")
csv("floats", frame.astype({c: "float64" for c in times + counts}))
csv("exponents", frame.astype({c: "float64" for c in times}), float_format="%.12e")
csv("late-integers", with_columns(late=frame.late.astype(int)))
csv("late-words", with_columns(late=frame.late.astype(str).str.upper()))
for unit, ns in ("ms", 10**6), ("us", 10**3), ("ns", 1):
    csv(f"time-int-{unit}", with_columns(time=unix // ns))
csv("time-float", with_columns(time=[f"{t // 10**9}.{t % 10**9:09d}" for t in unix]))
csv("time-float-s", with_columns(time=unix / 1e9))
for i, form in enumerate(["%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S.%f %z", "%Y-%m-%d %H:%M:%S.%f UTC"]):
    csv(f"time-form-{i}", frame, date_format=form)
csv("time-zone", with_columns(time=frame.time.dt.tz_convert("America/St_Johns")))

# DuckDB.
connection = duckdb.connect()
connection.execute("SET TimeZone = 'Europe/Berlin'")
connection.execute(f"CREATE TABLE rows AS SELECT * FROM read_parquet('{base}')")
summed = "time, \"group\", any_value(name) AS name, " + ", ".join(f"sum({c}) AS {c}" for c in ["interval_ns", "usage_ns", *counts, "throttled_time_ns", "burst_time_ns", "quota_ns", "period_ns", "burst_ns", "waited_ns"]) + ", bool_or(late) AS late, max(nominal_interval_ns) AS nominal_interval_ns"
for name, query in {
    "rows": "SELECT * FROM rows",
    "sums": f"SELECT {summed} FROM rows GROUP BY ALL ORDER BY \"group\", time",
    "naive": "SELECT * REPLACE (time::TIMESTAMPTZ AT TIME ZONE 'UTC' AS time) FROM rows",
    "texts": "SELECT COLUMNS(*)::VARCHAR FROM rows",
    "doubles": "SELECT * REPLACE (usage_ns::DOUBLE AS usage_ns, epoch_us(time::TIMESTAMPTZ) AS time) FROM rows",
}.items():
    connection.execute(f"COPY ({query}) TO '{whole}/duckdb-{name}.parquet' (FORMAT parquet)")
    for codec in "none", "gzip", "zstd":
        connection.execute(f"COPY ({query}) TO '{whole}/duckdb-{name}-{codec}.csv' (FORMAT csv, COMPRESSION {codec})")
    connection.execute(f"COPY ({query}) TO '{whole}/duckdb-{name}-semicolons.csv' (FORMAT csv, DELIMITER ';', NULL 'NULL', FORCE_QUOTE *)")
