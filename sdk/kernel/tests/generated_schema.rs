//! The code in `src/` is equal to the generator's output for the schema. After a change to the
//! schema or the generator, run `BLESS=1 cargo test -p tracezero-kernel --test
//! generated_schema` to generate it again.

use std::path::{Path, PathBuf};
use std::{env, fs};

use protozero_codegen::Config;

#[track_caller]
fn assert_generated(config: &Config, files: &[PathBuf]) {
    let generated = config.generate(files).expect("the schema is valid");
    for file in &generated {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src")
            .join(&file.name);
        if env::var_os("BLESS").is_some() {
            fs::write(&path, &file.source).expect("the source folder is writable");
        }
        let checked_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == file.source,
            "{} is out of date: see the head of this test",
            file.name
        );
    }
}

#[test]
fn generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sdk = root.parent().expect("the package is in a folder");
    let config = sdk.join("config");
    assert_generated(
        &Config::new().include(root).include(&config),
        &[
            root.join("protos/tracezero/kernel_packet.proto"),
            config.join("protos/tracezero/source_configs.proto"),
        ],
    );
}
