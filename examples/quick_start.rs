//! The shortest way to a trace: spans, a counter and an instant, in a file.
//!
//! `cargo run --example quick_start`, then open `quick_start.pftrace` at <https://ui.perfetto.dev>.

use tracezero::{Session, counter, instant, span};

fn main() -> Result<(), tracezero::Error> {
    let session = Session::record_to_file("quick_start.pftrace")?; // finishes on drop and on panic
    {
        let _span = span!("io", "read_file", path = "Cargo.toml", bytes = 1234_u64);
        counter!("io", "open_files", 3);
        std::thread::sleep(std::time::Duration::from_millis(2));
    } // the span ends here
    instant!("app", "done");
    println!("{}", session.finish()?);
    println!("open it at https://ui.perfetto.dev, or run: tracezero view quick_start.pftrace");
    Ok(())
}
