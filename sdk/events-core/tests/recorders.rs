//! Every call site is introduced to each recorder once, and each recorder records the call sites
//! that it has turned on.
//!
//! A single test, because a recorder stays connected for the rest of the process.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, OnceLock};

use tracezero_events_core::{
    CallSite, Event, Kind, Number, RECORDERS_MAX, Recorder, SiteRecorder, Switch, Value, connect,
};

/// A recorder that writes each call into a list of lines.
struct Notes {
    name: &'static str,
    lines: Mutex<Vec<String>>,
    switches: Mutex<Vec<Switch>>,
    /// The number of call sites that the recorder still declines before it accepts one.
    declines: Mutex<u32>,
    /// A recorder to connect while a call site is introduced, as another thread might do.
    connects: Mutex<Option<&'static Notes>>,
    /// True if the next end of a slice panics.
    panics: Mutex<bool>,
}

struct Site {
    notes: &'static Notes,
    name: &'static str,
}

impl Notes {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            lines: Mutex::new(Vec::new()),
            switches: Mutex::new(Vec::new()),
            declines: Mutex::new(0),
            connects: Mutex::new(None),
            panics: Mutex::new(false),
        }
    }

    fn note(&self, line: String) {
        self.lines.lock().expect("no panic").push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().expect("no panic"))
    }

    fn turn(&self, is_on: bool) {
        for switch in self.switches.lock().expect("no panic").iter() {
            switch.set(is_on);
        }
    }
}

impl Recorder for Notes {
    fn recorder_of(
        &'static self,
        site: &'static CallSite,
        switch: Switch,
    ) -> Option<&'static dyn SiteRecorder> {
        if let Some(other) = self.connects.lock().expect("no panic").take() {
            connect(other).expect("there is room");
        }
        let mut declines = self.declines.lock().expect("no panic");
        if *declines > 0 {
            *declines -= 1;
            return None;
        }
        self.note(format!("{} knows {}", self.name, site.name()));
        self.switches.lock().expect("no panic").push(switch);
        Some(Box::leak(Box::new(Site {
            notes: self,
            name: site.name(),
        })))
    }
}

impl SiteRecorder for Site {
    fn instant(&'static self, event: &Event<'_>) {
        let name = event.name().unwrap_or(self.name);
        self.notes
            .note(format!("instant {name} {:?}", event.args()));
    }

    fn begin(&'static self, event: &Event<'_>) -> u64 {
        self.notes
            .note(format!("begin {} {:?}", self.name, event.args()));
        7
    }

    fn end(&'static self, span: u64, event: &Event<'_>) {
        self.notes
            .note(format!("end {span} by {} {:?}", self.name, event.args()));
        let panics = std::mem::take(&mut *self.notes.panics.lock().expect("no panic"));
        assert!(!panics, "as formatting an argument does");
    }

    fn count(&'static self, value: Number, _: &Event<'_>) {
        self.notes.note(format!("count {} {value:?}", self.name));
    }
}

static FIRST: Notes = Notes::new("first");
static SECOND: Notes = Notes::new("second");

#[test]
fn recorders_record_what_they_have_turned_on() {
    static EARLY: CallSite = CallSite::new(Kind::Span, "lib", "early", &["number"]);
    static LATE: CallSite = CallSite::new(Kind::Counter, "lib", "late", &[]);
    static END: CallSite = CallSite::new(Kind::End, "", "end", &["bytes"]);

    // No recorder is connected.
    assert_eq!(EARLY.active(), 0);

    // When a recorder is connected, it learns of the call sites that were reached before. It learns
    // of any other call site when that call site is reached.
    connect(&FIRST).expect("the first one");
    assert_eq!(FIRST.take(), ["first knows early"]);
    assert_eq!(LATE.active(), 0);
    assert_eq!(LATE.active(), 0);
    assert_eq!(FIRST.take(), ["first knows late"]);

    // Each recorder receives the events of the call sites that it has turned on.
    connect(&SECOND).expect("the second one");
    assert_eq!(SECOND.take(), ["second knows late", "second knows early"]);
    FIRST.turn(true);
    assert_eq!(EARLY.active(), 0b01);
    SECOND.turn(true);
    assert_eq!(EARLY.active(), 0b11);
    FIRST.turn(false);
    EARLY.instant(
        EARLY.active(),
        &Event::new(&[Value::Uint(1)]).named("other"),
    );
    LATE.count(LATE.active(), Number::Double(0.5), &Event::default());
    assert_eq!(FIRST.take(), [""; 0]);
    assert_eq!(
        SECOND.take(),
        ["instant other [1]", "count late Double(0.5)"]
    );

    // A slice ends in the recorders that have begun it, even if they turned the call site off since
    // then.
    let open = EARLY.begin(EARLY.active(), &Event::new(&[Value::Text("x")]));
    FIRST.turn(true);
    SECOND.turn(false);
    drop(open);
    assert_eq!(FIRST.take(), [""; 0]);
    assert_eq!(SECOND.take(), ["begin early [\"x\"]", "end 7 by early []"]);

    // The call site of an end has the names of the arguments. A recorder that does not know this
    // call site yet ends the slice without arguments.
    let open = EARLY.begin(EARLY.active(), &Event::default());
    *FIRST.declines.lock().expect("no panic") = 1;
    open.end_at(&END, &Event::new(&[Value::Int(-1)]));
    assert_eq!(FIRST.take(), ["begin early []", "end 7 by early []"]);
    let open = EARLY.begin(EARLY.active(), &Event::default());
    open.end_at(&END, &Event::new(&[Value::Int(-1)]));
    let by_end = ["begin early []", "first knows end", "end 7 by end [-1]"];
    assert_eq!(FIRST.take(), by_end);

    // If one recorder panics at the end of a slice, the slice still ends in the others.
    SECOND.turn(true);
    let open = EARLY.begin(EARLY.active(), &Event::default());
    *FIRST.panics.lock().expect("no panic") = true;
    let ended = panic::catch_unwind(AssertUnwindSafe(|| open.end_at(&END, &Event::default())));
    assert!(ended.is_err());
    assert_eq!(FIRST.take(), ["begin early []", "end 7 by end []"]);
    assert_eq!(SECOND.take().last().expect("an end"), "end 7 by early []");

    // If a recorder is connected while a call site registers, and declines the call site, it is
    // asked again.
    static THIRD: Notes = Notes::new("third");
    static NEW: CallSite = CallSite::new(Kind::Instant, "lib", "new", &[]);
    *THIRD.declines.lock().expect("no panic") = 100;
    *FIRST.connects.lock().expect("no panic") = Some(&THIRD);
    NEW.active();
    *THIRD.declines.lock().expect("no panic") = 0;
    NEW.active();
    assert_eq!(THIRD.take(), ["third knows new"]);

    // The number of recorders is limited.
    static OTHERS: [OnceLock<Notes>; RECORDERS_MAX - 3] =
        [const { OnceLock::new() }; RECORDERS_MAX - 3];
    for other in &OTHERS {
        connect(other.get_or_init(|| Notes::new("other"))).expect("there is room");
    }
    let error = connect(&FIRST).expect_err("there is no room");
    assert!(error.to_string().contains("4 recorders already"), "{error}");
}
