use std::collections::BTreeMap;

use tracezero_kernel::protos::ftrace_event_bundle::CompactSchedDecoder;

use super::*;
use crate::ftrace::page::Page;
use crate::ftrace::page::test_pages::{self, LAYOUT, decode};

type Fields = BTreeMap<&'static str, (u32, u32, bool, &'static str)>;

fn switch_fields() -> Fields {
    BTreeMap::from([
        ("prev_state", (32, 8, true, "long prev_state")),
        ("next_comm", (40, 16, false, "char next_comm[16]")),
        ("next_pid", (56, 4, true, "pid_t next_pid")),
        ("next_prio", (60, 4, true, "int next_prio")),
    ])
}

fn waking_fields() -> Fields {
    BTreeMap::from([
        ("common_flags", (2, 1, false, "unsigned char common_flags")),
        ("comm", (8, 16, true, "char comm[TASK_COMM_LEN]")),
        ("pid", (24, 4, true, "pid_t pid")),
        ("prio", (28, 4, true, "int prio")),
        ("target_cpu", (32, 4, true, "int target_cpu")),
    ])
}

fn finder(fields: &Fields) -> impl Fn(&str) -> Option<FieldLayout<'static>> {
    |name| {
        fields
            .get(name)
            .map(|&(offset, size, is_signed, declaration)| FieldLayout {
                offset,
                size,
                is_signed,
                declaration,
            })
    }
}

fn formats(switch: &Fields, waking: &Fields) -> Result<CompactFormats, CompactFormatError> {
    CompactFormats::new(317, finder(switch), 320, finder(waking))
}

/// Formats of the kernels that wrote the pages of `test_pages`.
pub(crate) fn known_formats(switch_id: u16) -> CompactFormats {
    let waking_id = 320;
    CompactFormats::new(
        switch_id,
        finder(&switch_fields()),
        waking_id,
        finder(&waking_fields()),
    )
    .unwrap()
}

fn switch_to(pid: i32, comm: &[u8]) -> Switch {
    let mut bytes = [0; COMM_BYTES];
    bytes[..comm.len()].copy_from_slice(comm);
    Switch {
        prev_state: 0,
        next_pid: pid,
        next_prio: 120,
        next_comm: Comm::new(bytes),
    }
}

fn encode(columns: &CompactSched) -> Vec<u8> {
    let mut out = Vec::new();
    columns.append_to(&mut out);
    out
}

fn interned(columns: &CompactSched) -> Vec<String> {
    let bytes = encode(columns);
    let decoder = CompactSchedDecoder::new(&bytes);
    let comms = decoder.intern_table().map(|comm| comm.unwrap().to_owned());
    comms.collect()
}

#[test]
fn formats_of_known_kernels_are_accepted() {
    let known = formats(&switch_fields(), &waking_fields()).unwrap();
    assert!(known.waking.is_some());
    assert_eq!(known.without_waking().waking, None);

    let mut of_32_bits = switch_fields();
    of_32_bits.insert("prev_state", (32, 4, true, "long prev_state"));
    assert!(formats(&of_32_bits, &waking_fields()).is_ok());
    // Linux 4.4 has `success` in front of `target_cpu`.
    let mut old = waking_fields();
    old.insert("target_cpu", (36, 4, true, "int target_cpu"));
    assert!(formats(&switch_fields(), &old).is_ok());
}

#[test]
fn unexpected_type_is_rejected_by_name() {
    let cases = [
        ("prev_state", (32, 8, false, "unsigned long prev_state")),
        ("prev_state", (32, 2, true, "short prev_state")),
        ("next_pid", (56, 4, true, "int next_pid")),
        ("next_pid", (56, 8, true, "pid_t next_pid")),
        ("next_prio", (60, 8, true, "long next_prio")),
        ("next_prio", (60, 4, false, "unsigned int next_prio")),
        ("next_comm", (40, 4, false, "__data_loc char[] next_comm")),
        ("next_comm", (40, 32, false, "char next_comm[32]")),
        ("next_comm", (40, 16, false, "char next_comm")),
    ];
    for (field, layout) in cases {
        let mut changed = switch_fields();
        changed.insert(field, layout);
        let error = formats(&changed, &waking_fields()).unwrap_err();
        assert_eq!((error.event, error.field), ("sched_switch", field));
    }
    for field in waking_fields().into_keys() {
        let mut without = waking_fields();
        without.remove(field);
        let error = formats(&switch_fields(), &without).unwrap_err();
        assert_eq!((error.event, error.field), ("sched_waking", field));
    }
    let mut wide = waking_fields();
    wide.insert("common_flags", (2, 2, false, "unsigned short common_flags"));
    assert_eq!(
        formats(&switch_fields(), &wide).unwrap_err().to_string(),
        "sched_waking: the kernel has no field `common_flags` that is an unsigned number of 1 byte; \
         set `compact_sched.enabled` to false"
    );
}

