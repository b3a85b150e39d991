//! Findings about interned ids.

use tracezero::reader::{Level, Rule};

use crate::edit::{Content, Message};
use crate::good_trace::{Trace, field, table};
use crate::verdict::{assert_error, findings};

fn iid_of_name(trace: &Trace, packet: usize) -> u64 {
    let interned = trace.packets[packet].message(field::INTERNED_DATA);
    let names = interned.and_then(|interned| interned.message(table::EVENT_NAMES));
    names.and_then(|name| name.number(1)).expect("a name")
}

#[test]
fn undefined_name_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let iid = iid_of_name(&trace, packet);
    trace.packets[packet].edit(field::INTERNED_DATA, |interned| {
        interned.remove(table::EVENT_NAMES);
    });
    let words = format!("id {iid} is not defined in event_names");
    assert_error(&trace, packet, Rule::Interning, &words);
}

#[test]
fn undefined_argument_name_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("read");
    let interned = trace.packets[packet].message(field::INTERNED_DATA);
    let name = interned.and_then(|interned| interned.message(table::ARG_NAMES));
    let iid = name.and_then(|name| name.number(1)).expect("a name");
    trace.packets[packet].edit(field::INTERNED_DATA, |interned| {
        interned.remove(table::ARG_NAMES);
    });
    let words = format!("id {iid} is not defined in debug_annotation_names");
    assert_error(&trace, packet, Rule::Interning, &words);
}

#[test]
fn interned_id_zero_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    let iid = iid_of_name(&trace, packet);
    trace.packets[packet].edit(field::INTERNED_DATA, |interned| {
        interned.edit(table::EVENT_NAMES, |name| name.set(1, Content::Varint(0)));
    });
    let found = findings(&trace.encode());
    let texts: Vec<_> = found.iter().map(|finding| &finding.text[..]).collect();
    let unknown = format!("id {iid} is not defined in event_names");
    assert_eq!(texts, ["an entry of event_names has no id", &unknown]);
    for finding in &found {
        assert_eq!(
            (finding.level, finding.rule),
            (Level::Error, Rule::Interning)
        );
        assert_eq!(finding.packet, Some(packet as u64));
    }
}

#[test]
fn interned_id_with_two_meanings_is_found() {
    let mut trace = Trace::good();
    let iid = iid_of_name(&trace, trace.event("read"));
    let packet = trace.event("send");
    trace.packets[packet].edit(field::INTERNED_DATA, |interned| {
        let other = Message(vec![
            (1, Content::Varint(iid)),
            (2, Content::Bytes(b"other".to_vec())),
        ]);
        interned
            .0
            .push((table::EVENT_NAMES, Content::Bytes(other.encode())));
    });
    let words = format!("id {iid} of event_names is defined again, with another value");
    assert_error(&trace, packet, Rule::Interning, &words);
}

#[test]
fn name_that_is_not_utf8_is_found() {
    let mut trace = Trace::good();
    let packet = trace.event("ready");
    trace.packets[packet].edit(field::INTERNED_DATA, |interned| {
        interned.edit(table::EVENT_NAMES, |name| {
            name.set(2, Content::Bytes(vec![b'a', 0xff]));
        });
    });
    assert_error(&trace, packet, Rule::Decoding, "a string is not UTF-8");
}
