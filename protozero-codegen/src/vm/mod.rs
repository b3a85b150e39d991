//! ProtoVM programs, on request. Compiles them, and adds them as constants to units that have
//! already been resolved.

mod program; // the commands of a program, as a build script writes them
mod fields; // messages and fields of the schema, by name
mod paths; // paths of a command
mod types; // the types that a command may connect
mod compile; // commands to instructions
mod instruction; // instructions to bytes and text

use std::collections::BTreeSet;

use protobuf::descriptor::FileDescriptorProto;

pub use self::program::{OnError, VmProgram};

use self::compile::{Fault, MAX_BYTES};
use self::fields::Schema;
use crate::error::Error;
use crate::schema::{Unit, VmConstant};

/// The greatest number of lines of a program's text in its documentation.
const MAX_LINES: usize = 100;

/// Adds a constant for each program to the unit of its package. `programs` has a full name for each
/// program.
pub(crate) fn add(
    units: &mut [Unit],
    files: &[FileDescriptorProto],
    programs: &[(String, VmProgram)],
) -> Result<(), Error> {
    if programs.is_empty() {
        return Ok(());
    }
    let schema = Schema::new(files);
    let mut taken = BTreeSet::new();
    for (name, program) in programs {
        let error = |fault: Fault| Error::VmProgram {
            name: name.clone(),
            command: fault.command,
            message: fault.message,
        };
        let of_program = |message: String| {
            error(Fault {
                command: String::new(),
                message,
            })
        };
        let (package, constant) = split_name(name).map_err(of_program)?;
        let Some(unit) = units.iter_mut().find(|unit| unit.package == package) else {
            let message = match package {
                "" => "no file without a package is compiled; write the name as `package.NAME`"
                    .to_owned(),
                _ => format!(
                    "no file of package `{package}` is compiled; use the package of a compiled file"
                ),
            };
            return Err(of_program(message));
        };
        if !taken.insert((package, constant)) || unit.root.declares(constant) {
            let message = format!("the name `{constant}` is taken already; choose another");
            return Err(of_program(message));
        }
        let instructions = compile::compile(&schema, program).map_err(error)?;
        let bytes = instruction::encode(&instructions);
        if bytes.len() > MAX_BYTES {
            let message = compile::too_large(&bytes.len().to_string());
            return Err(of_program(message));
        }
        unit.vm_constants.push(VmConstant {
            ident: constant.to_owned(),
            root: program.root.trim_start_matches('.').to_owned(),
            text: shortened(instruction::text(&instructions)),
            bytes,
        });
    }
    Ok(())
}

/// Splits the full name of a constant into its package and its own name.
fn split_name(name: &str) -> Result<(&str, &str), String> {
    let name = name.strip_prefix('.').unwrap_or(name);
    let (package, constant) = name.rsplit_once('.').unwrap_or(("", name));
    let mut letters = constant.chars();
    let is_constant = letters.next().is_some_and(|it| it.is_ascii_uppercase())
        && letters.all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_');
    match is_constant {
        true => Ok((package, constant)),
        false => Err(format!(
            "`{constant}` is not the name of a constant; use capitals, digits and underscores, \
             such as `app.TABLE`"
        )),
    }
}

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_LINES);
    if more > 0 {
        lines.truncate(MAX_LINES);
        lines.push(format!(".. {more} more"));
    }
    lines
}
