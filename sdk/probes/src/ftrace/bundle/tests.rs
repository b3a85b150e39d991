use tracezero_kernel::protos::FtraceEventBundleDecoder;
use tracezero_kernel::protos::ftrace_event_bundle::CompactSchedDecoder;

use super::*;
use crate::ftrace::compact_sched::tests::known_formats;
use crate::ftrace::page::test_pages::{self, LAYOUT, PageBuilder, Random, decode};

/// Field of the time in `FtraceEvent`.
const EVENT_TIMESTAMP: Tag = Tag::number(1);

/// Records some kinds of events by their time alone.
#[derive(Default)]
struct Recorder {
    ids: Vec<u16>,
    /// Events of this id are said to be invalid.
    invalid_id: Option<u16>,
    /// The number of bytes that each event has beside its time.
    event_bytes: usize,
    bundles: Vec<Vec<u8>>,
}

impl Recorder {
    fn of(ids: &[u16]) -> Self {
        Self {
            ids: ids.to_vec(),
            ..Self::default()
        }
    }

    fn bundle(&self, index: usize) -> FtraceEventBundleDecoder<'_> {
        FtraceEventBundleDecoder::new(&self.bundles[index])
    }

    /// Returns the times of the ordinary events of each bundle.
    fn times(&self) -> Vec<Vec<u64>> {
        let times_of = |bundle: &Vec<u8>| {
            let bundle = FtraceEventBundleDecoder::new(bundle);
            let times = bundle.event().map(|event| {
                let event = event.unwrap();
                event.timestamp().unwrap().unwrap()
            });
            times.collect()
        };
        self.bundles.iter().map(times_of).collect()
    }

    fn lost(&self) -> Vec<bool> {
        let bundles = (0..self.bundles.len()).map(|index| self.bundle(index));
        bundles
            .map(|bundle| bundle.lost_events().unwrap().unwrap_or(false))
            .collect()
    }

    fn previous_ends(&self) -> Vec<u64> {
        let bundles = (0..self.bundles.len()).map(|index| self.bundle(index));
        bundles
            .map(|bundle| bundle.previous_bundle_end_timestamp().unwrap().unwrap())
            .collect()
    }
}

impl PageHandler for Recorder {
    fn record(
        &mut self,
        record: Record<'_>,
        bundle: &mut BundleBuilder<'_>,
        _seen: &mut SeenThreads,
    ) {
        if !self.ids.contains(&record.id()) {
            return;
        }
        let encoded = bundle.add_event(record.timestamp_ns, |out| {
            append_number(out, EVENT_TIMESTAMP, record.timestamp_ns);
            out.extend(std::iter::repeat_n(b'x', self.event_bytes));
            if self.invalid_id == Some(record.id()) {
                return Err("invalid");
            }
            Ok(())
        });
        assert_eq!(encoded.is_err(), self.invalid_id == Some(record.id()));
    }

    fn bundle_ended(&mut self, bundle: &[u8]) {
        self.bundles.push(bundle.to_vec());
    }
}

/// One CPU and all that reads it.
struct Cpu {
    buffers: BundleBuffers,
    state: CpuState,
    reader: PageReader,
    seen: SeenThreads,
}

impl Cpu {
    fn new(compact: Option<CompactFormats>) -> Self {
        Self {
            buffers: BundleBuffers::default(),
            state: CpuState::new(1),
            reader: PageReader {
                layout: LAYOUT,
                compact,
            },
            seen: SeenThreads::default(),
        }
    }

    /// Reads pages in one go; returns their errors.
    fn read(&mut self, pages: &[Vec<u8>], recorder: &mut Recorder) -> Vec<PageError> {
        let mut builder = BundleBuilder::begin(&mut self.buffers, &mut self.state, None);
        let mut errors = Vec::new();
        for page in pages {
            let read = builder.add_page(page, &self.reader, &mut self.seen, recorder);
            errors.extend(read.err());
        }
        builder.end(recorder);
        errors
    }

