//! The time that tasks waited for a resource: `/proc/pressure`.

use tracezero_kernel::protos::SysStats;
use tracezero_kernel::protos::sys_stats::psi_sample::PsiResource;

use super::Counters;
use crate::text_file::{PolledFile, Root};
use crate::words::{lines, number, words};

const NS_PER_US: u64 = 1000;

/// The times since the machine's start in which some tasks, or all of them, waited for a resource.
#[derive(Debug)]
pub(super) struct Pressure([Resource; 3]);

#[derive(Debug)]
struct Resource {
    file: PolledFile,
    some: PsiResource,
    full: PsiResource,
}

impl Pressure {
    pub(super) fn open(root: &Root) -> Self {
        let resource = |path, some, full| Resource {
            file: PolledFile::open(root.path(path)),
            some,
            full,
        };
        Self([
            resource(
                "proc/pressure/cpu",
                PsiResource::CPU_SOME,
                PsiResource::CPU_FULL,
            ),
            resource(
                "proc/pressure/io",
                PsiResource::IO_SOME,
                PsiResource::IO_FULL,
            ),
            resource(
                "proc/pressure/memory",
                PsiResource::MEMORY_SOME,
                PsiResource::MEMORY_FULL,
            ),
        ])
    }
}

impl Counters for Pressure {
    /// Reads lines like `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        for resource in &mut self.0 {
            for line in lines(resource.file.read(text).unwrap_or_default()) {
                let mut words = words(line);
                let kind = match words.next() {
                    Some(b"some") => resource.some,
                    Some(b"full") => resource.full,
                    _ => continue,
                };
                let total = words.find_map(|word| number(word.strip_prefix(b"total=")?));
                if let Some(us) = total {
                    out.add_psi(|sample| {
                        sample
                            .set_resource(kind)
                            .set_total_ns(u64::saturating_mul(us, NS_PER_US));
                    });
                }
            }
        }
    }
}