#[test]
fn event_without_all_fields_is_not_read() {
    let formats = known_formats(47);
    let waking = formats.waking.unwrap();
    for len in 0..64 {
        assert_eq!(formats.switch.read(&vec![1; len]), None, "{len}");
        assert_eq!(waking.read(&vec![1; len]).is_some(), len >= 36, "{len}");
    }
    assert!(formats.switch.read(&[1; 64]).is_some());
    // A forged offset does not wrap.
    let mut forged = switch_fields();
    forged.insert("next_pid", (u32::MAX, 4, true, "pid_t next_pid"));
    let forged = CompactFormats::new(1, finder(&forged), 2, finder(&waking_fields())).unwrap();
    assert_eq!(forged.switch.read(&[1; 64]), None);
}

#[test]
fn switches_become_five_columns() {
    let bytes = decode(test_pages::SIX_SWITCHES);
    let format = known_formats(47).switch;
    let mut columns = CompactSched::default();
    let mut times = Vec::new();
    for record in Page::parse(&bytes, &LAYOUT).unwrap().records() {
        let record = record.unwrap();
        times.push(record.timestamp_ns);
        let switch = format.read(record.payload).unwrap();
        assert!(columns.push_switch(record.timestamp_ns, &switch));
    }
    let bytes = encode(&columns);
    let decoder = CompactSchedDecoder::new(&bytes);
    let deltas: Vec<u64> = decoder.switch_timestamp().map(Result::unwrap).collect();
    let sums: Vec<u64> = deltas
        .iter()
        .scan(0, |sum, delta| {
            *sum += delta;
            Some(*sum)
        })
        .collect();
    assert_eq!(sums, times);
    assert_eq!(deltas[0], 1_045_157_722_134_059);
    assert_eq!(decoder.switch_prev_state().next().unwrap().unwrap(), 1);
    assert_eq!(decoder.switch_prev_state().count(), 6);
    assert_eq!(decoder.switch_next_pid().next().unwrap().unwrap(), 3733);
    assert_eq!(decoder.switch_next_pid().count(), 6);
    assert!(decoder.switch_next_prio().all(|prio| prio.unwrap() == 120));
    assert_eq!(decoder.switch_next_prio().count(), 6);
    assert_eq!(decoder.switch_next_comm_index().next().unwrap().unwrap(), 0);
    assert_eq!(decoder.switch_next_comm_index().count(), 6);
    assert_eq!(decoder.waking_timestamp().count(), 0);
    let comms = interned(&columns);
    assert_eq!(comms.len(), 4);
    assert_eq!(comms[0], "sleep");
}

#[test]
fn both_kinds_share_names_but_not_times() {
    let mut columns = CompactSched::default();
    let switch = switch_to(7, b"shared");
    let waking = Waking {
        pid: -1,
        target_cpu: 6,
        prio: -2,
        comm: switch.next_comm,
        common_flags: 0x81,
    };
    assert!(columns.push_switch(1000, &switch));
    assert!(columns.push_waking(900, &waking));
    assert!(columns.push_waking(905, &waking));
    assert!(columns.push_switch(1000, &switch));

    let bytes = encode(&columns);
    let decoder = CompactSchedDecoder::new(&bytes);
    assert!(decoder.switch_timestamp().map(Result::unwrap).eq([1000, 0]));
    assert!(decoder.waking_timestamp().map(Result::unwrap).eq([900, 5]));
    assert!(decoder.waking_pid().map(Result::unwrap).eq([-1, -1]));
    assert!(decoder.waking_target_cpu().map(Result::unwrap).eq([6, 6]));
    assert!(decoder.waking_prio().map(Result::unwrap).eq([-2, -2]));
    assert!(
        decoder
            .waking_common_flags()
            .map(Result::unwrap)
            .eq([0x81, 0x81])
    );
    assert!(decoder.waking_comm_index().map(Result::unwrap).eq([0, 0]));
    assert_eq!(interned(&columns), ["shared"]);
}

