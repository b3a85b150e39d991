use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use protozero::{Decoder, Value};

use super::super::format::parse_fields;
use super::*;

const COMMON: &str = "\
field:unsigned short common_type;offset:0;size:2;signed:0;
field:unsigned char common_flags;offset:2;size:1;signed:0;
field:unsigned char common_preempt_count;offset:3;size:1;signed:0;
field:int common_pid;offset:4;size:4;signed:1;
";
const SWITCH: &str = "\
field:char prev_comm[16];offset:8;size:16;signed:0;
field:pid_t prev_pid;offset:24;size:4;signed:1;
field:int prev_prio;offset:28;size:4;signed:1;
field:long prev_state;offset:32;size:8;signed:1;
field:char next_comm[16];offset:40;size:16;signed:0;
field:pid_t next_pid;offset:56;size:4;signed:1;
field:int next_prio;offset:60;size:4;signed:1;
";
/// From `ksoftirqd/0` to `sleep`. The name `sleep` has the rest of a longer name behind its NUL.
const SWITCH_RECORD: &str = "2f00010303000000 6b736f6674697271642f300000000000 0300000078000000\
    0100000000000000 736c65657000722f3000000000000000 950e000078000000";

/// Plans for one event, and what its records leave behind.
struct Fixture {
    plans: EventPlans,
    id: u16,
    seen: SeenThreads,
    symbols: SymbolIndexes,
}

impl Fixture {
    fn new(group: &str, name: &str, fields: &str) -> Self {
        Self::with(group, name, fields, GenericEncoding::Denser)
    }

    fn with(group: &str, name: &str, fields: &str, encoding: GenericEncoding) -> Self {
        let texts = PrintkFormats::parse("0xffffffff817f3bc7 : \"machine_suspend\"\n");
        let mut plans = EventPlans::new(texts, encoding);
        let id = plans.add(group, name, &format(name, 47, fields));
        Self {
            plans,
            id,
            seen: SeenThreads::default(),
            symbols: SymbolIndexes::default(),
        }
    }

    fn plan(&self) -> &EventPlan {
        self.plans.get(self.id).expect("the plan was added")
    }

    fn encode(&mut self, record: &[u8]) -> Result<Vec<u8>, InvalidRecord> {
        let mut out = b"before".to_vec();
        let plan = self.plans.get(self.id).expect("the plan was added");
        let result = plan.encode(1000, record, &mut out, &mut self.seen, &mut self.symbols);
        let event = out.strip_prefix(b"before").expect("nothing is overwritten");
        match result {
            Ok(()) => Ok(event.to_vec()),
            Err(error) => {
                assert!(event.is_empty(), "{event:?}");
                Err(error)
            }
        }
    }

    /// Returns the fields of the event's message, which must have this number.
    #[track_caller]
    fn message(&mut self, number: u32, record: &[u8]) -> String {
        let event = self.encode(record).expect("the record is valid");
        let fields: Vec<_> = Decoder::new(&event).fields().map(Result::unwrap).collect();
        let [timestamp, pid, message] = fields[..] else {
            panic!("{fields:?}");
        };
        assert_eq!(
            (timestamp.number, timestamp.value),
            (1, Value::Varint(1000))
        );
        assert_eq!(pid.number, 2);
        assert_eq!(message.number, number);
        let Value::Bytes(message) = message.value else {
            panic!("{message:?}");
        };
        shown(message)
    }
}

fn format(name: &str, id: u16, fields: &str) -> EventFormat {
    EventFormat::parse(&format!(
        "name: {name}\nID: {id}\nformat:\n{COMMON}\n{fields}"
    ))
    .expect("the format is valid")
}

