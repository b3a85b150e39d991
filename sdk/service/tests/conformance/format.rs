//! A parser for the scenario file. The header of that file describes the language.

use std::fmt;

/// A scenario: steps with their line numbers.
#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    pub is_ideal: bool,
    pub steps: Vec<(usize, Step)>,
}

#[derive(Debug)]
pub enum Step {
    Buffer {
        size_bytes: u64,
        discard: bool,
    },
    Commit(Box<Commit>),
    Patch(Patch),
    BeginRead,
    ReadNone,
    Read(ExpectedPacket),
    Drain,
    Stats {
        values: Vec<(String, u64)>,
        rest_is_zero: bool,
    },
    Histogram {
        writer: Writer,
        buckets: Option<Vec<Bucket>>,
    },
    Tail(u64),
    Used(u64),
    Size(u64),
    Clone(String),
    Use(String),
    Drop(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    pub producer: u32,
    pub writer: u16,
}

#[derive(Debug)]
pub struct Commit {
    pub writer: Writer,
    pub chunk: u32,
    pub flags: u8,
    pub complete: bool,
    pub declared: u16,
    pub source: Vec<u8>,
    pub uid: Option<u32>,
    pub pid: Option<u32>,
}

#[derive(Debug)]
pub struct Patch {
    pub writer: Writer,
    pub chunk: u32,
    pub has_more: bool,
    pub patches: Vec<(u64, [u8; 4])>,
    pub succeeds: bool,
}

#[derive(Debug)]
pub struct ExpectedPacket {
    pub slices: Vec<ExpectedSlice>,
    pub loss: Option<ExpectedLoss>,
    pub writer: Option<Writer>,
    pub uid: Option<u32>,
    pub pid: Option<u32>,
}

#[derive(Debug)]
pub enum ExpectedSlice {
    Bytes(Vec<u8>),
    Hashed { len_bytes: usize, fnv1a: u64 },
}

#[derive(Debug)]
pub enum ExpectedLoss {
    Mask(u32),
    Any,
}

#[derive(Debug)]
pub struct Bucket {
    pub index: usize,
    pub count: u64,
    pub sum_bytes: u64,
}

/// An error in the file and its line.
#[derive(Debug)]
pub struct ParseError {
    line: usize,
    message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

type Parsed<T> = Result<T, String>;

/// Parses a file of scenarios.
pub fn parse(text: &str) -> Result<Vec<Scenario>, ParseError> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let add = |scenarios: &mut Vec<Scenario>| -> Parsed<()> {
            let words: Vec<&str> = text.split(' ').collect();
            if words.contains(&"") || !text.is_ascii() {
                return Err("words are ASCII and separated by single spaces".to_owned());
            }
            if words[0] == "scenario" {
                scenarios.push(scenario(&words[1..])?);
                return Ok(());
            }
            let step = step(words[0], &words[1..])?;
            let scenario = scenarios
                .last_mut()
                .ok_or("a step before the first scenario")?;
            scenario.steps.push((line, step));
            Ok(())
        };
        add(&mut scenarios).map_err(|message| ParseError { line, message })?;
    }
    Ok(scenarios)
}

/// Removes each scenario for which there is an `ideal` one: a scenario of the same name that
/// expects no known defect of Perfetto's own buffer.
pub fn with_ideal_twins(mut scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let ideal: Vec<String> = scenarios
        .iter()
        .filter(|s| s.is_ideal)
        .map(|s| s.name.clone())
        .collect();
    scenarios.retain(|scenario| scenario.is_ideal || !ideal.contains(&scenario.name));
    scenarios
}

fn scenario(words: &[&str]) -> Parsed<Scenario> {
    let (name, attributes) = words.split_first().ok_or("a scenario needs a name")?;
    let mut is_ideal = false;
    for attribute in attributes {
        match *attribute {
            "lenient" => {}
            "ideal" => is_ideal = true,
            _ => defects(attribute)?,
        }
    }
    Ok(Scenario {
        name: (*name).to_owned(),
        is_ideal,
        steps: Vec::new(),
    })
}

