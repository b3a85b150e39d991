//! Types that somebody else has generated.

use crate::error::Error;
use crate::names::{escaped, snake_case};
use crate::registry::Registry;
use crate::schema::Path;

/// The pairs given to `Config::extern_path`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExternPaths(Vec<ExternPath>);

/// A package or type, and where its Rust counterpart is.
#[derive(Debug, Clone)]
pub(crate) struct ExternPath {
    /// Without a leading dot.
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

    /// The longest of the names that are the given one or a scope around it.
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
    /// The paths of a covered type and of its decoder.
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
            // A type inside of a named message is in the module beside that message.
            let outer = registry.entry(&self.proto);
            let parent = self.rust.rsplit_once("::").map_or("", |(parent, _)| parent);
            path = vec![parent.to_owned()];
            path.extend(entry.modules.iter().skip(outer.modules.len()).cloned());
        }
        let at = |ident: &str| Path::Extern(format!("{}::{ident}", path.join("::")));
        (at(&entry.ident), at(&entry.decoder))
    }
}
