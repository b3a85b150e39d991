//! Pages of traces with the kernel's half: lanes of CPUs, and states of threads above their spans.

use protozero::{HeapBuffered, Writer as _};
use serde_json::json;
use support::Folder;
use tracezero::protos::{Trace, track_event};
use tracezero_kernel::protos::{FtraceEventBundle, KernelPacket, ProcessTree};

use crate::chromium::Chromium;
use crate::{number, view};

const IDLE: i32 = 0;
const HOLDER: i32 = 11;
const WAITER: i32 = 12;
const OTHER: i32 = 20;

const RUNNABLE: i64 = 0;
const SLEEPING: i64 = 1;
const BLOCKED: i64 = 2;

/// The time of the first span.
const BEGIN_NS: u64 = 1_000_000;

/// Writes a bundle of one event.
fn event(
    trace: &mut Trace<'_>,
    cpu: u32,
    time_ns: u64,
    tid: i32,
    write: impl FnOnce(&mut tracezero_kernel::protos::FtraceEvent<'_>),
) {
    bundle(trace, |bundle| {
        bundle.set_cpu(cpu);
        bundle.add_event(|event| {
            event.set_timestamp(time_ns).set_pid(tid as u32);
            write(event);
        });
    });
}

fn bundle(trace: &mut Trace<'_>, write: impl FnOnce(&mut FtraceEventBundle<'_>)) {
    trace.add_packet(|packet| {
        let message = packet.as_message_mut();
        let message = message.begin_nested::<{ KernelPacket::FTRACE_EVENTS_FIELD_NUMBER }>();
        write(&mut FtraceEventBundle::from_message(message));
    });
}

fn switch(trace: &mut Trace<'_>, cpu: u32, time_ns: u64, prev: i32, state: i64, next: i32) {
    event(trace, cpu, BEGIN_NS + time_ns, prev, |event| {
        event.sched_switch(|switch| {
            switch.set_prev_pid(prev).set_prev_state(state);
            switch.set_next_pid(next);
        });
    });
}

fn waking(trace: &mut Trace<'_>, cpu: u32, time_ns: u64, waker: i32, tid: i32) {
    event(trace, cpu, BEGIN_NS + time_ns, waker, |event| {
        event.sched_waking(|waking| {
            waking.set_pid(tid).set_target_cpu(cpu as i32);
        });
    });
}

fn enter(trace: &mut Trace<'_>, cpu: u32, time_ns: u64, tid: i32, number: i64, args: [u64; 3]) {
    event(trace, cpu, BEGIN_NS + time_ns, tid, |event| {
        event.sys_enter(|call| {
            call.set_id(number);
            for arg in args {
                call.add_args(arg);
            }
        });
    });
}

fn exit(trace: &mut Trace<'_>, cpu: u32, time_ns: u64, tid: i32) {
    event(trace, cpu, BEGIN_NS + time_ns, tid, |event| {
        event.sys_exit(|_| {});
    });
}

/// Describes the machine, its processes, and the tracks of the spans.
fn describe(trace: &mut Trace<'_>) {
    trace.add_packet(|packet| {
        packet.system_info(|info| {
            info.utsname(|names| {
                names.set_release("6.1.0").set_machine("x86_64");
            });
        });
    });
    trace.add_packet(|packet| {
        let message = packet.as_message_mut();
        let message = message.begin_nested::<{ KernelPacket::PROCESS_TREE_FIELD_NUMBER }>();
        let mut tree = ProcessTree::from_message(message);
        for (pid, name) in [(10, "/usr/bin/shop"), (OTHER, "backup")] {
            tree.add_processes(|process| {
                process.set_pid(pid).add_cmdline(name);
            });
        }
        let threads = [(HOLDER, 10, "h"), (WAITER, 10, "w"), (OTHER, OTHER, "copy")];
        for (tid, pid, name) in threads {
            tree.add_threads(|thread| {
                thread.set_tid(tid).set_tgid(pid).set_name(name);
            });
        }
    });
    for (uuid, tid, name) in [(1, HOLDER, "holder"), (2, WAITER, "waiter")] {
        trace.add_packet(|packet| {
            packet.set_trusted_packet_sequence_id(1);
            packet.set_sequence_flags(u32::from(uuid == 1));
            packet.track_descriptor(|track| {
                track.set_uuid(uuid);
                track.thread(|thread| {
                    thread.set_pid(10).set_tid(tid).set_thread_name(name);
                });
            });
        });
    }
}

