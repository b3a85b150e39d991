//! Where a trace comes from: its attributes, which name machine, boot, service and version.

use protozero::{Decoder, types};

use crate::fields;
use crate::packet::Packet;
use tracezero_core::attributes::{TraceAttributeValue, TraceAttributes, keys};
use tracezero_core::protos::{TraceAttributesDecoder, TraceConfig};

/// The maximum number of identities that are kept. A trace that was merged from several has several.
const IDENTITIES_MAX: usize = 64;
/// The maximum number of attributes of an identity.
const ATTRIBUTES_MAX: usize = 128;
/// The maximum length of a key that is kept, in bytes.
const KEY_MAX_BYTES: usize = 256;
/// The maximum length of a value that is kept, in bytes.
const VALUE_MAX_BYTES: usize = 1024;

/// The attributes that differ if and only if two traces come from different places. A packet in which one
/// of them differs from an identity describes another one.
const DISTINCTIVE: [&str; 7] = [
    keys::SERVICE_NAME,
    keys::SERVICE_INSTANCE_ID,
    keys::HOST_NAME,
    keys::HOST_ID,
    keys::HOST_BOOT_ID,
    keys::PROCESS_EXECUTABLE_NAME,
    keys::PROCESS_PID,
];

/// Where a trace comes from: attributes with OpenTelemetry's names. This SDK writes those of the machine
/// and the service into every trace; Perfetto's writes those that the configuration of a session has.
///
/// ```
/// use tracezero::InMemorySession;
/// use tracezero::reader::TraceReader;
///
/// tracezero::set_service("api", "1.2.0");
/// let (trace, _) = InMemorySession::start()?.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// while reader.next()?.is_some() {}
/// let identity = reader.identities().first().expect("each trace has one");
/// assert_eq!(identity.service_name(), Some("api"));
/// assert_eq!(identity.service_version(), Some("1.2.0"));
/// assert_eq!(identity.process_pid(), Some(std::process::id().into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceIdentity {
    machine_id: Option<u32>,
    attributes: TraceAttributes,
}

impl TraceIdentity {
    /// Returns the machine that packets with this identity have in the trace; `None` for the only machine,
    /// or the first.
    #[must_use]
    pub const fn machine_id(&self) -> Option<u32> {
        self.machine_id
    }

    /// Returns the name of the service: `service.name`.
    #[must_use]
    pub fn service_name(&self) -> Option<&str> {
        self.attributes.text(keys::SERVICE_NAME)
    }

    /// Returns the version of the service: `service.version`.
    #[must_use]
    pub fn service_version(&self) -> Option<&str> {
        self.attributes.text(keys::SERVICE_VERSION)
    }

    /// Returns the name of the machine: `host.name`.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        self.attributes.text(keys::HOST_NAME)
    }

    /// Returns the id of the machine: `host.id`.
    #[must_use]
    pub fn host_id(&self) -> Option<&str> {
        self.attributes.text(keys::HOST_ID)
    }

    /// Returns the id of the machine's boot: `host.boot_id`.
    #[must_use]
    pub fn host_boot_id(&self) -> Option<&str> {
        self.attributes.text(keys::HOST_BOOT_ID)
    }

    /// Returns the name of the executable: `process.executable.name`.
    #[must_use]
    pub fn executable_name(&self) -> Option<&str> {
        self.attributes.text(keys::PROCESS_EXECUTABLE_NAME)
    }

    /// Returns the id of the process: `process.pid`.
    #[must_use]
    pub fn process_pid(&self) -> Option<i64> {
        match self.get(keys::PROCESS_PID)? {
            TraceAttributeValue::Long(pid) => Some(*pid),
            _ => None,
        }
    }

    /// Returns the value of any attribute.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&TraceAttributeValue> {
        self.attributes.get(key)
    }

    /// Returns all attributes, in the order of their keys.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &TraceAttributeValue)> {
        self.attributes.iter()
    }

    /// Returns true if an attribute shows that `other` comes from another place.
    fn is_elsewhere(&self, other: &Self) -> bool {
        self.machine_id != other.machine_id
            || DISTINCTIVE.iter().any(|key| {
                let both = self.get(key).zip(other.get(key));
                both.is_some_and(|(one, other)| one != other)
            })
    }
}

