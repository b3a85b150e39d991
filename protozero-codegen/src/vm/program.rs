//! The commands of a program, as a build script writes them. Nothing is checked here: the schema is
//! not known yet.

use std::fmt;

/// A ProtoVM program, written as commands on the messages of a schema. The page
/// [`vm_programs`](crate::vm_programs) explains what programs are for.
///
/// Each command reads a *source* in the patch, and changes a *destination* in the state. Both are
/// paths of field names with dots between them. The path starts at the message of the scope, which
/// is the root message outside of any [`scope`](VmProgram::scope). An extension field is written
/// with its full name in brackets, such as `[example.connection_patch]`. The empty path is the
/// message of the scope itself.
///
/// If the path of a source contains a repeated field, the command runs once for each element.
///
/// ```
/// use protozero_codegen::{Config, OnError, VmProgram};
///
/// # let folder = std::env::temp_dir().join(format!("protozero-vm-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let schema = "syntax = 'proto2'; package app;
///     message Packet { optional Change change = 1; optional Table table = 2; }
///     message Change { repeated Row rows = 1; optional uint64 total = 2; }
///     message Table { repeated Row rows = 1; optional uint64 total = 2; }
///     message Row { optional uint32 id = 1; optional string name = 2; }";
/// std::fs::write(folder.join("app.proto"), schema)?;
///
/// let program = VmProgram::new("app.Packet").scope("change", "table", |table| {
///     table
///         .merge_by_key("rows", "rows", "id")
///         .on_error(OnError::SkipCommand, |table| table.set("total", "total"))
/// });
/// let files = Config::new()
///     .include(&folder)
///     .vm_program("app.TABLE", program)
///     .generate(&[folder.join("app.proto")])?;
/// assert!(files[0].source.contains("pub const TABLE: &[u8]"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a program has no effect before it is given to `Config::vm_program`"]
pub struct VmProgram {
    /// The full name of the root message; empty inside a scope.
    pub(super) root: String,
    pub(super) commands: Vec<Command>,
}

/// The way in which the machine goes on after a command has failed, for instance because the source
/// is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Goes on with the next command.
    SkipCommand,
    /// Skips the other commands of the scope. Then the scope has failed, and its own setting
    /// decides. Outside of any scope, the program ends: the patch does not belong to it. This is
    /// the default.
    #[default]
    LeaveScope,
    /// Aborts the program and logs why. Use it where only a broken producer can be the reason.
    Abort,
}

/// A command: the call of one method of [`VmProgram`].
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) verb: Verb,
    pub(super) source: String,
    pub(super) destination: String,
    /// `None` until an `on_error` around the command sets it.
    pub(super) on_error: Option<OnError>,
}

/// The method that adds a command, with its arguments other than the paths.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    Set,
    SetByKey { key: String },
    Merge { is_recursive: bool },
    MergeByKey { key: String, is_recursive: bool },
    DeleteIfPresent,
    DeleteByKey { key: String },
    Scope { commands: Vec<Command> },
}

impl VmProgram {
    /// Creates a program without commands. `root` is the full name of the root message. Each patch
    /// is a message of this type, and so is the state. For a data source, it is
    /// `perfetto.protos.TracePacket`.
    pub fn new(root: impl Into<String>) -> Self {
        VmProgram {
            root: root.into(),
            commands: Vec::new(),
        }
    }

    /// Sets the destination to the source. A message is replaced as a whole. The destination is
    /// created if it is absent.
    pub fn set(self, source: impl Into<String>, destination: impl Into<String>) -> Self {
        self.with(Verb::Set, source, destination)
    }

    /// Replaces the element of the repeated field `destination` that has the same key as the source
    /// message, or adds the source as a new element.
    ///
    /// `key` is the name of a field that both messages have. Its type must be an enum, `bool`, or
    /// an integer of 32 bits. A source without its key aborts the program.
    pub fn set_by_key(
        self,
        source: impl Into<String>,
        destination: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        let key = key.into();
        self.with(Verb::SetByKey { key }, source, destination)
    }

    /// Merges the source message into the destination, and does the same with the messages in its
    /// singular fields, at every level.
    ///
    /// Other fields of the source replace those of the destination: scalars, repeated fields as a
    /// whole, extensions, and deprecated fields. An empty message, string or `bytes` in the source
    /// deletes its field from the destination. The destination is created if it is absent.
    ///
    /// A type that contains itself is an error; use [`merge_shallow`](VmProgram::merge_shallow).
    pub fn merge(self, source: impl Into<String>, destination: impl Into<String>) -> Self {
        let is_recursive = true;
        self.with(Verb::Merge { is_recursive }, source, destination)
    }

