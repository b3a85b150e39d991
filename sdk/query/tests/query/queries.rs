//! Queries that trace files and lakes answer alike: what people ask of traces.

/// A query.
#[derive(Debug)]
pub(crate) struct Query {
    /// What it asks for.
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    /// The number of rows of the answer over the tests' traces. `None` if that is different each time.
    pub(crate) rows: Option<usize>,
}

/// Returns a query whose answer has a number of rows.
const fn rows(name: &'static str, rows: usize, sql: &'static str) -> Query {
    let rows = Some(rows);
    Query { name, sql, rows }
}

/// Returns a query whose answer has some rows.
const fn some(name: &'static str, sql: &'static str) -> Query {
    Query {
        name,
        sql,
        rows: None,
    }
}

pub(crate) const QUERIES: &[Query] = &[
    rows(
        "p99 by name",
        5,
        "SELECT name, count(*) AS calls, percentile_cont(0.99) WITHIN GROUP (ORDER BY dur) AS p99
         FROM slice WHERE dur >= 0 AND kind = 'slice' GROUP BY name ORDER BY p99 DESC, name LIMIT 5",
    ),
    some(
        "self time by name",
        "SELECT category, name, sum(self_dur) AS self, sum(dur) AS total FROM slice
         WHERE dur >= 0 GROUP BY category, name ORDER BY self DESC, name",
    ),
    rows(
        "the slowest slices, with their places",
        10,
        "SELECT trace_id, id, name, dur, thread_name, process_name FROM slice
         ORDER BY dur DESC, trace_id, id LIMIT 10",
    ),
    some(
        "slices joined with threads and processes",
        "SELECT s.name, t.name AS thread, t.is_main_thread, p.name AS process, count(*) AS calls
         FROM slice s JOIN thread t ON s.trace_id = t.trace_id AND s.utid = t.utid
         JOIN process p ON t.trace_id = p.trace_id AND t.upid = p.upid
         GROUP BY s.name, t.name, t.is_main_thread, p.name",
    ),
    some(
        "slices joined with tracks, also of no thread",
        "SELECT t.kind, t.name AS track, s.name, count(*) AS n, count(s.utid) AS on_threads
         FROM slice s JOIN track t ON s.trace_id = t.trace_id AND s.track_id = t.id
         GROUP BY t.kind, t.name, s.name",
    ),
    some(
        "arguments of slices",
        "SELECT s.name, a.key, a.value_type, a.int_value, a.real_value, a.string_value, count(*) AS n
         FROM slice s JOIN args a ON s.trace_id = a.trace_id AND s.arg_set_id = a.arg_set_id
         WHERE a.key <> 'debug.number'
         GROUP BY s.name, a.key, a.value_type, a.int_value, a.real_value, a.string_value",
    ),
    rows(
        "a number that was promoted",
        2,
        "SELECT a_http_status AS status, count(*) AS n, min(dur) AS shortest FROM slice
         WHERE a_http_status IS NOT NULL GROUP BY a_http_status ORDER BY status",
    ),
    some(
        "what flows lead to, and how long that takes",
        "SELECT a.name AS sent, b.name AS received, b.thread_name, b.ts - a.ts - a.dur AS waited
         FROM flow f
         JOIN slice a ON f.trace_id = a.trace_id AND f.slice_out = a.id
         JOIN slice b ON f.trace_id = b.trace_id AND f.slice_in = b.id
         ORDER BY waited, b.trace_id, b.id",
    ),
    some(
        "paths of slices, by recursion",
        "WITH RECURSIVE paths AS (
             SELECT trace_id, id, name AS path, depth FROM slice WHERE parent_id IS NULL
             UNION ALL
             SELECT s.trace_id, s.id, p.path || ' > ' || s.name, s.depth
             FROM slice s JOIN paths p ON s.trace_id = p.trace_id AND s.parent_id = p.id
         )
         SELECT path, max(depth) AS depth, count(*) AS n FROM paths GROUP BY path",
    ),
    some(
        "counters over time, with their changes",
        "SELECT t.name, c.ts, c.value, c.value_int,
                c.value - lag(c.value) OVER (PARTITION BY c.trace_id, c.track_id ORDER BY c.ts) AS change
         FROM counter c JOIN track t ON c.trace_id = t.trace_id AND c.track_id = t.id
         ORDER BY c.ts, t.name, c.trace_id",
    ),
    rows(
        "the largest value of each counter",
        3,
        "SELECT t.name, max(c.value_int) AS largest, max(c.value) AS value, count(*) AS n
         FROM counter c JOIN track t USING (trace_id) WHERE t.id = c.track_id
         GROUP BY t.name ORDER BY t.name",
    ),
    some(
        "losses by cause",
        "SELECT service, kind, cause, count(*) AS places, sum(packets) AS packets FROM loss
         GROUP BY service, kind, cause",
    ),
    rows(
        "traces with losses, and how much they have",
        1,
        "SELECT source, events, lost_packets, gaps FROM trace WHERE lost_packets > 0 OR gaps > 1",
    ),
    some(
        "slices that are open",
        "SELECT service, name, dur, self_dur, track_name FROM slice WHERE dur = -1 ORDER BY trace_id, id",
    ),
    rows(
        "slices by day and service",
        2,
        "SELECT day, service, count(*) AS slices, count(DISTINCT trace_id) AS traces FROM slice
         GROUP BY day, service ORDER BY day, service",
    ),
    some(
        "slices of a service whose folder has an escaped name",
        "SELECT count(*) AS n FROM slice WHERE service = 'check-out / v2'",
    ),
    rows(
        "the second longest of each thread, by a window",
        4,
        "SELECT * FROM (
             SELECT trace_id, thread_name, name, dur,
                    row_number() OVER (PARTITION BY trace_id, utid ORDER BY dur DESC, id) AS place
             FROM slice WHERE kind = 'slice' AND thread_name LIKE 'worker-%'
         ) WHERE place = 2 ORDER BY trace_id, thread_name",
    ),
    some(
        "names that are often called, by HAVING over a CTE",
        "WITH calls AS (SELECT service, name, count(*) AS n FROM slice GROUP BY service, name)
         SELECT name, sum(n) AS calls FROM calls GROUP BY name HAVING sum(n) > 10 ORDER BY calls DESC, name",
    ),
    some(
        "values that are missing",
        "SELECT coalesce(a_tenant, 'nobody') AS tenant, count(a_tenant) AS known, count(*) AS n,
                count(*) FILTER (WHERE parent_id IS NULL) AS roots
         FROM slice GROUP BY a_tenant ORDER BY tenant",
    ),
    some(
        "how futures have ended",
        "SELECT name, kind, outcome, count(*) AS n FROM slice
         WHERE outcome IS NOT NULL GROUP BY name, kind, outcome",
    ),
    rows(
        "slices per depth",
        4,
        "SELECT least(depth, 3) AS level, count(*) AS n, count(*) * 100 / sum(count(*)) OVER () AS percent
         FROM slice GROUP BY least(depth, 3)
         UNION ALL SELECT -1, 0, 0 WHERE (SELECT max(depth) FROM slice) < 3 ORDER BY level",
    ),
    rows(
        "when traces were recorded",
        4,
        "SELECT source, start_time, date_trunc('hour', start_time) AS hour, dur FROM trace ORDER BY source",
    ),
    some(
        "classes of responses",
        "SELECT CASE WHEN a_http_status >= 500 THEN 'error' WHEN a_http_status IS NULL THEN 'none'
                ELSE 'fine' END AS class, count(*) AS n, avg(dur) AS mean
         FROM slice WHERE name = 'request' GROUP BY 1 ORDER BY 1",
    ),
    some(
        "texts taken apart",
        "SELECT DISTINCT upper(name) AS name, character_length(name) AS length,
                split_part(thread_name, '-', 2) AS worker, regexp_replace(name, '[aeiou]', '_', 'g') AS plain
         FROM slice WHERE name LIKE '%e%' ORDER BY 1, 3",
    ),
    some(
        "attributes of traces",
        "SELECT key, int_value, string_value, count(*) AS traces FROM trace_attr
         GROUP BY key, int_value, string_value",
    ),
    some(
        "statistics of the service that tell of losses",
        "SELECT service, name, severity, sum(value) AS value FROM stats
         WHERE severity <> 'info' GROUP BY service, name, severity",
    ),
    some(
        "faults by rule",
        "SELECT rule, level, sum(count) AS n, max(first_text) AS example FROM finding GROUP BY rule, level",
    ),
    some(
        "slices without arguments, by an anti join",
        "SELECT s.name, count(*) AS n FROM slice s
         WHERE NOT EXISTS (SELECT 1 FROM args a
                           WHERE a.trace_id = s.trace_id AND a.arg_set_id = s.arg_set_id)
         GROUP BY s.name",
    ),
    some(
        "pauses between slices of a thread",
        "SELECT thread_name, name, following, pause FROM (
             SELECT thread_name, name, ts, id,
                    lead(name) OVER w AS following, lead(ts) OVER w - (ts + dur) AS pause
             FROM slice WHERE depth = 0 AND dur >= 0 AND name <> 'loop'
             WINDOW w AS (PARTITION BY trace_id, track_id ORDER BY ts, id)
         ) WHERE pause IS NOT NULL ORDER BY pause DESC, ts LIMIT 20",
    ),
    some(
        "slices only of traces without losses and errors",
        "SELECT name, count(*) AS n FROM slice
         WHERE trace_id NOT IN (SELECT trace_id FROM loss)
           AND trace_id IN (SELECT trace_id FROM trace WHERE errors = 0)
         GROUP BY name",
    ),
    some(
        "names of the threads of each service, as a list",
        "SELECT service, array_agg(DISTINCT name ORDER BY name) AS threads FROM thread GROUP BY service",
    ),
    some(
        "sums and subtotals",
        "SELECT service, name, count(*) AS n FROM slice GROUP BY ROLLUP (service, name)",
    ),
    rows(
        "a table without rows",
        0,
        "SELECT ts, dur, state, waker_utid FROM thread_state WHERE dur > 0",
    ),
    rows("columns of a table", 22, "DESCRIBE slice"),
    some("all columns of slices", "SELECT * FROM slice"),
    some("all columns of tracks", "SELECT * FROM track"),
];
