//! Traces that are cut or damaged.

use support::{Folder, alone};
use tracezero::{InMemorySession, instant, span};
use tracezero_lake::{ExportOptions, Lake};

use crate::table::rows;

const SPANS: usize = 2000;

fn trace() -> Vec<u8> {
    let session = InMemorySession::start().unwrap();
    for number in 0..SPANS {
        let _span = span!("app", "work", number = number);
        instant!("app", "point");
    }
    session.finish().0
}

#[test]
fn cut_trace_gives_what_is_before_the_cut() {
    let _alone = alone();
    let trace = trace();
    let folder = Folder::empty();
    let mut lake = Lake::open(folder.path()).unwrap();
    let options = ExportOptions::default();
    let exported = lake
        .export(&trace[..trace.len() * 3 / 4], "cut", &options)
        .unwrap();
    assert!(exported.errors > 0);
    let slices = rows(folder.path(), "slice");
    assert!(
        (SPANS..2 * SPANS).contains(&slices.len()),
        "{}",
        slices.len()
    );
    let findings = rows(folder.path(), "finding");
    assert!(
        findings.iter().any(|row| row["rule"] == "recording"),
        "{findings:?}"
    );
}

#[test]
fn damaged_bytes_are_findings() {
    let _alone = alone();
    let mut trace = trace();
    let middle = trace.len() / 2;
    trace[middle..middle + 40].fill(0xff);
    let folder = Folder::empty();
    let mut lake = Lake::open(folder.path()).unwrap();
    lake.export(&trace[..], "damaged", &ExportOptions::default())
        .unwrap();
    let slices = rows(folder.path(), "slice").len();
    assert!((2 * SPANS - 20..2 * SPANS).contains(&slices), "{slices}");
    let findings = rows(folder.path(), "finding");
    assert!(
        findings.iter().any(|row| row["rule"] == "framing"),
        "{findings:?}"
    );
}

/// Flips bits of a trace. Each export ends, with an error or with rows.
#[test]
fn any_bytes_are_exported_or_refused() {
    let _alone = alone();
    let trace = trace();
    let mut state = 42_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..40 {
        let mut altered = trace[..3000].to_vec();
        for _ in 0..20 {
            let at = next() % altered.len();
            altered[at] ^= 1 << (next() % 8);
        }
        let folder = Folder::empty();
        let mut lake = Lake::open(folder.path()).unwrap();
        if lake
            .export(&altered[..], "altered", &ExportOptions::default())
            .is_ok()
        {
            assert_eq!(rows(folder.path(), "trace").len(), 1);
        }
    }
}
