//! The shared memory of producers: its sizes, and how much of it each user has.

use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::coordination::MemorySizes;
use tracezero_core::shm::Geometry;
use tracezero_core::small_map::SmallMap;

use crate::limits::SHARED_MEMORY_PER_UID_MAX_BYTES;

/// The default sizes, in bytes. Perfetto's service has the same defaults.
const DEFAULT_SIZE_BYTES: usize = 256 * 1024;
const DEFAULT_PAGE_BYTES: usize = 4096;

/// The largest page that this service gives producers, in bytes. Perfetto's service has the same
/// limit.
const PAGE_MAX_BYTES: u64 = 32 * 1024;

/// The largest memory, in bytes.
const SIZE_MAX_BYTES: u64 = 32 << 20;

/// Returns the sizes of a producer's memory. Each size comes from the session's configuration, else
/// from the producer's wishes, else from the defaults. A size above its maximum is reduced to the
/// maximum. If the two sizes do not fit together, both defaults are used. Perfetto's service does
/// the same.
pub(crate) fn geometry(configured: MemorySizes, wished: MemorySizes) -> Geometry {
    let first = |sizes: [u64; 3]| sizes.into_iter().find(|size| *size > 0).unwrap_or(0);
    let size_bytes = first([
        configured.size_bytes,
        wished.size_bytes,
        DEFAULT_SIZE_BYTES as u64,
    ]);
    let page_size_bytes = first([
        configured.page_size_bytes,
        wished.page_size_bytes,
        DEFAULT_PAGE_BYTES as u64,
    ]);
    let page_size_bytes = page_size_bytes.min(PAGE_MAX_BYTES) as usize;
    let size_bytes = size_bytes.min(SIZE_MAX_BYTES) as usize;
    let fitting = Geometry::new(size_bytes, page_size_bytes).ok();
    let fitting = fitting.filter(|_| (page_size_bytes / 4096).is_power_of_two());
    fitting.unwrap_or_else(default_geometry)
}

/// Returns the default geometry.
pub(crate) fn default_geometry() -> Geometry {
    Geometry::new(DEFAULT_SIZE_BYTES, DEFAULT_PAGE_BYTES).expect("the default sizes fit together")
}

/// How much shared memory each user has, in bytes.
#[derive(Debug, Default)]
pub(crate) struct MemoryQuotas(Mutex<SmallMap<u32, usize>>);

/// A part of a user's quota. Dropping it gives the part back.
#[derive(Debug)]
pub(crate) struct QuotaPart {
    quotas: Arc<MemoryQuotas>,
    uid: u32,
    size_bytes: usize,
}

impl MemoryQuotas {
    /// Takes a part of a user's quota, unless too little of it is left.
    pub(crate) fn take(self: &Arc<Self>, uid: u32, size_bytes: usize) -> Option<QuotaPart> {
        let mut quotas = self.0.lock();
        let taken = quotas.or_default(uid);
        if *taken + size_bytes > SHARED_MEMORY_PER_UID_MAX_BYTES {
            return None;
        }
        *taken += size_bytes;
        Some(QuotaPart {
            quotas: Arc::clone(self),
            uid,
            size_bytes,
        })
    }
}

impl Drop for QuotaPart {
    fn drop(&mut self) {
        let mut quotas = self.quotas.0.lock();
        let taken = quotas.or_default(self.uid);
        *taken -= self.size_bytes;
        if *taken == 0 {
            quotas.remove(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn sizes(size_kib: u64, page_kib: u64) -> MemorySizes {
        MemorySizes {
            size_bytes: size_kib * KIB,
            page_size_bytes: page_kib * KIB,
        }
    }

    #[test]
    fn sizes_are_corrected_as_perfetto_corrects_them() {
        let none = sizes(0, 0);
        let (default_kib, default_page_kib) = (256, 4);
        for (configured, wished, size_kib, page_kib) in [
            (none, none, default_kib, default_page_kib),
            (none, sizes(1024, 16), 1024, 16),
            (sizes(2048, 8), sizes(1024, 16), 2048, 8),
            // Each size is chosen separately.
            (sizes(2048, 0), sizes(0, 16), 2048, 16),
            // Both sizes are above the maximum.
            (sizes(4_096_000, 4096), none, 32 * 1024, 32),
            // The page size is no multiple of 4 KiB, or it is one, but not by a power of two.
            (none, sizes(1024, 3), default_kib, default_page_kib),
            (none, sizes(1024, 28), default_kib, default_page_kib),
            (none, sizes(1024, 12), default_kib, default_page_kib),
            // The size is no multiple of the page size, or is smaller than a page.
            (none, sizes(18, 16), default_kib, default_page_kib),
            (none, sizes(4, 8), default_kib, default_page_kib),
        ] {
            let geometry = geometry(configured, wished);
            let found = (geometry.size_bytes(), geometry.page_size_bytes());
            let expected = ((size_kib * KIB) as usize, (page_kib * KIB) as usize);
            assert_eq!(found, expected, "{configured:?} {wished:?}");
        }
    }

    #[test]
    fn each_user_has_a_quota() {
        let quotas = Arc::new(MemoryQuotas::default());
        let all = quotas.take(1, SHARED_MEMORY_PER_UID_MAX_BYTES).unwrap();
        assert!(quotas.take(1, 1).is_none());
        assert!(quotas.take(2, 1).is_some());
        drop(all);
        assert!(quotas.take(1, 1).is_some());
        assert!(quotas.0.lock().is_empty());
    }
}
