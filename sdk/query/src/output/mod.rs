//! Prints rows on the standard output.

mod csv; // comma-separated values
mod json; // an array of objects
mod table; // columns for readers

use std::io::{self, BufWriter, IsTerminal, Write};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;

use crate::args::Format;
use crate::error::QueryError;
use crate::progress::QueryProgress;

/// The size of the buffer before the standard output.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes rows in some format.
trait RowWriter: Send {
    /// Writes the rows of a batch.
    fn write(&mut self, rows: &RecordBatch) -> Result<(), QueryError>;

    /// Writes what comes after the last row.
    fn finish(&mut self) -> Result<(), QueryError>;
}

/// Prints all rows on the standard output.
///
/// # Errors
///
/// If the query fails, or the output cannot be written.
pub(crate) async fn print(
    mut rows: SendableRecordBatchStream,
    format: Format,
    progress: QueryProgress,
) -> Result<(), QueryError> {
    let schema = with_different_names(&rows.schema());
    let is_terminal = io::stdout().is_terminal();
    let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
    let mut writer: Box<dyn RowWriter> = match format {
        Format::Table => Box::new(table::TableWriter::new(out, &schema, table::width())),
        Format::Csv => Box::new(csv::CsvWriter::new(out, &schema)),
        Format::Json => Box::new(json::JsonRows::new(out)),
    };
    let mut progress = Some(progress);
    let mut count = 0;
    while let Some(batch) = rows.try_next().await? {
        // Rows and progress do not mix on one terminal.
        if is_terminal {
            progress = None;
        }
        count += batch.num_rows() as u64;
        if let Some(progress) = &progress {
            progress.rows(count);
        }
        writer.write(&renamed(&batch, &schema)?)?;
    }
    drop(progress);
    writer.finish()
}

/// Returns columns of which no two have the same name: the second `name` becomes `name_2`.
fn with_different_names(schema: &Schema) -> SchemaRef {
    let mut names: Vec<String> = Vec::new();
    let fields = schema.fields().iter().map(|field| {
        let mut name = field.name().clone();
        let mut number = 1;
        while names.contains(&name) {
            number += 1;
            name = format!("{}_{number}", field.name());
        }
        names.push(name.clone());
        field.as_ref().clone().with_name(name)
    });
    Schema::new(fields.collect::<Vec<_>>()).into()
}

/// Returns the same rows with other names of columns.
fn renamed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (schema, columns) = (SchemaRef::clone(schema), batch.columns().to_vec());
    let batch = RecordBatch::try_new_with_options(schema, columns, &options);
    Ok(batch.map_err(DataFusionError::from)?)
}

/// Writes to a buffer, and converts errors.
fn write(out: &mut impl Write, bytes: &[u8]) -> Result<(), QueryError> {
    out.write_all(bytes).map_err(QueryError::Output)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn names_of_columns_are_made_different() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Schema::new(vec![
            field("name"),
            field("name"),
            field("name_2"),
            field("name"),
        ]);
        let different = with_different_names(&schema);
        let names: Vec<_> = different
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(names, ["name", "name_2", "name_2_2", "name_3"]);
    }
}
