//! A message as a plain Rust struct: builds settings, encodes, decodes and merges them.
//!
//! `cargo run --example owned`

use protozero::{DecodeError, OwnedMessage};

use self::schema::owned::{Sensor, Settings, settings};
use self::schema::sensor::Kind;

mod schema {
    protozero::include_protos!("station");
}

fn main() -> Result<(), DecodeError> {
    let defaults = Settings {
        name: Some("Zugspitze".to_owned()),
        sensors: vec![Sensor {
            kind: Some(Kind::THERMOMETER),
            offset: Some(-0.5),
            ..Sensor::default()
        }],
        upload: Some(settings::Upload::Url("https://example.com".to_owned())),
        ..Settings::default()
    };
    let bytes = defaults.encode_to_vec();
    println!("{} bytes: {bytes:02x?}", bytes.len());

    let mut settings = Settings::decode(&bytes)?;
    assert_eq!(settings, defaults);
    println!("period, not set: {} ms", settings.period_ms_or_default());

    // Merging replaces single values, and adds to lists and maps.
    let mut local = Settings {
        period_ms: Some(250),
        upload: Some(settings::Upload::Folder(settings::Folder {
            max_bytes: Some(1 << 20),
            ..settings::Folder::default()
        })),
        ..Settings::default()
    };
    local.labels.insert("site".to_owned(), "roof".to_owned());
    settings.merge(&local.encode_to_vec())?;
    println!("{settings:#?}");
    Ok(())
}
