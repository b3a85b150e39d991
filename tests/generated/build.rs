//! Generates the code of the generator's fixtures.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use protozero_codegen::{Config, OnError, VmProgram};

/// Messages of the fixture `owned` that become structs, beside those they reach.
const OWNED: [&str; 7] = [
    "Scalars", "Lists", "Tree", "Names", "Empty", "Mixed", "Reach",
];

/// A program with every kind of instruction.
fn table() -> VmProgram {
    VmProgram::new("rows.Packet").scope("patch", "[rows.table]", |table| {
        table
            .on_error(OnError::SkipCommand, |table| {
                table
                    .delete_by_key("deleted_ids", "rows", "id")
                    .set("total", "total")
            })
            .merge_by_key("changed", "rows", "id")
    })
}

fn main() {
    for case in [
        "basic",
        "comments",
        "conformance",
        "extensions",
        "fields",
        "modules",
        "names",
        "owned",
        "packages",
        "renamed",
        "structs",
        "vm_programs",
    ] {
        let folder = Path::new("../../protozero-codegen/tests/fixtures").join(case);
        println!("cargo::rerun-if-changed={}", folder.display());
        let config = match case {
            "owned" => OWNED.iter().fold(Config::new(), |config, name| {
                config.owned(format!(".app.{name}"))
            }),
            "structs" => Config::new().owned(".structs.Node"),
            "vm_programs" => Config::new().vm_program("rows.TABLE", table()),
            _ => Config::new(),
        };
        let files = config
            .include(&folder)
            .generate(&[folder.join("input.proto")])
            .expect("the schema compiles");
        assert_eq!(files.len(), 1, "one package");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
        fs::write(out.join(format!("{case}.rs")), &files[0].source).expect("a file");
    }
}