/// Returns the fields of a message, such as `1: -5, 2: "text"`.
fn shown(message: &[u8]) -> String {
    let mut out = String::new();
    for field in Decoder::new(message).fields() {
        let field = field.expect("the message is valid");
        let separator = if out.is_empty() { "" } else { ", " };
        _ = write!(out, "{separator}{}: ", field.number);
        _ = match field.value {
            Value::Varint(number) => write!(out, "{}", number.cast_signed()),
            Value::Bytes(bytes) => write!(out, "\"{}\"", bytes.escape_ascii()),
            other => panic!("{other:?}"),
        };
    }
    out
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: String = digits.split_whitespace().collect();
    let bytes = digits.as_bytes().chunks(2);
    bytes
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A record of thread 97, with these bytes behind the common fields.
fn record(rest: &[&[u8]]) -> Vec<u8> {
    [&[47, 0, 0, 0, 97, 0, 0, 0], rest.concat().as_slice()].concat()
}

#[test]
fn event_has_time_thread_and_message_in_this_order() {
    let mut switch = Fixture::new("sched", "sched_switch", SWITCH);
    let event = switch.encode(&hex(SWITCH_RECORD)).unwrap();
    let expected = b"\x08\xe8\x07\x10\x03\x22\x1f\
        \x0a\x0bksoftirqd/0\x10\x03\x18\x78\x20\x01\x2a\x05sleep\x30\x95\x1d\x38\x78";
    assert_eq!(
        event.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
    assert_eq!(switch.seen.seen(), [3, 3733]);
}

#[test]
fn idle_thread_is_written_but_not_seen() {
    let mut switch = Fixture::new("sched", "sched_switch", SWITCH);
    let event = switch.encode(&[0; 64]).unwrap();
    assert_eq!(event[..5], *b"\x08\xe8\x07\x10\x00");
    assert!(switch.seen.seen().is_empty());
}

#[test]
fn print_ends_at_its_nul_or_with_the_record() {
    let format = EventFormat::of_print();
    let mut print = Fixture::new("sched", "sched_switch", SWITCH);
    print.id = print.plans.add("ftrace", "print", &format);
    assert_eq!(print.id, 5);
    let start = "0500000128700000 ac5d166186ffffff";
    let mut check = |text: &str, expected: &str| {
        let record = hex(&format!("{start}{text}"));
        assert_eq!(print.message(3, &record), expected);
    };
    check(
        "48656c6c6f2c20776f726c64210a00ff",
        "2: \"Hello, world!\\n\"",
    );
    check(
        "48656c6c6f2c20776f726c6421616161",
        "2: \"Hello, world!aaa\"",
    );
    check("00000000", "2: \"\"");
    check("", "2: \"\"");
    assert_eq!(print.seen.seen(), [28712]);
}

#[test]
fn address_of_print_is_not_recorded() {
    let fields = "field:unsigned long ip;offset:8;size:8;signed:0;\n\
                  field:char buf[];offset:16;size:0;signed:0;";
    let mut print = Fixture::new("ftrace", "print", fields);
    let message = print.message(3, &record(&[&[1; 8], b"a\n\0\0"]));
    assert_eq!(message, "2: \"a\\n\"");
}

/// The published types are narrower than those of some kernels, or have another sign.
#[test]
fn numbers_of_any_width_are_written() {
    let fields = "field:u64 gfp_flags;offset:8;size:8;signed:0;\n\
                  field:u8 order;offset:16;size:1;signed:0;\n\
                  field:short migratetype;offset:18;size:2;signed:1;\n\
                  field:unsigned long pfn;offset:20;size:4;signed:0;\n\
                  field:char page[4];offset:24;size:4;signed:0;";
    let mut alloc = Fixture::new("kmem", "mm_page_alloc", fields);
    let gfp_flags = 0x1_0000_0001_u64.to_le_bytes();
    let rest = [255, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(
        alloc.message(307, &record(&[&gfp_flags, &rest, b"text"])),
        "1: 4294967297, 2: -2, 3: 255, 5: 4294967295"
    );
}

#[test]
fn text_is_not_written_to_a_number_nor_the_reverse() {
    let fields = "field:int comm;offset:8;size:4;signed:1;\n\
                  field:char pid[4];offset:12;size:4;signed:0;\n\
                  field:int prio;offset:16;size:4;signed:1;";
    let mut waking = Fixture::new("sched", "sched_waking", fields);
    assert_eq!(waking.message(20, &record(&[&[7; 12]])), "3: 117901063");
}

#[test]
fn full_name_without_nul_has_sixteen_bytes() {
    let fields = "field:pid_t pid;offset:8;size:4;signed:1;\n\
                  field:char oldcomm[16];offset:12;size:16;signed:0;\n\
                  field:char newcomm[16];offset:28;size:16;signed:0;\n\
                  field:short oom_score_adj;offset:44;size:2;signed:1;";
    let mut rename = Fixture::new("task", "task_rename", fields);
    let pid = 9999_i32.to_le_bytes();
    let rest: [&[u8]; 4] = [
        &pid,
        b"oldname\0garbage\0",
        b"abcdefghijklmnop",
        b"\xff\xff\0\0",
    ];
    assert_eq!(
        rename.message(236, &record(&rest)),
        "1: 9999, 2: \"oldname\", 3: \"abcdefghijklmnop\", 4: -1"
    );
    assert_eq!(rename.seen.renamed, [9999]);
    assert_eq!(rename.seen.seen(), [97, 9999]);
}

#[test]
fn rename_without_a_thread_is_of_the_running_one() {
    let fields = "field:char newcomm[16];offset:8;size:16;signed:0;";
    let mut rename = Fixture::new("task", "task_rename", fields);
    rename.message(236, &record(&[&[0; 16]]));
    assert_eq!(rename.seen.renamed, [97]);
}

#[test]
fn freed_thread_is_noted() {
    let fields = "field:__data_loc char[] comm;offset:8;size:4;signed:0;\n\
                  field:pid_t pid;offset:12;size:4;signed:1;\n\
                  field:int prio;offset:16;size:4;signed:1;";
    let mut free = Fixture::new("sched", "sched_process_free", fields);
    let location = [20, 0, 4, 0];
    let message = free.message(
        240,
        &record(&[&location, &[5, 0, 0, 0], &[120, 0, 0, 0], b"cat\0"]),
    );
    assert_eq!(message, "1: \"cat\", 2: 5, 3: 120");
    assert_eq!(free.seen.freed, [5]);
}

#[test]
fn located_text_may_be_anywhere_in_the_record() {
    let fields = "field:__data_loc char[] name;offset:16;size:4;signed:0;\n\
                  field:char type;offset:8;size:1;signed:0;\n\
                  field:int pid;offset:12;size:4;signed:1;";
    let mut mark = Fixture::new("dpu", "tracing_mark_write", fields);
    let mut at = |start: u16, len: u16| {
        let location = [start.to_le_bytes(), len.to_le_bytes()].concat();
        let record = record(&[b"E\0\0\0", &[9, 0, 0, 0], &location, b"?abc\0def"]);
        mark.encode(&record).map(|event| {
            let message = Decoder::new(&event).last::<protozero::types::Bytes>(348);
            shown(message.unwrap().unwrap())
        })
    };
    assert_eq!(at(21, 7).unwrap(), "1: 9, 4: \"abc\", 5: 69");
    assert_eq!(at(25, 3).unwrap(), "1: 9, 4: \"def\", 5: 69");
    assert_eq!(at(25, 0).unwrap(), "1: 9, 4: \"\", 5: 69");
    assert_eq!(at(0, 0).unwrap(), "1: 9, 4: \"\", 5: 69");
    assert_eq!(at(u16::MAX, 0).unwrap(), "1: 9, 4: \"\", 5: 69");
    for (start, len) in [(25, 4), (28, 1), (29, 1), (0, 29), (u16::MAX, u16::MAX)] {
        let error = at(start, len).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a record of event 47 has 28 bytes, but its field at 16 refers to bytes outside of them"
        );
    }
}

#[test]
fn location_may_count_from_its_end() {
    let fields = "field:__rel_loc char[] name;offset:8;size:4;signed:0;\n\
                  field:__rel_loc u8[] data;offset:12;size:4;signed:0;";
    let mut other = Fixture::new("mine", "other", fields);
    let record = record(&[&[4, 0, 3, 0], &[3, 0, 3, 0], b"ab\0", b"c\0d"]);
    assert_eq!(
        other.message(FIRST_NUMBER, &record),
        "1: \"ab\", 2: \"c\\x00d\""
    );
    let cut = &record[..record.len() - 1];
    assert!(other.encode(cut).is_err());
}

#[test]
fn bytes_are_written_with_their_nuls() {
    let fields = "field:__data_loc __u8[] buf;offset:8;size:4;signed:0;";
    let mut write = Fixture::new("i2c", "i2c_write", fields);
    let message = write.message(28, &record(&[&[12, 0, 4, 0], b"\0a\0b"]));
    assert_eq!(message, "7: \"\\x00a\\x00b\"");
}

#[test]
fn text_of_a_pointer_is_looked_up() {
    let fields = "field:const char * action;offset:8;size:8;signed:0;\n\
                  field:int val;offset:16;size:4;signed:1;\n\
                  field:bool start;offset:20;size:1;signed:0;";
    let mut suspend = Fixture::new("power", "suspend_resume", fields);
    let known = 0xffff_ffff_817f_3bc7_u64.to_le_bytes();
    let rest = [3, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(
        suspend.message(113, &record(&[&known, &rest])),
        "1: \"machine_suspend\", 2: 3, 3: 1"
    );
    assert_eq!(
        suspend.message(113, &record(&[&[9; 8], &rest])),
        "1: \"\", 2: 3, 3: 1"
    );
}

#[test]
fn address_of_a_function_becomes_an_index() {
    let fields = "field:void * work;offset:8;size:8;signed:0;\n\
                  field:void * function;offset:16;size:8;signed:0;";
    let mut work = Fixture::new("workqueue", "workqueue_execute_start", fields);
    let mut message = |addresses: [u64; 2]| {
        let bytes = addresses.map(u64::to_le_bytes);
        work.message(58, &record(&[&bytes[0], &bytes[1]]))
    };
    assert_eq!(
        message([0xffff_8880_0000_0000, 0xffff_ffff_8100_0000]),
        "1: 1, 2: 2"
    );
    assert_eq!(
        message([0xffff_8880_0000_0008, 0xffff_ffff_8100_0000]),
        "1: 3, 2: 2"
    );
    assert_eq!(work.symbols.addresses().len(), 3);
}

/// The kernel declares it as a number.
#[test]
fn function_of_the_function_graph_becomes_an_index() {
    let fields = "field:unsigned long func;offset:8;size:8;signed:0;\n\
                  field:int depth;offset:16;size:4;signed:1;";
    for (name, number, expected) in [
        ("funcgraph_entry", 437, "1: 1, 2: 1"),
        ("funcgraph_exit", 438, "2: 1, 3: 1"),
    ] {
        let mut graph = Fixture::new("ftrace", name, fields);
        let record = record(&[&0xffff_ffff_8100_0000_u64.to_le_bytes(), &[1, 0, 0, 0]]);
        assert_eq!(graph.message(number, &record), expected);
    }
}

#[test]
fn arguments_of_a_system_call_are_always_six() {
    let wide = "field:long id;offset:8;size:8;signed:1;\n\
                field:unsigned long args[6];offset:16;size:48;signed:0;";
    let mut enter = Fixture::new("raw_syscalls", "sys_enter", wide);
    let words: Vec<u8> = [42, u64::MAX, 2, 0, 4, 5, 6].map(u64::to_le_bytes).concat();
    let expected = "1: 42, 2: -1, 2: 2, 2: 0, 2: 4, 2: 5, 2: 6";
    assert_eq!(enter.message(329, &record(&[&words])), expected);

    let narrow = "field:long id;offset:8;size:4;signed:1;\n\
                  field:unsigned long args[6];offset:12;size:24;signed:0;";
    let mut enter = Fixture::new("raw_syscalls", "sys_enter", narrow);
    let words: Vec<u8> = [42, u32::MAX, 2, 0, 4, 5, 6].map(u32::to_le_bytes).concat();
    let expected = "1: 42, 2: 4294967295, 2: 2, 2: 0, 2: 4, 2: 5, 2: 6";
    assert_eq!(enter.message(329, &record(&[&words])), expected);
}

#[test]
fn device_and_inode_are_written() {
    let fields = "field:dev_t dev;offset:8;size:4;signed:0;\n\
                  field:ino_t ino;offset:16;size:8;signed:0;";
    let mut sync = Fixture::new("ext4", "ext4_sync_file_exit", fields);
    let dev = 271_581_216_u32.to_le_bytes();
    let message = sync.message(44, &record(&[&dev, &[0; 4], &[7, 0, 0, 0, 0, 0, 0, 0]]));
    assert_eq!(message, "1: 66336, 2: 7");
}

/// Records of two kernels. The older one declares `nid` as one number.
#[test]
fn array_that_some_kernels_declare_as_a_number_is_left_out() {
    let fields = |nid: &str, depth| {
        format!(
            "field:dev_t dev;offset:8;size:4;signed:0;\n\
             field:ino_t ino;offset:16;size:8;signed:0;\n\
             field:nid_t nid[3];offset:24;{nid};signed:0;\n\
             field:int depth;offset:{depth};size:4;signed:1;\n\
             field:int err;offset:{};size:4;signed:1;",
            depth + 4
        )
    };
    let new = hex(
        "7d020000c6380000 3900e00f00000000 b165000000000000 010000000200000003000000 0400000000000000",
    );
    let old = hex(
        "7d02000080210000 3900e00f00000000 0d66000000000000 010000000200000003000000 0400000000000000",
    );
    let (group, name) = ("f2fs", "f2fs_truncate_partial_nodes");
    let mut nodes = Fixture::new(group, name, &fields("size:12", 36));
    assert_eq!(nodes.message(267, &new), "1: 65081, 2: 26033, 4: 4, 5: 0");
    let mut nodes = Fixture::new(group, name, &fields("size:4", 28));
    assert_eq!(nodes.message(267, &old), "1: 65081, 2: 26125, 4: 2, 5: 3");
}

#[test]
fn short_records_are_invalid() {
    let mut switch = Fixture::new("sched", "sched_switch", SWITCH);
    let whole = hex(SWITCH_RECORD);
    for len in 0..whole.len() {
        let error = switch.encode(&whole[..len]).unwrap_err();
        let event = if len < 2 { 0 } else { 47 };
        assert_eq!(
            error.to_string(),
            format!("a record of event {event} has {len} bytes, but needs 64")
        );
    }
    assert!(switch.encode(&whole).is_ok());
}

#[test]
fn record_needs_the_common_fields_too() {
    let mut enter = Fixture::new("hyp", "hyp_enter", "");
    assert!(enter.encode(&[0; 7]).is_err());
    assert_eq!(enter.message(476, &[0; 8]), "");
}

#[test]
fn field_at_the_end_of_the_address_space_makes_records_invalid() {
    let fields = "field:int prio;offset:4294967291;size:4;signed:1;";
    let mut waking = Fixture::new("sched", "sched_waking", fields);
    assert!(waking.encode(&[0; 64]).is_err());
}

#[test]
fn plans_are_found_by_id_only() {
    let mut plans = EventPlans::new(PrintkFormats::default(), GenericEncoding::Denser);
    assert!(plans.get(0).is_none());
    let id = plans.add(
        "sched",
        "sched_switch",
        &format("sched_switch", u16::MAX, SWITCH),
    );
    assert_eq!(id, u16::MAX);
    assert!(plans.get(id).is_some());
    assert!(plans.get(id - 1).is_none());
}

const OTHER: &str = "\
field:char prev_comm[16];offset:8;size:16;signed:0;
field:pid_t prev_pid;offset:24;size:4;signed:1;
field:bool flag;offset:28;size:1;signed:0;
field:unsigned long x[8];offset:32;size:64;signed:0;
field:char *;offset:32;size:8;signed:0;
field:u64 wide;offset:32;size:8;signed:0;
field:__data_loc u8[] data;offset:40;size:4;signed:0;
";

fn other_record() -> Vec<u8> {
    let rest: [&[u8]; 6] = [
        b"ksoftirqd/0\0\0\0\0\0",
        &(-3_i32).to_le_bytes(),
        &[1, 0, 0, 0],
        &u64::MAX.to_le_bytes(),
        &[44, 0, 2, 0],
        b"hi",
    ];
    record(&rest)
}

#[test]
fn unpublished_event_describes_itself() {
    let mut other = Fixture::new("mine", "other", OTHER);
    let message = other.message(FIRST_NUMBER, &other_record());
    assert_eq!(message, "1: \"ksoftirqd/0\", 2: -3, 3: 1, 4: -1, 5: \"hi\"");

    let descriptor = other.plan().descriptor().unwrap();
    assert_eq!(descriptor.number, FIRST_NUMBER);
    let field = |name: &str, rest: &[u8]| {
        let len = (name.len() + 2 + rest.len()) as u8;
        [&[0x12, len, 0x0a, name.len() as u8], name.as_bytes(), rest].concat()
    };
    let message = [
        b"\x0a\x05other".to_vec(),
        field("prev_comm", b"\x18\x01\x28\x09"),
        field("prev_pid", b"\x18\x02\x28\x03"),
        field("flag", b"\x18\x03\x28\x04"),
        field("wide", b"\x18\x04\x28\x04"),
        field("data", b"\x18\x05\x28\x0c"),
    ]
    .concat();
    let start = [
        0x08, 0x80, 0x80, 0x04, 0x1a, 4, b'm', b'i', b'n', b'e', 0x12,
    ];
    let expected = [start.as_slice(), &[message.len() as u8], &message].concat();
    assert_eq!(descriptor.fields, expected);
}

#[test]
fn unpublished_events_are_numbered_in_order() {
    let mut other = Fixture::new("mine", "other", OTHER);
    let published = other
        .plans
        .add("sched", "sched_switch", &format("sched_switch", 48, SWITCH));
    let second = other
        .plans
        .add("mine", "second", &format("second", 49, OTHER));
    let number = |id| {
        let plan = other.plans.get(id).unwrap();
        plan.descriptor().map(|descriptor| descriptor.number)
    };
    assert_eq!(number(other.id), Some(65536));
    assert_eq!(number(published), None);
    assert_eq!(number(second), Some(65537));
}

#[test]
fn unpublished_event_has_at_most_31_fields() {
    let fields: String = (0..40)
        .map(|i| format!("field:int x{i};offset:{};size:4;signed:1;\n", 8 + 4 * i))
        .collect();
    let mut other = Fixture::new("mine", "other", &fields);
    let message = other.message(FIRST_NUMBER, &record(&[&[0; 31 * 4]]));
    assert!(message.ends_with(" 31: 0"), "{message}");
}

#[test]
fn legacy_form_has_the_names_in_each_event() {
    let mut other = Fixture::with("mine", "other", OTHER, GenericEncoding::Legacy);
    assert_eq!(
        other.message(327, &other_record()),
        "1: \"other\", \
         2: \"\\n\\tprev_comm\\x1a\\x0bksoftirqd/0\", \
         2: \"\\n\\x08prev_pid \\xfd\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x01\", \
         2: \"\\n\\x04flag(\\x01\", \
         2: \"\\n\\x04wide(\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x01\""
    );
    assert!(other.plan().descriptor().is_none());
    assert!(other.encode(&other_record()[..40]).is_ok());
    assert!(other.encode(&other_record()[..39]).is_err());
}

/// Every format of the kernel that runs this test, with records of any length.
#[test]
fn formats_of_this_kernel_have_plans() {
    let roots = [
        "/sys/kernel/tracing/events",
        "/sys/kernel/debug/tracing/events",
    ];
    let Some(root) = roots
        .iter()
        .map(Path::new)
        .find(|root| root.join("sched").exists())
    else {
        println!("skipped: tracefs is not mounted, or not readable by this user");
        return;
    };
    let mut found = 0;
    for encoding in [GenericEncoding::Denser, GenericEncoding::Legacy] {
        for group in root.read_dir().unwrap().map(Result::unwrap) {
            let Ok(events) = group.path().read_dir() else {
                continue;
            };
            for event in events.map(Result::unwrap) {
                let Ok(text) = fs::read_to_string(event.path().join("format")) else {
                    continue;
                };
                let (group, name) = (group.file_name(), event.file_name());
                let (group, name) = (group.to_str().unwrap(), name.to_str().unwrap());
                check_format(group, name, &text, encoding);
                found += 1;
            }
        }
    }
    assert!(found > 100, "{found}");
    println!("{} formats were parsed", found / 2);
}

fn check_format(group: &str, name: &str, text: &str, encoding: GenericEncoding) {
    let format = EventFormat::parse(text).unwrap_or_else(|e| panic!("{group}/{name}: {e}"));
    let lines = text.lines().filter(|line| line.starts_with("\tfield:"));
    let fields = format.common.len() + format.fields.len();
    assert_eq!(fields, lines.count(), "{group}/{name}");
    assert_eq!(
        parse_fields(&text[text.find("\tfield:").unwrap()..]).len(),
        fields
    );

    let mut plans = EventPlans::new(PrintkFormats::default(), encoding);
    let id = plans.add(group, name, &format);
    let plan = plans.get(id).unwrap();
    let (mut seen, mut symbols) = (SeenThreads::default(), SymbolIndexes::default());
    for byte in [0x00, 0x01, 0x7f, 0xff] {
        for len in 0..200 {
            let mut out = Vec::new();
            let record = vec![byte; len];
            let result = plan.encode(1, &record, &mut out, &mut seen, &mut symbols);
            assert_eq!(result.is_err(), out.is_empty(), "{group}/{name}");
            let fields = Decoder::new(&out).fields().map(Result::unwrap);
            assert!(fields.count() <= 3, "{group}/{name}");
        }
    }
}
