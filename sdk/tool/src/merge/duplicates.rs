//! Compares the packets of a sequence with those of earlier files.

use super::stretches::{NewPackets, PacketMark, Position, Stretches, TooManyPackets};

/// Consecutive packets of a sequence in one file, and what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) packets: u64,
    /// The stretch that they are part of in the merged trace; `None` if an earlier file has them.
    pub(super) stretch: Option<usize>,
}

/// The properties of a packet by which it is compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketFacts {
    /// The hash of its content.
    pub(super) hash: u64,
    /// True if it can be recognized without the packets around it.
    pub(super) is_anchor: bool,
    /// True if packets before it are missing.
    pub(super) has_gap: bool,
    pub(super) needs_state: bool,
    pub(super) clears_state: bool,
}

/// The comparison of one sequence of one file with those of earlier files.
#[derive(Debug)]
pub(super) struct SequenceMatcher {
    file: usize,
    parts: Vec<Part>,
    /// Packets after the last part. No earlier file has them.
    rest: NewPackets,
    /// The position of the next packet, if the last one was found in an earlier file.
    next: Option<Position>,
    /// The packets up to the last one that were found there.
    found: Found,
    /// True if packets of the sequence need or define incremental state.
    has_state: bool,
    /// True if the sequence is another one than those of earlier files.
    is_apart: bool,
    /// The end of the stretch that `rest` continues.
    continues: Option<Position>,
    /// The files whose stretches this sequence continues.
    waits_for: Vec<usize>,
}

/// Packets that were found in an earlier file, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    packets: u64,
    /// True if one of them clears the incremental state: those behind it define all that later
    /// packets build on.
    clears_state: bool,
}

impl SequenceMatcher {
    pub(super) fn new(file: usize) -> Self {
        Self {
            file,
            parts: Vec::new(),
            rest: NewPackets::default(),
            next: None,
            found: Found::default(),
            has_state: false,
            is_apart: false,
            continues: None,
            waits_for: Vec::new(),
        }
    }

    /// Adds the next packet.
    ///
    /// # Errors
    ///
    /// If there is no room for another packet.
    pub(super) fn add(
        &mut self,
        packet: PacketFacts,
        known: &mut Stretches,
    ) -> Result<(), TooManyPackets> {
        let mark = PacketMark::new(packet.hash, packet.has_gap);
        self.has_state |= packet.needs_state || packet.clears_state;
        if let Some(position) = self.next {
            let there = known.mark(position);
            if there == Some(mark) {
                self.next = Some(position.next());
                self.found.packets += 1;
                self.found.clears_state |= packet.clears_state;
                return Ok(());
            }
            match there {
                None if self.can_continue(packet) => self.end_duplicates(position),
                _ => self.take_back(position, known)?,
            }
        }
        if packet.is_anchor
            && !self.is_apart
            && let Some(position) = known.find(packet.hash)
        {
            self.begin_duplicates(position, packet, known);
            return Ok(());
        }
        known.room.take(packet.is_anchor)?;
        if packet.is_anchor {
            let index = self.rest.packets.len() as u32;
            self.rest.anchors.push((packet.hash, index));
        }
        self.rest.packets.push(mark);
        Ok(())
    }

    /// Returns true if the state that a packet and those behind it build on is that of the stretch.
    const fn can_continue(&self, packet: PacketFacts) -> bool {
        self.found.clears_state || packet.clears_state || !self.has_state
    }

    /// Notes that an earlier file has this packet, at `position`, and those before it that are the
    /// same.
    fn begin_duplicates(&mut self, position: Position, packet: PacketFacts, known: &mut Stretches) {
        let mut same = 0;
        let mut earliest = position;
        // Packets follow each other if no gap is between them, in neither file.
        let mut has_gap = packet.has_gap || known.mark(position).is_some_and(PacketMark::has_gap);
        for mark in self.rest.packets.iter().rev() {
            let Some(before) = earliest.previous().filter(|_| !has_gap) else {
                break;
            };
            let Some(there) = known.mark(before).filter(|there| there.is_same_as(*mark)) else {
                break;
            };
            has_gap = mark.has_gap() || there.has_gap();
            earliest = before;
            same += 1;
        }
        let different = self.rest.packets.len() - same;
        self.rest.packets.truncate(different);
        let anchors = &mut self.rest.anchors;
        let kept = anchors.partition_point(|(_, index)| (*index as usize) < different);
        known.room.give_back(same, anchors.len() - kept);
        anchors.truncate(kept);
        self.end_rest(known);
        self.next = Some(position.next());
        self.found = Found {
            packets: same as u64 + 1,
            clears_state: packet.clears_state,
        };
    }

