//! A data source with incremental state. Each packet but the first of its state needs those before it.

use tracezero::{DataSource, Setup};

pub struct Numbers;

impl DataSource for Numbers {
    const NAME: &'static str = "com.example.numbers";
    type ThreadState = ();
    /// Packets since the state was started.
    type IncrementalState = u32;
    tracezero::data_source_state!(Numbers);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self
    }
}

impl Numbers {
    /// Writes a packet. Returns how many came before it since the state was started.
    pub fn write() -> u32 {
        let mut before = 0;
        Self::trace(|cx| {
            cx.incremental_packet(|packet, written| {
                packet.for_testing(|event| {
                    event.set_seq_value(*written);
                });
                before = *written;
                *written += 1;
            });
        });
        before
    }
}
