//! `tracezero compress` and `decompress`.

use support::Folder;

use crate::process::{Run, run, run_on, run_with_input};
use crate::traces::{SHOP, recorded};

/// Prints the packets of a trace as text, without their positions.
fn packets(trace: &[u8]) -> String {
    let run = run_with_input(&["cat", "-"], trace).fine();
    let lines = run.text().lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// Expects exit status 0, and only the line with the sizes on the standard error.
#[track_caller]
fn sized(run: Run) -> Run {
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.stderr.contains(" to "), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    run
}

#[test]
fn sizes_of_both_files_are_printed() {
    let trace = SHOP.trace();
    let size = trace.len();
    assert!(size < 1000, "{size}");
    let run = run_with_input(&["decompress", "-", "-o", "-"], &trace);
    assert_eq!(run.stderr, format!("14 packets, {size} B to {size} B\n"));
    let packed = run_with_input(&["compress", "-", "-o", "-"], &trace);
    let packed_size = packed.stdout.len();
    assert_eq!(
        packed.stderr,
        format!("14 packets, {size} B to {packed_size} B\n")
    );
}

#[test]
fn trace_is_the_same_after_compress_and_decompress() {
    let files = Folder::empty();
    let trace = SHOP.trace().repeat(2000);
    let file = files.write("shop.pftrace", &trace);
    for options in [
        &["--level", "9"][..],
        &["--zstd"],
        &["--zstd", "--level", "19"],
    ] {
        let packed = files.file("packed.pftrace");
        let packed_path = packed.to_str().unwrap();
        let mut args = vec!["compress", "FILE", "-o", packed_path];
        args.extend(options);
        sized(run_on(&file, &args));
        let size = files.read("packed.pftrace").len();
        assert!(size < trace.len() / 20, "{size} of {}", trace.len());
        let unpacked = sized(run(&["decompress", packed_path, "-o", "-"]));
        assert!(unpacked.stdout == trace, "{options:?}");
    }
}

#[test]
fn padded_lengths_are_kept() {
    // A time stamp, an empty packet, and a time stamp. Writers that fill in lengths later reserve
    // longer lengths.
    let padded = [
        &[0x0a, 0x82, 0x80, 0x80, 0x00, 0x40, 1][..],
        &[0x0a, 0x80, 0x00],
        &[0x0a, 0x02, 0x40, 2],
    ];
    let trace = padded.concat().repeat(1000);
    let plain = sized(run_with_input(&["decompress", "-", "-o", "-"], &trace));
    assert!(plain.stdout == trace);
    for options in [&[][..], &["--zstd"]] {
        let args = [&["compress", "-", "-o", "-"], options].concat();
        let packed = sized(run_with_input(&args, &trace));
        assert!(packed.stdout.len() < trace.len() / 10, "{options:?}");
        let unpacked = sized(run_with_input(
            &["decompress", "-", "-o", "-"],
            &packed.stdout,
        ));
        assert!(unpacked.stdout == trace, "{options:?}");
    }
}

#[test]
fn recompressed_recording_keeps_its_packets() {
    let trace = recorded();
    let packed = sized(run_with_input(&["compress", "-", "-o", "-"], &trace));
    assert!(packed.stdout.len() < trace.len());
    assert_eq!(packets(&packed.stdout), packets(&trace));
    let again = sized(run_with_input(
        &["compress", "--zstd", "-", "-o", "-"],
        &packed.stdout,
    ));
    assert_eq!(packets(&again.stdout), packets(&trace));
}

#[test]
fn packets_that_do_not_shrink_stay_uncompressed() {
    let mut random = 1_u64;
    let mut noise = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    };
    // A time stamp, and a field of 100,000 bytes that the schema does not contain.
    let mut packet = vec![0x40, 1, 0xa2, 0x3e, 0xa0, 0x8d, 0x06];
    packet.extend((0..100_000).map(|_| noise()));
    let mut trace = vec![0x0a, 0xa7, 0x8d, 0x06];
    trace.extend(&packet);
    for options in [&[][..], &["--zstd"]] {
        let args = [&["compress", "-", "-o", "-"], options].concat();
        let packed = sized(run_with_input(&args, &trace));
        assert!(packed.stdout == trace, "{options:?}");
    }
}

#[test]
fn unknown_level_is_refused() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["compress", "--level", "10", "FILE", "-o", "-"]);
    assert_eq!(run.status, 2);
    assert_eq!(
        run.stderr,
        "error: --level 10 is out of range; deflate has levels 0 to 9\n"
    );
}

#[test]
fn a_failure_leaves_an_older_file_alone() {
    let files = Folder::empty();
    let older = files.write("older.pftrace", b"older");
    let older = older.to_str().unwrap();
    let file = files.write("other.pftrace", b"{\"traceEvents\": []}");
    let failed = run(&["compress", file.to_str().unwrap(), "-o", older]);
    assert_eq!(failed.status, 2);
    assert_eq!(files.read("older.pftrace"), b"older");
    // The temporary file is gone.
    let left = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 2);
}
