//! Rows in columns, for readers.

use std::io::Write;

use console::Term;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;

use super::RowWriter;
use crate::error::QueryError;

/// The rows that decide the widths of columns. A longer cell in a later row pushes the rest of its row to the right.
const ROWS_FOR_WIDTHS: usize = 1000;
/// The maximum width of a column. A longer cell does the same.
const MAX_WIDTH: usize = 200;
/// The width below which no text is cut.
const MIN_CUT_WIDTH: usize = 12;
const SEPARATOR: &str = "  ";
const NULL: &str = "NULL";
const CUT: &str = "…";

/// Writes columns that are as wide as their content: texts to the left, numbers to the right. Texts are cut if rows
/// would be wider than the terminal.
pub(super) struct TableWriter<W> {
    out: W,
    columns: Vec<Column>,
    /// The width of the terminal, if the output is one.
    terminal_width: Option<usize>,
    /// Rows that were not written yet, because the widths are not known.
    waiting: Vec<Vec<String>>,
    is_head_written: bool,
    rows: u64,
}

#[derive(Debug)]
struct Column {
    title: String,
    is_number: bool,
    width: usize,
    /// True if longer cells are cut.
    is_cut: bool,
}

/// Returns the width of the terminal, if the standard output is one.
pub(super) fn width() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(columns.into())
}

impl<W: Write + Send> TableWriter<W> {
    pub(super) fn new(out: W, schema: &Schema, terminal_width: Option<usize>) -> Self {
        let columns = schema.fields().iter().map(|field| {
            let title = printable(field.name());
            Column {
                width: console::measure_text_width(&title).min(MAX_WIDTH),
                title,
                is_number: field.data_type().is_numeric(),
                is_cut: false,
            }
        });
        Self {
            out,
            columns: columns.collect(),
            terminal_width,
            waiting: Vec::new(),
            is_head_written: false,
            rows: 0,
        }
    }

    /// Decides the widths, and writes the titles and the rows that waited for them.
    fn write_waiting(&mut self) -> Result<(), QueryError> {
        let rows = std::mem::take(&mut self.waiting);
        if !self.is_head_written {
            self.is_head_written = true;
            for row in &rows {
                for (column, cell) in self.columns.iter_mut().zip(row) {
                    let width = console::measure_text_width(cell).min(MAX_WIDTH);
                    column.width = column.width.max(width);
                }
            }
            if let Some(width) = self.terminal_width {
                fit(&mut self.columns, width);
            }
            let titles: Vec<_> = self
                .columns
                .iter()
                .map(|column| column.title.clone())
                .collect();
            self.write_line(&titles)?;
            let lines: Vec<_> = self
                .columns
                .iter()
                .map(|column| "─".repeat(column.width))
                .collect();
            self.write_line(&lines)?;
        }
        rows.iter().try_for_each(|row| self.write_line(row))
    }

    fn write_line(&mut self, cells: &[String]) -> Result<(), QueryError> {
        let mut line = String::new();
        for (index, (cell, column)) in cells.iter().zip(&self.columns).enumerate() {
            if index > 0 {
                line.push_str(SEPARATOR);
            }
            let cell = match column.is_cut {
                true => console::truncate_str(cell, column.width, CUT),
                false => cell.into(),
            };
            let padding = column
                .width
                .saturating_sub(console::measure_text_width(&cell));
            let padding = " ".repeat(padding);
            match column.is_number {
                true => line.extend([&padding, cell.as_ref()]),
                false => line.extend([cell.as_ref(), &padding]),
            }
        }
        super::write(&mut self.out, line.trim_end().as_bytes())?;
        super::write(&mut self.out, b"\n")
    }
}

impl<W: Write + Send> RowWriter for TableWriter<W> {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), QueryError> {
        let options = FormatOptions::new()
            .with_display_error(false)
            .with_null(NULL);
        let columns = rows.columns().iter();
        let formatters = columns.map(|column| ArrayFormatter::try_new(column, &options));
        let formatters: Vec<_> = formatters
            .collect::<Result<_, _>>()
            .map_err(DataFusionError::from)?;
        for row in 0..rows.num_rows() {
            let cells = formatters.iter().map(|formatter| {
                let text = formatter.value(row).try_to_string();
                text.map(|text| printable(&text))
            });
            let cells = cells
                .collect::<Result<_, _>>()
                .map_err(DataFusionError::from)?;
            self.waiting.push(cells);
        }
        self.rows += rows.num_rows() as u64;
        match self.is_head_written || self.waiting.len() >= ROWS_FOR_WIDTHS {
            true => self.write_waiting(),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), QueryError> {
        self.write_waiting()?;
        let count = match self.rows {
            1 => "(1 row)\n".to_owned(),
            rows => format!("({rows} rows)\n"),
        };
        super::write(&mut self.out, count.as_bytes())?;
        self.out.flush().map_err(QueryError::Output)
    }
}

/// Makes the widest columns of texts narrower until rows fit into a width, as far as possible.
fn fit(columns: &mut [Column], width: usize) {
    let separators = SEPARATOR.len() * columns.len().saturating_sub(1);
    loop {
        let total = columns.iter().map(|column| column.width).sum::<usize>() + separators;
        let texts = columns
            .iter_mut()
            .filter(|column| !column.is_number && column.width > MIN_CUT_WIDTH);
        let Some(widest) = texts.max_by_key(|column| column.width) else {
            return;
        };
        if total <= width {
            return;
        }
        widest.width -= 1;
        widest.is_cut = true;
    }
}

/// Escapes control characters, so that a row stays on one line and a terminal takes no part of it for a command.
fn printable(text: &str) -> String {
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
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    fn table(width: Option<usize>, rows: &[(Option<&str>, Option<i64>)]) -> String {
        let fields = [("name", DataType::Utf8), ("dur", DataType::Int64)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let names: StringArray = rows.iter().map(|row| row.0).collect();
        let numbers: Int64Array = rows.iter().map(|row| row.1).collect();
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![Arc::new(names), Arc::new(numbers)],
        );
        let mut out = Vec::new();
        let mut writer = TableWriter::new(&mut out, &schema, width);
        writer.write(&batch.unwrap()).unwrap();
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_stand_left_and_numbers_right() {
        let text = table(
            None,
            &[
                (Some("read\n"), Some(1)),
                (None, Some(-12345)),
                (Some("x"), None),
            ],
        );
        let expected = "name       dur\n──────  ──────\nread\\n       1\nNULL    -12345\nx         NULL\n(3 rows)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn only_a_terminal_cuts_texts() {
        let name = "a name that is much too long for a terminal";
        let rows = [(Some(name), Some(123_456))];
        assert!(table(None, &rows).contains(name));
        let text = table(Some(30), &rows);
        assert!(text.contains("a name that is much t…  123456"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 30),
            "{text}"
        );
    }

    #[test]
    fn later_rows_are_written_as_they_come() {
        let rows = vec![(Some("x"), Some(1)); ROWS_FOR_WIDTHS + 1];
        let text = table(None, &rows);
        assert_eq!(text.lines().count(), ROWS_FOR_WIDTHS + 4);
        assert!(text.ends_with("(1001 rows)\n"), "{}", text.len());
    }
}
