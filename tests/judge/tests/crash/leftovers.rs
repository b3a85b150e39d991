//! Folders of processes that live, end, or were killed.

use std::fs;

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