    fn read_valid(&mut self, pages: &[Vec<u8>], recorder: &mut Recorder) {
        assert_eq!(self.read(pages, recorder), []);
    }
}

/// A page of one switch, with the commit of the case.
fn switch_page(commit: [u8; 8]) -> Vec<u8> {
    let mut page = decode(test_pages::ONE_SWITCH);
    page[8..16].copy_from_slice(&commit);
    page
}

fn valid_page() -> Vec<u8> {
    decode(test_pages::ONE_SWITCH)
}

fn lossy_page() -> Vec<u8> {
    switch_page([0x4c, 0, 0, 0x80, 0xff, 0xff, 0xff, 0xff])
}

fn broken_page() -> Vec<u8> {
    switch_page([0x4b, 0, 0, 0, 0, 0, 0, 0])
}

fn switch_payload(id: u16, next_pid: i32, comm: &str) -> [u8; 64] {
    let mut payload = [0; 64];
    payload[..2].copy_from_slice(&id.to_le_bytes());
    payload[40..40 + comm.len()].copy_from_slice(comm.as_bytes());
    payload[56..60].copy_from_slice(&next_pid.to_le_bytes());
    payload
}

fn compact(bundle: &FtraceEventBundleDecoder<'_>) -> CompactSchedDecoder<'static> {
    let compact = bundle.compact_sched().unwrap().unwrap();
    CompactSchedDecoder::new(compact.as_decoder().bytes().to_vec().leak())
}

#[test]
fn page_without_recorded_events_makes_no_bundle() {
    let mut recorder = Recorder::default();
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&[decode(test_pages::ONE_PRINT)], &mut recorder);
    cpu.read_valid(&vec![decode(test_pages::THREE_PRINTS); 8], &mut recorder);
    cpu.read_valid(&[decode(test_pages::FULL_OF_EXT4)], &mut recorder);
    assert!(recorder.bundles.is_empty());
    assert_eq!(cpu.state.counts().events, 0);
}

#[test]
fn bundle_has_its_fields_in_shortest_form() {
    let mut recorder = Recorder::of(&[5]);
    let page = PageBuilder::new(300).event(0, &[5, 0, 0, 0]).build(0);
    Cpu::new(None).read_valid(&[page], &mut recorder);
    // CPU 1, end of the bundle before 0, an event of 3 bytes.
    assert_eq!(recorder.bundles, [b"\x08\x01\x50\x00\x12\x03\x08\xac\x02"]);
}

#[test]
fn length_of_event_is_shortest_at_each_size() {
    for event_bytes in [0, 100, 124, 125, 126, 127, 1000, 16380, 20000] {
        let mut recorder = Recorder::of(&[5]);
        recorder.event_bytes = event_bytes;
        let page = PageBuilder::new(300).event(0, &[5, 0, 0, 0]).build(0);
        Cpu::new(None).read_valid(&[page], &mut recorder);
        let mut expected = b"\x08\x01\x50\x00\x12".to_vec();
        protozero::append_varint(3 + event_bytes as u64, &mut expected);
        expected.extend(b"\x08\xac\x02");
        expected.extend(vec![b'x'; event_bytes]);
        assert_eq!(recorder.bundles, [expected], "{event_bytes}");
    }
}

#[test]
fn loss_begins_a_bundle() {
    let (valid, lossy) = (valid_page(), lossy_page());
    let pages = [
        &valid, &valid, &valid, &lossy, &lossy, &valid, &valid, &valid,
    ]
    .map(Vec::clone);
    let mut recorder = Recorder::of(&[47]);
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&pages, &mut recorder);
    let lengths: Vec<usize> = recorder.times().iter().map(Vec::len).collect();
    assert_eq!(lengths, [3, 1, 4]);
    assert_eq!(recorder.lost(), [false, true, true]);
    assert_eq!(cpu.state.counts().uncounted_losses, 2);
    assert_eq!(cpu.state.counts().events, 8);
}

