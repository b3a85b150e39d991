//! Reads the attributes of a trace that tell on which machine it was recorded.

use tracezero_core::protos::TracePacket;
use tracezero_reader::{Packet, TraceIdentities};

/// The number of the packet field `trace_attributes`, which this SDK writes once per trace.
pub(super) const TRACE_ATTRIBUTES: u32 = TracePacket::TRACE_ATTRIBUTES_FIELD_NUMBER;

/// The maximum size of the attributes of a trace. Larger ones are ignored.
const ATTRIBUTES_MAX_BYTES: usize = 64 * 1024;

/// The machine that a trace was recorded on, as far as the trace tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) id: Option<String>,
    /// Identifies the time between two boots of a machine.
    pub(super) boot_id: Option<String>,
    pub(super) name: Option<String>,
    /// All attributes of the trace, encoded.
    pub(super) attributes: Vec<u8>,
}

impl Host {
    /// Reads the attributes that a packet holds. Ignores them if an earlier packet had some.
    pub(super) fn add(&mut self, packet: &Packet<'_>) {
        let Some(payload) = packet.payload() else {
            return;
        };
        let is_first = self.attributes.is_empty();
        let is_small = payload.bytes.len() <= ATTRIBUTES_MAX_BYTES;
        if payload.field == TRACE_ATTRIBUTES && is_first && is_small {
            self.attributes = payload.bytes.to_vec();
            let mut identities = TraceIdentities::new();
            identities.add(packet);
            if let Some(identity) = identities.as_slice().first() {
                let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
                self.id = owned(identity.host_id());
                self.boot_id = owned(identity.host_boot_id());
                self.name = owned(identity.host_name());
            }
        }
    }

    /// Adds what another file of the same machine tells.
    pub(super) fn learn(&mut self, other: &Self) {
        let places = [
            (&mut self.id, &other.id),
            (&mut self.boot_id, &other.boot_id),
            (&mut self.name, &other.name),
        ];
        for (place, told) in places {
            if place.is_none() {
                place.clone_from(told);
            }
        }
        if self.attributes.is_empty() {
            self.attributes.clone_from(&other.attributes);
        }
    }

    /// Returns true if the two cannot be the same machine, or if it was booted between them.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        differ(&self.id, &other.id) || differ(&self.boot_id, &other.boot_id)
    }

    /// Returns true if the two have the same boot time. Containers on one machine may have
    /// different host ids.
    pub(super) fn shares_boot_with(&self, other: &Self) -> bool {
        self.boot_id.is_some() && self.boot_id == other.boot_id
    }
}
