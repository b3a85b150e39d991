//! Instructions of the fast path for each kind of field, which must not grow unnoticed.
//!
//! Callgrind counts them (on x86-64), in this very program: each subject is a function that appends
//! one field, and another that appends nine. An eighth of the difference is what a field costs
//! between others, without the call. Counts do not depend on the machine or its load, so they are
//! compared with exact limits; they may with the compiler. The limits hold for `rustc` 1.95; a
//! better one brings them down.
//!
//! ```sh
//! cargo bench -p protozero --bench instructions
//! ```

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use protozero::{Message, StaticBuffered};

/// The values that are written; opaque to the compiler.
struct Values {
    small: u32,
    five_bytes: u64,
    time_stamp: u64,
    fixed: u64,
    flag: bool,
    variant: i32,
    name: String,
    payload: Vec<u8>,
}

impl Values {
    fn new() -> Self {
        Self {
            small: 42,
            five_bytes: 1 << 33,
            time_stamp: 1_700_000_000_000_000,
            fixed: 0x1234_5678_9abc_def0,
            flag: true,
            variant: 3,
            name: "sixteen bytes ..".to_owned(),
            payload: vec![7; 127],
        }
    }
}

/// A kind of field, and what of it is allowed.
struct Subject {
    name: &'static str,
    /// Instructions of one field.
    limit: u64,
    /// Subjects, named before, that are a part of this one and do not count.
    without: &'static [&'static str],
    once: fn(&mut Message<'_>, &Values),
    nine_times: fn(&mut Message<'_>, &Values),
}

macro_rules! subjects {
    ($($name:ident: $limit:literal $(- $without:ident)?, |$message:ident, $values:ident| $append:expr;)*) => {
        /// Functions whose instructions are counted: their names are patterns for Callgrind.
        mod counted {
            use super::{Message, Values};

            $(pub mod $name {
                use super::{Message, Values};

                #[inline(always)]
                fn append($message: &mut Message<'_>, $values: &Values) {
                    $append;
                }

                #[inline(never)]
                pub fn once(message: &mut Message<'_>, values: &Values) {
                    append(message, values);
                }

                #[inline(never)]
                pub fn nine_times(message: &mut Message<'_>, values: &Values) {
                    append(message, values);
                    append(message, values);
                    append(message, values);
                    append(message, values);
                    append(message, values);
                    append(message, values);
                    append(message, values);
                    append(message, values);
                    append(message, values);
                }
            })*
        }

        const SUBJECTS: &[Subject] = &[$(Subject {
            name: stringify!($name),
            limit: $limit,
            without: &[$(stringify!($without))?],
            once: counted::$name::once,
            nine_times: counted::$name::nine_times,
        },)*];
    };
}

subjects! {
    uint32_of_one_byte: 10, |m, v| m.append_uint32::<1>(v.small);
    bool_: 8, |m, v| m.append_bool::<2>(v.flag);
    enum_of_one_byte: 9, |m, v| m.append_enum::<3>(v.variant);
    uint64_of_five_bytes: 33, |m, v| m.append_uint64::<4>(v.five_bytes);
    uint64_of_eight_bytes: 55, |m, v| m.append_uint64::<5>(v.time_stamp);
    fixed64: 7, |m, v| m.append_fixed64::<6>(v.fixed);
    string_of_16_bytes: 21, |m, v| m.append_string::<7>(&v.name);
    bytes_of_127_bytes: 41, |m, v| m.append_bytes::<8>(&v.payload);
    // Begin and end of a message, too long for a length of one byte.
    nested: 37 - bytes_of_127_bytes, |m, v| m.begin_nested::<9>().append_bytes::<8>(&v.payload);
    // The same of a message that is compacted.
    nested_compacted: 59 - uint32_of_one_byte, |m, v| m.begin_nested::<10>().append_uint32::<1>(v.small);
}

/// Room for nine of any field.
const BUFFER_BYTES: usize = 4096;

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some(name) if !name.starts_with('-') => run(name),
        _ => check_all(),
    }
}

/// Runs both functions of one subject; Callgrind watches.
fn run(name: &str) -> ExitCode {
    let Some(subject) = SUBJECTS.iter().find(|subject| subject.name == name) else {
        eprintln!("there is no subject '{name}'");
        return ExitCode::FAILURE;
    };
    let values = black_box(Values::new());
    for append in [subject.once, subject.nine_times] {
        let mut memory = [0; BUFFER_BYTES];
        let mut buffer = StaticBuffered::<Message<'_>>::new(&mut memory);
        append(&mut buffer.message(), &values);
        buffer.finish().expect("there is room for nine fields");
    }
    ExitCode::SUCCESS
}

fn check_all() -> ExitCode {
    if !cfg!(target_arch = "x86_64") {
        println!("instructions are counted on x86-64 alone");
        return ExitCode::SUCCESS;
    }
    let this = env::current_exe().expect("a program knows where it is");
    let mut counts: Vec<(&str, u64)> = Vec::new();
    let mut too_many = false;
    println!("{:24} {:>12} {:>6}", "field", "instructions", "limit");
    for subject in SUBJECTS {
        let once = count(&this, subject.name, "once");
        let nine_times = count(&this, subject.name, "nine_times");
        let each = (nine_times - once).div_ceil(8);
        let others: u64 = counts
            .iter()
            .filter(|(name, _)| subject.without.contains(name))
            .map(|(_, count)| count)
            .sum();
        counts.push((subject.name, each));
        let own = each - others;
        let verdict = if own > subject.limit {
            "  too many"
        } else {
            ""
        };
        too_many |= own > subject.limit;
        println!("{:24} {own:12} {:6}{verdict}", subject.name, subject.limit);
    }
    if too_many {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Instructions of one function of a subject, with all that it calls.
fn count(this: &Path, subject: &str, function: &str) -> u64 {
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg("--callgrind-out-file=/dev/null")
        .arg(format!("--toggle-collect=*counted::{subject}::{function}*"))
        .arg(this)
        .arg(subject)
        .output()
        .expect("valgrind is installed");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    messages
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
        .filter(|count| *count > 0)
        .unwrap_or_else(|| panic!("no count for {subject}::{function} in:\n{messages}"))
}
