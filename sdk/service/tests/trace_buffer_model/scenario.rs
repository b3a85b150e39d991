//! Prints a run as a scenario for the conformance file. The results of the model are the
//! expectations.

use std::fmt::Write;

use crate::model::{Commit, Model, Packet, Patch};
use crate::random::{Operation, Run};

/// Returns the scenario. Scenarios cannot express overwritten packets and packet counts, so these
/// are left out.
pub fn print(name: &str, run: &Run) -> String {
    let policy = if run.discard { "discard" } else { "ring" };
    let mut text = format!("scenario {name}\nbuffer {} {policy}\n", run.size);
    let mut model = Model::new(run.size, run.discard);
    for operation in &run.operations {
        match operation {
            Operation::Commit(commit) => {
                model.commit(commit);
                text += &line_of_commit(commit);
            }
            Operation::Patch(patch) => {
                let succeeds = model.patch(patch);
                text += &line_of_patch(patch, succeeds);
            }
            Operation::BeginRead => {
                model.begin_read();
                text += "begin_read\n";
            }
            Operation::Read => text += &line_of_read(model.read()),
            Operation::Clone => {
                text += "clone copy\nuse copy\nbegin_read\n";
                let mut clone = model.clone_read_only();
                clone.begin_read();
                loop {
                    let packet = clone.read();
                    let is_last = packet.is_none();
                    text += &line_of_read(packet);
                    if is_last {
                        break;
                    }
                }
                text += &line_of_stats(&clone);
                text += "use main\ndrop copy\n";
            }
        }
    }
    text += &line_of_stats(&model);
    writeln!(text, "used {}\ntail {}", model.used(), model.tail()).expect("memory");
    text
}

fn line_of_commit(commit: &Commit) -> String {
    let mut line = format!("commit {}.{}#{}", commit.key.0, commit.key.1, commit.id);
    if !commit.source.is_empty() {
        write!(line, " j:{}", bytes(&commit.source)).expect("memory");
    }
    write!(line, " n={} flags={:02x}", commit.declared, commit.flags).expect("memory");
    if !commit.complete {
        line += " ~";
    }
    for (name, id) in [("uid", commit.client.0), ("pid", commit.client.1)] {
        if let Some(id) = id {
            write!(line, " {name}={id}").expect("memory");
        }
    }
    line + "\n"
}

fn line_of_patch(patch: &Patch, succeeds: bool) -> String {
    let pending = if patch.has_more { "more" } else { "last" };
    let mut line = format!(
        "patch {}.{}#{} {pending}",
        patch.key.0, patch.key.1, patch.id
    );
    for (offset, data) in &patch.patches {
        write!(line, " {offset}:{:08x}", u32::from_be_bytes(*data)).expect("memory");
    }
    line + if succeeds { " ok\n" } else { " fail\n" }
}

fn line_of_read(packet: Option<Packet>) -> String {
    let Some(packet) = packet else {
        return "read none\n".to_owned();
    };
    let slices: Vec<String> = packet
        .slices
        .iter()
        .map(|slice| format!("x:{}", bytes(slice)))
        .collect();
    let slices = match slices.len() {
        0 => "empty".to_owned(),
        _ => slices.join("+"),
    };
    let (producer, writer) = packet.key;
    format!(
        "read {slices} loss={} seq={producer}.{writer}\n",
        packet.loss
    )
}

fn line_of_stats(model: &Model) -> String {
    let mut line = "stats_all".to_owned();
    for (name, value) in &model.stats {
        write!(line, " {name}={value}").expect("memory");
    }
    line + "\n"
}

/// Formats bytes. A run of equal bytes is written as `HEX*NUM`.
fn bytes(bytes: &[u8]) -> String {
    let pieces: Vec<String> = bytes
        .chunk_by(|a, b| a == b)
        .map(|run| match run.len() {
            1 => format!("{:02x}", run[0]),
            times => format!("{:02x}*{times}", run[0]),
        })
        .collect();
    pieces.join(",")
}
