//! Counters of devices: disks, device and GPU frequencies, temperatures.

use tracezero_kernel::protos::SysStats;

use super::Counters;
use crate::text_file::{self, PolledFile, Root};
use crate::words::{first_number, lines, number, text_of, words};

const HZ_PER_MHZ: u64 = 1_000_000;

/// The counters of `/proc/diskstats` since the machine's start: `MAJOR MINOR NAME NUMBERS`.
#[derive(Debug)]
pub(super) struct Diskstats(PolledFile);

impl Diskstats {
    pub(super) fn open(root: &Root) -> Self {
        Self(PolledFile::open(root.path("proc/diskstats")))
    }
}

impl Counters for Diskstats {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        for line in lines(self.0.read(text).unwrap_or_default()) {
            let mut words = words(line);
            let Some(name) = words.nth(2) else {
                continue;
            };
            out.add_disk_stat(|disk| {
                disk.set_device_name(&text_of(name));
                // Old kernels have fewer columns.
                for (column, word) in (3..).zip(words) {
                    let Some(count) = number(word) else {
                        continue;
                    };
                    match column {
                        5 => disk.set_read_sectors(count),
                        6 => disk.set_read_time_ms(count),
                        9 => disk.set_write_sectors(count),
                        10 => disk.set_write_time_ms(count),
                        16 => disk.set_discard_sectors(count),
                        17 => disk.set_discard_time_ms(count),
                        18 => disk.set_flush_count(count),
                        19 => disk.set_flush_time_ms(count),
                        _ => disk,
                    };
                }
            });
        }
    }
}

/// The frequencies of devices, in Hz.
#[derive(Debug)]
pub(super) struct DeviceFrequencies(pub(super) Root);

impl Counters for DeviceFrequencies {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        let folder = self.0.path("sys/class/devfreq");
        for device in text_file::entries(&folder) {
            let frequency = text_file::read(&folder.join(&device).join("cur_freq"), text);
            if let Some(hz) = frequency.ok().and_then(first_number) {
                out.add_devfreq(|value| {
                    value.set_key(&device).set_value(hz);
                });
            }
        }
    }
}

/// The frequency of the GPU, in MHz. Each vendor's driver has its own file.
#[derive(Debug)]
pub(super) struct GpuFrequency(pub(super) Root);

impl GpuFrequency {
    fn mhz(&self, text: &mut Vec<u8>) -> Option<u64> {
        let mut read = |path: &str| {
            text_file::read(&self.0.path(path), text)
                .ok()
                .map(<[u8]>::to_vec)
        };
        let adreno = read("sys/class/kgsl/kgsl-3d0/devfreq/cur_freq");
        if let Some(hz) = adreno.and_then(|text| first_number::<u64>(&text)) {
            return Some(hz / HZ_PER_MHZ);
        }
        let intel = read("sys/class/drm/card0/gt_act_freq_mhz");
        if let Some(mhz) = intel.and_then(|text| first_number(&text)) {
            return Some(mhz);
        }
        amd_mhz(&read("sys/class/drm/card0/device/pp_dpm_sclk")?)
    }
}

impl Counters for GpuFrequency {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        if let Some(mhz) = self.mhz(text) {
            out.add_gpufreq_mhz(mhz);
        }
    }
}

/// Returns the frequency that the AMD driver marks in its list: `400` of `1: 400Mhz *`.
fn amd_mhz(list: &[u8]) -> Option<u64> {
    let current = lines(list).find(|line| line.trim_ascii_end().ends_with(b"*"))?;
    words(current).find_map(|word| number(word.strip_suffix(b"Mhz")?))
}

/// Temperatures in whole degrees Celsius.
#[derive(Debug)]
pub(super) struct ThermalZones(pub(super) Root);

impl Counters for ThermalZones {
    fn read(&mut self, text: &mut Vec<u8>, out: &mut SysStats<'_>) {
        let folder = self.0.path("sys/class/thermal");
        let mut zones = text_file::entries(&folder);
        zones.retain(|zone| zone.starts_with("thermal_zone"));
        for zone in zones {
            out.add_thermal_zone(|written| {
                written.set_name(&zone);
                let temperature = text_file::read(&folder.join(&zone).join("temp"), text);
                // The schema has no temperatures below zero.
                if let Some(millidegrees) = temperature.ok().and_then(first_number::<u64>) {
                    written.set_temp(millidegrees / 1000);
                }
                if let Ok(kind) = text_file::read(&folder.join(&zone).join("type"), text) {
                    written.set_type(&text_of(kind.trim_ascii()));
                }
            });
        }
    }
}
