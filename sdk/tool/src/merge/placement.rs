//! Places the machines on the clock of the first one.

use super::clock_offset::ClockOffset;
use super::clocks::Reading;
use super::flows::Flows;
use super::introduction::{of_first_machine, of_other_machine};
use super::machines::{Machine, Machines, OfFile};
use super::survey::Survey;
use crate::error::ToolError;
use crate::units::duration;

/// The maximum distance of the times of day of two files with the same boot id. Otherwise a time
/// namespace of a container has changed the boot time.
const SAME_BOOT_WITHIN_NS: i128 = 1_000_000_000;

/// The ids of all machines in the merged trace, and their clocks.
#[derive(Debug)]
pub(super) struct Placement(Vec<PlacedMachine>);

#[derive(Debug)]
struct PlacedMachine {
    /// 0 for the first machine.
    id: u32,
    /// What is added to the times of the machine to get those of the first.
    offset_ns: i64,
}

impl Placement {
    /// Finds the offset of each machine, and tells the user of it. `given` are the offsets that the
    /// user gives.
    ///
    /// # Errors
    ///
    /// If nothing tells the offset of a machine, or if the user gives several for one machine, or if
    /// a file cannot be read.
    pub(super) fn find(
        machines: &Machines,
        surveys: &[Survey],
        given: &[OfFile<i64>],
    ) -> Result<Self, ToolError> {
        let mut taken = surveys[0].machine_ids.clone();
        let mut new_ids = (1..).filter(|id| taken.insert(*id));
        let mut known = Flows::default();
        let mut placed: Vec<PlacedMachine> = Vec::new();
        for (index, machine) in machines.all().iter().enumerate() {
            let given = given_offset(machine, surveys, given)?;
            let is_last = index + 1 == machines.all().len();
            if index == 0 {
                if let Some(offset_ns) = given.filter(|offset_ns| *offset_ns != 0) {
                    return Err(ToolError::Usage(format!(
                        "--clock-offset would move the clock of the first trace by {}, to which the \
                         others are moved; move the others instead",
                        super::clock_offset::signed(offset_ns)
                    )));
                }
                if machines.all().len() > 1 {
                    known = flows_of(machine, surveys)?;
                }
                placed.push(PlacedMachine {
                    id: 0,
                    offset_ns: 0,
                });
                continue;
            }
            let first = &machines.all()[0];
            let mut flows = None;
            let offset = match given {
                Some(offset_ns) => ClockOffset::given(offset_ns),
                None if is_same_boot(first, machine, surveys) => ClockOffset::of_same_boot(),
                None => {
                    let own = flows.insert(flows_of(machine, surveys)?);
                    let estimate_ns = estimate_ns(first, machine, surveys);
                    let bounds = known.bounds(own, estimate_ns);
                    let found = ClockOffset::find(estimate_ns, &bounds);
                    found.ok_or_else(|| unknown_offset(machine, surveys))?
                }
            };
            let set_by_ns = [first, machine].map(|machine| set_by_ns(machine, surveys));
            let label = machine.label(surveys);
            for note in offset.notes(&label, set_by_ns.into_iter().max().unwrap_or_default()) {
                eprintln!("note: {note}");
            }
            // Flows may join the next machine with this one only.
            if !is_last {
                let own = match flows {
                    Some(own) => own,
                    None => flows_of(machine, surveys)?,
                };
                known.add_all(own, offset.ns);
            }
            placed.push(PlacedMachine {
                id: new_ids.next().unwrap_or_default(),
                offset_ns: offset.ns,
            });
        }
        Ok(Self(placed))
    }

    /// Returns the id that a machine has in the merged trace.
    pub(super) fn machine_id(&self, machine: usize) -> u32 {
        self.0[machine].id
    }

    /// Returns what is added to the times of a machine.
    pub(super) fn offset_ns(&self, machine: usize) -> i64 {
        self.0[machine].offset_ns
    }

