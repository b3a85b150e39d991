//! The code in `src/protos/` is equal to the generator's output for the schema in `protos/`. After a
//! change to the schema or the generator, run
//! `BLESS=1 cargo test -p tracezero-ipc --test generated_schema` to generate it again.

use std::path::Path;
use std::{env, fs};

use protozero_codegen::Config;

#[test]
fn schema_is_up_to_date() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let protos = package.join("protos");
    let files = [
        "wire_protocol.proto",
        "producer_port.proto",
        "consumer_port.proto",
    ];
    let mut config = Config::new()
        .include(&protos)
        .include(tracezero_schema::INCLUDE_DIR);
    for message in [
        "DataSourceConfig",
        "InterceptorConfig",
        "PriorityBoostConfig",
        "TrackEventConfig",
    ] {
        let proto = format!(".perfetto.protos.{message}");
        config = config.extern_path(proto, format!("::tracezero_core::protos::{message}"));
    }
    let generated = config
        .generate(&files.map(|file| protos.join("perfetto/ipc").join(file)))
        .expect("the schema is valid");
    assert_eq!(generated.len(), 1, "one package");
    let path = package.join("src/protos").join(&generated[0].name);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &generated[0].source).expect("the source folder is writable");
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == generated[0].source,
        "{} is out of date: see the head of this test",
        path.display()
    );
}
