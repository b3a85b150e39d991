//! The tables of a lake, as foreign engines read them, have what the judge finds in the traces.

use std::path::PathBuf;
use std::{fs, process};

use judge::{Engines, ExtraSchema, Tool, tables};
use serde_json::{Map, Value as Json, json};
use support::{not_run, with_tracefs};

use crate::machine::{Machine, tool, wait_until};

/// Records the state of the machine, and events of all programs.
const CONFIG: &str = r#"
    buffers { size_kb: 32768 }
    data_sources { config {
      name: "linux.sys_stats"
      sys_stats_config {
        meminfo_period_ms: 100 meminfo_counters: MEMINFO_MEM_TOTAL stat_period_ms: 100
      }
    } }
    data_sources { config {
      name: "linux.process_stats"
      process_stats_config { scan_all_processes_on_start: true }
    } }
    data_sources { config { name: "track_event" } }
"#;

/// As above, into a buffer that is too small.
const SMALL_RING: &str = r#"
    buffers { size_kb: 64 }
    data_sources { config { name: "track_event" } }
"#;

/// Records what threads do, a program with spans, and what processes there are. `INSTANCE` and
/// `OPTIONS` are replaced.
const KERNEL: &str = r#"
    buffers { size_kb: 32768 }
    data_sources { config {
      name: "linux.ftrace"
      ftrace_config {
        ftrace_events: "sched/sched_switch"
        ftrace_events: "sched/sched_waking"
        ftrace_events: "sched/sched_wakeup_new"
        ftrace_events: "sched/sched_process_exit"
        ftrace_events: "sched/sched_process_free"
        ftrace_events: "task/task_newtask"
        ftrace_events: "task/task_rename"
        instance_name: "INSTANCE"
        OPTIONS
      }
    } }
    data_sources { config {
      name: "linux.process_stats"
      process_stats_config { scan_all_processes_on_start: true record_thread_names: true }
    } }
    data_sources { config { name: "track_event" } }
    duration_ms: 500
"#;

/// An instance of the kernel's tracer: recordings of others go on beside those of a test.
struct TracerInstance {
    name: String,
}

impl TracerInstance {
    fn new() -> Self {
        let instance = Self {
            name: format!("judge_{}", process::id()),
        };
        fs::create_dir(instance.folder()).unwrap();
        instance
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from("/sys/kernel/tracing/instances").join(&self.name)
    }
}

impl Drop for TracerInstance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.folder());
    }
}

/// A lake of recordings, and what it must have.
struct Exported<'a> {
    machine: &'a Machine,
    engines: Engines,
    /// By the path of each recording, the results of queries.
    expected: Json,
}

impl<'a> Exported<'a> {
    fn new(machine: &'a Machine, engines: Engines) -> Self {
        Self {
            machine,
            engines,
            expected: Json::Object(Map::new()),
        }
    }

    fn lake(&self) -> PathBuf {
        self.machine.file("lake")
    }

    fn add(&mut self, name: &str, trace: &[u8]) {
        let (path, lake) = (self.machine.file(name), self.lake());
        let export = ["export", "parquet"].map(AsRef::as_ref);
        let files = [path.as_os_str(), "-o".as_ref(), lake.as_os_str()];
        Tool::new(tool())
            .run(&[&export[..], &files].concat())
            .unwrap();
        *self.tables(name) = tables(trace, &ExtraSchema::new());
    }

    /// Returns what the lake must have of a recording.
    fn tables(&mut self, name: &str) -> &mut Json {
        let path = self.machine.file(name).display().to_string();
        &mut self.expected[path]
    }

    #[track_caller]
    fn check(&self) {
        for engine in Engines::NAMES {
            let differences = self.differences(engine);
            assert!(differences.is_empty(), "{}", differences.join("\n"));
        }
    }

    /// Checks that a wrong number is noticed in what the lake must have.
    #[track_caller]
    fn check_that_error_is_noticed(mut self, name: &str, query: &str, column: usize) {
        let sum = &mut self.tables(name)[query][0][column];
        *sum = json!(sum.as_i64().unwrap() + 1);
        for engine in Engines::NAMES {
            let differences = self.differences(engine);
            assert_eq!(differences.len(), 2, "{}", differences.join("\n"));
        }
    }

    fn differences(&self, engine: &str) -> Vec<String> {
        let engines = &self.engines;
        engines.differences(engine, &self.lake(), &self.expected)
    }
}

#[test]
fn engines_read_what_the_judge_finds_in_recordings_of_perfetto() {
    let Some(engines) = Engines::find() else {
        return not_run(Engines::SOURCE);
    };
    let Some(machine) = Machine::start() else {
        return;
    };
    let Some(_probes) = machine.probes() else {
        return;
    };
    wait_until(|| machine.query().contains("linux.sys_stats"));
    let mut exported = Exported::new(&machine, engines);
    for (name, config) in [("whole.pftrace", CONFIG), ("lapped.pftrace", SMALL_RING)] {
        let mut program = machine.program("spans");
        program.wait_for("connected");
        let recording = machine.record(name, config);
        program.wait_for("done");
        let trace = recording.finish();
        program.go_on();
        program.wait();
        exported.add(name, &trace);
        let has_lapped = has_lapped(exported.tables(name));
        assert_eq!(has_lapped, config == SMALL_RING, "{name}");
    }
    exported.check();
    exported.check_that_error_is_noticed("whole.pftrace", "slices", 3);
}

#[test]
fn engines_read_what_the_judge_finds_of_the_kernel() {
    with_tracefs(|| {
        let Some(engines) = Engines::find() else {
            return not_run(Engines::SOURCE);
        };
        let Some(machine) = Machine::start() else {
            return;
        };
        // It is removed after the producer has ended, which has its files open.
        let instance = TracerInstance::new();
        let Some(_probes) = machine.probes() else {
            return;
        };
        wait_until(|| machine.query().contains("linux.ftrace"));
        let mut exported = Exported::new(&machine, engines);
        for (name, options) in [
            ("compact.pftrace", "compact_sched { enabled: true }"),
            ("verbose.pftrace", "compact_sched { enabled: false }"),
            // The kernel's buffers are too small for a busy machine.
            ("lossy.pftrace", "buffer_size_kb: 4 drain_period_ms: 1000"),
        ] {
            let mut program = machine.program("spans");
            program.wait_for("connected");
            let config = KERNEL.replace("INSTANCE", &instance.name);
            let recording = machine.record(name, &config.replace("OPTIONS", options));
            program.wait_for("done");
            let trace = recording.wait();
            program.go_on();
            program.wait();
            exported.add(name, &trace);
            let tables = exported.tables(name);
            for state in ["Running", "R", "S"] {
                assert!(has_state(tables, state), "{name}: {tables:?}");
            }
        }
        exported.check();
        exported.check_that_error_is_noticed("compact.pftrace", "thread states", 3);
    });
}

/// Returns true if a buffer has overwritten chunks.
fn has_lapped(tables: &Json) -> bool {
    let mut stats = tables["stats"].as_array().unwrap().iter();
    stats.any(|row| row[0] == "traced_buf_chunks_overwritten" && row[2] != 0)
}

/// Returns true if a thread was in this state.
fn has_state(tables: &Json, state: &str) -> bool {
    let mut states = tables["thread states"].as_array().unwrap().iter();
    states.any(|row| row[1] == state)
}
