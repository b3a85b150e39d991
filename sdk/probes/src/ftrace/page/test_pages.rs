//! Pages of real kernels, as hexadecimal text. The bytes behind the text are zeros.

use super::PageLayout;

/// Layout of pages of 4 KiB of a kernel of 64 bits.
pub(crate) const LAYOUT: PageLayout = PageLayout {
    commit_bytes: 8,
    data_offset: 16,
    size_bytes: 4096,
};

/// One `print` of thread 28712: "Hello, world!\n". Bytes of an older record follow its NUL.
pub(crate) const ONE_PRINT: &str = "ba126a33c62802002c00000000000000def0ec678d2100000800000005000001\
     28700000ac5d166186ffffff48656c6c6f2c20776f726c64210a00ff00000000";
/// The first page with another end: the text has no NUL within its record.
pub(crate) const PRINT_WITHOUT_NUL: &str = include_str!("../testdata/print_without_nul.hex");
/// The first page with a text of zeros.
pub(crate) const EMPTY_PRINT: &str = include_str!("../testdata/empty_print.hex");
/// Three `print`s, with a time difference in front of each.
pub(crate) const THREE_PRINTS: &str = include_str!("../testdata/three_prints.hex");
/// A `print` of 956 bytes, and a short one.
pub(crate) const LONG_RECORD: &str = include_str!("../testdata/long_record.hex");
/// One `sched_switch`, id 47, from "ksoftirqd/0" to "sleep".
pub(crate) const ONE_SWITCH: &str = "2b16c3be90b603004c000000000000001e00000000000000100000002f000103\
     030000006b736f6674697271642f300000000000030000007800000001000000\
     00000000736c65657000722f3000000000000000950e00007800000000000000";
/// Six `sched_switch`, id 47.
pub(crate) const SIX_SWITCHES: &str = include_str!("../testdata/six_switches.hex");
/// 59 `sched_switch`, id 47, up to the end of the page.
pub(crate) const FULL_OF_SWITCHES: &str = include_str!("../testdata/full_of_switches.hex");
/// Two `sched_switch`, id 317, and five `sched_waking`, id 320.
pub(crate) const SWITCHES_AND_WAKINGS: &str = include_str!("../testdata/switches_and_wakings.hex");
/// Nine `sched_switch`, id 315, among other events. An absolute time precedes the fourth.
pub(crate) const ABSOLUTE_TIME: &str = include_str!("../testdata/absolute_time.hex");
/// A full page after a loss that is counted.
pub(crate) const FULL_OF_EXT4: &str = include_str!("../testdata/full_of_ext4.hex");
/// A page whose header counts the zeros at its end.
pub(crate) const ZERO_PADDED: &str = include_str!("../testdata/zero_padded.hex");
/// Three events that no schema knows.
pub(crate) const GENERIC_EVENTS: &str = include_str!("../testdata/generic_events.hex");
/// An event of thread 317, id 1551, whose text is empty.
pub(crate) const EMPTY_TEXT: &str =
    "d7b30a57cf020000200000000000000067a613000f0600003d01000045000000";
/// The header of a kernel of 32 bits. To a kernel of 64 bits its time is a commit.
pub(crate) const SHORT_COMMIT: &str = "105bda5dc10000000400000000000000";
/// Three successive pages with one `print` each. The last is after a loss, behind 8 switches.
pub(crate) const PRINTS_AROUND_A_LOSS: [&str; 3] = [
    include_str!("../testdata/first_print.hex"),
    include_str!("../testdata/second_print.hex"),
    include_str!("../testdata/third_print_after_loss.hex"),
];

/// Decodes a page of 4 KiB.
pub(crate) fn decode(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("hexadecimal digit") as u8)
        .collect();
    let mut page: Vec<u8> = digits.chunks_exact(2).map(|d| d[0] << 4 | d[1]).collect();
    page.resize(LAYOUT.size_bytes, 0);
    page
}

/// Builds a page record by record.
pub(crate) struct PageBuilder {
    page: Vec<u8>,
}

impl PageBuilder {
    pub(crate) fn new(timestamp_ns: u64) -> Self {
        let mut page = timestamp_ns.to_le_bytes().to_vec();
        page.extend([0; 8]);
        Self { page }
    }

    /// Appends an event of up to 112 bytes; pads it to whole words.
    pub(crate) fn event(self, delta_ns: u32, payload: &[u8]) -> Self {
        let words = payload.len().div_ceil(4);
        let mut page = self.head(words as u32, delta_ns).bytes(payload);
        page.page.resize(page.page.len().next_multiple_of(4), 0);
        page
    }

    /// Appends the head of a record.
    pub(crate) fn head(self, kind: u32, delta_ns: u32) -> Self {
        self.word(kind | delta_ns << 5)
    }

    pub(crate) fn word(self, word: u32) -> Self {
        self.bytes(&word.to_le_bytes())
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.page.extend_from_slice(bytes);
        self
    }

    /// Returns the page. `flags` are the two top bits of the commit.
    pub(crate) fn build(self, flags: u32) -> Vec<u8> {
        let length = (self.page.len() - LAYOUT.data_offset) as u32;
        self.build_with_commit(length | flags << 30)
    }

    pub(crate) fn build_with_commit(mut self, commit: u32) -> Vec<u8> {
        self.page[8..12].copy_from_slice(&commit.to_le_bytes());
        self.page.resize(LAYOUT.size_bytes, 0);
        self.page
    }
}

/// A fixed sequence of numbers without a pattern.
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % end as u64) as usize
    }
}
