//! A data source with incremental state: each packet depends on the earlier ones since the last
//! clear.

use tracezero::{DataSource, Setup};

pub struct Numbers;

impl DataSource for Numbers {
    const NAME: &'static str = "com.example.numbers";
    type ThreadState = ();
    /// The number of packets since the last clear.
    type IncrementalState = u32;
    tracezero::data_source_state!(Numbers);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self
    }
}

impl Numbers {
    /// Writes a packet. Returns the number of packets before it since the last clear.
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
