//! A data source that notes its callbacks, and in each does what a test has chosen.

use std::any::Any;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protozero::HeapBuffered;
use tracezero::protos::DataSourceConfig as ConfigMessage;
use tracezero::reader::{Level, Rule, check};
use tracezero::{
    BufferConfig, DataSource, DataSourceConfig, Flushing, Setup, Starting, Stopping, TraceConfig,
};

/// An instance of the data source, whose label its configuration sets.
pub struct Probe {
    pub label: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callback {
    Setup,
    Start,
    Flush,
    Clear,
    Stop,
}

#[derive(Default)]
struct Plan {
    notes: Vec<String>,
    /// The functions to call in callbacks.
    acts: Vec<(Callback, Act)>,
    /// The callbacks whose answers are kept.
    kept: Vec<Callback>,
    answers: Vec<Box<dyn Any + Send>>,
}

type Act = fn(&str);

static PLAN: Mutex<Option<Plan>> = Mutex::new(None);
/// The longest time that the first trace point of a data source waits for another thread that is
/// starting the data source: the SDK's `START_WAIT_LIMIT`. If the trace point waits this long, its
/// packet may be missing in some sessions.
pub const START_PATIENCE: Duration = Duration::from_secs(1);

/// Waits for other tests, since sessions and the plan belong to the whole process. Resets the plan.
pub fn alone() -> MutexGuard<'static, ()> {
    let guard = support::alone();
    *plan() = Some(Plan::default());
    Probe::register();
    guard
}

/// Makes each `callback` call `act` with the label of the instance.
pub fn act_in(callback: Callback, act: Act) {
    with_plan(|plan| plan.acts.push((callback, act)));
}

/// Makes `callback` keep its answer until [`give_answers`].
pub fn keep_answers_of(callback: Callback) {
    with_plan(|plan| plan.kept.push(callback));
}

pub fn give_answers() {
    drop(with_plan(|plan| {
        plan.kept.clear();
        mem::take(&mut plan.answers)
    }));
}

pub fn note(text: impl Into<String>) {
    with_plan(|plan| plan.notes.push(text.into()));
}

/// Returns the callbacks so far, and other notes.
pub fn notes() -> Vec<String> {
    with_plan(|plan| plan.notes.clone())
}

fn plan() -> MutexGuard<'static, Option<Plan>> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_plan<R>(work: impl FnOnce(&mut Plan) -> R) -> R {
    work(plan().get_or_insert_default())
}

impl Probe {
    pub const NAME: &'static str = <Self as DataSource>::NAME;

    fn called(&self, callback: Callback, detail: &str) {
        note(format!("{callback:?} {}{detail}", self.label).trim_end());
        let acts = with_plan(|plan| plan.acts.clone());
        let acts = acts.iter().filter(|(other, _)| *other == callback);
        acts.for_each(|(_, act)| act(&self.label));
    }

    /// Writes a numbered packet into all sessions.
    pub fn write(number: u64) {
        Self::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_counter(number);
                });
            });
        });
    }
}

fn keep_or_give(callback: Callback, answer: impl Any + Send) {
    let given = with_plan(|plan| {
        if plan.kept.contains(&callback) {
            plan.answers.push(Box::new(answer));
            return None;
        }
        Some(answer)
    });
    drop(given);
}

impl DataSource for Probe {
    const NAME: &'static str = "com.example.probe";
    type ThreadState = u64;
    type IncrementalState = Vec<u64>;
    tracezero::data_source_state!(Probe);

    fn on_setup(setup: &Setup<'_>) -> Self {
        let label = setup.decoder().legacy_config().unwrap();
        let made = Self {
            label: label.unwrap_or_default().to_owned(),
        };
        made.called(Callback::Setup, "");
        made
    }

    fn on_start(&self, starting: Starting) {
        self.called(Callback::Start, "");
        keep_or_give(Callback::Start, starting);
    }

    fn on_flush(&self, flushing: Flushing) {
        let detail = format!(" {:?} {:?}", flushing.reason(), flushing.initiator());
        self.called(Callback::Flush, &detail);
        keep_or_give(Callback::Flush, flushing);
    }

    fn on_clear_incremental_state(&self) {
        self.called(Callback::Clear, "");
    }

    fn on_stop(&self, stopping: Stopping) {
        self.called(Callback::Stop, "");
        keep_or_give(Callback::Stop, stopping);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        note(format!("Drop {}", self.label).trim_end());
    }
}

/// Returns a configuration that records only the probe, with an instance called `label`.
pub fn recording(label: &str) -> TraceConfig {
    let mut config = HeapBuffered::<ConfigMessage<'_>>::new();
    config.message().set_legacy_config(label);
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .add_data_source(DataSourceConfig::new(Probe::NAME).source_specific(&config.to_vec()))
}

/// Asserts that the checker finds no error in a trace. Its session may still be running.
pub fn assert_well_formed(trace: &[u8]) {
    let found = check(trace, |finding| {
        let is_right = finding.level == Level::Note || finding.rule == Rule::Recording;
        assert!(is_right, "{finding}");
    });
    found.unwrap();
}

/// Returns the numbers in a trace that [`Probe::write`] has written.
pub fn numbers(trace: &[u8]) -> Vec<u64> {
    assert_well_formed(trace);
    support::numbers(trace)
}