/// Collects the identities of a trace from its packets. [`TraceReader`](crate::TraceReader) has one of
/// these; with a [`PacketReader`](crate::PacketReader), keep one yourself.
///
/// Of a key that comes again, the last value counts. A trace that was merged from several has several
/// identities, at most 64. An identity has at most 128 attributes; keys of more than 256 bytes and values
/// of more than 1 KiB are left out.
#[derive(Clone, Debug, Default)]
pub struct TraceIdentities {
    identities: Vec<TraceIdentity>,
}

impl TraceIdentities {
    /// Creates a collection without identities.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the attributes of a packet. Other packets are ignored, and so is what is malformed.
    #[inline]
    pub fn add(&mut self, packet: &Packet<'_>) {
        if let Some(payload) = packet.payload() {
            self.add_payload(packet.head.machine_id, payload.field, payload.bytes);
        }
    }

    #[inline]
    pub(super) fn add_payload(&mut self, machine_id: Option<u32>, field: u32, payload: &[u8]) {
        match field {
            fields::TRACE_ATTRIBUTES => self.add_message(machine_id, payload),
            fields::TRACE_CONFIG => self.add_config(machine_id, payload),
            _ => {}
        }
    }

    /// Adds the attributes in an encoded configuration.
    #[cold]
    fn add_config(&mut self, machine_id: Option<u32>, config: &[u8]) {
        let attributes =
            Decoder::new(config).last::<types::Bytes>(TraceConfig::TRACE_ATTRIBUTES_FIELD_NUMBER);
        if let Ok(Some(attributes)) = attributes {
            self.add_message(machine_id, attributes);
        }
    }

    /// Adds the attributes of an encoded `TraceAttributes`.
    #[cold]
    fn add_message(&mut self, machine_id: Option<u32>, message: &[u8]) {
        let new = TraceIdentity {
            machine_id,
            attributes: decode(message),
        };
        if new.attributes.is_empty() {
            return;
        }
        let known = self.identities.iter_mut().rev();
        let mut same = known.filter(|identity| !identity.is_elsewhere(&new));
        if let Some(same) = same.next() {
            for (key, value) in new.attributes() {
                if same.attributes.len() < ATTRIBUTES_MAX || same.get(key).is_some() {
                    same.attributes.set(key, value.clone());
                }
            }
        } else if self.identities.len() < IDENTITIES_MAX {
            self.identities.push(new);
        }
    }

    /// Returns the identities, in the order in which the trace has them.
    #[must_use]
    pub fn as_slice(&self) -> &[TraceIdentity] {
        &self.identities
    }
}

