//! Converts times of other machines to the trace clock.
//!
//! A trace can have packets of several machines. Packets of the service's machine have no machine
//! id, or the id 0. Each other machine has clocks of its own: its boot time is not that of the
//! service's machine. `RemoteClockSync` packets relate the two boot times. Without such a packet,
//! the boot times count as equal.

use protozero::{DecodeError, Decoder, types};

use crate::anomaly::Anomaly;
use crate::clocks::{BOOTTIME_CLOCK_ID, ClockError, GlobalClocks, Reading};
use tracezero_core::protos::ClockSnapshot;

/// The maximum number of other machines. Packets of further ones cannot be decoded.
const MACHINES_MAX: usize = 256;
/// The maximum number of relations kept per machine. This holds all relations of a trace that lasts
/// five days and measures one every thirty seconds.
const RELATIONS_MAX: usize = 16 * 1024;
/// The maximum distance of two readings of one measurement.
const MEASUREMENT_MAX_NS: i128 = 30_000_000_000;

/// `RemoteClockSync.synced_clocks`.
const SYNCED_CLOCKS: u32 = 1;
/// `RemoteClockSync.SyncedClocks.client_clocks`, and `host_clocks`.
const CLIENT_CLOCKS: u32 = 2;
const HOST_CLOCKS: u32 = 3;

/// The other machines of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Machines {
    all: Vec<Machine>,
}

/// The clocks of another machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    id: u32,
    /// The machine's clocks, in terms of its boot time.
    pub(super) clocks: GlobalClocks,
    /// Pairs of this machine's boot time and that of the service's machine, in nanoseconds, in the
    /// order of the file.
    relations: Vec<(i128, i128)>,
}

/// Readings of the boot time of the service's machine and of that of the other machine.
#[derive(Clone, Copy, Debug)]
struct Round {
    host_ns: i128,
    client_ns: i128,
}

impl Machines {
    /// Returns a machine, which is added if it is new. Returns `None` if there are too many.
    pub(super) fn get(&mut self, id: u32) -> Option<&mut Machine> {
        let position = self.all.iter().position(|machine| machine.id == id);
        let position = match position {
            Some(position) => position,
            None if self.all.len() == MACHINES_MAX => return None,
            None => {
                self.all.push(Machine {
                    id,
                    clocks: GlobalClocks::of_other_machine(),
                    relations: Vec::new(),
                });
                self.all.len() - 1
            }
        };
        self.all.get_mut(position)
    }
}

impl Machine {
    /// Converts this machine's boot time to the trace clock. Uses the last relation that is not
    /// later, or else the first.
    pub(super) fn to_trace_ns(&self, boot_ns: u64, host: &GlobalClocks) -> Result<u64, ClockError> {
        let boot_ns = i128::from(boot_ns);
        let earlier = self.relations.iter().rev();
        let relation = earlier
            .clone()
            .find(|(client_ns, _)| *client_ns <= boot_ns)
            .or(self.relations.first());
        let host_ns = relation.map_or(boot_ns, |(client_ns, host_ns)| {
            boot_ns - client_ns + host_ns
        });
        let host_ns = u64::try_from(host_ns).map_err(|_| ClockError::OutOfRange {
            clock_id: BOOTTIME_CLOCK_ID,
        })?;
        host.to_trace_ns(BOOTTIME_CLOCK_ID, host_ns)
    }

    /// Adds the relation that a `RemoteClockSync` has measured.
    pub(super) fn add_sync(&mut self, sync: &[u8], anomalies: &mut Vec<Anomaly>) {
        if let Err(error) = self.try_add_sync(sync, anomalies) {
            anomalies.push(Anomaly::Malformed {
                message: "remote_clock_sync",
                error,
            });
        }
    }

    fn try_add_sync(
        &mut self,
        sync: &[u8],
        anomalies: &mut Vec<Anomaly>,
    ) -> Result<(), DecodeError> {
        let mut offsets = Offsets::default();
        for round in Decoder::new(sync).repeated::<types::Bytes>(SYNCED_CLOCKS) {
            let round = Decoder::new(round?);
            let snapshot = |field| round.last::<types::Bytes>(field);
            let client = snapshot(CLIENT_CLOCKS)?.unwrap_or_default();
            let host = snapshot(HOST_CLOCKS)?.unwrap_or_default();
            self.clocks.add(client, None, anomalies);
            if let (Some(client_ns), Some(host_ns)) = (boot_ns(client)?, boot_ns(host)?) {
                offsets.add(Round { host_ns, client_ns });
            }
        }
        if let Some((last, offset_ns)) = offsets.mean() {
            if self.relations.len() == RELATIONS_MAX {
                self.relations.drain(..RELATIONS_MAX / 2);
            }
            let client_ns = last.host_ns + offset_ns;
            self.relations.push((client_ns, last.host_ns));
        }
        Ok(())
    }
}

