//! The programs that the command records: this executable, as an ignored test.

#![allow(unsafe_code)] // Forks.

use std::io::Write as _;
use std::path::Path;
use std::process::{self, Command};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use support::wait_until;
use tracezero::{DataSource as _, data_source, enabled, instant, span};

/// The environment variable that says what the program does.
const ROLE: &str = "TRACEZERO_TEST_ROLE";

/// The number of threads of [`spans`], and of spans of each.
pub const THREADS: usize = 3;
pub const SPANS: u64 = 10_000;

/// The number of packets of a data source of the program.
pub const PACKETS: u64 = 1000;

/// The number of packets of a program that ends in the middle of them: far more than the shared memory
/// has room for.
pub const MANY_PACKETS: u64 = 300_000;

/// The environment variables of programs that record at full speed: their number, for how long, and
/// the folder for the files that say how many events each has recorded.
pub const PROGRAMS: &str = "TRACEZERO_RECORD_PROGRAMS";
pub const SECONDS: &str = "TRACEZERO_RECORD_SECONDS";
pub const COUNTS_FOLDER: &str = "TRACEZERO_TEST_COUNTS";

/// How often the roles that wait do so.
pub const WAITS: usize = 10;

/// The exit status of the role `fails`.
pub const FAILS_WITH: i32 = 7;

/// A data source that nobody asks for by its name.
struct Numbers;
data_source!(Numbers, "com.example.numbers");

/// Returns a command that runs this executable in a role.
pub fn command(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    let args = ["program::runs", "--exact", "--ignored", "--nocapture"];
    command.args(args).env(ROLE, role);
    command
}

/// The program. It is no test: `command` starts it as a process of its own.
#[test]
#[ignore = "a process of its own, which another test starts"]
fn runs() {
    match &*env::var(ROLE).unwrap_or_default() {
        "" => {}
        "one event" => instant!("test", "one"),
        "spans" => spans(),
        "packets" => packets(PACKETS),
        "many packets, then aborts" => {
            packets(MANY_PACKETS);
            process::abort();
        }
        "parent" => parent(),
        "many at full speed" => many_at_full_speed(),
        "full speed" => full_speed(),
        "fails" => {
            instant!("test", "one");
            process::exit(FAILS_WITH);
        }
        "first event at once" => {
            let start = Instant::now();
            instant!("test", "one");
            process::exit(i32::from(start.elapsed() > Duration::from_secs(1)) * 9);
        }
        "aborts" => {
            instant!("test", "one");
            process::abort();
        }
        "endless" => {
            // It ends by itself, also if the test has failed.
            for _ in 0..10_000 {
                instant!("test", "one");
                thread::sleep(Duration::from_millis(1));
            }
        }
        "silent" => thread::sleep(Duration::from_secs(3)),
        "waits for a lock" => waits_for_lock(),
        "waits for the disk" => waits_for_disk(),
        "waits for a core" => waits_for_core(),
        role => panic!("no role {role:?}"),
    }
}

/// Records from the first line on, and ends at once.
fn spans() {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let name = format!("worker {number}");
            let work = || {
                for index in 0..SPANS {
                    let _span = span!("test", "work", index, on = "a thread");
                }
            };
            let thread = thread::Builder::new().name(name);
            thread.spawn_scoped(scope, work).unwrap();
        }
    });
}

/// Writes packets of its own data source, and has no events.
fn packets(count: u64) {
    for number in 0..count {
        Numbers::trace(|context| {
            let now = context.now_ns();
            context.packet(|packet| {
                packet.set_timestamp(now);
                packet.for_testing(|out| {
                    out.set_seq_value(number as u32);
                });
            });
        });
    }
}

/// Starts programs that record at full speed, and waits for them.
fn many_at_full_speed() {
    let programs = number_of(PROGRAMS);
    let programs = (0..programs).map(|_| command("full speed").spawn().unwrap());
    for mut program in programs.collect::<Vec<_>>() {
        assert!(program.wait().unwrap().success());
    }
}

/// Records at full speed for a time, and says how many events.
fn full_speed() {
    let time = Duration::from_secs_f64(env::var(SECONDS).unwrap().parse().unwrap());
    let (start, mut count) = (Instant::now(), 0_u64);
    while start.elapsed() < time {
        for _ in 0..100 {
            instant!("test", "fast", count);
            count += 1;
        }
    }
    let folder = env::var_os(COUNTS_FOLDER).unwrap();
    let file = Path::new(&folder).join(format!("count-{}", process::id()));
    fs::write(file, count.to_string()).unwrap();
}

/// Waits for a mutex that another thread holds while it is inside of "hold".
fn waits_for_lock() {
    let mutex = Mutex::new(());
    let (is_held, held) = mpsc::channel();
    thread::scope(|scope| {
        let holder = || {
            for _ in 0..WAITS {
                let _hold = span!("test", "hold");
                let guard = mutex.lock().unwrap();
                is_held.send(()).unwrap();
                spin(Duration::from_millis(10));
                drop(guard);
            }
        };
        let thread = thread::Builder::new().name("holder".to_owned());
        thread.spawn_scoped(scope, holder).unwrap();
        for _ in 0..WAITS {
            held.recv().unwrap();
            let _wait = span!("test", "wait");
            drop(mutex.lock().unwrap());
        }
    });
}

/// Waits until a file is on the disk.
fn waits_for_disk() {
    // Not below the folder for temporary files, which may be in memory.
    let path = env::current_exe()
        .unwrap()
        .with_extension(format!("{}", process::id()));
    for _ in 0..WAITS {
        let _wait = span!("test", "wait");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&[1; 1 << 16]).unwrap();
        file.sync_all().unwrap();
    }
    fs::remove_file(path).unwrap();
}

/// Computes on more threads than there are cores.
fn waits_for_core() {
    thread::scope(|scope| {
        for _ in 0..3 * thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                let _wait = span!("test", "wait");
                spin(Duration::from_millis(100));
            });
        }
    });
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn number_of(variable: &str) -> usize {
    env::var(variable).unwrap().parse().unwrap()
}

/// Starts two programs, forks once, and records beside them.
fn parent() {
    instant!("test", "parent begins");
    wait_until(|| enabled!("test"));
    let children = ["spans", "one event"].map(|role| command(role).spawn().unwrap());
    // SAFETY: this test is the only one of its process. The child takes no lock of other threads: it
    // sleeps, tries to record, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        instant!("test", "of the fork");
        thread::sleep(Duration::from_millis(700));
        // SAFETY: ends the child without the exit handlers of its parent.
        unsafe { libc::_exit(0) };
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    // SAFETY: waits for the child above.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    instant!("test", "parent ends");
}
