//! Recorders get to know every call site once, and record what they have turned on.
//!
//! One test, since recorders are connected for good.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, OnceLock};

use tracezero_events_core::{
    CallSite, Event, Kind, Number, RECORDERS_MAX, Recorder, SiteRecorder, Switch, Value, connect,
};

/// Notes what it is told.
struct Notes {
    name: &'static str,
    lines: Mutex<Vec<String>>,
    switches: Mutex<Vec<Switch>>,
    /// How often it asks to be introduced later.
    declines: Mutex<u32>,
    /// Connected while a call site is introduced, as by another thread.
    connects: Mutex<Option<&'static Notes>>,
    /// Panics in its next call.
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

    // Nobody is there.
    assert_eq!(EARLY.active(), 0);

    // A recorder gets to know the call sites that were reached before it came, and then the others.
    connect(&FIRST).expect("the first one");
    assert_eq!(FIRST.take(), ["first knows early"]);
    assert_eq!(LATE.active(), 0);
    assert_eq!(LATE.active(), 0);
    assert_eq!(FIRST.take(), ["first knows late"]);

    // Each recorder is told what it has turned on.
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

    // A slice ends for who has begun it, also if the call site was turned off since.
    let open = EARLY.begin(EARLY.active(), &Event::new(&[Value::Text("x")]));
    FIRST.turn(true);
    SECOND.turn(false);
    drop(open);
    assert_eq!(FIRST.take(), [""; 0]);
    assert_eq!(SECOND.take(), ["begin early [\"x\"]", "end 7 by early []"]);

    // The call site of an end has the names of its arguments, but for who does not know the site yet.
    let open = EARLY.begin(EARLY.active(), &Event::default());
    *FIRST.declines.lock().expect("no panic") = 1;
    open.end_at(&END, &Event::new(&[Value::Int(-1)]));
    assert_eq!(FIRST.take(), ["begin early []", "end 7 by early []"]);
    let open = EARLY.begin(EARLY.active(), &Event::default());
    open.end_at(&END, &Event::new(&[Value::Int(-1)]));
    let by_end = ["begin early []", "first knows end", "end 7 by end [-1]"];
    assert_eq!(FIRST.take(), by_end);

    // A panic in one recorder ends the slice for the others.
    SECOND.turn(true);
    let open = EARLY.begin(EARLY.active(), &Event::default());
    *FIRST.panics.lock().expect("no panic") = true;
    let ended = panic::catch_unwind(AssertUnwindSafe(|| open.end_at(&END, &Event::default())));
    assert!(ended.is_err());
    assert_eq!(FIRST.take(), ["begin early []", "end 7 by end []"]);
    assert_eq!(SECOND.take().last().expect("an end"), "end 7 by early []");

    // A recorder that is connected while a call site registers, and declines it then, is asked again.
    static THIRD: Notes = Notes::new("third");
    static NEW: CallSite = CallSite::new(Kind::Instant, "lib", "new", &[]);
    *THIRD.declines.lock().expect("no panic") = 100;
    *FIRST.connects.lock().expect("no panic") = Some(&THIRD);
    NEW.active();
    *THIRD.declines.lock().expect("no panic") = 0;
    NEW.active();
    assert_eq!(THIRD.take(), ["third knows new"]);

    // A program has room for some recorders and no more.
    static OTHERS: [OnceLock<Notes>; RECORDERS_MAX - 3] =
        [const { OnceLock::new() }; RECORDERS_MAX - 3];
    for other in &OTHERS {
        connect(other.get_or_init(|| Notes::new("other"))).expect("there is room");
    }
    let error = connect(&FIRST).expect_err("there is no room");
    assert!(error.to_string().contains("4 recorders already"), "{error}");
}
