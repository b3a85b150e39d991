//! The modules of structs: each package has a module `owned` beside its writers, whose inner
//! modules mirror the modules of nested messages.

use crate::error::Error;
use crate::registry::Registry;
use crate::schema::{Module, Path};

/// The name of the module beside a package's writers.
const MODULE: &str = "owned";

/// A lookup of the places of structs in one unit.
pub(super) struct Places<'a> {
    pub(super) registry: &'a Registry<'a>,
    /// The root module of the unit, before structs are added.
    pub(super) root: &'a Module,
}

/// The place of one struct.
pub(super) struct Place {
    /// The path of the module of the package.
    package: Vec<String>,
    /// The modules below the package's module, with names and documentation. The last but one is
    /// the struct's own module; the last one is for types that the message declares.
    inside: Vec<(String, String)>,
}

impl Place {
    /// Returns the module of the struct; creates it if it is missing.
    pub(super) fn module<'m>(&self, root: &'m mut Module) -> &'m mut Module {
        let own = &self.inside[..self.inside.len() - 1];
        descend(self.package_module(root), own)
    }

    /// Returns the path of the module for types that the message declares.
    pub(super) fn inner_path(&self) -> Vec<String> {
        let inside = self.inside.iter().map(|(name, _)| name);
        self.package.iter().chain(inside).cloned().collect()
    }

    /// Returns the module for the enums of the message's oneofs; creates it if it is missing.
    pub(super) fn inner_module<'m>(&self, root: &'m mut Module) -> &'m mut Module {
        descend(self.package_module(root), &self.inside)
    }

    fn package_module<'m>(&self, root: &'m mut Module) -> &'m mut Module {
        self.package.iter().fold(root, |module, name| {
            let mut modules = module.modules.iter_mut();
            modules
                .find(|inner| inner.path.last() == Some(name))
                .expect("the package has writers")
        })
    }
}

/// Returns the module at a path below `module`; creates missing modules.
fn descend<'m>(module: &'m mut Module, inside: &[(String, String)]) -> &'m mut Module {
    inside.iter().fold(module, |module, (name, doc)| {
        let is_there = |inner: &Module| inner.path.last() == Some(name);
        let index = module.modules.iter().position(is_there);
        let index = index.unwrap_or_else(|| {
            module.modules.push(Module {
                path: [module.path.as_slice(), std::slice::from_ref(name)].concat(),
                doc: doc.clone(),
                ..Module::default()
            });
            module.modules.len() - 1
        });
        &mut module.modules[index]
    })
}

impl Places<'_> {
    /// Returns the place of the struct of a message whose writer is in `module`.
    pub(super) fn of(&self, module: &[String], message: &str) -> Place {
        let entry = self.registry.entry(message);
        let package = &module[..module.len() - entry.modules.len()];
        let title = match entry.package {
            "" => "Messages without a package as plain Rust values.".to_owned(),
            package => format!("Messages of package `{package}` as plain Rust values."),
        };
        let mut inside = vec![(self.owned_module(entry.package, package), title)];
        // The full names of the messages around this message, and of itself.
        let declared = message.strip_prefix(entry.package).unwrap_or_default();
        let ends = declared.match_indices('.').map(|(index, _)| index);
        let ends = ends.filter(|&index| index > 0).chain([declared.len()]);
        let scopes = ends.map(|end| &message[..message.len() - declared.len() + end]);
        let modules = entry.modules.iter().chain([&entry.module]);
        inside.extend(modules.zip(scopes).map(|(module, scope)| {
            let doc = format!("Types nested in `{scope}`, as plain Rust values.");
            (module.clone(), doc)
        }));
        Place {
            package: package.to_vec(),
            inside,
        }
    }

    /// Returns the path of the struct of a message, given the path of its writer.
    pub(super) fn owned_path(&self, writer: &Path, message: &str) -> Result<Path, Error> {
        let entry = self.registry.entry(message);
        match writer {
            Path::Local { module, ident } => {
                let (package, inside) = module.split_at(module.len() - entry.modules.len());
                let owned = self.owned_module(entry.package, package);
                Ok(Path::Local {
                    module: [package, &[owned], inside].concat(),
                    ident: ident.clone(),
                })
            }
            Path::Extern(rust) => {
                let unknown = || Error::OwnedExternPath {
                    proto: message.to_owned(),
                    rust: rust.clone(),
                };
                let (path, ident) = rust.rsplit_once("::").ok_or_else(unknown)?;
                let inside: String = entry.modules.iter().map(|it| format!("::{it}")).collect();
                let package = path.strip_suffix(&inside).filter(|path| !path.is_empty());
                let package = package.ok_or_else(unknown)?;
                let owned = self.registry.scope(entry.package).claim(MODULE);
                Ok(Path::Extern(format!("{package}::{owned}{inside}::{ident}")))
            }
        }
    }

    /// Returns the name of the `owned` module of a package whose writers are in the module `path`.
    fn owned_module(&self, package: &str, path: &[String]) -> String {
        let mut taken = self.registry.scope(package);
        let module = path.iter().fold(self.root, |module, name| {
            let mut modules = module.modules.iter();
            modules
                .find(|inner| inner.path.last() == Some(name))
                .expect("the package has writers")
        });
        // Modules of inner packages take names, too.
        for inner in &module.modules {
            taken.claim_all(&inner.path[path.len()..]);
        }
        taken.claim(MODULE)
    }
}