#[test]
fn pages_in_two_goes_are_in_two_bundles() {
    let (valid, lossy) = (valid_page(), lossy_page());
    let pages = [
        &valid, &valid, &valid, &lossy, &lossy, &valid, &valid, &valid,
    ]
    .map(Vec::clone);
    let mut recorder = Recorder::of(&[47]);
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&pages[..2], &mut recorder);
    assert_eq!(recorder.bundles.len(), 1);
    cpu.read_valid(&pages[2..], &mut recorder);
    let lengths: Vec<usize> = recorder.times().iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 1, 1, 4]);
    assert_eq!(recorder.lost(), [false, false, true, true]);
    let end = 1_045_157_722_134_059;
    assert_eq!(recorder.times()[0], [end, end]);
    assert_eq!(recorder.previous_ends(), [0, end, end, end]);
}

#[test]
fn loss_before_unrecorded_events_is_reported_later() {
    let mut recorder = Recorder::of(&[5]);
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&[lossy_page()], &mut recorder);
    assert!(recorder.bundles.is_empty());
    cpu.read_valid(&[decode(test_pages::ONE_PRINT)], &mut recorder);
    cpu.read_valid(&[decode(test_pages::ONE_PRINT)], &mut recorder);
    assert_eq!(recorder.lost(), [true, false]);
}

#[test]
fn counted_losses_add_up() {
    let page = |count: i64| {
        PageBuilder::new(1)
            .event(0, &[5, 0, 0, 0])
            .bytes(&count.to_le_bytes())
            .build_with_commit(8 | 3 << 30)
    };
    let mut recorder = Recorder::of(&[5]);
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&[page(1095), page(1949), page(-1)], &mut recorder);
    assert_eq!(cpu.state.counts().lost_events, 1095 + 1949);
    assert_eq!(cpu.state.counts().uncounted_losses, 1);
    cpu.read_valid(&[page(i64::MAX), page(i64::MAX), page(5)], &mut recorder);
    assert_eq!(cpu.state.counts().lost_events, u64::MAX);
    assert_eq!(recorder.lost(), [true; 6]);
}

#[test]
fn bundle_names_end_of_the_one_before_a_loss() {
    let pages = test_pages::PRINTS_AROUND_A_LOSS.map(decode);
    let mut recorder = Recorder::of(&[5]);
    Cpu::new(None).read_valid(&pages, &mut recorder);
    let (first, second, third) = (
        1_307_026_099_185_536,
        1_308_020_252_356_549,
        1_308_058_522_838_009,
    );
    assert_eq!(recorder.times(), [vec![first, second], vec![third]]);
    assert_eq!(recorder.lost(), [false, true]);
    assert_eq!(recorder.previous_ends(), [0, second]);
}

#[test]
fn broken_pages_are_reported_and_others_stay() {
    let (valid, broken) = (valid_page(), broken_page());
    let pages = [
        &valid, &valid, &valid, &broken, &valid, &valid, &broken, &valid,
    ]
    .map(Vec::clone);
    let mut recorder = Recorder::of(&[47]);
    let mut cpu = Cpu::new(None);
    let errors = cpu.read(&pages, &mut recorder);
    assert_eq!(errors, [PageError::EndOverflow; 2]);
    assert_eq!(recorder.times().len(), 1);
    assert_eq!(recorder.times()[0].len(), 6);
    let bundle = recorder.bundle(0);
    for error in bundle.error() {
        let error = error.unwrap();
        assert_eq!(error.timestamp().unwrap(), Some(0x3_b690_bec3_162b));
        let status = error.status().unwrap();
        assert_eq!(
            status,
            Some(FtraceParseStatus::FTRACE_STATUS_ABI_END_OVERFLOW)
        );
    }
    assert_eq!(bundle.error().count(), 2);
    assert_eq!(cpu.state.counts().broken_pages, 2);
}

