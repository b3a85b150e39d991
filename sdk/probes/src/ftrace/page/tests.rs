use super::test_pages::{self, LAYOUT, PageBuilder, decode};
use super::*;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

/// Times, ids and lengths of the events of a page, up to the first error.
type Events = Vec<(u64, u16, usize)>;

fn walk(bytes: &[u8]) -> (Events, Option<PageError>) {
    let page = match Page::parse(bytes, &LAYOUT) {
        Ok(page) => page,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut events = Vec::new();
    let mut records = page.records();
    for record in &mut records {
        match record {
            Ok(record) => events.push((record.timestamp_ns, record.id(), record.payload.len())),
            Err(error) => {
                assert!(records.next().is_none(), "an error ends the page");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

fn walk_valid(hex: &str) -> Events {
    let (events, error) = walk(&decode(hex));
    assert_eq!(error, None);
    events
}

fn times(events: &[(u64, u16, usize)]) -> Vec<u64> {
    events.iter().map(|event| event.0).collect()
}

#[test]
fn layout_is_parsed() {
    assert_eq!(PageLayout::parse(HEADER_PAGE), Ok(LAYOUT));

    let of_32_bits = HEADER_PAGE
        .replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4")
        .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
    let layout = PageLayout::parse(&of_32_bits).unwrap();
    assert_eq!((layout.commit_bytes, layout.data_offset), (4, 12));
    assert_eq!(layout.size_bytes(), 4096);

    let large = HEADER_PAGE.replace("4080", "16368");
    assert_eq!(PageLayout::parse(&large).unwrap().size_bytes(), 16384);
}

#[test]
fn layout_that_no_kernel_has_is_rejected() {
    for (from, to, field) in [
        ("timestamp;\toffset:0", "timestamp;\toffset:8", "timestamp"),
        ("local_t commit", "local_t committed", "commit"),
        (
            "local_t commit;\toffset:8;\tsize:8",
            "local_t commit;\toffset:8;\tsize:2",
            "commit",
        ),
        (
            "local_t commit;\toffset:8;\tsize:8",
            "local_t commit;\toffset:8",
            "commit",
        ),
        ("offset:16", "offset:12", "data"),
        ("size:4080", "size:0", "data"),
        ("size:4080", "size:-1", "data"),
        ("size:4080", "size:4294967295", "data"),
        ("size:4080", "size:8388608", "data"),
    ] {
        let text = HEADER_PAGE.replace(from, to);
        assert_ne!(text, HEADER_PAGE);
        assert_eq!(PageLayout::parse(&text), Err(LayoutError { field }), "{to}");
    }
    assert_eq!(
        LayoutError { field: "data" }.to_string(),
        "events/header_page: field `data` is missing or misplaced; \
         the layout of pages has to be guessed"
    );
}

#[test]
fn layout_is_guessed_from_machine() {
    for machine in ["x86_64", "aarch64", "armv8l", "s390x", "riscv64"] {
        assert_eq!(PageLayout::guess(machine, 4096), LAYOUT, "{machine}");
    }
    // A process of 64 bits runs on no kernel of 32 bits, whatever the machine is called.
    let i686 = PageLayout::guess("i686", 4096);
    assert_eq!(i686.commit_bytes, usize::BITS as usize / 8);
    assert_eq!(PageLayout::guess("aarch64", 65536).size_bytes(), 65536);
}

#[test]
fn header_is_read_by_size_of_commit() {
    let bytes = decode("3ef3db7767a20100f00f0080ffffffff");
    let page = Page::parse(&bytes, &LAYOUT).unwrap();
    assert_eq!(page.timestamp_ns(), 0x1_a267_77db_f33e);
    assert_eq!(page.records.len(), 4080);
    assert_eq!(page.lost(), Loss::Uncounted);
    assert_eq!(page.records.as_ptr(), bytes[16..].as_ptr());

    let of_32_bits = PageLayout {
        commit_bytes: 4,
        data_offset: 12,
        ..LAYOUT
    };
    let page = Page::parse(&bytes, &of_32_bits).unwrap();
    assert_eq!(page.records.len(), 4080);
    assert_eq!(page.records.as_ptr(), bytes[12..].as_ptr());
}

#[test]
fn header_without_records_in_page_is_rejected() {
    let full = PageBuilder::new(1).build_with_commit(4080);
    assert!(Page::parse(&full, &LAYOUT).is_ok());
    let commits = [0, 4081, RECORDS_LENGTH_MASK, 3 << 30];
    for commit in commits {
        let page = PageBuilder::new(1).build_with_commit(commit);
        assert_eq!(walk(&page), (vec![], Some(PageError::InvalidHeader)));
    }
    // A page of the layout's size counts, not what follows it.
    let mut followed = PageBuilder::new(1).build_with_commit(4081);
    followed.resize(8192, 0);
    assert_eq!(walk(&followed).1, Some(PageError::InvalidHeader));
    for len in [0, 7, 8, 11, 12, 15, 16] {
        assert_eq!(
            walk(&full[..len]).1,
            Some(PageError::InvalidHeader),
            "{len}"
        );
    }
}

#[test]
fn stored_count_of_lost_events_is_exact() {
    let bytes = decode(test_pages::FULL_OF_EXT4);
    let page = Page::parse(&bytes, &LAYOUT).unwrap();
    assert_eq!(page.lost(), Loss::Counted(17141));

    let of_32_bits = PageLayout {
        commit_bytes: 4,
        data_offset: 12,
        ..LAYOUT
    };
    // Only the first 4 bytes are the count of a kernel of 32 bits.
    let mut bytes = vec![0; 24];
    bytes[8..12].copy_from_slice(&(4_u32 | 3 << 30).to_le_bytes());
    bytes[16..20].copy_from_slice(&1949_u32.to_le_bytes());
    bytes[20..24].fill(0xff);
    let lost = |bytes: &[u8]| Page::parse(bytes, &of_32_bits).unwrap().lost();
    assert_eq!(lost(&bytes), Loss::Counted(1949));
    assert_eq!(lost(&bytes[..19]), Loss::Uncounted);
}

#[test]
fn loss_without_credible_count_is_uncounted() {
    let page_of = |flags: u32, count: i64| {
        PageBuilder::new(1)
            .event(0, &[1, 0, 0, 0])
            .bytes(&count.to_le_bytes())
            .build_with_commit(8 | flags << 30)
    };
    let lost = |bytes: &[u8]| Page::parse(bytes, &LAYOUT).unwrap().lost();
    assert_eq!(lost(&page_of(3, 1095)), Loss::Counted(1095));
    assert_eq!(lost(&page_of(2, 1095)), Loss::Uncounted);
    assert_eq!(lost(&page_of(3, -1)), Loss::Uncounted);
    assert_eq!(lost(&page_of(3, 0)), Loss::Uncounted);
    assert_eq!(lost(&page_of(1, 1095)), Loss::None);
    assert_eq!(lost(&page_of(0, 1095)), Loss::None);
    // The records leave no room for the count.
    let full = PageBuilder::new(1).build_with_commit(4080 | 3 << 30);
    assert_eq!(lost(&full), Loss::Uncounted);
}

#[test]
fn published_pages_have_their_published_times() {
    let one = walk_valid(test_pages::ONE_PRINT);
    assert_eq!(one, [(608_934_535_199_296, 5, 32)]);

    let three = walk_valid(test_pages::THREE_PRINTS);
    assert_eq!(
        times(&three),
        [
            615_436_216_806_307,
            615_486_377_231_669,
            615_495_632_679_049
        ]
    );

    let six = walk_valid(test_pages::SIX_SWITCHES);
    assert_eq!(six.len(), 6);
    assert!(six.iter().all(|&(_, id, len)| (id, len) == (47, 64)));
    assert_eq!(six[5].0, 1_045_157_726_697_236);

    assert_eq!(walk_valid(test_pages::FULL_OF_SWITCHES).len(), 59);
    assert_eq!(
        walk_valid(test_pages::EMPTY_TEXT),
        [(3_089_541_845_258, 1551, 28)]
    );
    let generic = walk_valid(test_pages::GENERIC_EVENTS);
    let lengths: Vec<usize> = generic.iter().map(|event| event.2).collect();
    assert_eq!(lengths, [64, 36, 64]);
}

#[test]
fn payload_ends_with_its_record() {
    let payload_of = |hex| -> Vec<u8> {
        let bytes = decode(hex);
        let mut records = Page::parse(&bytes, &LAYOUT).unwrap().records();
        let payload = records.next().unwrap().unwrap().payload.to_vec();
        assert!(records.next().is_none());
        payload
    };
    let text_at = 16;
    let terminated = payload_of(test_pages::ONE_PRINT);
    assert_eq!(terminated[4..8], 28712_u32.to_le_bytes());
    assert_eq!(&terminated[text_at..], b"Hello, world!\n\0\xff");
    // The letters go on behind the record.
    let unterminated = payload_of(test_pages::PRINT_WITHOUT_NUL);
    assert_eq!(&unterminated[text_at..], b"Hello, world!aaa");
    assert_eq!(&payload_of(test_pages::EMPTY_PRINT)[text_at..], [0; 16]);
}

#[test]
fn long_record_ends_where_its_length_says() {
    let events = walk_valid(test_pages::LONG_RECORD);
    let expected = [
        (282_762_884_472_939, 5, 0x3c0 - 4),
        (282_762_884_492_158, 5, 20),
    ];
    assert_eq!(events, expected);
}

#[test]
fn absolute_time_replaces_sum() {
    let events = walk_valid(test_pages::ABSOLUTE_TIME);
    let switches: Vec<_> = events.into_iter().filter(|event| event.1 == 315).collect();
    assert_eq!(
        times(&switches),
        [
            1_376_833_327_307_547,
            1_376_833_327_356_434,
            1_376_833_332_265_799,
            1_376_833_332_542_703,
            1_376_833_333_729_055,
            1_376_833_333_757_142,
            1_376_833_333_808_564,
            1_376_833_333_943_445,
            1_376_833_333_964_012,
        ]
    );
}

#[test]
fn absolute_time_takes_top_bits_from_before() {
    let period = 1 << ABSOLUTE_BITS;
    // A little back is not a whole period ahead.
    assert_eq!(complete_absolute(90, 100), 90);
    assert_eq!(complete_absolute(200, 100), 200);
    assert_eq!(complete_absolute(200, 3 * period + 100), 3 * period + 200);
    assert_eq!(complete_absolute(90, 3 * period + 100), 3 * period + 90);
    // The low bits have begun anew.
    assert_eq!(complete_absolute(5, 3 * period - 5), 3 * period + 5);
    assert_eq!(complete_absolute(5, period - 5), period + 5);
    // A forged time at the end of all times.
    assert_eq!(complete_absolute(5, u64::MAX), 5);

    let page = PageBuilder::new(3 * period + 7)
        .head(TIME_STAMP, 9)
        .word(1)
        .event(2, &[1, 0, 0, 0])
        .build(0);
    assert_eq!(
        walk(&page),
        (vec![(3 * period + (1 << 27) + 11, 1, 4)], None)
    );
}

#[test]
fn times_of_skipped_records_add_up() {
    let page = PageBuilder::new(1000)
        .event(1, &[1, 0, 0, 0])
        .head(PADDING, 10)
        .word(12)
        .bytes(&[0xee; 8])
        .event(100, &[2, 0, 0, 0, 0, 0, 0, 0])
        .head(TIME_EXTEND, 5)
        .word(3)
        .event(2, &[3, 0, 0, 0])
        .build(0);
    let last = 1111 + 5 + (3 << 27) + 2;
    let expected = vec![(1001, 1, 4), (1111, 2, 8), (last, 3, 4)];
    assert_eq!(walk(&page), (expected, None));
}

#[test]
fn padding_beyond_records_ends_page() {
    let page = PageBuilder::new(0)
        .event(1, &[1, 0, 0, 0])
        .head(PADDING, 1)
        .word(u32::MAX)
        .event(1, &[2, 0, 0, 0])
        .build(0);
    assert_eq!(walk(&page), (vec![(1, 1, 4)], None));
}

#[test]
fn each_broken_record_has_its_status() {
    let page = || PageBuilder::new(50).event(1, &[7, 0, 0, 0]);
    let cases = [
        (page().bytes(&[1, 2, 3]), PageError::ShortEventHeader, 5),
        (page().head(PADDING, 0).word(8), PageError::NullPadding, 6),
        (page().head(PADDING, 1), PageError::ShortPaddingLength, 7),
        (
            page().head(PADDING, 1).word(3),
            PageError::InvalidPaddingLength,
            8,
        ),
        (
            page().head(TIME_EXTEND, 1).bytes(&[0; 3]),
            PageError::ShortTimeExtend,
            9,
        ),
        (page().head(TIME_STAMP, 1), PageError::ShortTimeStamp, 10),
        (page().head(LONG_DATA, 1), PageError::ShortDataLength, 11),
        (
            page().head(LONG_DATA, 1).word(0),
            PageError::ZeroDataLength,
            12,
        ),
        (
            page().head(LONG_DATA, 1).word(3),
            PageError::InvalidDataLength,
            13,
        ),
        (
            page().head(LONG_DATA, 1).word(5).bytes(&[9]),
            PageError::ShortEventId,
            14,
        ),
        (
            page().head(LONG_DATA, 1).word(4),
            PageError::ShortEventId,
            14,
        ),
        (
            page().head(LONG_DATA, 1).word(9).word(0),
            PageError::EndOverflow,
            15,
        ),
        (
            page().head(LONG_DATA, 1).word(u32::MAX),
            PageError::EndOverflow,
            15,
        ),
        (
            page().head(28, 1).bytes(&[0; 108]),
            PageError::EndOverflow,
            15,
        ),
    ];
    for (builder, error, status) in cases {
        // The records before the broken one are valid.
        assert_eq!(walk(&builder.build(0)), (vec![(51, 7, 4)], Some(error)));
        assert_eq!(error.status(), FtraceParseStatus(status), "{error}");
    }
    assert_eq!(PageError::InvalidHeader.status(), FtraceParseStatus(4));
}

#[test]
fn counted_zeros_at_end_are_an_error() {
    let (events, error) = walk(&decode(test_pages::ZERO_PADDED));
    assert_eq!(error, Some(PageError::ZeroDataLength));
    assert_eq!(events.last(), Some(&(2_173_254_529_525, 91, 64)));
}

#[test]
fn wrong_size_of_commit_is_an_error() {
    let (events, error) = walk(&decode(test_pages::SHORT_COMMIT));
    assert_eq!((events, error), (vec![], Some(PageError::ShortDataLength)));
}

#[test]
fn short_payload_has_no_id() {
    let record = |payload| Record {
        timestamp_ns: 0,
        payload,
    };
    assert_eq!(record(&[0x2f, 1, 9]).id(), 0x12f);
    assert_eq!(record(&[1]).id(), 0);
}

/// Each page ends after no more records than it has words, and no event exceeds the page.
#[test]
fn damaged_pages_end_within_themselves() {
    let mut random = test_pages::Random::new(1);
    let sources = [
        test_pages::FULL_OF_EXT4,
        test_pages::ABSOLUTE_TIME,
        test_pages::THREE_PRINTS,
        test_pages::LONG_RECORD,
    ]
    .map(decode);
    let mut errors = 0;
    for round in 0..2000 {
        let mut bytes = sources[round % sources.len()].clone();
        for _ in 0..=random.below(8) {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        bytes.truncate(LAYOUT.size_bytes - random.below(16) * random.below(16));
        let (events, error) = walk(&bytes);
        assert!(events.len() <= bytes.len() / 4);
        let total: usize = events.iter().map(|event| event.2).sum();
        assert!(total <= bytes.len());
        errors += usize::from(error.is_some());
    }
    assert!((100..1900).contains(&errors), "{errors} pages are broken");
}
