//! The packets of all files so far, by hash.

use std::collections::HashMap;
use std::fmt;

/// The maximum number of packets that are compared, in all files together. They take 256 MB.
const PACKETS_MAX: usize = 64 << 20;
/// The maximum number of anchors, which take 200 MB.
const ANCHORS_MAX: usize = 4 << 20;

/// Marks an anchor that occurs several times.
const AMBIGUOUS: Position = Position {
    stretch: u32::MAX,
    packet: 0,
};

/// The packets of all files so far.
#[derive(Debug)]
pub(super) struct Stretches {
    all: Vec<Stretch>,
    anchors: HashMap<u64, Position>,
    pub(super) room: Room,
}

/// How many more packets can be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) packets: usize,
    pub(super) anchors: usize,
}

/// Packets of a sequence of the merged trace.
#[derive(Debug)]
struct Stretch {
    packets: Vec<PacketMark>,
    /// The file that has the first of the packets.
    begun_by: usize,
    /// The file that has the last of the packets.
    ended_by: usize,
}

/// 31 bits of a packet's hash, and in the lowest bit whether packets before it are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketMark(u32);

/// The position of a packet in a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) stretch: u32,
    pub(super) packet: u32,
}

/// Packets that no earlier file has.
#[derive(Debug, Default)]
pub(super) struct NewPackets {
    pub(super) packets: Vec<PacketMark>,
    /// The hashes of anchors, each with its index.
    pub(super) anchors: Vec<(u64, u32)>,
}

/// The reason why packets cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyPackets;

impl Default for Stretches {
    fn default() -> Self {
        Self::with_room(Room {
            packets: PACKETS_MAX,
            anchors: ANCHORS_MAX,
        })
    }
}

impl Stretches {
    pub(super) fn with_room(room: Room) -> Self {
        Self {
            all: Vec::new(),
            anchors: HashMap::new(),
            room,
        }
    }

    /// Returns for each stretch the file that has the first of its packets.
    pub(super) fn begun_by(&self) -> Vec<usize> {
        self.all.iter().map(|stretch| stretch.begun_by).collect()
    }

    pub(super) fn mark(&self, position: Position) -> Option<PacketMark> {
        let stretch = self.all.get(position.stretch as usize)?;
        stretch.packets.get(position.packet as usize).copied()
    }

    /// Returns the position behind a stretch.
    pub(super) fn end(&self, stretch: usize) -> Option<Position> {
        let packets = self.all.get(stretch)?.packets.len();
        Some(Position {
            stretch: stretch as u32,
            packet: packets as u32,
        })
    }

    pub(super) fn find(&self, anchor: u64) -> Option<Position> {
        let found = self.anchors.get(&anchor).copied();
        found.filter(|position| *position != AMBIGUOUS)
    }

    /// Adds packets: to the stretch that ends at `end`, or else as a new one. Returns the index of
    /// the stretch, and the file that had its end before.
    pub(super) fn add(
        &mut self,
        end: Option<Position>,
        file: usize,
        added: NewPackets,
    ) -> (usize, Option<usize>) {
        let continued = end.and_then(|end| {
            let stretch = self.all.get_mut(end.stretch as usize)?;
            (stretch.packets.len() == end.packet as usize).then_some((end, stretch))
        });
        let (start, before) = match continued {
            Some((end, stretch)) => {
                stretch.packets.extend(added.packets);
                (end, Some(std::mem::replace(&mut stretch.ended_by, file)))
            }
            None => {
                let start = Position {
                    stretch: self.all.len() as u32,
                    packet: 0,
                };
                self.all.push(Stretch {
                    packets: added.packets,
                    begun_by: file,
                    ended_by: file,
                });
                (start, None)
            }
        };
        for (hash, packet) in added.anchors {
            let position = Position {
                packet: start.packet + packet,
                ..start
            };
            let place = self.anchors.entry(hash).or_insert(position);
            if *place != position {
                *place = AMBIGUOUS;
            }
        }
        (start.stretch as usize, before)
    }
}

impl Room {
    pub(super) fn take(&mut self, is_anchor: bool) -> Result<(), TooManyPackets> {
        let anchors = usize::from(is_anchor);
        self.packets = self.packets.checked_sub(1).ok_or(TooManyPackets)?;
        self.anchors = self.anchors.checked_sub(anchors).ok_or(TooManyPackets)?;
        Ok(())
    }

    pub(super) const fn give_back(&mut self, packets: usize, anchors: usize) {
        self.packets += packets;
        self.anchors += anchors;
    }
}

impl PacketMark {
    pub(super) const fn new(hash: u64, has_gap: bool) -> Self {
        Self((hash as u32) << 1 | has_gap as u32)
    }

    pub(super) const fn has_gap(self) -> bool {
        self.0 & 1 != 0
    }

    /// Compares two packets without the gaps before them.
    pub(super) const fn is_same_as(self, other: Self) -> bool {
        self.0 >> 1 == other.0 >> 1
    }
}

impl Position {
    pub(super) const fn next(self) -> Self {
        Self {
            packet: self.packet + 1,
            ..self
        }
    }

    pub(super) fn previous(self) -> Option<Self> {
        let packet = self.packet.checked_sub(1)?;
        Some(Self { packet, ..self })
    }
}

impl fmt::Display for TooManyPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the files of one process have too many packets to find those that are in several of them, \
             more than {PACKETS_MAX}, or {ANCHORS_MAX} with a time of their own; merge fewer files, or \
             give --keep-duplicates"
        )
    }
}