/// Decodes an encoded `TraceAttributes`, as far as it is sound.
fn decode(message: &[u8]) -> TraceAttributes {
    let mut attributes = TraceAttributes::new();
    let elements = TraceAttributesDecoder::new(message).attribute();
    for attribute in elements.map_while(Result::ok) {
        if attributes.len() == ATTRIBUTES_MAX {
            break;
        }
        let Ok(Some(key)) = attribute.key() else {
            continue;
        };
        let value = match (attribute.long_value(), attribute.string_value()) {
            (Ok(Some(value)), _) => TraceAttributeValue::Long(value),
            (_, Ok(Some(value))) if value.len() <= VALUE_MAX_BYTES => value.into(),
            _ => continue,
        };
        if !key.is_empty() && key.len() <= KEY_MAX_BYTES {
            attributes.set(key, value);
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use protozero::HeapBuffered;

    use super::*;
    use tracezero_core::protos::TracePacket;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn message(pairs: Pairs<'_>) -> Vec<u8> {
        let mut attributes = TraceAttributes::new();
        for (key, value) in pairs {
            attributes.set(*key, *value);
        }
        attributes.encode()
    }

    fn packet(machine_id: Option<u32>, write: impl Fn(&mut TracePacket<'_>)) -> Vec<u8> {
        let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
        let mut message = buffer.message();
        if let Some(id) = machine_id {
            message.set_machine_id(id);
        }
        write(&mut message);
        drop(message);
        buffer.to_vec()
    }

    fn with_attributes(machine_id: Option<u32>, pairs: Pairs<'_>) -> Vec<u8> {
        let encoded = message(pairs);
        packet(machine_id, |packet| {
            packet.trace_attributes(|out| out.as_message_mut().append_raw(&encoded));
        })
    }

    fn identities(packets: &[Vec<u8>]) -> TraceIdentities {
        let mut identities = TraceIdentities::new();
        for packet in packets {
            identities.add(&Packet::decode(packet).unwrap());
        }
        identities
    }

    #[test]
    fn last_value_of_a_key_counts_in_packets_and_configurations() {
        let encoded = message(&[("team", "a"), ("shard", "1")]);
        let config = packet(None, |packet| {
            packet.trace_config(|out| {
                out.trace_attributes(|out| out.as_message_mut().append_raw(&encoded));
            });
        });
        let later = with_attributes(None, &[("team", "b"), ("service.name", "api")]);
        let identities = identities(&[config, later]);
        let [identity] = identities.as_slice() else {
            panic!("{identities:?}")
        };
        let all: Vec<_> = identity.attributes().map(|(key, _)| key).collect();
        assert_eq!(all, ["service.name", "shard", "team"]);
        assert_eq!(identity.get("team"), Some(&"b".into()));
        assert_eq!(identity.service_name(), Some("api"));
    }

    #[test]
    fn merged_trace_has_an_identity_for_each_service_and_machine() {
        let api: Pairs<'_> = &[("service.name", "api"), ("host.name", "a")];
        let identities = identities(&[
            with_attributes(None, api),
            with_attributes(None, &[("service.name", "worker"), ("host.name", "a")]),
            // Again: a file that was copied into a snapshot.
            with_attributes(None, api),
            with_attributes(Some(7), api),
            with_attributes(Some(7), &[("team", "b")]),
        ]);
        let found = identities.as_slice().iter();
        let found: Vec<_> = found
            .map(|it| (it.machine_id(), it.service_name()))
            .collect();
        assert_eq!(
            found,
            [
                (None, Some("api")),
                (None, Some("worker")),
                (Some(7), Some("api"))
            ]
        );
        assert_eq!(identities.as_slice()[2].get("team"), Some(&"b".into()));
    }

    #[test]
    fn hostile_packets_take_little_memory_and_leave_what_is_sound() {
        let long = "x".repeat(VALUE_MAX_BYTES + 1);
        let mut identities = identities(&[with_attributes(
            None,
            &[("a", &long), (&long, "a"), ("", "a"), ("b", "sound")],
        )]);
        assert_eq!(identities.as_slice()[0].attributes().count(), 1);
        for number in 0..1000 {
            let number = number.to_string();
            let pairs = [("service.name", number.as_str())];
            let packet = with_attributes(None, &pairs);
            identities.add(&Packet::decode(&packet).unwrap());
            let packet = with_attributes(None, &[(number.as_str(), "value")]);
            identities.add(&Packet::decode(&packet).unwrap());
        }
        assert_eq!(identities.as_slice().len(), IDENTITIES_MAX);
        let most = identities.as_slice().iter().map(|it| it.attributes.len());
        assert_eq!(most.max(), Some(ATTRIBUTES_MAX));

        let mut cut = TraceIdentities::new();
        let encoded = message(&[("a", "1"), ("b", "2")]);
        let is_attribute = fields::TRACE_ATTRIBUTES;
        cut.add_payload(None, is_attribute, &encoded[..encoded.len() - 1]);
        cut.add_payload(None, fields::TRACE_CONFIG, b"\xff");
        assert_eq!(cut.as_slice()[0].attributes().count(), 1);
    }
}