    /// Returns the packets that introduce the machines; none if there is only one machine.
    ///
    /// # Errors
    ///
    /// If a machine's packets are from before the boot of the first: viewers would drop them.
    pub(super) fn introductions(
        &self,
        machines: &Machines,
        surveys: &[Survey],
    ) -> Result<Vec<Vec<u8>>, ToolError> {
        if machines.len() == 1 {
            return Ok(Vec::new());
        }
        let first = &machines.all()[0];
        let mut files = first.files.iter().map(|file| &surveys[*file]);
        let reading = files.find_map(|survey| survey.clocks.first());
        let reading = reading.unwrap_or(Reading {
            boot_ns: first_ns(first, surveys),
            time_of_day_ns: 0,
        });
        let mut packets = of_first_machine(reading, first.name());
        for (index, machine) in machines.others() {
            let boot_ns = first_ns(machine, surveys);
            let host_ns = i128::from(boot_ns) + i128::from(self.offset_ns(index));
            let host_ns = u64::try_from(host_ns).map_err(|_| {
                let before = u64::try_from(host_ns.unsigned_abs()).unwrap_or(u64::MAX);
                ToolError::Usage(format!(
                    "{} begins {} before the machine of {} was booted, and the trace counts time from \
                     that boot; name {} first",
                    machine.label(surveys),
                    duration(before),
                    first.label(surveys),
                    surveys[machine.files[0]].path.display(),
                ))
            })?;
            packets.extend(of_other_machine(
                self.machine_id(index),
                machine.name(),
                &machine.host.attributes,
                boot_ns,
                host_ns,
            ));
        }
        Ok(packets)
    }
}

fn given_offset(
    machine: &Machine,
    surveys: &[Survey],
    given: &[OfFile<i64>],
) -> Result<Option<i64>, ToolError> {
    let files = machine.files.iter().map(|file| &surveys[*file].path);
    let mut found = files.filter_map(|path| OfFile::find(given, path).copied());
    let first = found.next();
    match found.find(|other| Some(*other) != first) {
        None => Ok(first),
        Some(_) => Err(ToolError::Usage(format!(
            "--clock-offset moves the clock of {} by two different durations; give one",
            machine.label(surveys)
        ))),
    }
}

fn flows_of(machine: &Machine, surveys: &[Survey]) -> Result<Flows, ToolError> {
    let mut flows = Flows::default();
    for file in &machine.files {
        flows.add_file(&surveys[*file].path)?;
    }
    Ok(flows)
}

/// Returns the last reading of a machine's clocks.
fn last_reading(machine: &Machine, surveys: &[Survey]) -> Option<Reading> {
    let files = machine.files.iter();
    let readings = files.filter_map(|file| surveys[*file].clocks.last);
    readings.max_by_key(|reading| reading.boot_ns)
}

/// Returns what must be added to the times of a machine, if the times of day are the same.
fn estimate_ns(first: &Machine, machine: &Machine, surveys: &[Survey]) -> Option<i64> {
    let ahead_ns = |machine| Some(last_reading(machine, surveys)?.ahead_ns());
    i64::try_from(ahead_ns(machine)? - ahead_ns(first)?).ok()
}

fn is_same_boot(first: &Machine, machine: &Machine, surveys: &[Survey]) -> bool {
    let estimate_ns = estimate_ns(first, machine, surveys).unwrap_or_default();
    first.host.shares_boot_with(&machine.host)
        && i128::from(estimate_ns).abs() <= SAME_BOOT_WITHIN_NS
}

/// Returns by how much the time of day of a machine was set during its recordings.
fn set_by_ns(machine: &Machine, surveys: &[Survey]) -> i128 {
    let files = machine.files.iter();
    let set_by_ns = files.map(|file| surveys[*file].clocks.set_by_ns());
    set_by_ns.max().unwrap_or_default()
}

/// Returns the earliest time of a machine that its files tell.
fn first_ns(machine: &Machine, surveys: &[Survey]) -> u64 {
    let files = machine.files.iter();
    let times = files.map(|file| surveys[*file].first_ns());
    times.min().unwrap_or_default()
}

fn unknown_offset(machine: &Machine, surveys: &[Survey]) -> ToolError {
    let file = surveys[machine.files[0]].path.display();
    ToolError::Usage(format!(
        "the clock of {} cannot be compared with that of the first trace: no clock snapshots tell the \
         times of day, and no flow goes to or from it; give --clock-offset {file}=DURATION",
        machine.label(surveys)
    ))
}
