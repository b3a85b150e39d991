//! The processors of the machine: `/proc/cpuinfo`, and files of each processor.

use std::collections::{BTreeMap, BTreeSet};

use tracezero_kernel::protos::CpuInfo;

use crate::cpu_folders::{self, CPUS_MAX};
use crate::text_file::{self, Root};
use crate::words::{first_number, key_and_value, number, text_of, words};

/// The features that have a bit in the schema, in the order of the bits.
const FEATURES: [&[u8]; 2] = [b"mte", b"mte3"];

/// The name of a processor that has none.
const UNKNOWN: &str = "unknown";

/// Writes all configured processors. The position of an entry is the number of its processor, so one
/// that is offline has an entry, too.
pub(super) fn write(root: &Root, out: &mut CpuInfo<'_>) {
    let mut text = Vec::new();
    let content = text_file::read(&root.path("proc/cpuinfo"), &mut text).unwrap_or_default();
    let processors = parse(content);
    let listed = processors.keys().next_back().map_or(0, |last| last + 1);
    let offline = Processor::default();
    for cpu in 0..listed.max(cpu_folders::count(root)) {
        let processor = processors.get(&cpu).unwrap_or(&offline);
        out.add_cpus(|written| {
            written.set_processor(processor.name.as_deref().unwrap_or(UNKNOWN));
            for khz in frequencies_khz(root, cpu) {
                written.add_frequencies(khz);
            }
            let capacity = cpu_folders::path(root, cpu).join("cpu_capacity");
            let mut text = Vec::new();
            let capacity = text_file::read(&capacity, &mut text);
            if let Some(capacity) = capacity.ok().and_then(first_number) {
                written.set_capacity(capacity);
            }
            if let Some(arm) = processor.arm.whole() {
                written.arm_identifier(|identifier| {
                    identifier
                        .set_implementer(arm.implementer)
                        .set_architecture(arm.architecture)
                        .set_variant(arm.variant)
                        .set_part(arm.part)
                        .set_revision(arm.revision);
                });
            }
            if processor.features != 0 {
                written.set_features(processor.features);
            }
        });
    }
}

/// Returns the frequencies that a processor can have, sorted.
fn frequencies_khz(root: &Root, cpu: u32) -> BTreeSet<u32> {
    let folder = cpu_folders::path(root, cpu).join("cpufreq");
    let mut frequencies = BTreeSet::new();
    let mut text = Vec::new();
    for name in ["scaling_available_frequencies", "scaling_boost_frequencies"] {
        let list = text_file::read(&folder.join(name), &mut text).unwrap_or_default();
        frequencies.extend(words(list).filter_map(number::<u32>));
    }
    frequencies
}

/// What `/proc/cpuinfo` tells about a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Processor {
    name: Option<String>,
    arm: ArmKeys,
    features: u64,
}

/// The keys by which processors of Arm are identified, as far as they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ArmKeys {
    implementer: Option<u32>,
    architecture: Option<u32>,
    variant: Option<u32>,
    part: Option<u32>,
    revision: Option<u32>,
}

/// The identity of a processor of Arm.
struct ArmIdentity {
    implementer: u32,
    architecture: u32,
    variant: u32,
    part: u32,
    revision: u32,
}

impl ArmKeys {
    /// Returns the identity, if no key is missing.
    fn whole(self) -> Option<ArmIdentity> {
        Some(ArmIdentity {
            implementer: self.implementer?,
            architecture: self.architecture?,
            variant: self.variant?,
            part: self.part?,
            revision: self.revision?,
        })
    }
}

/// Returns the processors by their number. Each has a block of lines `key : value`, and blocks end at
/// an empty line.
fn parse(text: &[u8]) -> BTreeMap<u32, Processor> {
    let mut processors = BTreeMap::new();
    // Some kernels have the name once, before the first block or in it.
    let mut common_name = None;
    let mut number_of_block = None;
    let mut block = Processor::default();
    for line in text.split(|byte| *byte == b'\n').chain([&b""[..]]) {
        if line.trim_ascii().is_empty() {
            let ended = std::mem::take(&mut block);
            if let Some(number) = number_of_block.take()
                && number < CPUS_MAX
            {
                processors.insert(number, ended);
            }
            continue;
        }
        let Some((key, value)) = key_and_value(line) else {
            continue;
        };
        match key {
            b"Processor" => common_name = Some(text_of(value).into_owned()),
            b"processor" => number_of_block = number(value),
            b"model name" => block.name = Some(text_of(value).into_owned()),
            b"CPU implementer" => block.arm.implementer = hexadecimal(value),
            b"CPU architecture" => block.arm.architecture = number(value),
            b"CPU variant" => block.arm.variant = hexadecimal(value),
            b"CPU part" => block.arm.part = hexadecimal(value),
            b"CPU revision" => block.arm.revision = number(value),
            b"Features" => {
                for word in words(value) {
                    let feature = FEATURES.iter().position(|feature| *feature == word);
                    block.features |= feature.map_or(0, |bit| 1 << bit);
                }
            }
            _ => {}
        }
    }
    if common_name.is_some() {
        for processor in processors.values_mut() {
            processor.name.clone_from(&common_name);
        }
    }
    processors
}

fn hexadecimal(value: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(value).ok()?.strip_prefix("0x")?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_a_number_are_no_processors() {
        let text = b"Hardware\t: Board\n\nprocessor\t: 1\nmodel name\t: Fast\n\nSerial : 0\n";
        let processors = parse(text);
        assert_eq!(processors.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(processors[&1].name.as_deref(), Some("Fast"));
    }

    #[test]
    fn number_above_limit_is_no_processor() {
        let text = format!("processor : {CPUS_MAX}\n\nprocessor : 4294967295\n");
        assert_eq!(parse(text.as_bytes()).len(), 0);
        let text = format!("processor : {}", CPUS_MAX - 1);
        assert_eq!(parse(text.as_bytes()).len(), 1);
    }

    #[test]
    fn identity_of_arm_needs_all_keys() {
        let keys = [
            "implementer\t: 0x51",
            "architecture: 8",
            "variant\t: 0x7",
            "part\t: 0x803",
        ];
        let mut text = "processor : 0\n".to_owned();
        for key in keys {
            text += &format!("CPU {key}\n");
            assert!(parse(text.as_bytes())[&0].arm.whole().is_none());
        }
        text += "CPU revision\t: 12\n";
        let arm = parse(text.as_bytes())[&0].arm.whole().unwrap();
        assert_eq!([arm.implementer, arm.variant, arm.part], [0x51, 7, 0x803]);
        assert_eq!([arm.architecture, arm.revision], [8, 12]);
    }
}
