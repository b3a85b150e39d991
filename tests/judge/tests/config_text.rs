//! Compares how the SDK and another library read configurations in protobuf's text format.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;
use std::path::Path;

use protobuf::Message as _;
use protobuf::reflect::{FileDescriptor, MessageDescriptor};
use tracezero::TraceConfig;

/// A file with lists, hexadecimal numbers and more, which the other library does not support.
const EVERY_NOTATION: &str = "every_notation.txtpb";

/// Returns the message `TraceConfig` of the SDK's schema, for the other library.
fn trace_config_type(sdk: &Path) -> MessageDescriptor {
    let files = protobuf_parse::Parser::new()
        .pure()
        .include(sdk.join("schema"))
        .input(sdk.join("schema/protos/perfetto/config/trace_config.proto"))
        .parse_and_typecheck()
        .unwrap()
        .file_descriptors;
    FileDescriptor::new_dynamic_fds(files, &[])
        .unwrap()
        .iter()
        .find_map(|file| file.message_by_full_name(".perfetto.protos.TraceConfig"))
        .unwrap()
}

#[test]
fn another_library_reads_the_same_out_of_every_text() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk");
    let trace_config_type = trace_config_type(&sdk);
    let mut compared = 0;
    for entry in fs::read_dir(sdk.join("tests/configs")).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(EVERY_NOTATION) {
            continue;
        }
        // The other library does not accept a colon before a message.
        let text = fs::read_to_string(&path).unwrap().replace(": {", " {");
        let mut message = trace_config_type.new_instance();
        protobuf::text_format::merge_from_str(&mut *message, &text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let encoded = message.write_to_bytes_dyn().unwrap();
        assert_eq!(
            TraceConfig::from_text(&text),
            TraceConfig::decode(&encoded),
            "{}",
            path.display()
        );
        compared += 1;
    }
    assert!(compared >= 14, "{compared}");
}

/// A configuration for the data sources of Perfetto's daemon on Linux.
const KERNEL: &str = r#"
buffers { size_kb: 65536 fill_policy: RING_BUFFER }
data_sources {
  config {
    name: "linux.ftrace"
    ftrace_config {
      ftrace_events: "sched/sched_switch"
      ftrace_events: "sched/sched_waking"
      syscall_events: "sys_read"
      buffer_size_kb: 2048
      drain_period_ms: 250
      compact_sched { enabled: true }
      ksyms_mem_policy: KSYMS_RETAIN
      print_filter { rules { prefix: "B|" allow: true } }
    }
  }
}
data_sources {
  config {
    name: "linux.process_stats"
    target_buffer: 0
    process_stats_config {
      quirks: DISABLE_ON_DEMAND
      scan_all_processes_on_start: true
      proc_stats_poll_ms: 1000
    }
  }
}
data_sources {
  config {
    name: "linux.sys_stats"
    sys_stats_config {
      meminfo_period_ms: 50
      meminfo_counters: MEMINFO_MEM_FREE
      vmstat_counters: VMSTAT_PGFAULT
      stat_counters: STAT_CPU_TIMES
      stat_period_ms: 100
    }
  }
}
data_sources { config { name: "linux.system_info" system_info_config {} } }
"#;

#[test]
fn configurations_of_perfettos_data_sources_are_read_as_published() {
    let ours = TraceConfig::from_text(KERNEL).unwrap().encode();
    let ours = perfetto_protos::trace_config::TraceConfig::parse_from_bytes(&ours).unwrap();
    let published = protobuf::text_format::parse_from_str(KERNEL).unwrap();
    assert_eq!(ours, published);
}
