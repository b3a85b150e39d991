//! Arguments of slices that get a column of their own.

use std::borrow::Cow;

use tracezero_reader::{ArgValue, NameId, NameTable};

use crate::error::LakeError;
use crate::table::{Column, ColumnType};

/// The arguments of slices that become columns of the table `slice`, so that queries need not join
/// `args`.
///
/// The column of argument `http.status` is `a_http_status`: characters other than ASCII letters, digits
/// and `_` become `_`.
///
/// ```
/// use tracezero_lake::Promoted;
///
/// let promoted = Promoted::parse("http.status:int,tenant")?;
/// let columns: Vec<_> = promoted.columns().map(|column| &*column.name).collect();
/// assert_eq!(columns, ["a_http_status", "a_tenant"]);
/// # Ok::<(), tracezero_lake::LakeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    name: String,
    column: Column,
}

/// A value of a promoted argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PromotedValue {
    Int(i64),
    Real(f64),
    /// A text of the table of promoted texts.
    Text(NameId),
}

impl Promoted {
    /// Reads a list such as `http.status:int,tenant`. Each argument may have a type: `int`, `real` or
    /// `text`, which is the default.
    ///
    /// # Errors
    ///
    /// If a type is unknown, or two arguments would have the same column.
    pub fn parse(list: &str) -> Result<Self, LakeError> {
        let mut arguments: Vec<Argument> = Vec::new();
        for item in list.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let (name, column_type) = match item.rsplit_once(':') {
                None => (item, ColumnType::Text),
                Some((name, "text")) => (name, ColumnType::Text),
                Some((name, "int")) => (name, ColumnType::Int),
                Some((name, "real")) => (name, ColumnType::Real),
                Some((name, given)) => {
                    return Err(LakeError::UnknownType {
                        argument: name.to_owned(),
                        given: given.to_owned(),
                    });
                }
            };
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let plain = name.replace(|letter| !is_plain(letter), "_");
            let column = format!("a_{plain}");
            // Engines compare names of columns without regard to case.
            let is_taken = |other: &Argument| other.column.name.eq_ignore_ascii_case(&column);
            if arguments.iter().any(is_taken) {
                return Err(LakeError::SameColumn { column });
            }
            arguments.push(Argument {
                name: name.to_owned(),
                column: Column {
                    name: Cow::Owned(column),
                    column_type,
                    is_nullable: true,
                },
            });
        }
        // The order of the list does not matter for what is exported.
        arguments.sort_by(|a, b| a.column.name.cmp(&b.column.name));
        Ok(Self { arguments })
    }

    /// Returns the columns, by name.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.arguments.iter().map(|argument| &argument.column)
    }

    /// Returns the names of the arguments, in the order of their columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|argument| &*argument.name)
    }

    /// Returns the index of the column of an argument, if it has one.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        let mut names = self.arguments.iter().map(|argument| &argument.name);
        names.position(|promoted| promoted == name)
    }

    /// Converts a value to the type of a column; `None` if that is not possible.
    pub(crate) fn convert(
        &self,
        index: usize,
        value: &ArgValue<'_>,
        texts: &mut NameTable,
    ) -> Option<PromotedValue> {
        match self.arguments[index].column.column_type {
            ColumnType::Int | ColumnType::WallTime => match value {
                ArgValue::Bool(value) => Some(PromotedValue::Int((*value).into())),
                ArgValue::Int(value) => Some(PromotedValue::Int(*value)),
                ArgValue::Uint(value) => i64::try_from(*value).ok().map(PromotedValue::Int),
                _ => None,
            },
            ColumnType::Real => match value {
                ArgValue::Int(value) => Some(PromotedValue::Real(*value as f64)),
                ArgValue::Uint(value) => Some(PromotedValue::Real(*value as f64)),
                ArgValue::Double(value) => Some(PromotedValue::Real(*value)),
                _ => None,
            },
            ColumnType::Text => {
                let text = match value {
                    ArgValue::Text(text) | ArgValue::Json(text) => text.clone(),
                    ArgValue::Bool(value) => Cow::Owned(value.to_string()),
                    ArgValue::Int(value) => Cow::Owned(value.to_string()),
                    ArgValue::Uint(value) => Cow::Owned(value.to_string()),
                    ArgValue::Double(value) => Cow::Owned(value.to_string()),
                    ArgValue::Pointer(value) => Cow::Owned(format!("{value:#x}")),
                    _ => return None,
                };
                Some(PromotedValue::Text(texts.intern(&text)))
            }
        }
    }

    /// Describes the columns in a few characters; equal for equal columns.
    pub(crate) fn fingerprint(&self) -> String {
        let columns = self.arguments.iter().map(|argument| {
            let column_type = match argument.column.column_type {
                ColumnType::Int | ColumnType::WallTime => "int",
                ColumnType::Real => "real",
                ColumnType::Text => "text",
            };
            format!("{}:{column_type}", argument.name)
        });
        columns.collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_the_list_does_not_matter() {
        let one = Promoted::parse("b:int, a").unwrap();
        assert_eq!(one, Promoted::parse("a:text,b:int").unwrap());
        assert_eq!(one.fingerprint(), "a:text,b:int");
        assert_eq!(one.index_of("b"), Some(1));
    }

    #[test]
    fn wrong_lists_are_refused_by_name() {
        let error = Promoted::parse("a.b,a_B").unwrap_err().to_string();
        assert!(error.contains("column a_a_B"), "{error}");
        let error = Promoted::parse("size:uint").unwrap_err().to_string();
        assert!(error.contains("argument size"), "{error}");
    }

    #[test]
    fn values_of_other_types_have_no_value() {
        let promoted = Promoted::parse("n:int,r:real,t").unwrap();
        let mut texts = NameTable::new();
        let mut convert = |index, value| promoted.convert(index, &value, &mut texts);
        assert_eq!(
            convert(0, ArgValue::Bool(true)),
            Some(PromotedValue::Int(1))
        );
        assert_eq!(convert(0, ArgValue::Uint(u64::MAX)), None);
        assert_eq!(convert(0, ArgValue::Text("1".into())), None);
        assert_eq!(convert(1, ArgValue::Int(2)), Some(PromotedValue::Real(2.0)));
        let Some(PromotedValue::Text(text)) = convert(2, ArgValue::Int(-3)) else {
            panic!("numbers have a text");
        };
        assert_eq!(texts.text(text), "-3");
    }
}
