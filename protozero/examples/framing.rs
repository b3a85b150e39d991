//! Writes a stream of messages, cuts it into packets as a network would, and reads the messages
//! back.
//!
//! `cargo run -p protozero --example framing`

use protozero::{Decoder, FrameReader, HeapBuffered, Message, types};

const READING: u32 = 1;
const SENSOR: u32 = 1;
const VALUES: u32 = 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stream = write_readings();
    println!("{} bytes to send", stream.len());

    let mut reader = FrameReader::new();
    for packet in stream.chunks(11) {
        for frame in reader.append(packet) {
            print_reading(Decoder::new(frame?.payload))?;
        }
    }
    reader.finish()?;
    Ok(())
}

/// Encodes a stream of readings, as a message with one repeated field.
fn write_readings() -> Vec<u8> {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut readings = buffer.message();
    for (sensor, values) in [("door", [-3, 4, 5]), ("window", [120, -130, 140])] {
        let mut reading = readings.begin_nested::<READING>();
        reading.append_string::<SENSOR>(sensor);
        reading.append_packed::<types::Sint32, VALUES>(values);
    }
    drop(readings);
    buffer.to_vec()
}

fn print_reading(reading: Decoder<'_>) -> Result<(), protozero::DecodeError> {
    let sensor = reading.last::<types::Str>(SENSOR)?.unwrap_or("unknown");
    print!("{sensor}:");
    for value in reading.repeated::<types::Sint32>(VALUES) {
        print!(" {}", value?);
    }
    println!();
    Ok(())
}