fn span(trace: &mut Trace<'_>, track: u64, name: &str, begin_ns: u64, end_ns: u64) {
    for (time_ns, kind) in [
        (begin_ns, track_event::Type::SLICE_BEGIN),
        (end_ns, track_event::Type::SLICE_END),
    ] {
        trace.add_packet(|packet| {
            packet.set_timestamp(BEGIN_NS + time_ns);
            packet.set_trusted_packet_sequence_id(1);
            packet.track_event(|event| {
                event.set_type(kind).set_track_uuid(track).set_name(name);
            });
        });
    }
}

/// A thread holds a lock while it writes to a slow disk, and another one waits for the lock. At the
/// end, the kernel loses events of CPU 1.
fn trace() -> Vec<u8> {
    const FSYNC: i64 = 74;
    const FUTEX: i64 = 202;

    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut out = buffer.message();
    let trace = &mut out;
    describe(trace);
    span(trace, 1, "write", 0, 11_600);
    span(trace, 2, "book", 1100, 11_500);
    switch(trace, 0, 0, IDLE, RUNNABLE, HOLDER);
    enter(trace, 0, 2000, HOLDER, FSYNC, [0; 3]);
    switch(trace, 0, 2000, HOLDER, BLOCKED, OTHER);
    switch(trace, 1, 1000, IDLE, RUNNABLE, WAITER);
    enter(trace, 1, 1500, WAITER, FUTEX, [0x7f00, 128, 2]);
    switch(trace, 1, 1600, WAITER, SLEEPING, IDLE);
    waking(trace, 0, 7000, OTHER, HOLDER);
    switch(trace, 0, 8000, OTHER, RUNNABLE, HOLDER);
    exit(trace, 0, 8000, HOLDER);
    waking(trace, 0, 10_000, HOLDER, WAITER);
    switch(trace, 1, 11_000, IDLE, RUNNABLE, WAITER);
    exit(trace, 1, 11_000, WAITER);
    switch(trace, 0, 12_000, HOLDER, RUNNABLE, IDLE);
    bundle(trace, |bundle| {
        bundle.set_cpu(1).set_lost_events(true);
    });
    switch(trace, 1, 13_000, OTHER, SLEEPING, IDLE);
    drop(out);
    buffer.to_vec()
}

/// Opens a trace in a browser.
fn open(trace: &[u8]) -> Chromium {
    let folder = Folder::empty();
    let file = folder.write("shop.pftrace", trace);
    let page = folder.file("shop.html");
    view(&file, &page, &[]);
    let mut chromium = Chromium::start();
    chromium.open(&page);
    chromium
}

/// Moves the pointer to a time of a lane, and returns the text that appears.
fn hover(chromium: &mut Chromium, lane: &str, time_ns: u64) -> String {
    let point = chromium.evaluate(&format!("view.pointAt({lane:?}, {time_ns})"));
    let (x, y) = (number(&point["x"]), number(&point["y"]));
    chromium.call(
        "Input.dispatchMouseEvent",
        json!({ "type": "mouseMoved", "x": x, "y": y }),
    );
    chromium.settle();
    let text = chromium.evaluate(
        "[...document.getElementById('tooltip').children].map((line) => line.innerText).join('|')",
    );
    text.as_str().unwrap().to_owned()
}

