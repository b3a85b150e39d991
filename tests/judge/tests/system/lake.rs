//! The tables of a lake, as foreign engines read them, have what the judge finds in the traces.

use std::fs;

use judge::{Engines, ExtraSchema, Tool, tables};
use serde_json::{Map, Value as Json, json};
use support::not_run;

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
    let lake = machine.file("lake");
    let mut expected = Map::new();
    for (name, config) in [("whole.pftrace", CONFIG), ("lapped.pftrace", SMALL_RING)] {
        let mut program = machine.program("spans");
        program.wait_for("connected");
        let recording = machine.record(name, config);
        program.wait_for("done");
        let trace = recording.finish();
        program.go_on();
        program.wait();
        let path = machine.file(name);
        let tables = tables(&trace, &ExtraSchema::new());
        assert_eq!(has_lapped(&tables), config == SMALL_RING, "{name}");
        let export = ["export", "parquet"].map(AsRef::as_ref);
        let files = [path.as_os_str(), "-o".as_ref(), lake.as_os_str()];
        Tool::new(tool())
            .run(&[&export[..], &files].concat())
            .unwrap();
        expected.insert(path.display().to_string(), tables);
    }
    let mut expected = Json::Object(expected);
    for engine in Engines::NAMES {
        let differences = engines.differences(engine, &lake, &expected);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }

    // A sum that is off by one is noticed.
    let path = machine.file("whole.pftrace").display().to_string();
    let sum = &mut expected[&path]["slices"][0][3];
    *sum = json!(sum.as_i64().unwrap() + 1);
    for engine in Engines::NAMES {
        let differences = engines.differences(engine, &lake, &expected);
        assert_eq!(differences.len(), 2, "{}", differences.join("\n"));
    }
    fs::remove_dir_all(lake).unwrap();
}

/// Returns true if a buffer has overwritten chunks.
fn has_lapped(tables: &Json) -> bool {
    let mut stats = tables["stats"].as_array().unwrap().iter();
    stats.any(|row| row[0] == "traced_buf_chunks_overwritten" && row[2] != 0)
}
