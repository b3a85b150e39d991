//! Connections that are cut between two frames.

use std::collections::BTreeMap;

use crate::cut_proxy::{Cut, CutProxy, Sender};
use crate::machine::{Machine, judged, wait_until};
use crate::programs::INSTANTS;
use crate::running::Program;

/// Records the events of a category.
fn config(category: &str) -> String {
    format!(
        r#"buffers {{ size_kb: 4096 }}
           data_sources {{ config {{
             name: "track_event"
             track_event_config {{ disabled_categories: "*" enabled_categories: "{category}" }}
           }} }}"#
    )
}

/// A program behind a proxy.
struct Cuttable {
    cut: Option<Cut>,
    proxy: CutProxy,
    program: Program,
}

impl Cuttable {
    fn start(machine: &Machine, name: &str, cut: Option<Cut>) -> Self {
        let socket = machine.file(&format!("proxy of {name}"));
        let proxy = CutProxy::start(socket, machine.producer_socket(), cut);
        let program = machine.program_at(&proxy.socket, name, "two sessions");
        Self {
            cut,
            proxy,
            program,
        }
    }
}

/// Records the first session of programs whose connections are cut.
fn first_session(machine: &Machine, cuts: &[Option<Cut>]) -> Vec<Cuttable> {
    let recording = machine.record("first.pftrace", &config("first"));
    let mut all: Vec<_> = cuts
        .iter()
        .enumerate()
        .map(|(number, cut)| Cuttable::start(machine, &format!("{}-{number}", cuts.len()), *cut))
        .collect();
    for one in &mut all {
        if one.cut.is_none() {
            one.program.wait_for("first");
        }
    }
    recording.finish();
    all
}

/// The number of frames that the daemon sends in a session: the methods, the answer to the
/// introduction, the memory, the set-up, the start, a flush, the stop.
const FRAMES_OF_DAEMON: usize = 7;
/// The number of frames that the program always sends in a session: the bind, the introduction, the
/// request for commands, the data source, its start, a writer, the writer's commit and end, the
/// answer to the flush, the stop.
const FRAMES_OF_PROGRAM: usize = 10;

#[test]
fn a_program_survives_a_cut_after_any_frame() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let whole = first_session(&machine, &[None]);
    // Up to the program's answer to the end of the session.
    let is_over = || whole[0].proxy.frames()[Sender::Daemon as usize] >= FRAMES_OF_DAEMON;
    wait_until(is_over);
    assert_eq!(whole[0].proxy.frames()[1], FRAMES_OF_DAEMON);
    drop(whole);

    let cut = |sender, after_frames, keeps_descriptor| {
        Some(Cut {
            sender,
            after_frames,
            keeps_descriptor,
        })
    };
    let by_program = (0..=FRAMES_OF_PROGRAM + 2).map(|frames| cut(Sender::Program, frames, false));
    let by_daemon = (1..=FRAMES_OF_DAEMON).map(|frames| cut(Sender::Daemon, frames, false));
    let without_memory = (1..=FRAMES_OF_DAEMON).map(|frames| cut(Sender::Daemon, frames, true));
    let cuts: Vec<_> = by_program
        .chain(by_daemon)
        .chain(without_memory)
        .chain([None])
        .collect();
    let mut all = first_session(&machine, &cuts);
    for one in all.iter().filter(|one| one.cut.is_some()) {
        // Some cuts are due after more frames than the connection has had. The proxy makes them
        // now, after the last frame.
        one.proxy.cut_now();
        wait_until(|| one.proxy.has_cut());
    }
    machine.wait_for_producers(all.len());

    let recording = machine.record("second.pftrace", &config("second"));
    for one in &mut all {
        one.program.go_on();
    }
    for one in &mut all {
        one.program.wait_for("second");
    }
    let verdict = judged(&recording.finish());
    let mut indices: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for event in verdict.events_named("in the second session") {
        let [process, index] = ["process", "index"].map(|arg| event.args[arg].as_u64().unwrap());
        indices.entry(process as u32).or_default().push(index);
    }
    let expected = Vec::from_iter(0..INSTANTS);
    let descriptors = all.last().unwrap().program.possessions().descriptors;
    for one in all {
        let Cuttable {
            cut,
            mut program,
            proxy,
        } = one;
        if let Some(cut) =
            cut.filter(|it| !it.keeps_descriptor && it.after_frames < FRAMES_OF_PROGRAM)
        {
            let frames = proxy.frames()[cut.sender as usize];
            assert_eq!(frames, cut.after_frames, "{cut:?}");
        }
        assert_eq!(indices.get(&program.id()), Some(&expected), "{cut:?}");
        assert_eq!(program.possessions().descriptors, descriptors, "{cut:?}");
        program.go_on();
        program.wait();
    }
}
