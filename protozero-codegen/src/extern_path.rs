//! Types that another crate or module has generated: the pairs of `Config::extern_path`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::error::Error;
use crate::names::{escaped, snake_case};
use crate::registry::Registry;
use crate::schema::{Path, Unit};

/// The pairs given to `Config::extern_path`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExternPaths(Vec<ExternPath>);

/// A package or type, and the Rust path of its generated code.
#[derive(Debug, Clone)]
pub(crate) struct ExternPath {
    /// The protobuf name without a leading dot.
    proto: String,
    rust: String,
}

impl ExternPaths {
    pub(crate) fn new(pairs: &[(String, String)]) -> Result<Self, Error> {
        let checked = pairs.iter().map(|(proto, rust)| {
            let is_absolute = rust.starts_with("::") || rust.starts_with("crate::");
            let name = proto.strip_prefix('.').filter(|name| !name.is_empty());
            match name {
                Some(name) if is_absolute && syn::parse_str::<syn::Path>(rust).is_ok() => {
                    Ok(ExternPath {
                        proto: name.to_owned(),
                        rust: rust.clone(),
                    })
                }
                _ => Err(Error::ExternPath {
                    proto: proto.clone(),
                    rust: rust.clone(),
                }),
            }
        });
        checked.collect::<Result<_, _>>().map(ExternPaths)
    }

    /// Finds the pair that covers `name`: the protobuf name of the pair is `name`, or a scope
    /// around `name`. If several pairs cover `name`, the longest protobuf name counts.
    pub(crate) fn find(&self, name: &str) -> Option<&ExternPath> {
        let covers = |path: &&ExternPath| {
            name.strip_prefix(&path.proto)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.0
            .iter()
            .filter(covers)
            .max_by_key(|path| path.proto.len())
    }
}

impl ExternPath {
    /// Returns the Rust paths of a covered type and of its decoder.
    pub(crate) fn paths(&self, registry: &Registry<'_>, name: &str) -> (Path, Path) {
        let entry = registry.entry(name);
        let below_package = entry.package.strip_prefix(self.proto.as_str());
        let mut path = vec![self.rust.clone()];
        if let Some(packages) = below_package {
            let packages = packages.split('.').filter(|package| !package.is_empty());
            path.extend(packages.map(|package| escaped(&snake_case(package))));
            path.extend(entry.modules.iter().cloned());
        } else if self.proto == name {
            return (
                Path::Extern(self.rust.clone()),
                Path::Extern(self.rust.clone() + "Decoder"),
            );
        } else {
            // A type declared inside the covered message is in the module beside that message.
            let outer = registry.entry(&self.proto);
            let parent = self.rust.rsplit_once("::").map_or("", |(parent, _)| parent);
            path = vec![parent.to_owned()];
            path.extend(entry.modules.iter().skip(outer.modules.len()).cloned());
        }
        let at = |ident: &str| Path::Extern(format!("{}::{ident}", path.join("::")));
        (at(&entry.ident), at(&entry.decoder))
    }
}

/// The name of the file that lists the crates that have already generated the schema of an include
/// folder. The file is in that folder.
const LIST: &str = "extern_paths.txt";

/// Returns a warning for each package that `units` generate again, although a list in an include
/// folder names a crate that has already generated the package.
pub(crate) fn missing(
    includes: &[PathBuf],
    extern_paths: &ExternPaths,
    units: &[Unit],
) -> Vec<String> {
    let lists = includes
        .iter()
        .filter_map(|folder| fs::read_to_string(folder.join(LIST)).ok());
    let pairs: Vec<(String, String)> = lists
        .flat_map(|list| {
            let pairs = list.lines().filter_map(|line| line.split_once(' '));
            let pairs = pairs.map(|(proto, rust)| (proto.to_owned(), rust.trim().to_owned()));
            pairs.collect::<Vec<_>>()
        })
        .collect();
    // A malformed list is ignored, because it is not the fault of this build script.
    let listed = ExternPaths::new(&pairs).unwrap_or_default();
    // Skip units whose own package is listed: this build script compiles files of the package
    // directly, so it generates the package again on purpose.
    let importing = units
        .iter()
        .filter(|unit| listed.find(&unit.package).is_none());
    let packages: BTreeSet<&String> = importing.flat_map(|unit| &unit.packages).collect();
    packages
        .into_iter()
        .filter(|package| extern_paths.find(package).is_none())
        .filter_map(|package| Some((package, listed.find(package)?)))
        .map(|(package, ExternPath { proto, rust })| {
            format!(
                "protozero-codegen: the types of package {package} are generated again, and differ from those in \
                 `{rust}`; add `.extern_path(\".{proto}\", \"{rust}\")` to the build script"
            )
        })
        .collect()
}
