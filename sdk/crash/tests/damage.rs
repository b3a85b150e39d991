//! Tests of damaged crash files. The recovery finds the undamaged packets, names the damaged files,
//! and does not panic.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::Folder;
use support::crash_files::{FILES, PACKETS, leave_crash_files};
use tracezero_core::crash_files::format::{HEADER_BYTES, Meta, Output};
use tracezero_core::protos::{TraceDecoder, TracePacketDecoder};
use tracezero_crash::{Leftover, RecoverError, RecoveredTrace};

/// A session has any number of rings, and not each keeps states.
const MAY_BE_MISSING: [&str; 2] = ["s0/b0.0", "s0/states0.0"];

/// Recovers the files, and returns the numbers of the packets.
fn recover(folder: &Path) -> Result<(RecoveredTrace, Vec<u64>), RecoverError> {
    let path = folder.with_extension("pftrace");
    let _ = fs::remove_file(&path);
    let recovered = Leftover::open(folder)?.recover_session(0, &path)?;
    let bytes = fs::read(&path).unwrap();
    let packets = TraceDecoder::new(&bytes).packet();
    let number = |packet: Result<_, _>| {
        let packet: TracePacketDecoder<'_> = packet.unwrap();
        packet.for_testing().ok()??.counter().ok()?
    };
    Ok((recovered, packets.filter_map(number).collect()))
}

#[test]
fn sound_files_are_recovered_as_a_whole() {
    let folder = Folder::empty();
    let files = leave_crash_files(folder.path());
    let (trace, numbers) = recover(&files).unwrap();
    assert_eq!(trace.damages, [] as [&str; 0]);
    assert!(numbers.into_iter().eq(0..u64::from(PACKETS)));
    assert_eq!(
        trace.lost_packets(),
        1,
        "the process was in the middle of it"
    );
    // The log of the states knows that the ring has lost none.
    let account = &trace.sequences[0];
    assert_eq!((account.in_flight, account.overwritten), (1, 0));
}

#[test]
fn no_flipped_byte_makes_a_recovery_fail() {
    let folder = Folder::empty();
    let files = leave_crash_files(folder.path());
    for file in FILES {
        let path = files.join(file);
        let sound = fs::read(&path).unwrap();
        // Damage the first 256 bytes, every 61st byte, and the first 200 bytes behind the header.
        let places = (0..sound.len()).filter(|at| *at < 256 || at % 61 == 0);
        let places =
            places.chain((HEADER_BYTES..HEADER_BYTES + 200).filter(|at| *at < sound.len()));
        for at in places {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x55;
            fs::write(&path, &damaged).unwrap();
            match recover(&files) {
                // A damaged slot loses at most its own packet. A damaged header may lose all
                // packets of its file, and `damages` then names the file.
                Ok((trace, numbers)) => assert!(
                    numbers.len() + 1 >= PACKETS as usize || !trace.damages.is_empty(),
                    "{file}, byte {at}: {numbers:?}"
                ),
                Err(RecoverError::NotCrashFiles { .. }) => assert_eq!(file, "meta"),
                Err(error) => panic!("{file}, byte {at}: {error}"),
            }
        }
        fs::write(&path, sound).unwrap();
    }
}

#[test]
fn files_may_be_cut_off_or_missing() {
    let folder = Folder::empty();
    let files = leave_crash_files(folder.path());
    for file in FILES {
        let path = files.join(file);
        let sound = fs::read(&path).unwrap();
        for len in [0, 1, 100, 4095, 4096, 4097, 5000, 8191] {
            fs::write(&path, &sound[..len.min(sound.len())]).unwrap();
            if let Err(error) = recover(&files) {
                assert!(
                    matches!(error, RecoverError::NotCrashFiles { .. }),
                    "{file}: {error}"
                );
            }
        }
        fs::remove_file(&path).unwrap();
        match recover(&files) {
            Ok((trace, _)) => assert!(!trace.damages.is_empty() || MAY_BE_MISSING.contains(&file)),
            Err(error) => assert!(matches!(error, RecoverError::Io { .. }), "{file}: {error}"),
        }
        fs::write(&path, sound).unwrap();
    }
}

#[test]
fn files_of_another_process_are_not_taken() {
    let (folder, other) = (Folder::empty(), Folder::empty());
    let (files, foreign) = (
        leave_crash_files(folder.path()),
        leave_crash_files(other.path()),
    );
    fs::copy(foreign.join("s0/b0.0"), files.join("s0/b0.0")).unwrap();
    let (trace, numbers) = recover(&files).unwrap();
    assert_eq!(numbers, []);
    assert_eq!(trace.damages, ["b0.0: the header is damaged"]);
}

#[test]
fn no_recovery_waits_for_a_pipe_or_follows_a_link() {
    let folder = Folder::empty();
    let files = leave_crash_files(folder.path());
    let elsewhere = folder.file("elsewhere");
    let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    for file in FILES {
        let path = files.join(file);
        fs::rename(&path, &elsewhere).unwrap();
        for is_pipe in [true, false] {
            if is_pipe {
                pipe(&path);
            } else {
                symlink(&elsewhere, &path).unwrap();
            }
            match recover(&files) {
                Ok((trace, _)) => assert_ne!(trace.damages, [] as [&str; 0], "{file}"),
                Err(error) => assert!(matches!(error, RecoverError::Io { .. }), "{file}: {error}"),
            }
            fs::remove_file(&path).unwrap();
        }
        fs::rename(&elsewhere, &path).unwrap();
    }

    // The trace file of a session may be a pipe, whose reader has already taken the packets. The
    // recovery does not read the pipe, but names it as damage.
    let streamed = folder.file("pipe");
    pipe(&streamed);
    let output = Output {
        device: 0,
        inode: 0,
        path: streamed,
    };
    fs::write(files.join("s0/output"), output.encode()).unwrap();
    pipe(&files.join("s0/part0"));
    let (trace, numbers) = recover(&files).unwrap();
    assert!(numbers.into_iter().eq(0..u64::from(PACKETS)));
    assert_eq!(trace.damages.len(), 2);
    assert!(
        trace
            .damages
            .iter()
            .all(|damage| damage.ends_with("no regular file"))
    );
}

#[test]
fn a_session_that_is_a_link_is_not_recovered() {
    let folder = Folder::empty();
    let files = leave_crash_files(folder.path());
    let elsewhere = folder.file("elsewhere");
    fs::rename(files.join("s0"), &elsewhere).unwrap();
    symlink(&elsewhere, files.join("s0")).unwrap();
    assert_eq!(Leftover::open(&files).unwrap().session_count(), 0);
}

#[test]
fn files_of_an_earlier_boot_are_recovered_and_marked() {
    let folder = Folder::empty();
    let files = leave_crash_files(folder.path());
    assert!(!Leftover::open(&files).unwrap().is_of_earlier_boot());
    let path = files.join("meta");
    let mut bytes = fs::read(&path).unwrap();
    let mut meta = Meta::decode(&bytes).unwrap();
    meta.boot_id[0] ^= 1;
    bytes[..HEADER_BYTES].copy_from_slice(&meta.encode());
    fs::write(&path, bytes).unwrap();
    assert!(Leftover::open(&files).unwrap().is_of_earlier_boot());
    let (trace, numbers) = recover(&files).unwrap();
    assert_eq!(trace.damages, [] as [&str; 0]);
    assert!(numbers.into_iter().eq(0..u64::from(PACKETS)));
}
