//! The example of the page `vm_programs`, with the real schema of packets.

use protozero_codegen::{Config, OnError, VmProgram};
use support::Folder;

const PAGE: &str = include_str!("../../src/vm_programs.md");

/// Returns the first code block of the page in a language.
fn block(language: &str) -> &'static str {
    let (_, block) = PAGE
        .split_once(&format!("```{language}\n"))
        .expect("a block");
    block.split_once("```").expect("its end").0
}

#[test]
fn page_shows_the_program_of_its_example() {
    let folder = Folder::with(&[("connections.proto", block("proto"))]);
    let program = VmProgram::new("perfetto.protos.TracePacket")
        .scope(
            "[example.connection_patch]",
            "[example.connection_table]",
            |table| {
                table
                    .on_error(OnError::SkipCommand, |table| {
                        table
                            .delete_by_key("closed_ids", "connections", "id")
                            .set("total", "total")
                    })
                    .merge_by_key("changed", "connections", "id")
            },
        )
        .set("timestamp", "timestamp");
    let files = Config::new()
        .include(&folder)
        .include(concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/schema"))
        .extern_path(".perfetto.protos", "::tracezero::protos")
        .vm_program("example.CONNECTION_TABLE", program)
        .generate(&[folder.file("connections.proto")])
        .expect("the example compiles");
    let lines: Vec<String> = block("text")
        .lines()
        .map(|line| format!("/// {line}\n"))
        .collect();
    assert!(
        files[0].source.contains(&lines.concat()),
        "{}",
        files[0].source
    );
}

/// The test above repeats the commands of the page.
#[test]
fn page_has_the_commands_of_this_test() {
    let commands = |text: &str| -> String {
        let (_, text) = text
            .split_once("VmProgram::new(\"perfetto")
            .expect("a program");
        let (text, _) = text.split_once(';').expect("its end");
        let letters = text.chars().filter(|letter| !letter.is_whitespace());
        letters.collect::<String>().replace(",)", ")")
    };
    assert_eq!(commands(PAGE), commands(include_str!("page.rs")));
}
