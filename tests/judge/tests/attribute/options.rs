//! The options of the attribute `trace` for category, name and arguments.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use judge::Value;
use support::alone;
use tracezero::trace;

use crate::{recorded, slice, text};

#[trace]
fn plain() {}

#[trace("io")]
fn with_category() {}

#[trace("io", name = "Store::read")]
fn with_name() {}

#[trace(args(), name = "all parts", category = "io,io.slow")]
fn with_all_parts() {}

#[test]
fn category_and_name_default_to_package_and_function() {
    let verdict = recorded(|| {
        plain();
        with_category();
        with_name();
        with_all_parts();
    });
    let found = |name| &slice(&verdict, name).categories;
    assert_eq!(found("plain"), &["judge"]);
    assert_eq!(found("with_category"), &["io"]);
    assert_eq!(found("Store::read"), &["io"]);
    assert_eq!(found("all parts"), &["io", "io.slow"]);
    assert!(slice(&verdict, "plain").args.is_empty());
}

#[trace("io", args(path, limit, offset = -1, is_last, share = f64::from(limit) / 2.0,))]
fn read(path: &str, limit: u32, is_last: bool) -> usize {
    usize::from(is_last) + path.len() + limit as usize
}

#[trace("io", args(%path, ?mode, end = %limit + 1, "http.status" = ?Some(404), type = "get"))]
fn read_as_text(path: impl Display, mode: impl Debug, limit: u32) {
    drop((path, mode, limit));
}

#[test]
fn arguments_keep_their_types() {
    let verdict = recorded(|| {
        read("/etc/hosts", 5, true);
    });
    let expected = BTreeMap::from([
        ("path".to_owned(), text("/etc/hosts")),
        ("limit".to_owned(), Value::Uint(5)),
        ("offset".to_owned(), Value::Int(-1)),
        ("is_last".to_owned(), Value::Bool(true)),
        ("share".to_owned(), Value::Double(2.5)),
    ]);
    assert_eq!(slice(&verdict, "read").args, expected);
}

#[test]
fn arguments_become_texts_where_they_are_asked_to() {
    let verdict = recorded(|| read_as_text("dir", Some('r'), 7));
    let expected = BTreeMap::from([
        ("path".to_owned(), text("dir")),
        ("mode".to_owned(), text("Some('r')")),
        ("end".to_owned(), text("8")),
        ("http.status".to_owned(), text("Some(404)")),
        ("type".to_owned(), text("get")),
    ]);
    assert_eq!(slice(&verdict, "read_as_text").args, expected);
}

struct Queue {
    items: Vec<u8>,
}

impl Queue {
    #[trace(args(count = self.items.len(), first = self.items[0]))]
    fn into_last(mut self) -> Option<u8> {
        let last = self.items.pop();
        self.items.clear();
        last
    }
}

#[trace(args(text = &text))]
fn moved(text: String) -> Box<str> {
    text.into_boxed_str()
}

#[test]
fn arguments_see_the_parameters_before_the_body_changes_them() {
    let verdict = recorded(|| {
        assert_eq!(Queue { items: vec![1, 2] }.into_last(), Some(2));
        assert_eq!(&*moved("abc".to_owned()), "abc");
    });
    let args = &slice(&verdict, "into_last").args;
    assert_eq!(args["count"], Value::Uint(2));
    assert_eq!(args["first"], Value::Uint(1));
    assert_eq!(slice(&verdict, "moved").args["text"], text("abc"));
}

#[trace(args(evaluated = { evaluations.set(evaluations.get() + 1); evaluations.get() }))]
fn lazy(evaluations: &Cell<u32>) {
    let _ = evaluations;
}

#[test]
fn arguments_are_evaluated_once_and_only_while_recording() {
    let evaluations = Cell::new(0);
    let verdict = recorded(|| lazy(&evaluations));
    assert_eq!(evaluations.get(), 1);
    assert_eq!(slice(&verdict, "lazy").args["evaluated"], Value::Uint(1));
    let _guard = alone();
    lazy(&evaluations);
    assert_eq!(evaluations.get(), 1);
}
