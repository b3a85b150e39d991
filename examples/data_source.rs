//! Packets with a schema of your own: `protos/render.proto` extends `TracePacket`, and `build.rs`
//! generates the writer that this example uses.
//!
//! `cargo run --example data_source` writes `data_source.pftrace`.

use tracezero::{DataSource as _, Session, data_source};

use self::schema::TracePacketExt as _; // adds `frame` to a packet

mod schema {
    protozero::include_protos!("render");
}

struct Renderer;
data_source!(Renderer, "com.example.render");

fn main() -> Result<(), tracezero::Error> {
    let session = Session::record_to_file("data_source.pftrace")?;
    for number in 1..=60 {
        record_frame(number, &[("shadows", 2_100_000), ("opaque", 5_400_000)]);
    }
    println!("{}", session.finish()?);
    Ok(())
}

/// Records one frame. Costs one relaxed load while no session records the data source.
fn record_frame(number: u32, passes: &[(&str, u64)]) {
    Renderer::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.frame(|frame| {
                frame.set_number(number);
                for (name, duration_ns) in passes {
                    frame.add_passes(|pass| {
                        pass.set_name(name).set_duration_ns(*duration_ns);
                    });
                }
                frame.set_triangles([36, 1200, number * 10]);
            });
        });
    });
}