/// Parses `defect=N,N`, which is for readers. The runner ignores it.
fn defects(word: &str) -> Parsed<()> {
    let numbers = word
        .strip_prefix("defect=")
        .ok_or_else(|| unknown("attribute", word))?;
    numbers
        .split(',')
        .try_for_each(|n| number::<u32>(n).map(drop))
}

fn step(first: &str, words: &[&str]) -> Parsed<Step> {
    let (verb, is_marked) = match first.strip_suffix('~') {
        Some(verb) => (verb, true),
        None => (first, false),
    };
    let expects = matches!(
        verb,
        "read" | "stats" | "stats_all" | "hist" | "tail" | "used" | "size"
    );
    if is_marked && !expects {
        return Err(format!(
            "'{verb}' expects nothing, so there is nothing to mark with '~'"
        ));
    }
    Ok(match (verb, words) {
        ("buffer", [size, policy]) => Step::Buffer {
            size_bytes: number(size)?,
            discard: either(policy, "discard", "ring")?,
        },
        ("commit", [chunk, items @ ..]) => Step::Commit(Box::new(commit(chunk, items)?)),
        ("patch", [chunk, pending, patches @ .., outcome]) => {
            let (writer, chunk) = writer_and_chunk(chunk)?;
            Step::Patch(Patch {
                writer,
                chunk,
                has_more: either(pending, "more", "last")?,
                patches: patches
                    .iter()
                    .map(|word| patch(word))
                    .collect::<Parsed<_>>()?,
                succeeds: either(outcome, "ok", "fail")?,
            })
        }
        ("begin_read", []) => Step::BeginRead,
        ("read", ["none"]) => Step::ReadNone,
        ("read", [packet, attributes @ ..]) => Step::Read(expected_packet(packet, attributes)?),
        ("drain", []) => Step::Drain,
        ("stats" | "stats_all", values) => Step::Stats {
            values: values
                .iter()
                .map(|word| stat(word))
                .collect::<Parsed<_>>()?,
            rest_is_zero: verb == "stats_all",
        },
        ("hist", [of, "absent"]) => Step::Histogram {
            writer: writer(of)?,
            buckets: None,
        },
        ("hist", [of, buckets @ ..]) => Step::Histogram {
            writer: writer(of)?,
            buckets: Some(
                buckets
                    .iter()
                    .map(|word| bucket(word))
                    .collect::<Parsed<_>>()?,
            ),
        },
        ("tail", [bytes]) => Step::Tail(number(bytes)?),
        ("used", [bytes]) => Step::Used(number(bytes)?),
        ("size", [bytes]) => Step::Size(number(bytes)?),
        ("clone", [name]) => Step::Clone((*name).to_owned()),
        ("use", [name]) => Step::Use((*name).to_owned()),
        ("drop", [name]) => Step::Drop((*name).to_owned()),
        _ => return Err(unknown("step", first)),
    })
}

fn commit(chunk: &str, items: &[&str]) -> Parsed<Commit> {
    let (writer, chunk) = writer_and_chunk(chunk)?;
    let mut commit = Commit {
        writer,
        chunk,
        flags: 0,
        complete: true,
        declared: 0,
        source: Vec::new(),
        uid: None,
        pid: None,
    };
    let mut declared_exactly = None;
    let mut zeroed = Vec::new();
    for &item in items {
        if let Some((key, value)) = item.split_once('=')
            && !item.starts_with(|first: char| first.is_ascii_digit())
        {
            match key {
                "n" => declared_exactly = Some(number(value)?),
                "src" => {
                    let len = number(value)?;
                    if len < commit.source.len() {
                        return Err(format!("the source has more than {len} bytes already"));
                    }
                    commit.source.resize(len, 0);
                }
                "cut" => {
                    let len = number(value)?;
                    if len > commit.source.len() {
                        return Err(format!("the source has fewer than {len} bytes"));
                    }
                    commit.source.truncate(len);
                }
                "zero" => {
                    let (offset, len) = split(value, '+')?;
                    zeroed.push((number::<usize>(offset)?, number::<usize>(len)?));
                }
                "flags" => match hex(value)?[..] {
                    [flags] => commit.flags |= flags,
                    _ => return Err("flags are one byte".to_owned()),
                },
                "uid" => commit.uid = Some(number(value)?),
                "pid" => commit.pid = Some(number(value)?),
                _ => return Err(unknown("item", item)),
            }
            continue;
        }
        match item {
            "<" => commit.flags |= 1,
            ">" => commit.flags |= 2,
            "!" => commit.flags |= 4,
            "~" => commit.complete = false,
            "+" => commit.declared += 1,
            _ => {
                if let Some(stale) = item.strip_prefix("j:") {
                    commit.source.extend(bytes(stale)?);
                    continue;
                }
                commit.declared += 1;
                match item.strip_prefix("x:") {
                    Some(raw) => commit.source.extend(bytes(raw)?),
                    None => {
                        let fragment = fragment(item)?;
                        commit.source.extend(fragment.header);
                        commit.source.extend(fragment.payload);
                    }
                }
            }
        }
    }
    for (offset, len) in zeroed {
        commit
            .source
            .get_mut(offset..offset.saturating_add(len))
            .ok_or("zeros behind the end of the source")?
            .fill(0);
    }
    commit.declared = declared_exactly.unwrap_or(commit.declared);
    Ok(commit)
}

