//! Several encoded messages, or fields that come several times, into one. Here the other side is
//! prost: messages that rust-protobuf makes at run time replace what they should merge.

use std::collections::HashMap;

use protozero::OwnedMessage;

use super::rival;
use super::schema::old::owned as old;
use super::schema::owned::{Tree, tree};

/// Prost's view of `app.Tree`, in part.
#[derive(Clone, PartialEq, prost::Message)]
struct RivalTree {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, boxed, tag = "2")]
    left: Option<Box<RivalTree>>,
    #[prost(message, repeated, tag = "3")]
    children: Vec<RivalTree>,
    #[prost(map = "string, int32", tag = "4")]
    counts: HashMap<String, i32>,
    #[prost(map = "int64, message", tag = "5")]
    by_id: HashMap<i64, RivalTree>,
    #[prost(oneof = "RivalValue", tags = "7, 8, 12")]
    value: Option<RivalValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum RivalValue {
    #[prost(int64, tag = "7")]
    Number(i64),
    #[prost(string, tag = "8")]
    Text(String),
    #[prost(message, tag = "12")]
    Tree(Box<RivalTree>),
}

/// Merges messages given as text one after the other, and compares with what prost makes of
/// their bytes in a row.
#[track_caller]
fn assert_merged(texts: &[&str]) -> Tree {
    let mut merged = Tree::default();
    let mut bytes = Vec::new();
    for text in texts {
        let encoded = rival::encode("app.Tree", text);
        merged.merge(&encoded).expect("the bytes are well-formed");
        bytes.extend(encoded);
    }
    assert_eq!(Tree::decode(&bytes).as_ref(), Ok(&merged), "in one go");
    let rival =
        <RivalTree as prost::Message>::decode(bytes.as_slice()).expect("the bytes are well-formed");
    let expected =
        Tree::decode(&prost::Message::encode_to_vec(&rival)).expect("the bytes are well-formed");
    assert_eq!(merged, expected);
    merged
}

#[test]
fn the_last_scalar_wins() {
    assert_eq!(assert_merged(&["name: 'a'", "name: 'b'"]).name, "b");
}

#[test]
fn messages_are_merged_field_by_field() {
    let tree = assert_merged(&[
        "left { name: 'a' children { name: 'x' } left { name: 'deep' } }",
        "left { children { name: 'y' } left { number: 1 } }",
    ]);
    let left = tree.left.unwrap();
    assert_eq!(left.name, "a");
    assert_eq!(left.children.len(), 2);
    assert_eq!(left.left.unwrap().name, "deep");
}

#[test]
fn elements_are_appended() {
    let tree = assert_merged(&["children { name: 'x' }", "children { name: 'y' }"]);
    assert_eq!(tree.children[1].name, "y");
}

#[test]
fn an_entry_replaces_the_one_with_its_key() {
    let tree = assert_merged(&[
        "counts { key: 'a' value: 1 } by_id { key: 5 value { name: 'old' number: 1 } }",
        "counts { key: 'b' value: 2 } by_id { key: 5 value { name: 'new' } }",
    ]);
    assert_eq!(tree.counts.len(), 2);
    assert_eq!(tree.by_id[&5].name, "new");
    assert_eq!(tree.by_id[&5].value, None, "not merged");
}

#[test]
fn an_entry_may_lack_its_parts_or_have_them_in_any_order() {
    let tree = Tree::decode(b"\x22\x00\x22\x05\x10\x07\x0a\x01k\x22\x02\x10\x03").unwrap();
    let entries: Vec<_> = tree
        .counts
        .iter()
        .map(|(key, value)| (key.as_str(), *value))
        .collect();
    // The third entry has the key of the first, which is the empty one.
    assert_eq!(entries, [("", 3), ("k", 7)]);
}

#[test]
fn the_last_member_of_a_oneof_wins_and_the_same_message_is_merged() {
    let tree = assert_merged(&["number: 1", "text: 'a'"]);
    assert_eq!(tree.value, Some(tree::Value::Text("a".to_owned())));
    let tree = assert_merged(&["tree { name: 'a' }", "tree { number: 2 }"]);
    let Some(tree::Value::Tree(inner)) = tree.value else {
        panic!("the tree is set");
    };
    assert_eq!(
        (inner.name.as_str(), inner.value),
        ("a", Some(tree::Value::Number(2)))
    );
    let tree = assert_merged(&["tree { name: 'a' }", "number: 3", "tree { number: 2 }"]);
    let Some(tree::Value::Tree(inner)) = tree.value else {
        panic!("the tree is set");
    };
    assert_eq!(inner.name, "", "what was set in between has replaced it");
}

#[test]
fn merging_into_what_was_built_by_hand_keeps_what_does_not_come() {
    let mut settings = old::Version1 {
        root_int: Some(1),
        names: vec!["mine".to_owned()],
        ..old::Version1::default()
    };
    settings
        .merge(&rival::encode(
            "old.Version1",
            "names: 'theirs' part { number: 4 }",
        ))
        .unwrap();
    assert_eq!(settings.root_int, Some(1));
    assert_eq!(settings.names, ["mine", "theirs"]);
    assert_eq!(settings.part.unwrap().number, Some(4));
}