    /// Notes that the stretch ends at `position`, and that the sequence continues it.
    fn end_duplicates(&mut self, position: Position) {
        self.add_part(self.found.packets, None);
        self.continues = Some(position);
        self.next = None;
    }

    /// Notes that the sequence is another one than the stretch, which goes on differently at
    /// `position`. Two sessions can record some packets alike. Later packets build on those that were
    /// found, so these must stay, too.
    fn take_back(
        &mut self,
        position: Position,
        known: &mut Stretches,
    ) -> Result<(), TooManyPackets> {
        let last = self.parts.last().and_then(|part| part.stretch);
        self.continues = last.and_then(|stretch| known.end(stretch));
        for before in (1..=self.found.packets as u32).rev() {
            let packet = Position {
                packet: position.packet.saturating_sub(before),
                ..position
            };
            known.room.take(false)?;
            self.rest.packets.extend(known.mark(packet));
        }
        self.next = None;
        self.is_apart = true;
        Ok(())
    }

    /// Makes the packets since the last part known, for later files.
    fn end_rest(&mut self, known: &mut Stretches) {
        let rest = std::mem::take(&mut self.rest);
        let end = self.continues.take();
        if rest.packets.is_empty() {
            return;
        }
        let packets = rest.packets.len() as u64;
        let (stretch, before) = known.add(end, self.file, rest);
        self.waits_for.extend(before);
        self.add_part(packets, Some(stretch));
    }

    fn add_part(&mut self, packets: u64, stretch: Option<usize>) {
        match self.parts.last_mut() {
            Some(last) if last.stretch == stretch => last.packets += packets,
            _ => self.parts.push(Part { packets, stretch }),
        }
    }

    /// Returns what becomes of the packets, and the files that must be written before this one.
    pub(super) fn finish(mut self, known: &mut Stretches) -> (Vec<Part>, Vec<usize>) {
        if let Some(position) = self.next {
            self.end_duplicates(position);
        }
        self.end_rest(known);
        (self.parts, self.waits_for)
    }
}

