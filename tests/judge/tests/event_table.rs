//! The recorder's table of the kernel's events is the published schema's. After a change to the schema,
//! run `BLESS=1 cargo test -p judge --test event_table` to generate the table again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::{DescriptorProto, FieldDescriptorProto};

const TABLE: &str = "../../sdk/probes/src/ftrace/event_table_data.rs";
/// Messages for events that are not published. They contain the names of their fields.
const FOR_OTHER_EVENTS: [&str; 2] = ["generic", "kprobe_event"];

#[test]
fn table_has_the_published_events() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE);
    let table = table();
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &table).expect("the source folder is writable");
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == table,
        "{TABLE} is out of date: see the head of this test"
    );
}

#[test]
fn every_published_event_has_a_line() {
    let table = table();
    let lines = table.lines().filter(|line| line.contains("event(")).count();
    assert_eq!(lines, 594);
    let switch = "    event(\"sched_switch\", 4, &[string(\"prev_comm\", 1), int32(\"prev_pid\", 2), \
        int32(\"prev_prio\", 3), int64(\"prev_state\", 4), string(\"next_comm\", 5), \
        int32(\"next_pid\", 6), int32(\"next_prio\", 7)]),";
    assert!(table.lines().any(|line| line == switch));
}

/// Returns the source text of the table, sorted by the names of events.
fn table() -> String {
    let messages = published_messages();
    let events: BTreeMap<&str, &FieldDescriptorProto> = messages["FtraceEvent"]
        .field
        .iter()
        .filter(|field| field.type_() == Type::TYPE_MESSAGE)
        .map(|field| (field.name(), field))
        .filter(|(name, _)| !FOR_OTHER_EVENTS.contains(name))
        .collect();
    let mut out =
        "// Made of the published schema by `tests/judge/tests/event_table.rs`.\n\n".to_owned();
    _ = writeln!(out, "static EVENTS: [PublishedEvent; {}] = [", events.len());
    for (name, event) in events {
        let message = event.type_name().rsplit('.').next().expect("a name");
        let fields: Vec<String> = messages[message].field.iter().map(field_text).collect();
        let number = event.number();
        _ = writeln!(
            out,
            "    event({name:?}, {number}, &[{}]),",
            fields.join(", ")
        );
    }
    out.push_str("];\n");
    out
}

/// Returns the published messages by name. A field that was published later replaces the one of the
/// same name: no event had both at one time.
fn published_messages() -> BTreeMap<String, DescriptorProto> {
    let mut messages: BTreeMap<String, DescriptorProto> = BTreeMap::new();
    for file in [judge::published(), judge::published_later()].concat() {
        for message in file.message_type {
            let fields = &mut messages.entry(message.name().to_owned()).or_default().field;
            for field in message.field {
                fields.retain(|earlier| earlier.name() != field.name());
                fields.push(field);
            }
            fields.sort_by_key(FieldDescriptorProto::number);
        }
    }
    messages
}

fn field_text(field: &FieldDescriptorProto) -> String {
    let function = match (field.type_(), field.label()) {
        (Type::TYPE_INT32, Label::LABEL_OPTIONAL) => "int32",
        (Type::TYPE_INT64, Label::LABEL_OPTIONAL) => "int64",
        (Type::TYPE_UINT32, Label::LABEL_OPTIONAL) => "uint32",
        (Type::TYPE_UINT64, Label::LABEL_OPTIONAL) => "uint64",
        (Type::TYPE_STRING, Label::LABEL_OPTIONAL) => "string",
        (Type::TYPE_BYTES, Label::LABEL_OPTIONAL) => "bytes",
        (Type::TYPE_UINT64, Label::LABEL_REPEATED) if !field.options.packed() => "repeated_uint64",
        (other, label) => panic!("field {} is {label:?} {other:?}", field.name()),
    };
    format!("{function}({:?}, {})", field.name(), field.number())
}
