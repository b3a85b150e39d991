//! Attributes in the environment, in OpenTelemetry's variables.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;

use crate::attributes::{TraceAttributes, keys};

/// The variable with a list of attributes: `key=value,key=value`, with `%2C` and the like in place of
/// characters that have a meaning.
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
/// The variable with the name of the service.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

/// A variable of the environment that was ignored, because it is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedVariable {
    /// The name of the variable.
    pub name: &'static str,
    /// The fault of the value, and the remedy.
    pub reason: String,
}

impl fmt::Display for RefusedVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is ignored: {}", self.name, self.reason)
    }
}

/// The attributes in the environment.
#[derive(Debug, Default)]
pub(super) struct FromEnvironment {
    pub(super) attributes: TraceAttributes,
    pub(super) refused: Vec<RefusedVariable>,
}

impl FromEnvironment {
    /// Reads the variables with `value_of`, which returns the value of a variable.
    pub(super) fn read(value_of: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut all = Self::default();
        all.take(RESOURCE_ATTRIBUTES, &value_of, list);
        // Second, because it counts more than `service.name` in the list.
        all.take(SERVICE_NAME, &value_of, |name| {
            let mut attributes = TraceAttributes::new();
            attributes.set(keys::SERVICE_NAME, name);
            Ok(attributes)
        });
        all
    }

    /// Adds what `parse` makes of a variable. An empty value counts as none.
    fn take(
        &mut self,
        name: &'static str,
        value_of: impl Fn(&str) -> Option<OsString>,
        parse: impl FnOnce(&str) -> Result<TraceAttributes, String>,
    ) {
        let Some(value) = value_of(name) else { return };
        let parsed = match value.to_str().map(str::trim) {
            None => Err("it is not UTF-8; write other characters as %C3%A9".to_owned()),
            Some("") => return,
            Some(text) => parse(text),
        };
        match parsed {
            Ok(attributes) => self.attributes.put_over(&attributes),
            Err(reason) => self.refused.push(RefusedVariable { name, reason }),
        }
    }
}

/// Parses a list of attributes. One error makes the whole list void, as OpenTelemetry says: a part of
/// the attributes could put the trace among those of another service.
fn list(text: &str) -> Result<TraceAttributes, String> {
    let mut attributes = TraceAttributes::new();
    for entry in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (key, value) = entry
            .split_once('=')
            .ok_or_else(|| format!("{entry:?} has no `=`; write key=value,key=value"))?;
        let decode = |text: &str| {
            percent_decoded(text.trim_end()).ok_or_else(|| {
                format!("{entry:?} is not percent-encoded UTF-8; write a `%` itself as %25")
            })
        };
        let (key, value) = (decode(key)?, decode(value.trim_start())?);
        if key.is_empty() {
            return Err(format!("{entry:?} has no key; write key=value"));
        }
        attributes.set(key, value);
    }
    Ok(attributes)
}

/// Returns the text with `%2C` and the like replaced; `None` if it is malformed.
fn percent_decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = Cow::Borrowed(pieces.next()?.as_bytes());
    for piece in pieces {
        let (digits, rest) = piece.as_bytes().split_at_checked(2)?;
        let digit = |byte: u8| (byte as char).to_digit(16);
        let [high, low] = digits else { return None };
        let byte = digit(*high)? << 4 | digit(*low)?;
        let bytes = bytes.to_mut();
        bytes.push(byte as u8);
        bytes.extend_from_slice(rest);
    }
    String::from_utf8(bytes.into_owned()).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn read(resource: &str, service: &str) -> FromEnvironment {
        FromEnvironment::read(|name| match name {
            RESOURCE_ATTRIBUTES => Some(resource.into()),
            SERVICE_NAME => Some(service.into()),
            _ => None,
        })
    }

    fn pairs(attributes: &TraceAttributes) -> Vec<(&str, &str)> {
        let keys = attributes.iter().map(|(key, _)| key);
        keys.map(|key| (key, attributes.text(key).unwrap()))
            .collect()
    }

    #[test]
    fn lists_are_split_trimmed_and_decoded() {
        let read = read(
            " deployment.environment.name = prod , team=a%2Cb%3D%25%C3%a9,empty=,path=a=b,",
            "",
        );
        assert_eq!(
            pairs(&read.attributes),
            [
                ("deployment.environment.name", "prod"),
                ("empty", ""),
                ("path", "a=b"),
                ("team", "a,b=%é"),
            ]
        );
        assert_eq!(read.refused, []);
    }

    #[test]
    fn name_of_the_service_has_a_variable_that_counts_more() {
        let list = "service.name=listed,service.version=2";
        let both = read(list, "named");
        let expected = [("service.name", "named"), ("service.version", "2")];
        assert_eq!(pairs(&both.attributes), expected);
        let listed = read(list, "  ");
        assert_eq!(listed.attributes.text("service.name"), Some("listed"));
    }

    #[test]
    fn malformed_list_is_void_as_a_whole_and_told() {
        for (text, reason) in [
            ("a=1,b", "\"b\" has no `=`; write key=value,key=value"),
            ("a=1,=2", "\"=2\" has no key; write key=value"),
            (
                "a=1,b=50%",
                "\"b=50%\" is not percent-encoded UTF-8; write a `%` itself as %25",
            ),
            (
                "a=%+1",
                "\"a=%+1\" is not percent-encoded UTF-8; write a `%` itself as %25",
            ),
            (
                "a=%ff",
                "\"a=%ff\" is not percent-encoded UTF-8; write a `%` itself as %25",
            ),
            (
                "a=%é",
                "\"a=%é\" is not percent-encoded UTF-8; write a `%` itself as %25",
            ),
        ] {
            let read = read(text, "named");
            assert_eq!(pairs(&read.attributes), [("service.name", "named")]);
            let [refused] = &read.refused[..] else {
                panic!("{:?}", read.refused)
            };
            let expected = format!("OTEL_RESOURCE_ATTRIBUTES is ignored: {reason}");
            assert_eq!(refused.to_string(), expected);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_told() {
        let latin = |name: &str| (name == SERVICE_NAME).then(|| OsString::from_vec(vec![0xe9]));
        let read = FromEnvironment::read(latin);
        assert!(read.attributes.is_empty());
        assert_eq!(
            read.refused[0].to_string(),
            "OTEL_SERVICE_NAME is ignored: it is not UTF-8; write other characters as %C3%A9"
        );
    }
}
