"""Writes a recording in every way in which pandas, pyarrow and DuckDB write its columns:

    write.py RECORDING.parquet DIRECTORY

Files in DIRECTORY/all have the whole recording, those in DIRECTORY/first only its first group, and
those in DIRECTORY/required only the required columns."""

import decimal
import pathlib
import sys

import duckdb
import pandas
import pyarrow
import pyarrow.parquet

base, directory = sys.argv[1], pathlib.Path(sys.argv[2])
for name in "all", "first", "required":
    (directory / name).mkdir()
frame = pandas.read_parquet(base)
table = pyarrow.parquet.read_table(base)
whole, first = directory / "all", directory / "first"


def with_columns(**columns):
    return frame.assign(**columns)


def parquet(name, data, **options):
    data.to_parquet(whole / f"{name}.parquet", **options)


def csv(name, data, ending="csv", **options):
    data.to_csv(whole / f"{name}.{ending}", **{"index": False, **options})


# Numbers of every type.
times = ["interval_ns", "usage_ns", "throttled_time_ns", "burst_time_ns", "period_ns", "burst_ns", "nominal_interval_ns", "waited_ns"]
counts = ["periods", "throttled_periods", "burst_periods"]
quota = frame.quota_ns.astype("Int64")
for kind in "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "Int8", "Int64", "UInt32", "Float64", "bool":
    parquet(f"counts-{kind}", frame.astype({c: kind for c in counts}))
for kind in "int64", "uint64", "float64", "Int64", "UInt64", "Float64":
    parquet(f"times-{kind}", frame.astype({c: kind for c in times}))
for kind in "Int64", "UInt64", "float64", "Float64":
    parquet(f"quota-{kind}", with_columns(quota_ns=quota.astype(kind)))
parquet("quota-object", with_columns(quota_ns=[None if q is pandas.NA else int(q) for q in quota]))
parquet("numbers-texts", frame.astype({c: str for c in times + counts}))
for digits, places in (12, 0), (18, 0), (38, 0), (20, 2), (18, 3):
    column = pyarrow.array([decimal.Decimal(int(u)).scaleb(0) for u in frame.usage_ns], pyarrow.decimal128(digits, places))
    i = table.schema.get_field_index("usage_ns")
    pyarrow.parquet.write_table(table.set_column(i, "usage_ns", column), whole / f"decimal-{digits}-{places}.parquet")
    pyarrow.parquet.write_table(table.set_column(i, "usage_ns", column), whole / f"decimal-integer-{digits}-{places}.parquet", store_decimal_as_integer=True)

# Times.
naive = frame.time.dt.tz_localize(None)
unix = naive.astype("datetime64[ns]").astype("int64")
for unit in "ms", "us", "ns":
    parquet(f"time-{unit}-utc", with_columns(time=frame.time.dt.as_unit(unit)))
    parquet(f"time-{unit}-naive", with_columns(time=naive.dt.as_unit(unit)))
    parquet(f"time-{unit}-zone", with_columns(time=frame.time.dt.as_unit(unit).dt.tz_convert("Asia/Kolkata")))
for unit, ns in ("ms", 10**6), ("us", 10**3), ("ns", 1):
    parquet(f"time-int-{unit}", with_columns(time=unix // ns))
    parquet(f"time-float-{unit}", with_columns(time=unix / ns))
    csv(f"time-int-{unit}", with_columns(time=unix // ns))
parquet("time-float-s", with_columns(time=(unix / 1e9)))
parquet("time-uint", with_columns(time=unix.astype("uint64")))
parquet("time-texts", with_columns(time=frame.time.astype(str)))
parquet("time-int96", frame, use_deprecated_int96_timestamps=True)
parquet("time-spark", frame, flavor="spark")
parquet("time-index", frame.set_index("time"))
parquet("two-indexes", frame.set_index(["group", "time"]))

# Texts and truth values.
parquet("categories", with_columns(group=frame.group.astype("category"), name=frame.name.astype("category")))
for kind in pyarrow.large_string(), pyarrow.string_view(), pyarrow.binary(), pyarrow.dictionary(pyarrow.int8(), pyarrow.string()):
    i = table.schema.get_field_index("group")
    pyarrow.parquet.write_table(table.set_column(i, "group", table["group"].cast(kind)), whole / f"group-{str(kind).split('<')[0]}.parquet")
for kind in "boolean", "uint8", "int64", "float64", "str":
    parquet(f"late-{kind}", with_columns(late=frame.late.astype(kind)))
parquet("late-nulls", with_columns(late=frame.late.astype("boolean").where(frame.late)))
parquet("late-nulls-runs", with_columns(late=frame.late.astype("boolean").where(frame.late)), data_page_version="2.0")

# Columns.
parquet("reordered", frame[frame.columns[::-1]])
parquet("more", with_columns(mood="good", points=[[1, 2]] * len(frame), index=7).rename_axis("row"))
parquet("unsorted-groups", frame.sort_values(["time", "group"]), row_group_size=7)
only = frame[frame.group == frame.group[0]]
nulls = ["name", "quota_ns", "burst_ns"]
only.to_parquet(first / "subset.parquet")
only.to_csv(first / "subset.csv")
only.assign(**{c: None for c in nulls}).to_parquet(first / "none.parquet")
only.assign(**{c: float("nan") for c in nulls}).to_parquet(first / "nan.parquet")
only.assign(**{c: pandas.Series(pandas.NA, only.index, "Int64") for c in nulls[1:]}).to_parquet(first / "na.parquet")
only.drop(columns=nulls).to_parquet(first / "dropped.parquet")
required = frame[["time", "group", "interval_ns", "usage_ns"]]
required.to_parquet(directory / "required" / "pandas.parquet")
required.to_csv(directory / "required" / "pandas.csv")

# Encodings.
for codec in "snappy", "gzip", "zstd", "lz4", "brotli", "none":
    for page in "1.0", "2.0":
        for dictionary in True, False:
            parquet(f"pages-{codec}-{page}-{dictionary}", frame, compression=codec, data_page_version=page, use_dictionary=dictionary)
for version in "1.0", "2.4", "2.6":
    parquet(f"version-{version}", frame, version=version)
parquet("split", frame.astype({c: "float64" for c in times}), use_dictionary=False, use_byte_stream_split=times)
parquet("split-integers", frame, use_dictionary=False, column_encoding={c: "BYTE_STREAM_SPLIT" for c in times})
parquet("deltas", frame, use_dictionary=False, column_encoding={"usage_ns": "DELTA_BINARY_PACKED", "group": "DELTA_LENGTH_BYTE_ARRAY"})
parquet("small-pages", frame, data_page_size=64, write_page_index=True, write_page_checksum=True)

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
    for codec in "snappy", "gzip", "zstd", "lz4_raw", "brotli", "uncompressed":
        for version in "V1", "V2":
            connection.execute(f"COPY ({query}) TO '{whole}/duckdb-{name}-{codec}-{version}.parquet' (FORMAT parquet, CODEC '{codec}', PARQUET_VERSION {version})")
    for codec in "none", "gzip", "zstd":
        connection.execute(f"COPY ({query}) TO '{whole}/duckdb-{name}-{codec}.csv' (FORMAT csv, COMPRESSION {codec})")
    connection.execute(f"COPY ({query}) TO '{whole}/duckdb-{name}-semicolons.csv' (FORMAT csv, DELIMITER ';', NULL 'NULL', FORCE_QUOTE *)")