    /// Merges the source message into the destination like [`merge`](VmProgram::merge), but
    /// replaces messages in singular fields as a whole. The program is much smaller.
    pub fn merge_shallow(self, source: impl Into<String>, destination: impl Into<String>) -> Self {
        let is_recursive = false;
        self.with(Verb::Merge { is_recursive }, source, destination)
    }

    /// Merges the source message into the element of the repeated field `destination` that has the
    /// same key, like [`merge`](VmProgram::merge). Adds an element if there is none.
    ///
    /// The key is as for [`set_by_key`](VmProgram::set_by_key).
    pub fn merge_by_key(
        self,
        source: impl Into<String>,
        destination: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        let verb = Verb::MergeByKey {
            key: key.into(),
            is_recursive: true,
        };
        self.with(verb, source, destination)
    }

    /// Merges by key like [`merge_by_key`](VmProgram::merge_by_key), but replaces messages in
    /// singular fields as a whole.
    pub fn merge_shallow_by_key(
        self,
        source: impl Into<String>,
        destination: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        let verb = Verb::MergeByKey {
            key: key.into(),
            is_recursive: false,
        };
        self.with(verb, source, destination)
    }

    /// Deletes the destination if the source is present, whatever its value. Both must be present,
    /// otherwise the command fails.
    pub fn delete_if_present(
        self,
        source: impl Into<String>,
        destination: impl Into<String>,
    ) -> Self {
        self.with(Verb::DeleteIfPresent, source, destination)
    }

    /// Deletes the element of the repeated field `destination` whose key is the source: usually a
    /// repeated field, for instance of the ids of elements that no longer exist.
    ///
    /// An element that does not exist is no error. The command fails if the destination never had
    /// an element.
    ///
    /// `key` is the name of a field of the elements. Its type must be an enum, `bool`, or an
    /// integer of 32 bits, and must fit that of the source.
    pub fn delete_by_key(
        self,
        source: impl Into<String>,
        destination: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        let key = key.into();
        self.with(Verb::DeleteByKey { key }, source, destination)
    }

    /// Runs commands inside two messages: their source paths are relative to `source`, and their
    /// destination paths are relative to `destination`. The message `destination` is created if it
    /// is absent. The closure `commands` receives an empty program and adds the commands to it.
    pub fn scope(
        self,
        source: impl Into<String>,
        destination: impl Into<String>,
        commands: impl FnOnce(VmProgram) -> VmProgram,
    ) -> Self {
        let commands = commands(VmProgram::new("")).commands;
        self.with(Verb::Scope { commands }, source, destination)
    }

    /// Adds commands that fail in another way than by default. `commands` adds these commands to
    /// the empty program that it gets.
    ///
    /// Commands inside a scope in `commands`, or inside another `on_error`, are not affected.
    pub fn on_error(
        mut self,
        on_error: OnError,
        commands: impl FnOnce(VmProgram) -> VmProgram,
    ) -> Self {
        for mut command in commands(VmProgram::new("")).commands {
            command.on_error.get_or_insert(on_error);
            self.commands.push(command);
        }
        self
    }

    fn with(
        mut self,
        verb: Verb,
        source: impl Into<String>,
        destination: impl Into<String>,
    ) -> Self {
        self.commands.push(Command {
            verb,
            source: source.into(),
            destination: destination.into(),
            on_error: None,
        });
        self
    }
}

impl Verb {
    /// Returns the name of the method that adds the command.
    fn name(&self) -> &'static str {
        match self {
            Verb::Set => "set",
            Verb::SetByKey { .. } => "set_by_key",
            Verb::Merge { is_recursive: true } => "merge",
            Verb::Merge { .. } => "merge_shallow",
            Verb::MergeByKey {
                is_recursive: true, ..
            } => "merge_by_key",
            Verb::MergeByKey { .. } => "merge_shallow_by_key",
            Verb::DeleteIfPresent => "delete_if_present",
            Verb::DeleteByKey { .. } => "delete_by_key",
            Verb::Scope { .. } => "scope",
        }
    }

    /// Returns the name of the key field, if the command selects an element by key.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Verb::SetByKey { key } | Verb::MergeByKey { key, .. } | Verb::DeleteByKey { key } => {
                Some(key)
            }
            _ => None,
        }
    }

    pub(super) fn is_delete(&self) -> bool {
        matches!(self, Verb::DeleteIfPresent | Verb::DeleteByKey { .. })
    }
}

/// Prints the call that adds the command, without the commands of a scope.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command {
            verb,
            source,
            destination,
            ..
        } = self;
        write!(f, "{}({source:?}, {destination:?}", verb.name())?;
        match verb.key() {
            Some(key) => write!(f, ", {key:?})"),
            None => f.write_str(")"),
        }
    }
}
