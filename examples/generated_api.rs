//! The generated API: writes a message with a field of each kind, and reads it back by accessors,
//! in one pass over its fields, and as a struct.
//!
//! The page "The generated API" in the documentation of `protozero-codegen` quotes this program.
//!
//! `cargo run --example generated_api`

use protozero::types::{FieldType as _, Str, Uint32};
use protozero::{DecodeError, Decoder, HeapBuffered, OwnedMessage as _};

use self::inventory::item::{Condition, Place};
use self::inventory::{Item, ItemDecoder, owned};
use self::inventory::{ItemDecoderExt as _, ItemExt as _}; // `note`, which extends `Item`

mod inventory {
    protozero::include_protos!("inventory");
}

fn main() -> Result<(), DecodeError> {
    let bytes = write();
    println!("{} bytes", bytes.len());
    read_by_accessors(&bytes)?;
    read_in_one_pass(&bytes)?;
    read_as_struct(&bytes)?;
    read_malformed(&bytes)
}

/// Writes one message into a buffer on the heap.
fn write() -> Vec<u8> {
    let mut buffer = HeapBuffered::<Item>::new();
    let mut item = buffer.message();
    item.set_name("lamp").set_type("light").set_count(3);
    item.set_offset_mm(-250).set_serial(0x2a).set_weight_kg(1.5);
    item.set_fragile(true).set_thumbnail(&[0xff, 0xd8]);
    item.set_condition(Condition::USED);

    // A nested message ends with its closure, or when its guard is dropped.
    item.size(|size| {
        size.set_width_m(0.3).set_height_m(0.5);
    });
    item.add_parts(|part| {
        part.set_name("shade");
    });
    {
        let mut part = item.begin_parts();
        part.set_name("base");
        part.add_parts(|part| {
            part.set_name("screw");
        });
    }

    item.add_tags("desk").add_tags("brass");
    item.set_celsius([-11, -9, 4]); // one packed field
    item.add_stock("Berlin", 12).add_stock("Oslo", 7);
    item.add_suppliers(40, |supplier| {
        supplier.set_name("Lumen");
    });

    // `shelf` and `customer` are members of one oneof. Both are written; the reader takes the last
    // one.
    item.set_shelf(5);
    item.customer(|address| {
        address.set_city("Bergen");
    });

    item.set_note("handle with care"); // the extension
    drop(item);
    buffer.to_vec()
}

/// Reads the fields by name.
fn read_by_accessors(bytes: &[u8]) -> Result<(), DecodeError> {
    let item = ItemDecoder::new(bytes);
    assert_eq!(item.name()?, Some("lamp"));
    assert_eq!(item.r#type()?, Some("light"));
    assert_eq!(item.count()?, Some(3));
    assert_eq!(item.offset_mm()?, Some(-250));
    assert_eq!(item.serial()?, Some(0x2a));
    assert_eq!(item.weight_kg()?, Some(1.5));
    assert_eq!(item.fragile()?, Some(true));
    assert_eq!(item.thumbnail()?, Some(&[0xff, 0xd8][..]));
    assert_eq!(item.condition()?, Some(Condition::USED));

    if let Some(size) = item.size()? {
        println!("size {:?} x {:?}", size.width_m()?, size.height_m()?);
    }

    let tags: Vec<&str> = item.tags().collect::<Result<_, _>>()?;
    assert_eq!(tags, ["desk", "brass"]);
    let celsius: Vec<i32> = item.celsius().collect::<Result<_, _>>()?;
    assert_eq!(celsius, [-11, -9, 4]);
    for part in item.parts() {
        let part = part?;
        println!("part {:?}: {} inside", part.name()?, part.parts().count());
    }
    for entry in item.stock() {
        let (city, count) = entry?;
        println!("{count} in {city}");
    }
    for entry in item.suppliers() {
        let (id, supplier) = entry?;
        assert_eq!((id, supplier.name()?), (40, Some("Lumen")));
    }

    match item.place()? {
        Some(Place::Shelf(number)) => println!("on shelf {number}"),
        Some(Place::Customer(address)) => println!("sent to {:?}", address.city()?),
        None => println!("somewhere"),
    }
    assert_eq!(item.shelf()?, Some(5)); // an accessor of a member ignores the other members
    assert_eq!(item.note()?, Some("handle with care"));
    Ok(())
}

/// Reads some of the fields in the order in which they were written.
fn read_in_one_pass(bytes: &[u8]) -> Result<(), DecodeError> {
    let (mut name, mut count, mut note, mut others) = ("", 1, "", Vec::new());
    for field in Decoder::new(bytes).fields() {
        let field = field?;
        match field.number {
            Item::NAME_FIELD_NUMBER => name = Str::from_field(field)?,
            Item::COUNT_FIELD_NUMBER => count = Uint32::from_field(field)?,
            Item::NOTE_FIELD_NUMBER => note = Str::from_field(field)?,
            number => others.push(number),
        }
    }
    println!("{count} x {name}, {note}; also fields {others:?}");
    assert_eq!((name, count, note), ("lamp", 3, "handle with care"));
    assert!(others.ends_with(&[14, 14, 15, 16, 17]));
    Ok(())
}

/// Decodes the message into a struct, changes it and encodes it again.
fn read_as_struct(bytes: &[u8]) -> Result<(), DecodeError> {
    let mut item = owned::Item::decode(bytes)?;
    assert_eq!(item.name.as_deref(), Some("lamp"));
    assert_eq!(item.parts[1].parts[0].name.as_deref(), Some("screw"));
    assert_eq!(item.stock["Oslo"], 7);
    assert_eq!(item.suppliers[&40].name.as_deref(), Some("Lumen"));
    assert!(matches!(item.place, Some(owned::item::Place::Customer(_))));

    item.count = None;
    assert_eq!(item.count_or_default(), 1); // the schema's default
    item.condition = Some(Condition(7)); // a number without a name
    item.place = Some(owned::item::Place::Shelf(9));

    let bytes = item.encode_to_vec();
    assert_eq!(owned::Item::decode(&bytes)?, item);
    let decoder = ItemDecoder::new(&bytes);
    assert_eq!(decoder.count()?, None);
    assert!(decoder.customer()?.is_none());
    assert_eq!(decoder.note()?, Some("handle with care")); // kept as an unknown field
    let (condition, shelf) = (decoder.condition()?, decoder.shelf()?);
    println!("condition {condition:?}, shelf {shelf:?}");
    Ok(())
}

/// Reads a message that is cut off, and one with a field of the wrong type.
fn read_malformed(bytes: &[u8]) -> Result<(), DecodeError> {
    let cut = ItemDecoder::new(&bytes[..bytes.len() - 1]);
    println!("{}", cut.name().expect_err("the note is cut off"));
    let tags: Vec<_> = cut.tags().collect();
    assert_eq!(tags[..2], [Ok("desk"), Ok("brass")]);
    assert!(matches!(tags[2..], [Err(DecodeError::Truncated { .. })]));

    let mut buffer = HeapBuffered::<Item>::new();
    let mut item = buffer.message();
    item.set_name("lamp");
    item.as_message_mut().append_string::<3>("three"); // `count` is a number
    drop(item);
    let bytes = buffer.to_vec();
    let item = ItemDecoder::new(&bytes);
    assert_eq!(item.name()?, Some("lamp"));
    println!("{}", item.count().expect_err("not a number"));
    Ok(())
}
