//! Recorders get to know every call site once, and record what they have turned on.
//!
//! One test, since recorders are connected for good.

use std::sync::{Mutex, OnceLock};

use tracezero_events_core::{
    CallSite, Event, Number, RECORDERS_MAX, Recorder, SiteRecorder, Switch, TooManyRecorders,
    Value, connect,
};

/// Notes what it is told.
struct Notes {
    name: &'static str,
    lines: Mutex<Vec<String>>,
    switches: Mutex<Vec<Switch>>,
    /// How often it asks to be introduced later.
    declines: Mutex<u32>,
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
    }

    fn count(&'static self, value: Number) {
        self.notes.note(format!("count {} {value:?}", self.name));
    }
}

static FIRST: Notes = Notes::new("first");
static SECOND: Notes = Notes::new("second");

#[test]
fn recorders_record_what_they_have_turned_on() {
    static EARLY: CallSite = CallSite::new("lib", "early", &["number"]);
    static LATE: CallSite = CallSite::new("lib", "late", &[]);
    static END: CallSite = CallSite::new("", "", &["bytes"]);

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
    LATE.count(LATE.active(), Number::Double(0.5));
    assert_eq!(FIRST.take(), [""; 0]);
    assert_eq!(
        SECOND.take(),
        ["instant other [1]", "count late Double(0.5)"]
    );

    // A slice ends for who has begun it, also if the call site was turned off since.
    let open = EARLY.begin(EARLY.active(), &Event::new(&[Value::Text("x")]));
    FIRST.turn(true);
    SECOND.turn(false);
    open.end();
    assert_eq!(FIRST.take(), [""; 0]);
    assert_eq!(SECOND.take(), ["begin early [\"x\"]", "end 7 by early []"]);

    // The call site of an end has the names of its arguments, but for who does not know the site yet.
    let open = EARLY.begin(EARLY.active(), &Event::default());
    *FIRST.declines.lock().expect("no panic") = 1;
    open.end_at(&END, &Event::new(&[Value::Int(-1)]));
    assert_eq!(FIRST.take(), ["begin early []", "end 7 by early []"]);
    let open = EARLY.begin(EARLY.active(), &Event::default());
    open.end_at(&END, &Event::new(&[Value::Int(-1)]));
    let by_end = ["begin early []", "first knows ", "end 7 by  [-1]"];
    assert_eq!(FIRST.take(), by_end);

    // A program has room for some recorders and no more.
    static OTHERS: [OnceLock<Notes>; RECORDERS_MAX - 2] =
        [const { OnceLock::new() }; RECORDERS_MAX - 2];
    for other in &OTHERS {
        connect(other.get_or_init(|| Notes::new("other"))).expect("there is room");
    }
    assert_eq!(connect(&FIRST), Err(TooManyRecorders));
}