impl Part {
    /// Returns the number of packets that an earlier file has.
    pub(super) const fn duplicates(&self) -> u64 {
        match self.stretch {
            None => self.packets,
            Some(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stretches::Room;
    use super::*;

    /// Makes packets. A capital letter is an anchor, from `S` on one that clears the incremental
    /// state. A small letter from `s` on needs the state. `!` is a gap before the next packet.
    fn packets(text: &str) -> Vec<PacketFacts> {
        let mut has_gap = false;
        let mut packets = Vec::new();
        for letter in text.chars() {
            if letter == '!' {
                has_gap = true;
                continue;
            }
            packets.push(PacketFacts {
                hash: u64::from(u32::from(letter)),
                is_anchor: letter.is_ascii_uppercase(),
                has_gap,
                needs_state: letter >= 's',
                clears_state: ('S'..='Z').contains(&letter),
            });
            has_gap = false;
        }
        packets
    }

    fn parts(file: usize, text: &str, known: &mut Stretches) -> (Vec<Part>, Vec<usize>) {
        let mut matcher = SequenceMatcher::new(file);
        for packet in packets(text) {
            matcher.add(packet, known).expect("there is room");
        }
        matcher.finish(known)
    }

    /// Returns what becomes of the packets of the last of some files: `-` for those that an earlier
    /// file has, else the number of the stretch.
    fn kept(files: &[&str]) -> String {
        let mut known = Stretches::default();
        let mut last = Vec::new();
        for (file, text) in files.iter().enumerate() {
            last = parts(file, text, &mut known).0;
        }
        let letters = last.iter().map(|part| match part.stretch {
            None => "-".repeat(part.packets as usize),
            Some(stretch) => stretch.to_string().repeat(part.packets as usize),
        });
        letters.collect()
    }

    #[test]
    fn later_file_continues_an_earlier_one() {
        assert_eq!(kept(&["AbbBcc", "BccCdd"]), "---000");
        assert_eq!(kept(&["AbbBcc", "bBccCdd"]), "----000");
        assert_eq!(kept(&["AbbBcc", "Bcc", "BccD"]), "---0");
        assert_eq!(kept(&["AbbB", "BcC", "CddDe"]), "-0000");
    }

    #[test]
    fn file_waits_for_the_one_that_it_continues() {
        let mut known = Stretches::default();
        assert!(parts(3, "AbB", &mut known).1.is_empty());
        assert_eq!(parts(1, "BcC", &mut known).1, [3]);
        assert_eq!(parts(2, "CdD", &mut known).1, [1]);
        assert!(parts(4, "BcC", &mut known).1.is_empty());
        assert_eq!(known.begun_by(), [3]);
    }

    #[test]
    fn file_that_is_part_of_another_has_nothing_new() {
        assert_eq!(kept(&["AbbBccC", "Bcc"]), "---");
        assert_eq!(kept(&["AbbBccC", "AbbBccC"]), "-------");
        // This one begins earlier, and ends later.
        assert_eq!(kept(&["BccC", "AbbBccCd"]), "111----0");
    }

    #[test]
    fn packets_that_repeat_are_told_apart_by_their_places() {
        assert_eq!(kept(&["Abbb", "Abbbbb"]), "----00");
        assert_eq!(kept(&["bbbbAb", "bbAbb"]), "----0");
        assert_eq!(kept(&["bbAb", "bbbbAbb"]), "11----0");
    }

    #[test]
    fn file_without_common_anchors_is_whole() {
        assert_eq!(kept(&["AbbBcc", "CbbDcc"]), "111111");
        // An anchor that occurs twice finds nothing.
        assert_eq!(kept(&["AbA", "AbC"]), "111");
    }

    #[test]
    fn sequences_that_go_on_differently_stay_whole() {
        assert_eq!(kept(&["AbbBcc", "AbbBdd"]), "111111");
        assert_eq!(kept(&["AbbBccC", "AbbdCc"]), "111111");
        assert_eq!(kept(&["AbbBcc", "zAbd"]), "1111");
    }

    #[test]
    fn packets_that_need_state_continue_only_a_stretch_that_has_it() {
        assert_eq!(kept(&["SxxTy", "TyxxUx"]), "--0000");
        assert_eq!(kept(&["SxxAy", "AyUxx"]), "--000");
        // The definitions before the anchor may differ.
        assert_eq!(kept(&["SxxAy", "SzzAyxx"]), "1111111");
        assert_eq!(kept(&["SxxAy", "AyxxUx"]), "111111");
    }

    #[test]
    fn gaps_end_what_is_the_same() {
        // The first file lacks packets between the two anchors, which the second has.
        assert_eq!(kept(&["Abb!Bb", "AbbbbBb"]), "1111111");
        assert_eq!(kept(&["Ab!bBb", "AbbbbBb"]), "1111111");
        // Only the beginning is missing, which the other file has.
        assert_eq!(kept(&["AbbBb", "!bBbb"]), "---0");
        assert_eq!(kept(&["!bBb", "bbBbC"]), "1---0");
    }

    #[test]
    fn packets_and_anchors_are_bounded() {
        for room in [
            Room {
                packets: 4,
                anchors: 9,
            },
            Room {
                packets: 9,
                anchors: 1,
            },
        ] {
            let mut known = Stretches::with_room(room);
            let mut matcher = SequenceMatcher::new(0);
            let mut added = packets("AbcdE")
                .into_iter()
                .map(|packet| matcher.add(packet, &mut known));
            assert!(added.by_ref().take(4).all(|added| added.is_ok()));
            assert_eq!(added.next(), Some(Err(TooManyPackets)));
        }
    }

    #[test]
    fn duplicates_take_no_room() {
        let mut known = Stretches::with_room(Room {
            packets: 8,
            anchors: 2,
        });
        for file in 0..20 {
            parts(file, "bbAbB", &mut known);
        }
        assert_eq!(known.room.anchors, 0);
        assert_eq!(known.room.packets, 3);
    }
}