#[test]
fn names_precede_columns_in_shortest_form() {
    let mut columns = CompactSched::default();
    assert!(columns.is_empty());
    assert!(columns.push_switch(300, &switch_to(-1, b"ab")));
    let expected = [
        b"\x2a\x02ab".as_slice(),
        b"\x0a\x02\xac\x02",
        b"\x12\x01\x00",
        b"\x1a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x22\x01\x78",
        b"\x32\x01\x00",
    ]
    .concat();
    assert_eq!(encode(&columns), expected);
    // Each of the five columns has a tag and a length of one byte.
    assert_eq!(columns.encoded_bytes(), expected.len() - 5 * 2);
}

#[test]
fn older_event_is_not_accepted() {
    let mut columns = CompactSched::default();
    assert!(columns.push_switch(1000, &switch_to(1, b"one")));
    let before = encode(&columns);
    assert!(!columns.push_switch(999, &switch_to(2, b"two")));
    assert_eq!(encode(&columns), before);
    columns.clear();
    assert!(columns.is_empty());
    assert!(columns.push_switch(999, &switch_to(2, b"two")));
    assert_eq!(interned(&columns), ["two"]);
}

#[test]
fn sixty_fifth_name_is_not_accepted() {
    let mut columns = CompactSched::default();
    let name = |index: usize| format!("thread {index}").into_bytes();
    for index in 0..COMMS_MAX {
        assert!(columns.push_switch(1, &switch_to(1, &name(index))));
    }
    let before = encode(&columns);
    assert!(!columns.push_switch(1, &switch_to(1, &name(COMMS_MAX))));
    assert_eq!(encode(&columns), before);
    // Known names are still found.
    for index in 0..COMMS_MAX {
        assert!(columns.push_switch(1, &switch_to(1, &name(index))));
    }
    let comms = interned(&columns);
    assert_eq!(comms.len(), COMMS_MAX);
    let bytes = encode(&columns);
    let decoder = CompactSchedDecoder::new(&bytes);
    let indexes = decoder.switch_next_comm_index().map(Result::unwrap);
    for (row, index) in indexes.enumerate() {
        let expected = format!("thread {}", row % COMMS_MAX);
        assert_eq!(comms[index as usize], expected);
    }
}

#[test]
fn name_ends_at_first_nul_or_after_16_bytes() {
    let mut columns = CompactSched::default();
    for comm in [
        b"sleep\0\x01/0\0\0\0\0\0\0\0".as_slice(),
        b"sleep",
        b"sleep\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"sixteen letters!",
        b"\0hidden",
        b"",
    ] {
        assert!(columns.push_switch(1, &switch_to(1, comm)));
    }
    assert_eq!(interned(&columns), ["sleep", "sixteen letters!", ""]);
}

#[test]
fn name_that_is_cut_within_a_character_is_text() {
    let mut columns = CompactSched::default();
    assert!(columns.push_switch(1, &switch_to(1, b"fourteen bytes\xe2\x82")));
    assert!(columns.push_switch(1, &switch_to(1, &[0xff; 16])));
    let comms = interned(&columns);
    assert_eq!(comms[0], "fourteen bytes\u{fffd}");
    assert_eq!(comms[1], "\u{fffd}".repeat(16));
}

#[test]
fn state_of_four_bytes_keeps_its_sign() {
    let mut fields = switch_fields();
    fields.insert("prev_state", (32, 4, true, "long prev_state"));
    let format = formats(&fields, &waking_fields()).unwrap().switch;
    let mut payload = [0; 64];
    payload[32..36].fill(0xff);
    assert_eq!(format.read(&payload).unwrap().prev_state, -1);
}

#[test]
fn threads_that_share_a_place_keep_their_names() {
    let mut columns = CompactSched::default();
    let tids = [7, 7 + RECENT as i32];
    let rows = [
        (tids[0], "one"),
        (tids[1], "two"),
        (tids[0], "one"),
        (tids[0], "new"),
    ];
    for (tid, name) in rows {
        assert!(columns.push_switch(1, &switch_to(tid, name.as_bytes())));
    }
    let comms = interned(&columns);
    let bytes = encode(&columns);
    let decoder = CompactSchedDecoder::new(&bytes);
    let indexes = decoder.switch_next_comm_index().map(Result::unwrap);
    let names: Vec<&str> = indexes.map(|index| &comms[index as usize][..]).collect();
    assert_eq!(names, rows.map(|(_, name)| name));
    columns.clear();
    assert!(columns.push_switch(1, &switch_to(tids[0], b"new")));
    assert_eq!(interned(&columns), ["new"]);
}
