//! Formats text in columns.

use std::io::{self, Write};

/// The maximum width of a column. A longer cell pushes the rest of its row to the right.
const MAX_WIDTH: usize = 60;

/// Rows of cells. Each column is as wide as its content.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    title: &'static str,
    is_number: bool,
}

impl Table {
    /// Creates a table with these columns: first the texts, aligned left, then the numbers, aligned
    /// right.
    pub(crate) fn new(texts: &[&'static str], numbers: &[&'static str]) -> Self {
        let column = |is_number| move |title: &&'static str| Column { title, is_number };
        let texts = texts.iter().map(column(false));
        Self {
            columns: texts.chain(numbers.iter().map(column(true))).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| printable(&cell)).into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints the table, indented by two spaces.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let titles = self.columns.iter().map(|column| column.title.to_owned());
        let titles: Vec<String> = titles.collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| {
                let cells = self.rows.iter().chain([&titles]);
                let widths = cells.map(|row| row[index].chars().count());
                widths.max().unwrap_or(0).min(MAX_WIDTH)
            })
            .collect();
        for row in [&titles].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for ((cell, column), width) in row.iter().zip(&self.columns).zip(&widths) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                line.push_str("  ");
                match column.is_number {
                    true => line.extend([padding.as_str(), cell]),
                    false => line.extend([cell, padding.as_str()]),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Prints a table under a title, if it has rows. `rows` is the number of rows that there are, of which
/// the table has at most `top`.
pub(crate) fn section(
    title: &str,
    table: &Table,
    rows: usize,
    top: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", printable(title))?;
    table.print(out)?;
    match rows.saturating_sub(top) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more: --top 0 shows all"),
    }
}

/// Escapes control characters in a text from a trace, so that it stays on one line and a terminal
/// takes no part of it for a command.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_align_left_and_numbers_align_right() {
        let mut table = Table::new(&["name"], &["count"]);
        table.row(["read".to_owned(), "12345678".to_owned()]);
        table.row(["écrit\n".to_owned(), "1".to_owned()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let expected = "  name        count\n  read     12345678\n  écrit\\n         1\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
