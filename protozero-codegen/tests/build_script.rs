//! Tests of build scripts: files on disk, lines for Cargo, and extern paths.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use protozero_codegen::Config;
use support::Folder;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Runs as a build script when `every_file_that_was_read_is_printed_for_cargo` starts it.
#[test]
fn build_script() {
    if env::var_os("OUT_DIR_OF_TEST").is_some() {
        let out_dir = env::var_os("OUT_DIR_OF_TEST").unwrap();
        Config::new()
            .include(fixture("packages"))
            .out_dir(PathBuf::from(out_dir))
            .compile(&[
                fixture("packages/shapes.proto"),
                fixture("packages/app.proto"),
            ])
            .unwrap();
    }
}

#[test]
fn every_file_that_was_read_is_printed_for_cargo() {
    let out_dir = Folder::empty();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "build_script", "--nocapture"])
        .env("OUT_DIR_OF_TEST", out_dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut printed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="))
        .collect();
    printed.sort_unstable();
    let files = [
        "packages/app.proto",
        "packages/flat.proto",
        "packages/shapes.proto",
    ];
    let files = files.map(|file| fixture(file).display().to_string());
    assert_eq!(printed, files);
    assert_eq!(
        out_dir.entries(),
        ["app.binpb.rs", "app.rs", "shapes.binpb.rs", "shapes.rs"]
    );
}

/// Runs as a build script when `package_that_another_crate_has_generated_is_warned_of` starts it.
#[test]
fn build_script_of_a_shared_schema() {
    let Some(folder) = env::var_os("SHARED_SCHEMA_OF_TEST").map(PathBuf::from) else {
        return;
    };
    let mut config = Config::new().include(&folder).out_dir(&folder);
    if env::var_os("EXTERN_PATH_OF_TEST").is_some() {
        config = config.extern_path(".shared", "::shared::protos");
    }
    config.compile(&[folder.join("app.proto")]).unwrap();
}

#[test]
fn package_that_another_crate_has_generated_is_warned_of() {
    let folder = Folder::empty();
    folder.write("extern_paths.txt", ".shared ::shared::protos\n");
    folder.write(
        "shared.proto",
        "syntax = \"proto3\"; package shared; message Point { int32 x = 1; }",
    );
    folder.write(
        "app.proto",
        "syntax = \"proto3\"; package app; import \"shared.proto\"; message App { shared.Point at = 1; }",
    );
    let warnings = |with_extern_path: bool| -> Vec<String> {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "build_script_of_a_shared_schema", "--nocapture"])
            .env("SHARED_SCHEMA_OF_TEST", folder.path());
        if with_extern_path {
            command.env("EXTERN_PATH_OF_TEST", "1");
        }
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let lines = text.lines();
        let warnings = lines.filter_map(|line| line.strip_prefix("cargo::warning="));
        warnings.map(str::to_owned).collect()
    };
    assert_eq!(
        warnings(false),
        [
            "protozero-codegen: the types of package shared are generated again, and differ from those in \
          `::shared::protos`; add `.extern_path(\".shared\", \"::shared::protos\")` to the build script"
        ]
    );
    assert!(warnings(true).is_empty());
}

#[test]
fn file_with_the_same_content_is_not_written_again() {
    let out_dir = Folder::empty();
    let compile = || {
        let config = Config::new().include(fixture("packages")).out_dir(&out_dir);
        config.compile(&[fixture("packages/app.proto")]).unwrap();
    };
    compile();
    let file = out_dir.file("app.rs");
    let long_ago = SystemTime::now() - Duration::from_secs(1000);
    fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    compile();
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), modified);

    let source = fs::read_to_string(&file).unwrap();
    fs::write(&file, "changed").unwrap();
    compile();
    assert_eq!(fs::read_to_string(&file).unwrap(), source);
}

#[test]
fn extern_package_is_referred_to_and_not_generated() {
    let files = Config::new()
        .include(fixture("packages"))
        .extern_path(".shapes", "::drawing::shapes")
        .extern_path(".google.protobuf", "crate::wkt")
        .generate(&[fixture("packages/input.proto")])
        .unwrap();
    let source = &files[0].source;
    assert!(
        source.contains("&mut ::drawing::shapes::Shape<'_>"),
        "a type of the package"
    );
    assert!(
        source.contains("&mut ::drawing::shapes::flat::Point<'_>"),
        "a package inside of it"
    );
    assert!(
        source.contains("::drawing::shapes::shape::Color"),
        "a nested type"
    );
    assert!(
        source.contains("crate::wkt::TimestampDecoder::new"),
        "a decoder"
    );
    assert!(!source.contains("mod shapes"));
    assert!(!source.contains("mod protobuf"));
}

#[test]
fn extern_message_covers_what_is_inside_of_it() {
    let files = Config::new()
        .include(fixture("packages"))
        .extern_path(".shapes.Shape", "::drawing::Figure")
        .generate(&[fixture("packages/input.proto")])
        .unwrap();
    let source = &files[0].source;
    assert!(source.contains("&mut ::drawing::Figure<'_>"));
    assert!(source.contains("::drawing::FigureDecoder::new"));
    assert!(source.contains("::drawing::shape::Color"));
    assert!(!source.contains("pub struct Shape<"));
    assert!(
        source.contains("pub struct Point<"),
        "the rest of the package is generated"
    );
}

#[test]
fn extensions_of_an_extern_package_stay_there() {
    let files = Config::new()
        .include(fixture("extensions"))
        .extern_path(".base", "::base")
        .generate(&[fixture("extensions/input.proto")])
        .unwrap();
    let source = &files[0].source;
    assert!(source.contains("impl BaseExt for ::base::Base<'_>"));
    assert!(source.contains("impl InnerExt for ::base::base::Inner<'_>"));
    assert!(!source.contains("LATE_FIELD_NUMBER"));
}

#[test]
fn include_folder_may_be_the_current_one() {
    // Tests run in the folder of the package.
    let files = Config::new()
        .include(".")
        .generate(&["tests/fixtures/packages/app.proto"])
        .unwrap();
    assert_eq!(files[0].name, "app.rs");
}
