use protozero::HeapBuffered;

use tracezero::{Compression, TraceConfig};
use tracezero_config::{LocalChoices, SessionConfig};
use tracezero_core::protos;
use tracezero_core::protos::trace_config::{CompressionConfig, CompressionType};

#[test]
fn unsupported_compression_is_refused_by_name() {
    for (way, name, is_known) in [
        (Compression::Deflate, "deflate", cfg!(feature = "deflate")),
        (
            Compression::Zstd { level: 1 },
            "zstd",
            cfg!(feature = "zstd"),
        ),
    ] {
        let checked = TraceConfig::empty()
            .compression(way)
            .check()
            .map_err(|error| error.to_string());
        let refused =
            format!("compression is not supported; build tracezero with its feature `{name}`");
        assert_eq!(checked, if is_known { Ok(()) } else { Err(refused) });
    }
}

/// Decodes a configuration that selects a compression in the legacy field, in the message, or in
/// both.
fn decoded(legacy: bool, message: Option<&dyn Fn(&mut CompressionConfig<'_>)>) -> Compression {
    let mut buffer = HeapBuffered::<protos::TraceConfig<'_>>::new();
    {
        let mut config = buffer.message();
        if legacy {
            config.set_compression_type(CompressionType::DEFLATE);
        }
        if let Some(write) = message {
            config.compression(|out| write(out));
        }
    }
    let message = tracezero_config::decode(&buffer.to_vec()).unwrap();
    let config = SessionConfig::new(&message, &LocalChoices::default()).unwrap();
    config.compression
}

#[test]
fn best_supported_compression_is_used() {
    let zstd = |out: &mut CompressionConfig<'_>| {
        out.zstd(|zstd| {
            zstd.set_level(19);
        });
    };
    let both = if cfg!(feature = "deflate") && !cfg!(feature = "zstd") {
        Compression::Deflate
    } else {
        Compression::Zstd { level: 19 }
    };
    assert_eq!(decoded(true, Some(&zstd)), both);
    assert_eq!(decoded(false, Some(&zstd)), Compression::Zstd { level: 19 });
}

#[test]
fn deflate_is_selected_by_legacy_field_or_message() {
    let deflate = |out: &mut CompressionConfig<'_>| out.deflate(|_| {});
    assert_eq!(decoded(true, None), Compression::Deflate);
    assert_eq!(decoded(false, Some(&deflate)), Compression::Deflate);
    assert_eq!(decoded(false, Some(&|_| {})), Compression::None);
    assert_eq!(decoded(true, Some(&|_| {})), Compression::Deflate);
}
