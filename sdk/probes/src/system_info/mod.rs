//! The data source `linux.system_info`: the machine's processors and the names of its interrupts.

mod cpu_info; // the processors
mod interrupts; // the names of interrupts
#[cfg(test)]
mod tests;

use protozero::HeapBuffered;
use tracezero::{DataSource, DataSourceConfig, Setup, Starting, TraceContext};
use tracezero_kernel::protos;
use tracezero_kernel::protos::{KernelPacket, SourceConfigsDecoder};

use crate::instance_key::InstanceKey;
use crate::source_config::source_config;
use crate::text_file::{self, Root};

/// The data source `linux.system_info`: the machine's processors and, with `irq_names`, the names of
/// its interrupts.
///
/// It writes a packet with a `CpuInfo` when the session starts: for each configured processor its name,
/// its frequencies in kHz and, on Arm, its capacity and identity. The position of an entry is the
/// number of the processor, also if some processors are offline. With `irq_names`, a packet with an
/// `InterruptInfo` follows.
///
/// The files in `/proc` and `/sys` need no permissions. What a file does not have is left out.
///
/// # Examples
///
/// ```
/// use tracezero::{BufferConfig, DataSource as _, TraceConfig};
/// use tracezero_probes::SystemInfo;
///
/// SystemInfo::register();
/// let machine = SystemInfo::config(|config| {
///     config.set_irq_names(true);
/// });
/// let session = TraceConfig::empty()
///     .add_buffer(BufferConfig::ring(256))
///     .add_data_source(machine)
///     .record_in_memory()?;
/// let (_trace, report) = session.finish();
/// assert!(report.data_packets > 0);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Debug)]
pub struct SystemInfo {
    key: InstanceKey,
    names_interrupts: bool,
}

impl SystemInfo {
    /// Returns a configuration of this data source. `write` sets its options.
    #[must_use]
    pub fn config(write: impl FnOnce(&mut protos::SystemInfoConfig<'_>)) -> DataSourceConfig {
        source_config(Self::NAME, |configs| configs.system_info_config(write))
    }
}

impl DataSource for SystemInfo {
    const NAME: &'static str = "linux.system_info";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(SystemInfo);

    fn on_setup(setup: &Setup<'_>) -> Self {
        let configs = SourceConfigsDecoder::new(setup.config());
        let config = configs.system_info_config().ok().flatten();
        let irq_names = config.and_then(|config| config.irq_names().ok().flatten());
        Self {
            key: InstanceKey::unique(),
            names_interrupts: irq_names.unwrap_or(false),
        }
    }

    fn on_start(&self, starting: Starting) {
        let info = read(&Root::of_machine(), self.names_interrupts);
        Self::trace(|cx| {
            if cx.instance().key == self.key {
                write::<{ KernelPacket::CPU_INFO_FIELD_NUMBER }>(cx, &info.cpus);
                if let Some(interrupts) = &info.interrupts {
                    write::<{ KernelPacket::INTERRUPT_INFO_FIELD_NUMBER }>(cx, interrupts);
                }
                cx.flush();
            }
        });
        drop(starting);
    }
}

/// The packets of an instance.
struct Info {
    /// An encoded `CpuInfo`.
    cpus: Vec<u8>,
    /// An encoded `InterruptInfo`; `None` if it is not wanted or has nothing in it.
    interrupts: Option<Vec<u8>>,
}

fn read(root: &Root, names_interrupts: bool) -> Info {
    let mut cpus = HeapBuffered::<protos::CpuInfo<'_>>::new();
    cpu_info::write(root, &mut cpus.message());
    let interrupts = names_interrupts.then(|| {
        let mut text = Vec::new();
        let text = text_file::read(&root.path("proc/interrupts"), &mut text);
        interrupts::parse(text.unwrap_or_default())
    });
    let interrupts = interrupts.filter(|names| !names.is_empty());
    Info {
        cpus: cpus.to_vec(),
        interrupts: interrupts.map(|names| {
            let mut info = HeapBuffered::<protos::InterruptInfo<'_>>::new();
            interrupts::write(&names, &mut info.message());
            info.to_vec()
        }),
    }
}

fn write<const FIELD: u32>(cx: &mut TraceContext<'_, SystemInfo>, content: &[u8]) {
    let timestamp_ns = cx.now_ns();
    cx.packet(|packet| {
        packet.set_timestamp(timestamp_ns);
        packet.as_message_mut().append_bytes::<FIELD>(content);
    });
}
