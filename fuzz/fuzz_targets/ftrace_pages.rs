//! Fuzzes what the kernel's files may contain: formats of events, and raw pages. Whatever they are, each
//! bundle is well formed down to the fields of its events, and times in columns do not go back.
#![no_main]

use std::cell::Cell;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use protozero::{Decoder, Value};
use tracezero_kernel::protos::FtraceEventBundleDecoder;
use tracezero_probes::fuzzing::{Kernel, symbol};

/// The number of the first event that is not published.
const FIRST_UNPUBLISHED: u32 = 65536;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    header_page: &'a str,
    /// True for a header that a kernel writes.
    has_usual_header: bool,
    printk_formats: &'a str,
    formats: Vec<(&'a str, Name<'a>, &'a str)>,
    has_usual_formats: bool,
    is_dense: bool,
    pages: Vec<Page<'a>>,
    kallsyms: &'a str,
    address: u64,
}

#[derive(Arbitrary, Debug)]
enum Name<'a> {
    Switch,
    Waking,
    Print,
    SysEnter,
    Other(&'a str),
}

/// A page: its header is mostly valid, so that the fuzzer reaches the records.
#[derive(Arbitrary, Debug)]
struct Page<'a> {
    timestamp: u64,
    /// `None` for the length of the records.
    commit: Option<u64>,
    is_lossy: bool,
    records: &'a [u8],
}

const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

const SWITCH: &str = "\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:32;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:36;\tsize:4;\tsigned:1;\n";

const WAKING: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";

const OTHER: &str = "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:dev_t dev;\toffset:24;\tsize:4;\tsigned:0;\n\
    \tfield:bool flag;\toffset:28;\tsize:1;\tsigned:0;\n";

fuzz_target!(|input: Input<'_>| {
    let usual = [
        ("sched", "sched_switch", format("sched_switch", 1, SWITCH)),
        ("sched", "sched_waking", format("sched_waking", 2, WAKING)),
        (
            "workqueue",
            "workqueue_execute_end",
            format("workqueue_execute_end", 3, OTHER),
        ),
        ("fuzz", "unpublished", format("unpublished", 4, OTHER)),
    ];
    let usual = usual.iter().filter(|_| input.has_usual_formats);
    let usual = usual.map(|(group, name, text)| (*group, *name, text.as_str()));
    let chosen = input.formats.iter().map(|(group, name, text)| {
        let name = match name {
            Name::Switch => "sched_switch",
            Name::Waking => "sched_waking",
            Name::Print => "print",
            Name::SysEnter => "sys_enter",
            Name::Other(name) => name,
        };
        (*group, name, *text)
    });
    let header = match input.has_usual_header {
        true => HEADER,
        false => input.header_page,
    };
    let kernel = Kernel::parse(
        header,
        input.printk_formats,
        usual.chain(chosen),
        input.is_dense,
    );
    let pages: Vec<Vec<u8>> = input.pages.iter().map(Page::bytes).collect();
    let pages = pages.iter().map(Vec::as_slice);
    kernel.walk(pages, check);
    let _ = symbol(input.kallsyms, input.address);
});

fn format(name: &str, id: u16, fields: &str) -> String {
    format!("name: {name}\nID: {id}\n{COMMON}{fields}\nprint fmt: \"\"\n")
}

impl Page<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.timestamp.to_le_bytes().to_vec();
        let records = self.records.get(..4080).unwrap_or(self.records);
        let lossy = u64::from(self.is_lossy) << 31;
        let commit = self.commit.unwrap_or(records.len() as u64 | lossy);
        bytes.extend(commit.to_le_bytes());
        bytes.extend(records);
        bytes.resize(bytes.len().max(4096), 0);
        bytes
    }
}

/// Checks that a bundle can be decoded.
fn check(bytes: &[u8]) {
    let bundle = FtraceEventBundleDecoder::new(bytes);
    assert_eq!(bundle.cpu(), Ok(Some(0)));
    for event in bundle.event() {
        let event = event.expect("an event");
        assert!(event.timestamp().expect("a number").is_some());
        for field in event.fields() {
            let field = field.expect("a field");
            if let Value::Bytes(message) = field.value
                && (3..=FIRST_UNPUBLISHED + 64).contains(&field.number)
            {
                for field in Decoder::new(message).fields() {
                    field.expect("a field of an event");
                }
            }
        }
    }
    if let Some(columns) = bundle.compact_sched().expect("valid") {
        let names = columns
            .intern_table()
            .map(|name| name.expect("text"))
            .count();
        let switches = columns.switch_timestamp().count();
        assert_eq!(columns.switch_next_pid().count(), switches);
        assert_eq!(columns.switch_prev_state().count(), switches);
        let sum = Cell::new(0_u64);
        for delta in columns.switch_timestamp() {
            let later = sum.get().checked_add(delta.expect("a number"));
            sum.set(later.expect("times do not go back"));
        }
        for index in columns.switch_next_comm_index() {
            assert!((index.expect("a number") as usize) < names);
        }
        assert_eq!(
            columns.waking_pid().count(),
            columns.waking_timestamp().count()
        );
    }
}