/// Clicks at a time of a lane, and returns the text of the panel.
fn details(chromium: &mut Chromium, lane: &str, time_ns: u64) -> String {
    let point = chromium.evaluate(&format!("view.pointAt({lane:?}, {time_ns})"));
    chromium.click(number(&point["x"]), number(&point["y"]));
    chromium.settle();
    let text = chromium.evaluate("document.getElementById('panel').innerText");
    text.as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn cpus_come_first_with_the_threads_that_ran() {
    let mut chromium = open(&trace());
    let tracks = chromium.evaluate("view.tracks()");
    assert_eq!(
        tracks,
        json!(["CPUs", "CPU 0", "CPU 1", "holder", "waiter"])
    );
    let expected = json!([
        { "name": "CPU 0", "pieces": [
            ["holder", 0, 2000, "then blocked on I/O"],
            ["copy", 2000, 8000, "then waiting for a core"],
            ["holder", 8000, 12_000, "then unknown: the kernel lost events"],
        ] },
        { "name": "CPU 1", "pieces": [
            ["", 0, 1000, ""],
            ["waiter", 1000, 1600, "then waiting for a lock or a thread"],
            ["", 11_000, 13_000, ""],
        ] },
    ]);
    assert_eq!(chromium.evaluate("view.cores()"), expected);
    chromium.screenshot("view-kernel.png");
    chromium.set_color_scheme("dark");
    chromium.screenshot("view-kernel-dark.png");
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn threads_have_states_with_calls_and_wakers() {
    let mut chromium = open(&trace());
    let holder = json!([
        ["running", 0, 2000, 0, "", ""],
        ["blocked on I/O", 2000, 7000, null, "fsync", "copy"],
        ["waiting for a core", 7000, 8000, 0, "", ""],
        ["running", 8000, 12_000, 0, "", ""],
        // CPU 1 may have taken it.
        [
            "unknown: the kernel lost events",
            12_000,
            13_000,
            null,
            "",
            ""
        ],
    ]);
    assert_eq!(chromium.evaluate("view.states('holder')"), holder);
    let waiter = json!([
        ["running", 1000, 1600, 1, "", ""],
        [
            "waiting for a lock or a thread",
            1600,
            10_000,
            null,
            "futex 0x7f00",
            "holder"
        ],
        ["waiting for a core", 10_000, 11_000, 0, "", ""],
        [
            "unknown: the kernel lost events",
            11_000,
            13_000,
            null,
            "",
            ""
        ],
    ]);
    assert_eq!(chromium.evaluate("view.states('waiter')"), waiter);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn pointer_and_click_tell_of_cpus_and_states() {
    let mut chromium = open(&trace());
    assert_eq!(
        hover(&mut chromium, "CPU 0", 5000),
        "copy|6.000 µs, backup, pid 20, then waiting for a core"
    );
    assert_eq!(
        hover(&mut chromium, "waiter", 5000),
        "waiting for a lock or a thread|8.400 µs, in futex 0x7f00|woken by holder"
    );
    assert_eq!(
        hover(&mut chromium, "waiter", 12_000),
        "unknown: the kernel lost events|2.000 µs"
    );
    let text = details(&mut chromium, "waiter", 5000);
    for part in [
        "System call",
        "futex 0x7f00",
        "holder, shop, pid 10",
        "inside of write",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    chromium.screenshot("view-kernel-wake.png");
    let text = details(&mut chromium, "CPU 0", 1000);
    for part in [
        "Afterwards",
        "blocked on I/O",
        "In the thread",
        "running, 2.000 µs",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert_eq!(chromium.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn details_of_a_span_divide_its_time_into_states() {
    let mut chromium = open(&trace());
    let (x, y) = crate::point_of(&mut chromium, "view.find('write')[0]");
    chromium.click(x, y);
    chromium.settle();
    let states = chromium.evaluate(
        "[...document.querySelectorAll('#panel section')]
            .find((section) => section.innerText.startsWith('The thread was')).innerText",
    );
    let lines: Vec<_> = states.as_str().unwrap().split_whitespace().collect();
    let text = lines.join(" ");
    assert_eq!(
        text,
        "The thread was running 5.600 µs, 48.3 % waiting for a core 1.000 µs, 8.6 % \
         blocked on I/O 5.000 µs, 43.1 %"
    );
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn legend_has_the_states_of_the_trace() {
    let mut chromium = open(&trace());
    let entries =
        "[...document.querySelectorAll('#legend .legend-entry')].map((it) => it.innerText)";
    let expected = [
        "running",
        "waiting for a core",
        "waiting for a lock or a thread",
        "blocked on I/O",
        "unknown",
    ];
    assert_eq!(chromium.evaluate(entries), json!(expected));
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn page_without_the_kernel_has_no_legend_and_no_cpus() {
    let mut chromium = crate::open();
    assert_eq!(
        chromium.evaluate("document.getElementById('legend').hidden"),
        true
    );
    assert_eq!(chromium.evaluate("view.cores()"), json!([]));
    assert_eq!(chromium.evaluate("view.tracks().includes('CPUs')"), false);
}

#[test]
#[ignore = "needs Chromium: ci/view.sh"]
fn cpus_of_large_machines_are_folded() {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut out = buffer.message();
    describe(&mut out);
    span(&mut out, 1, "write", 0, 10_000);
    for cpu in 0..64 {
        switch(
            &mut out,
            cpu,
            u64::from(cpu) * 10,
            IDLE,
            RUNNABLE,
            100 + cpu as i32,
        );
        switch(&mut out, cpu, 9000, 100 + cpu as i32, SLEEPING, IDLE);
    }
    drop(out);
    let mut chromium = open(&buffer.to_vec());
    assert_eq!(
        chromium.evaluate("view.tracks()"),
        json!(["CPUs", "holder"])
    );
    chromium.evaluate("document.querySelector('#names .fold').click()");
    assert_eq!(chromium.evaluate("view.tracks().length"), 66);
    assert_eq!(chromium.evaluate("view.tracks()[64]"), "CPU 63");
    chromium.screenshot("view-kernel-many.png");
    assert_eq!(chromium.complaints(), [""; 0]);
}
