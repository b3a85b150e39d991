//! The code in `src/protos/` is equal to the generator's output for the schema. After a change to
//! the schema or the generator, run `BLESS=1 cargo test -p tracezero-core --test generated_schema`
//! to generate it again.

use std::path::Path;
use std::{env, fs};

use protozero_codegen::Config;

#[track_caller]
fn assert_generated(config: &Config, file: &str) {
    let generated = config
        .generate(&[Path::new(tracezero_schema::INCLUDE_DIR).join(file)])
        .expect("the schema is valid");
    assert_eq!(generated.len(), 1, "one package");
    let (name, source) = (&generated[0].name, &generated[0].source);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/protos")
        .join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, source).expect("the source folder is writable");
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == *source,
        "{name} is out of date: see the head of this test"
    );
}

#[test]
fn perfetto_schema_is_up_to_date() {
    let config = Config::new()
        .include(tracezero_schema::INCLUDE_DIR)
        .owned(".perfetto.protos.TraceConfig");
    assert_generated(&config, "protos/perfetto/trace/trace.proto");
}

#[test]
fn tracezero_schema_is_up_to_date() {
    let config = Config::new()
        .include(tracezero_schema::INCLUDE_DIR)
        .extern_path(".perfetto.protos", "crate::protos");
    assert_generated(&config, "protos/tracezero/sequences.proto");
}

#[test]
fn schema_of_state_files_is_up_to_date() {
    let config = Config::new().include(tracezero_schema::INCLUDE_DIR);
    assert_generated(&config, "protos/tracezero/states.proto");
}
