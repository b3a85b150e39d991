//! A library that depends on `tracezero-events` alone. Its events are recorded if the application
//! that contains it uses `tracezero`.
//!
//! The module `thumbnails` stands for the library, which would be a crate of its own.

use tracezero::{Session, span};

mod thumbnails {
    use tracezero_events::{counter, end, instant, span};

    /// Shrinks an image, and records how.
    pub fn shrink(name: &str, bytes: usize) -> usize {
        let span = span!("thumbnails", "shrink", name, bytes);
        if bytes > 4_000 {
            instant!("thumbnails", "large", %name);
        }
        let shrunk = bytes / 10;
        counter!("thumbnails", "last_bytes", shrunk);
        end!(span, shrunk);
        shrunk
    }
}

fn main() -> Result<(), tracezero::Error> {
    // No session is open, so this call records nothing.
    thumbnails::shrink("logo.png", 900);

    let session = Session::record_to_file("library.pftrace")?;
    {
        let _page = span!("app", "page");
        for (name, bytes) in [("cat.png", 2_500), ("dog.png", 7_300)] {
            thumbnails::shrink(name, bytes);
        }
    }
    println!("{}", session.finish()?); // 9 events
    Ok(())
}
