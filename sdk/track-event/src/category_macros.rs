//! The macros that declare categories and ask for them.

/// Declares categories of a program or library, with a description and optional tags each. Call it
/// at the start of the program. See [`Category`](crate::Category).
///
/// ```
/// use tracezero::{InMemorySession, categories, enabled, service_state};
///
/// categories! {
///     "io": "Files read and written";
///     "io.cache": "Hits and misses of the cache" tags ["slow", "debug"];
/// }
///
/// let session = InMemorySession::start()?;
/// assert!(enabled!("io") && !enabled!("io.cache")); // slow ones have to be asked for
///
/// let data_sources = &service_state().producers[0].data_sources;
/// assert_eq!(data_sources[0].name, "track_event");
/// assert_eq!(data_sources[0].categories[0].description, "Files read and written");
/// # drop(session);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! categories {
    ($($name:literal : $description:literal $(tags [$($tag:literal),* $(,)?])?);* $(;)?) => {
        $crate::Category::declare(const {
            &[$($crate::Category::new($name, $description)$(.tags(&[$($tag),*]))?),*]
        })
    };
}

/// Returns whether any session records a category, at the cost of one relaxed load. Use it to guard
/// code that collects expensive values for events.
///
/// ```
/// use tracezero::{InMemorySession, TrackEventConfig, counter, enabled};
///
/// fn sum_up(sizes: &[u64]) {
///     if enabled!("sizes") {
///         counter!("sizes", "total", sizes.iter().sum::<u64>());
///     }
/// }
///
/// assert!(!enabled!("sizes")); // no session
/// let session = InMemorySession::start()?;
/// sum_up(&[1, 2, 3]);
/// let choice = TrackEventConfig::new().disable("sizes");
/// session.control().choose_categories(&choice)?;
/// assert!(!enabled!("sizes"));
/// # assert_eq!(session.finish().1.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! enabled {
    ($category:literal) => {{
        static SWITCH: $crate::CategorySwitch = $crate::CategorySwitch::new($category);
        SWITCH.is_on()
    }};
}
