//! Folders of processes that live, end, or were killed.

use std::fs;

use judge::{ExtraSchema, judge};
use support::wait_for;
use tracezero::crash::{Leftover, RecoverError, leftovers};

use crate::program::{Kind, Program, crash_directory};
use crate::recovered::recover_and_check;

#[test]
fn only_the_folder_of_a_dead_process_is_a_leftover() {
    let directory = crash_directory("living");
    assert_eq!(leftovers(&directory).unwrap().len(), 0);
    let program = Program::start(Kind::LargeRing, &directory);
    assert_eq!(leftovers(&directory).unwrap().len(), 0);
    let folder = fs::read_dir(&directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let error = Leftover::open(&folder).unwrap_err();
    assert!(matches!(error, RecoverError::InUse { .. }), "{error}");

    let pid = program.pid();
    let reported = program.kill();
    {
        let leftover = &leftovers(&directory).unwrap()[0];
        assert_eq!((leftover.pid(), leftover.session_count()), (pid, 1));
        assert_eq!(leftover.path(), folder);
        // Only one recovers at a time.
        let error = Leftover::open(&folder).unwrap_err();
        assert!(matches!(error, RecoverError::InUse { .. }), "{error}");
    }
    recover_and_check(Kind::LargeRing, &directory, &reported);
}

#[test]
fn a_trace_file_is_never_replaced() {
    let directory = crash_directory("exists");
    Program::start(Kind::LargeRing, &directory).kill();
    let leftover = leftovers(&directory).unwrap().remove(0);
    let path = directory.join("there.pftrace");
    fs::write(&path, "there").unwrap();
    let error = leftover.recover_session(0, &path).unwrap_err();
    assert!(matches!(error, RecoverError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"there");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_trace_file_of_another_recording_is_left_out() {
    let directory = crash_directory("replaced");
    for _ in 0..2 {
        let program = Program::start(Kind::Streaming, &directory);
        let file = directory.join("streamed.pftrace");
        let is_written = || {
            fs::metadata(&file)
                .is_ok_and(|it| it.len() > 500_000)
                .then_some(())
        };
        wait_for(is_written).expect("the program writes");
        program.kill();
    }
    let recovered = leftovers(&directory).unwrap().into_iter().enumerate();
    let recovered: Vec<_> = recovered
        .map(|(index, leftover)| {
            let path = directory.join(format!("{index}.pftrace"));
            leftover.recover_session(0, path).unwrap()
        })
        .collect();
    let [first, second] = recovered.as_slice() else {
        panic!("{recovered:?}");
    };
    assert_eq!(second.damages, [] as [&str; 0]);
    assert_eq!(first.damages.len(), 1);
    assert!(
        first.damages[0].contains("another recording has replaced"),
        "{first:?}"
    );
    assert!(first.packets > 0);
    for trace in [first, second] {
        judge(&fs::read(&trace.path).unwrap(), &ExtraSchema::new()).unwrap();
    }
    fs::remove_dir_all(&directory).unwrap();
}
