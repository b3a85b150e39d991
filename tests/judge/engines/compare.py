"""Compares the tables of a lake, as a foreign engine reads them, with what the judge found in the traces.

usage: compare.py duckdb|datafusion LAKE EXPECTED.json...

A file of EXPECTED has an object: by the path of each trace the results of QUERIES, as judge::tables
returns them; null stands for results that are not known. Prints each difference. Exits with 1 if there is one.
"""

import collections
import decimal
import json
import os
import struct
import sys

# The number of differences that are shown for each trace and query.
SHOWN_MAX = 8

# Column trace_id comes first. It is left out of the results, which are compared trace by trace.
QUERIES = {
    "trace": "select trace_id, packets, events, bytes, lost_packets, open_slices from trace",
    "slices": """
        select trace_id, category, name, count(*), sum(dur), sum(self_dur), sum(depth) from slice
        where kind = 'slice' group by trace_id, category, name""",
    "instants": """
        select trace_id, category, name, count(*) from slice
        where kind = 'instant' group by trace_id, category, name""",
    "slices of threads": "select trace_id, thread_name, count(*) from slice group by trace_id, thread_name",
    "args": """
        select trace_id, flat_key, key, value_type, int_value, real_value, string_value, count(*) from args
        group by trace_id, flat_key, key, value_type, int_value, real_value, string_value""",
    "flows": """
        select flow.trace_id, a.name, b.name, count(*) from flow
        join slice a on a.trace_id = flow.trace_id and a.id = flow.slice_out
        join slice b on b.trace_id = flow.trace_id and b.id = flow.slice_in
        group by flow.trace_id, a.name, b.name""",
    # A sum of integers may need more than 64 bits.
    "counters": """
        select counter.trace_id, track.name, count(*), sum(cast(value_int as decimal(38, 0))) from counter
        join track on track.trace_id = counter.trace_id and track.id = counter.track_id
        where value_int is not null group by counter.trace_id, track.name""",
    "real counters": """
        select counter.trace_id, track.name, value, count(*) from counter
        join track on track.trace_id = counter.trace_id and track.id = counter.track_id
        where value_int is null group by counter.trace_id, track.name, value""",
    "processes": "select trace_id, pid from process",
    "threads": """
        select thread.trace_id, pid, tid from thread
        left join process on process.trace_id = thread.trace_id and process.upid = thread.upid""",
    # How many rows stand for unknown times does not matter.
    "thread states": """
        select thread_state.trace_id, tid, state, count(state), sum(dur) from thread_state
        join thread on thread.trace_id = thread_state.trace_id and thread.utid = thread_state.utid
        group by thread_state.trace_id, tid, state""",
    "cores": """
        select trace_id, cpu, count(*), sum(dur), min(ts), max(ts) from thread_state
        where state = 'Running' group by trace_id, cpu""",
    "accounts": """
        select trace_id, sequence, cause, sum(packets) from loss
        where kind = 'account' group by trace_id, sequence, cause""",
    "gaps": "select trace_id, sequence, count(*) from loss where kind = 'gap' group by trace_id, sequence",
    # The judge's schema is older than this one.
    "stats": "select trace_id, name, idx, value from stats where name <> 'traced_buf_chunks_relocated'",
}

# Rows of these tables are counted by the queries above.
TABLES = [
    "trace", "process", "thread", "track", "slice", "counter", "flow", "args", "thread_state", "loss", "stats",
]


def duckdb_engine(lake):
    import duckdb

    connection = duckdb.connect()
    for table in TABLES:
        files = os.path.join(lake, table, "**", "*.parquet").replace("'", "''")
        connection.sql(f"create view {table} as from read_parquet('{files}', hive_partitioning = true)")
    return lambda query: connection.sql(query).fetchall()


def datafusion_engine(lake):
    import datafusion

    context = datafusion.SessionContext()
    partitions = [("day", "string"), ("service", "string")]
    for table in TABLES:
        context.register_parquet(table, os.path.join(lake, table), table_partition_cols=partitions)

    def rows(query):
        batches = context.sql(query).collect()
        return [tuple(row.values()) for batch in batches for row in renamed(batch).to_pylist()]

    return rows


def renamed(batch):
    """Gives the columns different names: those of a join may have the same."""
    return batch.rename_columns([str(index) for index in range(batch.num_columns)])


def main(engine, lake, *expected_files):
    rows = {"duckdb": duckdb_engine, "datafusion": datafusion_engine}[engine](lake)
    traces = dict(rows("select trace_id, source from trace"))
    found = {trace: collections.defaultdict(list) for trace in traces.values()}
    for name, query in QUERIES.items():
        for trace_id, *cells in rows(query):
            found[traces[trace_id]][name].append(tuple(plain(cell) for cell in cells))
    differences = compared = 0
    for path in expected_files:
        with open(path) as file:
            expected = json.load(file)
        for trace, results in expected.items():
            if set(results) != set(QUERIES):
                sys.exit(f"{path}: the queries are others than those of this program")
            if trace not in found:
                print(f"{trace}: not in the lake")
                differences += 1
                continue
            for name in QUERIES:
                if results[name] is None:
                    continue
                wanted = [tuple(row) for row in results[name]]
                if name == "counters":
                    # The sums are texts, since they may need more than 64 bits.
                    wanted = [(track, count, int(total)) for track, count, total in wanted]
                compared += len(wanted)
                differences += report(f"{engine}: {trace}: {name}", found[trace][name], wanted)
    print(f"{engine}: {compared} rows compared, {differences} differences")
    return differences > 0


def plain(cell):
    """Makes a value one that JSON can have: of a floating-point number its bits."""
    if isinstance(cell, float):
        return struct.unpack("<Q", struct.pack("<d", cell))[0]
    if isinstance(cell, decimal.Decimal):
        return int(cell)
    return cell


def report(where, found, wanted):
    """Prints the rows that are in one list only. Returns their number."""
    found, wanted = collections.Counter(found), collections.Counter(wanted)
    more, less = found - wanted, wanted - found
    for what, rows in (("the engine has", more), ("the judge has", less)):
        for row in list(rows)[:SHOWN_MAX]:
            print(f"{where}: {what} {row}")
    return more.total() + less.total()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
