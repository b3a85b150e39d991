//! Checks the extension schemas that a trace contains.

use protozero::{DecodeError, Decoder, types};

/// `ExtensionDescriptor.extension_set`.
const EXTENSION_SET: u32 = 1;
/// `FileDescriptorSet.file`.
const FILE: u32 = 1;
// Fields of `FileDescriptorProto`.
const FILE_NAME: u32 = 1;
const FILE_MESSAGES: u32 = 4;
const FILE_EXTENSIONS: u32 = 7;
// Fields of `DescriptorProto`.
const MESSAGE_NAME: u32 = 1;
const MESSAGE_FIELDS: u32 = 2;
const MESSAGE_EXTENSIONS: u32 = 6;
// Fields of `FieldDescriptorProto`.
const FIELD_NAME: u32 = 1;
const FIELD_EXTENDEE: u32 = 2;
const FIELD_NUMBER: u32 = 3;

/// Checks an encoded `ExtensionDescriptor`. Returns a description of the first fault.
pub(super) fn fault(descriptor: &[u8]) -> Option<String> {
    match walk(descriptor) {
        Ok(fault) => fault,
        Err(error) => Some(format!("the descriptor is malformed: {error}")),
    }
}

fn walk(descriptor: &[u8]) -> Result<Option<String>, DecodeError> {
    let Some(set) = Decoder::new(descriptor).last::<types::Bytes>(EXTENSION_SET)? else {
        return Ok(Some("the packet contains no schema".to_owned()));
    };
    for file in Decoder::new(set).repeated::<types::Bytes>(FILE) {
        let file = Decoder::new(file?);
        let Some(name) = file.last::<types::Str>(FILE_NAME)? else {
            return Ok(Some("a file of the schema has no name".to_owned()));
        };
        for extension in file.repeated::<types::Bytes>(FILE_EXTENSIONS) {
            if !is_field(extension?, true)? {
                return Ok(Some(format!("an extension in {name} is incomplete")));
            }
        }
        for message in file.repeated::<types::Bytes>(FILE_MESSAGES) {
            let message = Decoder::new(message?);
            let Some(message_name) = message.last::<types::Str>(MESSAGE_NAME)? else {
                return Ok(Some(format!("a message in {name} has no name")));
            };
            for (number, is_extension) in [(MESSAGE_FIELDS, false), (MESSAGE_EXTENSIONS, true)] {
                for field in message.repeated::<types::Bytes>(number) {
                    if !is_field(field?, is_extension)? {
                        return Ok(Some(format!("a field of {message_name} is incomplete")));
                    }
                }
            }
        }
    }
    Ok(None)
}

/// Returns true if a field descriptor has a name and a number, and an extendee if it is an
/// extension.
fn is_field(field: &[u8], is_extension: bool) -> Result<bool, DecodeError> {
    let field = Decoder::new(field);
    let has_number = field.last::<types::Int32>(FIELD_NUMBER)?.is_some();
    let has_extendee = field.last::<types::Str>(FIELD_EXTENDEE)?.is_some();
    Ok(field.last::<types::Str>(FIELD_NAME)?.is_some()
        && has_number
        && (has_extendee || !is_extension))
}