#[test]
fn broken_page_without_events_makes_a_bundle() {
    for (hex, status) in [
        (
            test_pages::ZERO_PADDED,
            FtraceParseStatus::FTRACE_STATUS_ABI_ZERO_DATA_LENGTH,
        ),
        (
            test_pages::SHORT_COMMIT,
            FtraceParseStatus::FTRACE_STATUS_ABI_SHORT_DATA_LENGTH,
        ),
        (
            "0100000000000000",
            FtraceParseStatus::FTRACE_STATUS_ABI_INVALID_PAGE_HEADER,
        ),
    ] {
        let mut recorder = Recorder::default();
        let errors = Cpu::new(None).read(&[decode(hex)], &mut recorder);
        assert_eq!(errors.len(), 1);
        let bundle = recorder.bundle(0);
        let error = bundle.error().next().unwrap().unwrap();
        assert_eq!(error.status().unwrap(), Some(status));
        assert_eq!(bundle.event().count(), 0);
    }
}

#[test]
fn events_of_a_broken_page_do_not_move_the_end() {
    let broken = PageBuilder::new(u64::MAX / 2)
        .event(0, &[5, 0, 0, 0])
        .head(30, 0)
        .build(0);
    let valid = |timestamp_ns| {
        PageBuilder::new(timestamp_ns)
            .event(0, &[5, 0, 0, 0])
            .build(0)
    };
    let mut recorder = Recorder::of(&[5]);
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&[valid(100)], &mut recorder);
    assert_eq!(
        cpu.read(&[broken], &mut recorder),
        [PageError::ShortTimeExtend]
    );
    cpu.read_valid(&[valid(200)], &mut recorder);
    let times = [vec![100], vec![u64::MAX / 2], vec![200]];
    assert_eq!(recorder.times(), times);
    assert_eq!(recorder.previous_ends(), [0, 100, 100]);
}

#[test]
fn clocks_are_written_if_given() {
    let mut recorder = Recorder::of(&[47]);
    let mut cpu = Cpu::new(None);
    let snapshot = ClockSnapshot {
        clock: FtraceClock::LOCAL,
        ftrace_timestamp_ns: 1_000_000_000,
        boot_timestamp_ns: 2_000_000_000,
    };
    let mut builder = BundleBuilder::begin(&mut cpu.buffers, &mut cpu.state, Some(snapshot));
    builder
        .add_page(&valid_page(), &cpu.reader, &mut cpu.seen, &mut recorder)
        .unwrap();
    builder.end(&mut recorder);
    let bundle = recorder.bundle(0);
    assert_eq!(bundle.ftrace_clock().unwrap(), Some(FtraceClock::LOCAL));
    assert_eq!(bundle.ftrace_timestamp().unwrap(), Some(1_000_000_000));
    assert_eq!(bundle.boot_timestamp().unwrap(), Some(2_000_000_000));

    cpu.read_valid(&[valid_page()], &mut recorder);
    let bundle = recorder.bundle(1);
    assert_eq!(bundle.ftrace_clock().unwrap(), None);
    assert_eq!(bundle.ftrace_timestamp().unwrap(), None);
}

#[test]
fn invalid_record_is_left_out_and_counted() {
    let page = PageBuilder::new(0)
        .event(1, &[5, 0, 0, 0])
        .event(1, &[6, 0, 0, 0])
        .event(1, &[5, 0, 0, 0])
        .build(0);
    let mut recorder = Recorder::of(&[5, 6]);
    recorder.invalid_id = Some(6);
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&[page], &mut recorder);
    assert_eq!(recorder.times(), [[1, 3]]);
    let counts = cpu.state.counts();
    assert_eq!((counts.events, counts.invalid_records), (2, 1));

    // A bundle of invalid records alone is none.
    recorder.bundles.clear();
    let page = PageBuilder::new(0).event(1, &[6, 0, 0, 0]).build(0);
    cpu.read_valid(&[page], &mut recorder);
    assert!(recorder.bundles.is_empty());
    assert_eq!(cpu.state.counts().invalid_records, 2);
}

