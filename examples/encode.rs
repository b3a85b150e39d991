//! The serializer without tracing: writes a message into memory and reads it in place.
//!
//! `cargo run --example encode`

use protozero::{DecodeError, HeapBuffered};

use self::schema::{Level, Report, ReportDecoder};

mod schema {
    protozero::include_protos!("weather");
}

fn main() -> Result<(), DecodeError> {
    let mut buffer = HeapBuffered::<Report>::new();
    {
        let mut report = buffer.message();
        report.set_station("Zugspitze");
        report.set_celsius_by_hour([-11, -9, -4]);
        report.add_position("latitude", 47.421);
        report.add_warnings(|warning| {
            warning.set_level(Level::RED).set_text("storm");
        }); // fills in the length of the nested message
    }
    let bytes = buffer.to_vec();
    println!("{} bytes: {bytes:02x?}", bytes.len());

    let report = ReportDecoder::new(&bytes);
    let celsius: Vec<i32> = report.celsius_by_hour().collect::<Result<_, _>>()?;
    println!("{:?}: {celsius:?} degrees", report.station()?);
    for warning in report.warnings() {
        let warning = warning?;
        println!("warning: {:?} {:?}", warning.level()?, warning.text()?);
    }
    Ok(())
}