struct Fragment {
    header: Vec<u8>,
    payload: Vec<u8>,
}

/// Parses `TOTAL FILL ['/' H] ('@' OFF '=' HEX)*`.
fn fragment(word: &str) -> Parsed<Fragment> {
    let mut parts = word.split('@');
    let base = parts.next().unwrap_or_default();
    let (base, header_len) = match base.split_once('/') {
        Some((base, len)) => (base, Some(number::<usize>(len)?)),
        None => (base, None),
    };
    let fill_at = base
        .find(|c: char| !c.is_ascii_digit())
        .ok_or_else(|| unknown("word", word))?;
    let (total, fill) = base.split_at(fill_at);
    let total: usize = number(total)?;
    let fill = match (fill.as_bytes(), fill.strip_prefix('$')) {
        (_, Some(code)) => match hex(code)?[..] {
            [fill] => fill,
            _ => return Err(unknown("fill", fill)),
        },
        (&[letter], None) if letter.is_ascii_alphabetic() || letter == b'_' => letter,
        _ => return Err(unknown("fill", fill)),
    };
    let header_len = header_len.unwrap_or(if total <= 128 { 1 } else { 2 });
    if header_len == 0 {
        return Err("a header has at least one byte".to_owned());
    }
    let len = total
        .checked_sub(header_len)
        .ok_or("a fragment smaller than its header")?;
    let mut header: Vec<u8> = (0..header_len)
        .map(|i| len.checked_shr(7 * i as u32).unwrap_or(0) as u8 | 0x80)
        .collect();
    header[header_len - 1] &= 0x7f;
    if header_len < 9 && len >> (7 * header_len) != 0 {
        return Err(format!(
            "{len} does not fit into a header of {header_len} bytes"
        ));
    }
    let digit = |i: usize| b'0' + (i % 10) as u8;
    let mut payload: Vec<u8> = (0..len)
        .map(|i| match i % 4 {
            0 => fill,
            1 => digit(i / 4 / 10),
            2 => digit(i / 4),
            _ => b'-',
        })
        .collect();
    for part in parts {
        let (offset, replacement) = split(part, '=')?;
        let offset: usize = number(offset)?;
        let replacement = hex(replacement)?;
        payload
            .get_mut(offset..offset.saturating_add(replacement.len()))
            .ok_or("a replacement behind the end of the payload")?
            .copy_from_slice(&replacement);
    }
    Ok(Fragment { header, payload })
}

fn patch(word: &str) -> Parsed<(u64, [u8; 4])> {
    let (offset, data) = split(word, ':')?;
    let data = hex(data)?
        .try_into()
        .map_err(|_| "a patch has 4 bytes".to_owned())?;
    Ok((number(offset)?, data))
}