#[test]
fn short_switch_is_left_out_and_counted() {
    let page = PageBuilder::new(0)
        .event(1, &switch_payload(47, 1, "whole"))
        .event(1, &switch_payload(47, 2, "cut")[..60])
        .event(1, &320_u32.to_le_bytes())
        .build(0);
    let mut recorder = Recorder::default();
    let mut cpu = Cpu::new(Some(known_formats(47)));
    cpu.read_valid(&[page], &mut recorder);
    let counts = cpu.state.counts();
    assert_eq!((counts.events, counts.invalid_records), (1, 2));
    let switches = compact(&recorder.bundle(0)).switch_next_pid().count();
    assert_eq!(switches, 1);
    assert_eq!(cpu.seen.seen(), [1]);
}

#[test]
fn descriptor_is_once_in_each_bundle_that_uses_it() {
    struct Describing(Vec<Vec<u8>>);
    impl PageHandler for Describing {
        fn record(
            &mut self,
            record: Record<'_>,
            bundle: &mut BundleBuilder<'_>,
            _seen: &mut SeenThreads,
        ) {
            let encoded = bundle.add_event(record.timestamp_ns, |_| Ok::<(), Infallible>(()));
            assert!(encoded.is_ok());
            let field = 65536 + u32::from(record.id());
            let mut descriptor = Vec::new();
            append_number(&mut descriptor, Tag::number(1), field.into());
            bundle.add_descriptor(field, &descriptor);
        }

        fn bundle_ended(&mut self, bundle: &[u8]) {
            self.0.push(bundle.to_vec());
        }
    }

    let mut describing = Describing(Vec::new());
    let mut cpu = Cpu::new(None);
    let page = decode(test_pages::GENERIC_EVENTS);
    for pages in [2, 1] {
        let mut builder = BundleBuilder::begin(&mut cpu.buffers, &mut cpu.state, None);
        for _ in 0..pages {
            builder
                .add_page(&page, &cpu.reader, &mut cpu.seen, &mut describing)
                .unwrap();
        }
        builder.end(&mut describing);
    }
    for (bundle, events) in describing.0.iter().zip([6, 3]) {
        let bundle = FtraceEventBundleDecoder::new(bundle);
        assert_eq!(bundle.event().count(), events);
        let fields = bundle.generic_event_descriptors();
        let fields = fields.map(|descriptor| descriptor.unwrap().field_id().unwrap().unwrap());
        assert!(fields.eq([65536 + 310, 65536 + 313]));
    }
    assert_eq!(describing.0.len(), 2);
}

#[test]
fn switches_of_a_page_become_columns() {
    let mut recorder = Recorder::of(&[47]);
    let mut cpu = Cpu::new(Some(known_formats(47)));
    cpu.read_valid(&[decode(test_pages::FULL_OF_SWITCHES)], &mut recorder);
    let bundle = recorder.bundle(0);
    assert_eq!(bundle.event().count(), 0);
    let columns = compact(&bundle);
    assert_eq!(columns.switch_timestamp().count(), 59);
    assert_eq!(columns.switch_next_comm_index().count(), 59);
    assert_eq!(cpu.state.counts().events, 59);
}

