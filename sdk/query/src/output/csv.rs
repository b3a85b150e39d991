//! Rows as comma-separated values.

use std::io::Write;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;

use super::RowWriter;
use crate::error::QueryError;

/// Writes a head line and a line for each row. NULL is empty, and an empty text is `""`.
pub(super) struct CsvWriter<W> {
    out: W,
    /// What is not written yet. Begins with the head line.
    lines: String,
}

impl<W: Write + Send> CsvWriter<W> {
    pub(super) fn new(out: W, schema: &Schema) -> Self {
        let mut lines = String::new();
        for (index, field) in schema.fields().iter().enumerate() {
            separate(&mut lines, index);
            push_text(&mut lines, field.name());
        }
        lines.push('\n');
        Self { out, lines }
    }

    fn write_lines(&mut self) -> Result<(), QueryError> {
        super::write(&mut self.out, self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }
}

impl<W: Write + Send> RowWriter for CsvWriter<W> {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), QueryError> {
        let options = FormatOptions::new().with_display_error(false);
        let columns = rows.columns().iter();
        let formatters = columns.map(|column| ArrayFormatter::try_new(column, &options));
        let formatters: Vec<_> = formatters
            .collect::<Result<_, _>>()
            .map_err(DataFusionError::from)?;
        for row in 0..rows.num_rows() {
            for (index, (column, formatter)) in rows.columns().iter().zip(&formatters).enumerate() {
                separate(&mut self.lines, index);
                if !column.is_null(row) {
                    let text = formatter.value(row).try_to_string();
                    push_text(&mut self.lines, &text.map_err(DataFusionError::from)?);
                }
            }
            self.lines.push('\n');
        }
        self.write_lines()
    }

    fn finish(&mut self) -> Result<(), QueryError> {
        self.write_lines()?;
        self.out.flush().map_err(QueryError::Output)
    }
}

fn separate(lines: &mut String, index: usize) {
    if index > 0 {
        lines.push(',');
    }
}

fn push_text(lines: &mut String, text: &str) {
    let is_special = |character| matches!(character, ',' | '"' | '\n' | '\r');
    if text.is_empty() || text.contains(is_special) {
        lines.push('"');
        lines.push_str(&text.replace('"', "\"\""));
        lines.push('"');
    } else {
        lines.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn null_and_the_empty_text_are_told_apart() {
        let fields = [("a,b", DataType::Utf8), ("n", DataType::Int64)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let texts = StringArray::from(vec![Some(""), None, Some("say \"x\""), Some("two\nlines")]);
        let numbers = Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN), None, Some(0)]);
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![Arc::new(texts), Arc::new(numbers)],
        );
        let mut out = Vec::new();
        let mut writer = CsvWriter::new(&mut out, &schema);
        writer.write(&batch.unwrap()).unwrap();
        writer.finish().unwrap();
        let expected = "\"a,b\",n\n\"\",9223372036854775807\n,-9223372036854775808\n\
                        \"say \"\"x\"\"\",\n\"two\nlines\",0\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