fn expected_packet(packet: &str, attributes: &[&str]) -> Parsed<ExpectedPacket> {
    let slices = match packet {
        "empty" => Vec::new(),
        _ => packet
            .split('+')
            .map(expected_slice)
            .collect::<Parsed<_>>()?,
    };
    let mut expected = ExpectedPacket {
        slices,
        loss: None,
        writer: None,
        uid: None,
        pid: None,
    };
    for &attribute in attributes {
        let at = attribute
            .find(['=', '~'])
            .ok_or_else(|| unknown("attribute", attribute))?;
        let (key, value) = (&attribute[..at], &attribute[at + 1..]);
        match (key, value) {
            ("loss", "any") => expected.loss = Some(ExpectedLoss::Any),
            ("loss", mask) => expected.loss = Some(ExpectedLoss::Mask(number(mask)?)),
            ("seq", of) => expected.writer = Some(writer(of)?),
            ("uid", uid) => expected.uid = Some(number(uid)?),
            ("pid", pid) => expected.pid = Some(number(pid)?),
            _ => defects(attribute)?,
        }
    }
    Ok(expected)
}

fn expected_slice(word: &str) -> Parsed<ExpectedSlice> {
    if let Some(raw) = word.strip_prefix("x:") {
        return Ok(ExpectedSlice::Bytes(bytes(raw)?));
    }
    if let Some(hashed) = word.strip_prefix("f:") {
        let (len, hash) = split(hashed, ':')?;
        let fnv1a = u64::from_str_radix(hash, 16).map_err(|_| unknown("hash", hash))?;
        return Ok(ExpectedSlice::Hashed {
            len_bytes: number(len)?,
            fnv1a,
        });
    }
    Ok(ExpectedSlice::Bytes(fragment(word)?.payload))
}

fn stat(word: &str) -> Parsed<(String, u64)> {
    let (name, value) = split(word, '=')?;
    Ok((name.to_owned(), number(value)?))
}

fn bucket(word: &str) -> Parsed<Bucket> {
    let (index, rest) = split(word, ':')?;
    let (count, sum) = split(rest, ':')?;
    Ok(Bucket {
        index: number(index)?,
        count: number(count)?,
        sum_bytes: number(sum)?,
    })
}

fn writer(word: &str) -> Parsed<Writer> {
    let (producer, writer) = split(word, '.')?;
    Ok(Writer {
        producer: number(producer)?,
        writer: number(writer)?,
    })
}

fn writer_and_chunk(word: &str) -> Parsed<(Writer, u32)> {
    let (of, chunk) = split(word, '#')?;
    Ok((writer(of)?, number(chunk)?))
}

/// Parses `BYTES`: pieces joined with ',', each `HEX` or `HEX*NUM`.
fn bytes(word: &str) -> Parsed<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in word.split(',') {
        let (once, times) = piece.split_once('*').unwrap_or((piece, "1"));
        bytes.extend(hex(once)?.repeat(number(times)?));
    }
    Ok(bytes)
}

fn hex(word: &str) -> Parsed<Vec<u8>> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Ok(c - b'0'),
        b'a'..=b'f' => Ok(c - b'a' + 10),
        _ => Err(unknown("hex bytes", word)),
    };
    if word.is_empty() || !word.len().is_multiple_of(2) {
        return Err(unknown("hex bytes", word));
    }
    word.as_bytes()
        .chunks(2)
        .map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

fn number<T: std::str::FromStr>(word: &str) -> Parsed<T> {
    if word.is_empty() || !word.bytes().all(|c| c.is_ascii_digit()) {
        return Err(unknown("number", word));
    }
    word.parse()
        .map_err(|_| format!("'{word}' is out of range"))
}

/// Returns true for `yes`, false for `no`, and an error for other words.
fn either(word: &str, yes: &str, no: &str) -> Parsed<bool> {
    if word == yes || word == no {
        return Ok(word == yes);
    }
    Err(format!("'{word}' is neither '{yes}' nor '{no}'"))
}

fn split(word: &str, at: char) -> Parsed<(&str, &str)> {
    word.split_once(at)
        .ok_or_else(|| format!("'{word}' lacks a '{at}'"))
}

fn unknown(what: &str, word: &str) -> String {
    format!("unknown {what} '{word}'")
}