#[test]
fn switches_and_wakings_share_a_bundle() {
    let mut recorder = Recorder::of(&[317, 320]);
    let mut cpu = Cpu::new(Some(known_formats(317)));
    let page = [decode(test_pages::SWITCHES_AND_WAKINGS)];
    cpu.read_valid(&page, &mut recorder);
    let bundle = recorder.bundle(0);
    let columns = compact(&bundle);
    assert_eq!(columns.switch_timestamp().count(), 2);
    assert_eq!(columns.intern_table().count(), 4);
    let wakings = [
        columns.waking_timestamp().count(),
        columns.waking_pid().count(),
        columns.waking_target_cpu().count(),
        columns.waking_prio().count(),
        columns.waking_comm_index().count(),
        columns.waking_common_flags().count(),
    ];
    assert_eq!(wakings, [5; 6]);
    let first = columns.waking_timestamp().next().unwrap().unwrap();
    assert_eq!(first, 701_500_115_221_756);
    assert_eq!(columns.waking_pid().next().unwrap().unwrap(), 203_967);
    assert_eq!(columns.waking_target_cpu().next().unwrap().unwrap(), 6);
    assert_eq!(columns.waking_prio().next().unwrap().unwrap(), 120);
    assert_eq!(columns.waking_common_flags().next().unwrap().unwrap(), 1);
    let index = columns.waking_comm_index().next().unwrap().unwrap();
    let comm = columns.intern_table().nth(index as usize).unwrap().unwrap();
    assert_eq!(comm, "kworker/u16:17");
    assert!(cpu.seen.seen().contains(&203_967));

    // If the session does not record wakings, the handler is asked.
    let mut recorder = Recorder::default();
    let mut cpu = Cpu::new(Some(known_formats(317).without_waking()));
    cpu.read_valid(&page, &mut recorder);
    let bundle = recorder.bundle(0);
    assert_eq!(compact(&bundle).waking_timestamp().count(), 0);
    assert_eq!(compact(&bundle).switch_timestamp().count(), 2);
}

#[test]
fn time_that_goes_back_begins_a_bundle() {
    let early = PageBuilder::new(100)
        .event(0, &switch_payload(47, 1, "a"))
        .build(0);
    let late = PageBuilder::new(200)
        .event(0, &switch_payload(47, 2, "b"))
        .build(0);
    let mut recorder = Recorder::default();
    let mut cpu = Cpu::new(Some(known_formats(47)));
    cpu.read_valid(&[late.clone(), early, late], &mut recorder);
    let times = |index| -> Vec<u64> {
        let columns = compact(&recorder.bundle(index));
        columns.switch_timestamp().map(Result::unwrap).collect()
    };
    assert_eq!((times(0), times(1)), (vec![200], vec![100, 100]));
    assert_eq!(recorder.bundles.len(), 2);
    assert_eq!(recorder.previous_ends(), [0, 200]);
    assert_eq!(recorder.lost(), [false, false]);
}

#[test]
fn too_many_names_begin_a_bundle() {
    let mut builder = PageBuilder::new(1);
    for thread in 0..50 {
        builder = builder.event(1, &switch_payload(47, thread, &format!("first {thread}")));
    }
    let mut second = PageBuilder::new(100);
    for thread in 0..20 {
        second = second.event(1, &switch_payload(47, thread, &format!("second {thread}")));
    }
    let mut recorder = Recorder::default();
    let mut cpu = Cpu::new(Some(known_formats(47)));
    cpu.read_valid(&[builder.build(0), second.build(0)], &mut recorder);
    let names = |index| compact(&recorder.bundle(index)).intern_table().count();
    assert_eq!((names(0), names(1)), (64, 6));
    assert_eq!(cpu.state.counts().events, 70);
}

