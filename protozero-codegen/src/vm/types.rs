//! Checks of the types that a command connects. The machine knows no types: it would mix up bytes,
//! or abort where nobody sees it.

use std::collections::BTreeSet;

use super::fields::{Encoding, Field, Message, Schema};
use super::paths::Path;

/// Checks that the value at the end of the source can replace that of the destination.
pub(super) fn check_set(
    schema: &Schema<'_>,
    source: &Path<'_>,
    destination: &Path<'_>,
) -> Result<(), String> {
    check_unpacked(source)?;
    let is_same = match (source.message, destination.message) {
        (Some(from), Some(to)) => return check_messages(schema, from, to),
        (None, None) => encoding(source) == encoding(destination),
        _ => false,
    };
    if is_same {
        return Ok(());
    }
    Err(format!(
        "{} cannot become {}; give both fields the same type",
        source.end_text(),
        destination.end_text()
    ))
}

fn encoding(path: &Path<'_>) -> Option<Encoding> {
    path.fields.last().map(|field| field.encoding())
}

/// Returns the message at the end of a path that must be a message.
pub(super) fn expect_message<'a>(path: &Path<'a>) -> Result<&'a Message<'a>, String> {
    path.message.ok_or_else(|| {
        format!(
            "{} is not a message; use `set` for scalars",
            path.end_text()
        )
    })
}

/// Checks that messages of the source's type can be merged into those of the destination's type:
/// the destination has the same fields, by number.
pub(super) fn check_messages(
    schema: &Schema<'_>,
    source: &Message<'_>,
    destination: &Message<'_>,
) -> Result<(), String> {
    let mut pending = vec![(source, destination)];
    let mut seen = BTreeSet::new();
    while let Some((from, to)) = pending.pop() {
        if from.name == to.name || !seen.insert((&from.name, &to.name)) {
            continue;
        }
        for field in &from.fields {
            let number = field.number();
            let Some(other) = to.fields.iter().find(|it| it.number() == number) else {
                return Err(format!(
                    "`{}` has a field `{}` with number {number}, which `{}` lacks; \
                     declare it there, or use one message for both",
                    from.name, field.name, to.name
                ));
            };
            let is_same =
                field.encoding() == other.encoding() && field.is_repeated() == other.is_repeated();
            if !is_same {
                return Err(format!(
                    "field {number} is `{}` ({}) in `{}`, but `{}` ({}) in `{}`; \
                     give both the same type, or use one message for both",
                    field.name,
                    field.kind(),
                    from.name,
                    other.name,
                    other.kind(),
                    to.name
                ));
            }
            pending.extend(schema.message_of(field).zip(schema.message_of(other)));
        }
    }
    Ok(())
}

/// Checks that a destination enters no repeated field.
pub(super) fn check_singular(destination: &[&Field<'_>]) -> Result<(), String> {
    match destination.iter().find(|field| field.is_repeated()) {
        None => Ok(()),
        Some(field) => Err(format!(
            "the destination enters `{}` ({}) without a key; only the last field of a destination \
             can be repeated, with `set_by_key`, `merge_by_key` or `delete_by_key`",
            field.name,
            field.kind()
        )),
    }
}

/// Checks that a destination ends at a repeated field of messages. Returns the type of the
/// messages.
pub(super) fn check_keyed<'a>(destination: &Path<'a>) -> Result<&'a Message<'a>, String> {
    if let Some((last, before)) = destination.fields.split_last() {
        check_singular(before)?;
        if let (true, Some(message)) = (last.is_repeated(), destination.message) {
            return Ok(message);
        }
    }
    Err(format!(
        "{} has no elements to find by key; \
         end the destination at a repeated field of messages, or use a command without key",
        destination.end_text()
    ))
}

/// Finds the key of a message. The machine cuts keys to 32 bits. That keeps all values of these
/// types apart: a negative `int32` has 64 bits on the wire, and the lower 32 are its own.
pub(super) fn key<'a>(
    schema: &'a Schema<'a>,
    message: &'a Message<'a>,
    name: &str,
) -> Result<&'a Field<'a>, String> {
    let field = schema.field(message, name)?;
    check_key(field, &format!("the key `{name}` of `{}`", message.name))?;
    if field.is_repeated() {
        return Err(format!(
            "the key `{name}` of `{}` is repeated; use a singular field",
            message.name
        ));
    }
    Ok(field)
}

/// Checks that the end of a path can be compared with a key.
pub(super) fn check_ids(
    source: &Path<'_>,
    key: &Field<'_>,
    message: &Message<'_>,
) -> Result<(), String> {
    let Some(ids) = source.fields.last() else {
        return Err(format!(
            "{} is a message; the source of `delete_by_key` is a field with keys",
            source.end_text()
        ));
    };
    check_key(ids, &format!("the source `{}`", ids.name))?;
    check_unpacked(source)?;
    let is_zigzag = |field: &Field<'_>| field.encoding() == Encoding::ZigZag;
    if is_zigzag(ids) != is_zigzag(key) {
        return Err(format!(
            "the source `{}` is {}, but the key `{}` of `{}` is {}, \
             which encodes numbers differently; use one type for both",
            ids.name,
            ids.type_text(),
            key.name,
            message.name,
            key.type_text()
        ));
    }
    Ok(())
}

fn check_key(field: &Field<'_>, what: &str) -> Result<(), String> {
    let kind = field.type_text();
    let is_integer = matches!(
        field.encoding(),
        Encoding::Varint | Encoding::ZigZag | Encoding::Fixed32 | Encoding::Fixed64
    );
    if !is_integer {
        return Err(format!(
            "{what} is {kind}; keys are integers of 32 bits, `bool` or enums"
        ));
    }
    if field.is_64_bit() {
        return Err(format!(
            "{what} is {kind}, but the machine cuts keys to 32 bits, so that it would mix up elements; \
             use an integer of 32 bits"
        ));
    }
    Ok(())
}

/// Checks that the source is no packed field. The machine would take all its elements for one
/// value.
fn check_unpacked(source: &Path<'_>) -> Result<(), String> {
    match source.fields.last() {
        Some(field) if field.is_packed() => Err(format!(
            "{} is packed, and the machine cannot take packed fields apart; \
             declare it with `[packed = false]`",
            source.end_text()
        )),
        _ => Ok(()),
    }
}