/// Returns the boot time in a snapshot.
fn boot_ns(snapshot: &[u8]) -> Result<Option<i128>, DecodeError> {
    let clocks =
        Decoder::new(snapshot).repeated::<types::Bytes>(ClockSnapshot::CLOCKS_FIELD_NUMBER);
    for clock in clocks {
        let reading = Reading::decode(clock?)?;
        if reading.clock_id == BOOTTIME_CLOCK_ID {
            return Ok(Some(i128::from(reading.timestamp)));
        }
    }
    Ok(None)
}

/// Averages the distance of two clocks over the rounds of a measurement.
///
/// Each round reads the clock of the client and then, when its message has arrived, that of the
/// host. So the reading of the host lies between two readings of the client, and the other way
/// round. Halving the time between them leaves out the time that messages take.
#[derive(Clone, Copy, Debug, Default)]
struct Offsets {
    last: Option<Round>,
    sum_ns: i128,
    count: i128,
}

impl Offsets {
    fn add(&mut self, round: Round) {
        if let Some(last) = self.last
            && (round.client_ns - last.client_ns).abs() < MEASUREMENT_MAX_NS
        {
            let client_ns = (last.client_ns + round.client_ns) / 2;
            let host_ns = (last.host_ns + round.host_ns) / 2;
            self.sum_ns += client_ns - last.host_ns + round.client_ns - host_ns;
            self.count += 2;
        }
        self.last = Some(round);
    }

    /// Returns the last round, and the time of the client minus that of the host.
    fn mean(self) -> Option<(Round, i128)> {
        let last = self.last?;
        match self.count {
            0 => Some((last, last.client_ns - last.host_ns)),
            count => Some((last, self.sum_ns / count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use protozero::append_varint;

    use super::*;

    fn bytes(field: u32, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append_varint(u64::from(field) << 3 | 2, &mut out);
        append_varint(content.len() as u64, &mut out);
        out.extend_from_slice(content);
        out
    }

    fn clocks(boot_ns: u64) -> Vec<u8> {
        let mut clock = vec![0x08, 6, 0x10];
        append_varint(boot_ns, &mut clock);
        bytes(1, &clock)
    }

    /// Encodes a measurement, of pairs of the times of client and host.
    fn sync(rounds: &[(u64, u64)]) -> Vec<u8> {
        let rounds = rounds.iter().map(|(client_ns, host_ns)| {
            let client = bytes(CLIENT_CLOCKS, &clocks(*client_ns));
            let host = bytes(HOST_CLOCKS, &clocks(*host_ns));
            bytes(SYNCED_CLOCKS, &[client, host].concat())
        });
        rounds.flatten().collect()
    }

    fn to_trace_ns(machine: &Machine, boot_ns: u64) -> Option<u64> {
        machine.to_trace_ns(boot_ns, &GlobalClocks::default()).ok()
    }

    #[test]
    fn times_follow_the_last_relation() {
        let mut machines = Machines::default();
        let machine = machines.get(7).expect("room");
        assert_eq!(to_trace_ns(machine, 500), Some(500));
        machine.add_sync(&sync(&[(1_000, 5_000), (1_000, 5_000)]), &mut Vec::new());
        machine.add_sync(&sync(&[(2_000, 6_010)]), &mut Vec::new());
        let times = [500, 1_999, 2_000].map(|time_ns| to_trace_ns(machine, time_ns));
        assert_eq!(times, [Some(4_500), Some(5_999), Some(6_010)]);
    }

    #[test]
    fn time_that_messages_take_is_left_out() {
        let mut machines = Machines::default();
        let machine = machines.get(7).expect("room");
        // The client is 100 ahead; each message takes 10.
        let rounds = [(1_100, 1_010), (1_120, 1_030)];
        machine.add_sync(&sync(&rounds), &mut Vec::new());
        assert_eq!(to_trace_ns(machine, 1_100), Some(1_000));
    }

    #[test]
    fn times_before_the_boot_are_out_of_range() {
        let mut machines = Machines::default();
        let machine = machines.get(7).expect("room");
        machine.add_sync(&sync(&[(5_000, 1_000)]), &mut Vec::new());
        assert_eq!(to_trace_ns(machine, 3_999), None);
        assert_eq!(to_trace_ns(machine, 4_000), Some(0));
    }

    #[test]
    fn machines_and_relations_are_bounded() {
        let mut machines = Machines::default();
        for id in 1..=MACHINES_MAX as u32 {
            assert!(machines.get(id).is_some());
        }
        assert!(machines.get(1000).is_none());
        let machine = machines.get(1).expect("an old one");
        for number in 0..=RELATIONS_MAX as u64 {
            machine.add_sync(&sync(&[(number, number)]), &mut Vec::new());
        }
        assert!(machine.relations.len() <= RELATIONS_MAX);
        let mut anomalies = Vec::new();
        machine.add_sync(b"\x0a\x05\x12", &mut anomalies);
        assert_eq!(anomalies.len(), 1);
    }
}