#[test]
fn full_bundles_end_within_a_page() {
    let page = decode(test_pages::FULL_OF_SWITCHES);
    let mut recorder = Recorder::of(&[47]);
    recorder.event_bytes = 1000;
    let mut cpu = Cpu::new(None);
    cpu.read_valid(std::slice::from_ref(&page), &mut recorder);
    let times = recorder.times();
    let lengths: Vec<usize> = times.iter().map(Vec::len).collect();
    assert_eq!(lengths, [17, 17, 17, 8]);
    let ends: Vec<u64> = times.iter().map(|times| *times.last().unwrap()).collect();
    assert_eq!(recorder.previous_ends(), [0, ends[0], ends[1], ends[2]]);
    assert_eq!(recorder.lost(), [false; 4]);

    // Columns count, too.
    let mut recorder = Recorder::default();
    let mut cpu = Cpu::new(Some(known_formats(47)));
    let mut builder = BundleBuilder::begin(&mut cpu.buffers, &mut cpu.state, None);
    for second in 0..100_u64 {
        let mut page = page.clone();
        page[..8].copy_from_slice(&(second * 1_000_000_000).to_le_bytes());
        builder
            .add_page(&page, &cpu.reader, &mut cpu.seen, &mut recorder)
            .unwrap();
    }
    builder.end(&mut recorder);
    assert_eq!(cpu.state.counts().events, 5900);
    assert!(recorder.bundles.len() > 2);
    let (last, full) = recorder.bundles.split_last().unwrap();
    for bundle in full {
        assert!((BUNDLE_TARGET_BYTES..BUNDLE_TARGET_BYTES + 128).contains(&bundle.len()));
    }
    assert!(last.len() < BUNDLE_TARGET_BYTES);
}

#[test]
fn bundles_of_other_cpus_are_apart() {
    let mut recorder = Recorder::of(&[47]);
    let mut cpu = Cpu::new(None);
    cpu.read_valid(&[lossy_page()], &mut recorder);
    cpu.state = CpuState::new(0);
    cpu.read_valid(&[valid_page()], &mut recorder);
    let cpus = [0, 1].map(|index| recorder.bundle(index).cpu().unwrap());
    assert_eq!(cpus, [Some(1), Some(0)]);
    assert_eq!(recorder.previous_ends(), [0, 0]);
    assert_eq!(recorder.lost(), [true, false]);
}

#[test]
fn buffers_do_not_grow_with_the_pages() {
    let page = decode(test_pages::FULL_OF_SWITCHES);
    let mut recorder = Recorder::of(&[47]);
    recorder.event_bytes = 70;
    let mut cpu = Cpu::new(None);
    let capacity = cpu.buffers.bytes.capacity();
    cpu.read_valid(&vec![page; 32], &mut recorder);
    assert_eq!(cpu.buffers.bytes.capacity(), capacity);
}

/// All events of damaged pages are in bundles or dropped, and all bundles can be decoded.
#[test]
fn damaged_pages_make_valid_bundles() {
    let sources = [
        (test_pages::SWITCHES_AND_WAKINGS, 317),
        (test_pages::FULL_OF_SWITCHES, 47),
        (test_pages::ABSOLUTE_TIME, 315),
    ];
    let mut random = Random::new(7);
    for round in 0..600 {
        let (hex, switch_id) = sources[round % sources.len()];
        let mut page = decode(hex);
        for _ in 0..=random.below(8) {
            let at = random.below(page.len());
            page[at] = random.below(256) as u8;
        }
        let mut recorder = Recorder::of(&[260, 318]);
        let mut cpu = Cpu::new(Some(known_formats(switch_id)));
        let errors = cpu.read(&[page], &mut recorder);
        let mut events = 0;
        let mut error_fields = 0;
        for index in 0..recorder.bundles.len() {
            let bundle = recorder.bundle(index);
            error_fields += bundle.error().count();
            events += bundle.event().count();
            if bundle.compact_sched().unwrap().is_some() {
                let columns = compact(&bundle);
                let switches = columns.switch_timestamp().count();
                assert_eq!(columns.switch_next_comm_index().count(), switches);
                let wakings = columns.waking_timestamp().count();
                assert_eq!(columns.waking_comm_index().count(), wakings);
                events += switches + wakings;
            }
        }
        assert_eq!(events as u64, cpu.state.counts().events);
        assert_eq!(error_fields, errors.len());
    }
}
