//! Rows as an array of JSON objects.

use std::io::{self, Write};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{JsonFormat, Writer, WriterBuilder};
use datafusion::error::DataFusionError;

use super::RowWriter;
use crate::error::QueryError;

/// Writes an array with an object per line. All digits of integers are there; NULL is `null`, and so are the
/// numbers that JSON lacks.
pub(super) struct JsonRows<W: Write> {
    writer: Writer<W, ArrayOfLines>,
}

/// An array with a line for each object, so that programs which work by lines can read it, too.
#[derive(Debug, Default)]
struct ArrayOfLines;

impl<W: Write> JsonRows<W> {
    pub(super) fn new(out: W) -> Self {
        let writer = WriterBuilder::new().with_explicit_nulls(true);
        Self {
            writer: writer.build(out),
        }
    }
}

impl<W: Write + Send> RowWriter for JsonRows<W> {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), QueryError> {
        self.writer.write(rows).map_err(convert)
    }

    fn finish(&mut self) -> Result<(), QueryError> {
        self.writer.finish().map_err(convert)?;
        self.writer.get_mut().flush().map_err(QueryError::Output)
    }
}

impl JsonFormat for ArrayOfLines {
    fn start_stream<W: Write>(&self, out: &mut W) -> Result<(), ArrowError> {
        Ok(out.write_all(b"[")?)
    }

    fn start_row<W: Write>(&self, out: &mut W, is_first_row: bool) -> Result<(), ArrowError> {
        let separator: &[u8] = match is_first_row {
            true => b"\n",
            false => b",\n",
        };
        Ok(out.write_all(separator)?)
    }

    fn end_stream<W: Write>(&self, out: &mut W) -> Result<(), ArrowError> {
        Ok(out.write_all(b"\n]\n")?)
    }
}

fn convert(error: ArrowError) -> QueryError {
    match error {
        ArrowError::IoError(_, source) => QueryError::Output(source),
        // The library wraps errors of its output in other ways, too.
        ArrowError::ExternalError(source) => match source.downcast::<io::Error>() {
            Ok(source) => QueryError::Output(*source),
            Err(source) => DataFusionError::External(source).into(),
        },
        error => DataFusionError::from(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Float64Array, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn json(ints: Vec<Option<i64>>, reals: Vec<Option<f64>>) -> String {
        let fields = [("int", DataType::Int64), ("real", DataType::Float64)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let (ints, reals) = (Int64Array::from(ints), Float64Array::from(reals));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(ints), Arc::new(reals)]);
        let mut out = Vec::new();
        let mut writer = JsonRows::new(&mut out);
        writer.write(&batch.unwrap()).unwrap();
        writer.finish().unwrap();
        drop(writer);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_have_all_digits_and_null_is_said() {
        let text = json(vec![Some(i64::MAX), None], vec![Some(0.1), Some(f64::NAN)]);
        let expected =
            "[\n{\"int\":9223372036854775807,\"real\":0.1},\n{\"int\":null,\"real\":null}\n]\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_rows_are_an_empty_array() {
        assert_eq!(json(Vec::new(), Vec::new()), "[\n]\n");
    }
}
