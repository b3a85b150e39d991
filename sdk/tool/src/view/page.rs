//! Writes the page: markup, style, script and data in one self-contained file.
//!
//! Text from a trace is only in the data and in the title. The data consists of base64 letters,
//! which cannot end an element. The title is escaped.
//!
//! The content security policy in `page/page.html` forbids all network access. Scripts insert names
//! only as text. `sdk/tool/tests/browser/` checks both.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::base64::Base64Writer;
use super::encode::Encoder;

const MARKUP: &str = include_str!("page/page.html");
/// The begin of every page. No other file begins like this.
const START: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
     <meta name=\"generator\" content=\"tracezero view\">\n";
/// The size of the buffer before the compressor.
const BUFFER_BYTES: usize = 64 << 10;
const STYLE: &str = include_str!("page/style.css");
/// The scripts, in the order of their dependencies.
const SCRIPTS: [&str; 24] = [
    include_str!("page/units.js"),
    include_str!("page/colors.js"),
    include_str!("page/states.js"),
    include_str!("page/decode.js"),
    include_str!("page/kernel.js"),
    include_str!("page/flows.js"),
    include_str!("page/model.js"),
    include_str!("page/lanes.js"),
    include_str!("page/viewport.js"),
    include_str!("page/strips.js"),
    include_str!("page/kernel_strips.js"),
    include_str!("page/counters.js"),
    include_str!("page/kernel_layer.js"),
    include_str!("page/timeline.js"),
    include_str!("page/overview.js"),
    include_str!("page/search.js"),
    include_str!("page/statistics.js"),
    include_str!("page/tables.js"),
    include_str!("page/details.js"),
    include_str!("page/kernel_details.js"),
    include_str!("page/panel.js"),
    include_str!("page/input.js"),
    include_str!("page/view.js"),
    include_str!("page/main.js"),
];

/// Returns true if the file is a page of this tool.
///
/// # Errors
///
/// If it cannot be read.
pub(crate) fn is_page(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    let file = File::open(path)?;
    file.take(START.len() as u64).read_to_end(&mut start)?;
    Ok(start == START.as_bytes())
}

/// Writes a page. Returns the number of letters of the encoded trace in it.
///
/// # Errors
///
/// The errors of `out`.
pub(crate) fn write(encoder: &Encoder, out: &mut impl Write) -> io::Result<u64> {
    let mut data_letters = 0;
    let mut rest = MARKUP;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        rest = after;
        match name {
            "title" => out.write_all(escaped(&encoder.timeline().title).as_bytes())?,
            "style" => out.write_all(STYLE.trim_end().as_bytes())?,
            "script" => out.write_all(SCRIPTS.concat().trim_end().as_bytes())?,
            "trace" => data_letters = write_data(encoder, out)?,
            other => unreachable!("page.html has a place for {other}"),
        }
    }
    out.write_all(rest.as_bytes())?;
    Ok(data_letters)
}

fn write_data(encoder: &Encoder, out: &mut impl Write) -> io::Result<u64> {
    let base64 = Base64Writer::new(out);
    let deflate = ZlibEncoder::new(base64, Compression::default());
    // The encoder writes a few bytes at a time, and each write to the compressor is expensive.
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, deflate);
    encoder.write(&mut buffered)?;
    let deflate = buffered.into_inner()?;
    deflate.finish()?.finish()
}

/// Escapes text for markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::args::ArgsId;
    use crate::view::timeline::{EventFacts, Timeline, TrackIndex};

    fn page_of(text: &str) -> String {
        let mut timeline = Timeline::new(text.to_owned(), 0, 10);
        timeline.ensure_tracks(1);
        timeline.tracks[0].name = text.to_owned();
        let label = timeline.label(text, text);
        timeline.instant(EventFacts {
            track: TrackIndex(0),
            time_ns: 0,
            label,
            args: ArgsId::NONE,
            flows: &[],
        });
        timeline.notes.push(text.to_owned());
        let mut page = Vec::new();
        write(&Encoder::new(timeline), &mut page).unwrap();
        String::from_utf8(page).unwrap()
    }

    /// Returns the part of the page between two texts.
    fn part<'a>(page: &'a str, begin: &str, end: &str) -> &'a str {
        let from = page.find(begin).unwrap() + begin.len();
        let to = from + page[from..].find(end).unwrap();
        &page[from..to]
    }

    #[test]
    fn names_in_a_trace_cannot_inject_markup() {
        let evil =
            "</script></title><script>alert(1)</script><img src=x onerror=alert(2)>{{style}}";
        let page = page_of(evil);
        let harmless = page_of("name");
        for opening in ["<script", "</script", "<img", "<title", "</title"] {
            let count = |page: &str| page.matches(opening).count();
            assert_eq!(count(&page), count(&harmless), "{opening}");
        }
        assert!(!page.contains("alert(1)</"));
        let data = part(&page, "octet-stream\">", "</script>");
        assert!(
            data.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        );
    }

    #[test]
    fn a_page_names_no_address_and_forbids_connections() {
        let page = page_of("name");
        for scheme in ["http:", "https:", "url(", "@import", "src="] {
            assert!(!page.contains(scheme), "{scheme}");
        }
        let policy = part(&page, "Content-Security-Policy\" content=\"", "\"");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(
            policy.contains("require-trusted-types-for 'script'"),
            "{policy}"
        );
    }

    #[test]
    fn the_script_makes_no_markup_of_texts() {
        let script = SCRIPTS.concat();
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!script.contains(way), "{way}");
        }
        assert!(!script.contains("</script"), "the script would end there");
    }

    #[test]
    fn every_place_of_the_markup_is_filled() {
        let page = page_of("name");
        for place in ["{{title}}", "{{style}}", "{{script}}", "{{trace}}"] {
            assert!(MARKUP.contains(place), "{place}");
            assert!(!page.contains(place), "{place}");
        }
        assert!(page.ends_with("</html>\n"));
    }
}
