//! Reads programs back from generated code. The decoder shares no code with the generator, so that
//! a mistake in the encoding cannot hide.

use protozero_codegen::{Config, Error, VmProgram};
use support::Folder;

/// Compiles a program named `test.PROGRAM` against the file `test.proto`, which may import the
/// other files.
pub(crate) fn compile(files: &[(&str, &str)], program: VmProgram) -> Result<String, Error> {
    let folder = Folder::with(files);
    let files = Config::new()
        .include(&folder)
        .vm_program("test.PROGRAM", program)
        .generate(&[folder.file("test.proto")])?;
    Ok(files[0].source.clone())
}

/// Asserts the decoded instructions of a program.
#[track_caller]
pub(crate) fn assert_program(files: &[(&str, &str)], program: VmProgram, expected: &str) {
    let source = compile(files, program).expect("the program compiles");
    let text = text(&constant(&source, "PROGRAM"));
    let lines: Vec<&str> = expected.trim_matches('\n').lines().collect();
    let indent = lines[0].len() - lines[0].trim_start().len();
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| line.get(indent..).unwrap_or(""))
        .collect();
    assert_eq!(text, lines.join("\n").trim_end());
}

/// Returns the bytes of a constant in generated code.
pub(crate) fn constant(source: &str, name: &str) -> Vec<u8> {
    let file = syn::parse_file(source).expect("Rust");
    let constant = file.items.iter().find_map(|item| match item {
        syn::Item::Const(item) if item.ident == name => Some(item),
        _ => None,
    });
    match constant.expect("the constant exists").expr.as_ref() {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::ByteStr(bytes),
            ..
        }) => bytes.value(),
        _ => panic!("not a literal"),
    }
}

/// Returns the instructions of a serialized `VmProgram`, one a line.
///
/// Fields are numbers. `1*` stands for a field with `is_repeated`, `1[3 == r0]` for an element by
/// its key.
pub(crate) fn text(program: &[u8]) -> String {
    let mut lines = Vec::new();
    for (number, value) in fields(program) {
        assert_eq!(number, 2, "only instructions");
        instruction(value.bytes(), 0, &mut lines);
    }
    lines.join("\n")
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(&self) -> u64 {
        match self {
            Value::Number(number) => *number,
            Value::Bytes(_) => panic!("not a number"),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Value::Number(_) => panic!("not bytes"),
            Value::Bytes(bytes) => bytes,
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(value),
            2 => {
                let (content, rest) = bytes.split_at(usize::try_from(value).expect("a length"));
                bytes = rest;
                Value::Bytes(content)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    assert!(fields.is_sorted_by_key(|(number, _)| *number), "canonical");
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a whole varint");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn instruction(bytes: &[u8], indent: usize, lines: &mut Vec<String>) {
    let mut line = String::new();
    let mut nested = Vec::new();
    for (number, value) in fields(bytes) {
        match number {
            1 => line += &select(value.bytes()),
            2 => line += &load(value.bytes()),
            3 => line += &merge(value.bytes()),
            4 => {
                assert!(value.bytes().is_empty());
                line += "set";
            }
            5 => {
                assert!(value.bytes().is_empty());
                line += "del";
            }
            6 => {
                line += match value.number() {
                    1 => ", SKIP",
                    3 => ", ABORT",
                    other => panic!("level {other}"),
                }
            }
            7 => nested.push(value.bytes()),
            other => panic!("field {other} of an instruction"),
        }
    }
    lines.push(format!("{:indent$}{line}", ""));
    for bytes in nested {
        instruction(bytes, indent + 2, lines);
    }
}

fn cursor(value: &Value<'_>) -> &'static str {
    match value.number() {
        1 => "SRC",
        2 => "DST",
        other => panic!("cursor {other}"),
    }
}

fn select(bytes: &[u8]) -> String {
    let (mut line, mut create) = ("select ".to_owned(), "");
    let mut path = Vec::new();
    for (number, value) in fields(bytes) {
        match number {
            1 => line += cursor(&value),
            2 => path.push(component(value.bytes())),
            3 => {
                assert_eq!(value.number(), 1);
                create = ", create";
            }
            other => panic!("field {other} of a select"),
        }
    }
    let path = path.join(".").replace(".[", "[");
    format!("{line} {path}{create}")
}

fn component(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, value) in fields(bytes) {
        let value = value.number();
        match number {
            1 => text += &value.to_string(),
            3 => text += &format!("[{value} == "),
            5 => {
                assert_eq!(value, 1);
                text += "*";
            }
            6 => text += &format!("r{value}]"),
            other => panic!("field {other} of a path component"),
        }
    }
    text
}

fn load(bytes: &[u8]) -> String {
    let mut text = "load".to_owned();
    for (number, value) in fields(bytes) {
        match number {
            1 => text += &format!(" {}", cursor(&value)),
            2 => text += &format!(" to r{}", value.number()),
            other => panic!("field {other} of a load"),
        }
    }
    text
}

fn merge(bytes: &[u8]) -> String {
    let mut text = "merge".to_owned();
    for (number, value) in fields(bytes) {
        assert_eq!(value.number(), 1);
        text += match number {
            1 => " skip_submessages",
            2 => " del_if_src_empty",
            other => panic!("field {other} of a merge"),
        };
    }
    text
}
