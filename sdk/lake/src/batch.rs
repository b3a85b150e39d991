//! The rows of a table that become one row group of a file, column by column.

use parquet::data_type::ByteArray;
use tracezero_reader::{NameId, NameTable};

use crate::table::{Column, ColumnType};

/// The number of rows of a row group.
pub(crate) const ROWS_MAX: usize = 128 * 1024;
/// The size of a column's texts from which a batch is full, even if it has few rows.
const TEXT_MAX_BYTES: usize = 8 << 20;

/// Rows of a table. The first column, the id of the trace, is not stored: it is the same in all
/// rows.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Values>,
    is_full: bool,
}

/// The values of a column.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) data: Data,
    /// For each row 1 if it has a value, and 0 if not; `None` if each row has one.
    pub(crate) levels: Option<Vec<i16>>,
}

/// The values of the rows that have one.
#[derive(Debug)]
pub(crate) enum Data {
    Int(Vec<i64>),
    Real(Vec<f64>),
    Text(Texts),
}

/// Texts, most of which repeat.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// For each value its index in `ends`.
    indexes: Vec<u32>,
    /// The different texts, one behind the other.
    text: Vec<u8>,
    /// The end of each text.
    ends: Vec<u32>,
    /// For each name its index in `ends`, plus 1.
    of_name: Vec<u32>,
}

/// Adds a row to a batch, value by value, in the order of the columns behind the trace's id.
#[derive(Debug)]
pub(crate) struct Row<'b> {
    batch: &'b mut Batch,
    column: usize,
}

impl Values {
    /// Creates an empty column.
    pub(crate) fn new(column: &Column) -> Self {
        Self {
            data: match column.column_type {
                ColumnType::Int | ColumnType::WallTime => Data::Int(Vec::new()),
                ColumnType::Real => Data::Real(Vec::new()),
                ColumnType::Text => Data::Text(Texts::default()),
            },
            levels: column.is_nullable.then(Vec::new),
        }
    }
}

impl Batch {
    /// Creates an empty batch for a table with these columns.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self {
            rows: 0,
            columns: columns.iter().skip(1).map(Values::new).collect(),
            is_full: false,
        }
    }

    /// Returns true if the batch should be written before further rows are added.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full || self.rows >= ROWS_MAX
    }

    /// Begins a row. The caller adds a value for each column.
    pub(crate) fn row(&mut self) -> Row<'_> {
        self.rows += 1;
        Row {
            batch: self,
            column: 0,
        }
    }
}

impl Row<'_> {
    /// Returns the next column if it takes a value, which the caller then adds.
    #[inline]
    fn next(&mut self, has_value: bool) -> Option<&mut Data> {
        let values = &mut self.batch.columns[self.column];
        self.column += 1;
        match &mut values.levels {
            Some(levels) => levels.push(i16::from(has_value)),
            None => debug_assert!(has_value, "a key without a value"),
        }
        has_value.then_some(&mut values.data)
    }

    #[inline]
    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        self.maybe_int(Some(value))
    }

    /// Adds a number that cannot be larger than an `i64` in a sound trace.
    #[inline]
    pub(crate) fn uint(&mut self, value: u64) -> &mut Self {
        self.int(value.try_into().unwrap_or(i64::MAX))
    }

    #[inline]
    pub(crate) fn maybe_int(&mut self, value: Option<i64>) -> &mut Self {
        if let Some(Data::Int(values)) = self.next(value.is_some()) {
            values.extend(value);
        }
        self
    }

    #[inline]
    pub(crate) fn maybe_real(&mut self, value: Option<f64>) -> &mut Self {
        if let Some(Data::Real(values)) = self.next(value.is_some()) {
            values.extend(value);
        }
        self
    }

    /// Adds a text that rarely repeats.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.maybe_text(Some(text))
    }

    pub(crate) fn maybe_text(&mut self, text: Option<&str>) -> &mut Self {
        let mut is_full = false;
        if let Some(Data::Text(texts)) = self.next(text.is_some()) {
            texts.push(text.unwrap_or_default());
            is_full = texts.text.len() >= TEXT_MAX_BYTES;
        }
        self.batch.is_full |= is_full;
        self
    }

    /// Adds a name. All names of a column must be of the same table.
    #[inline]
    pub(crate) fn name(&mut self, name: NameId, names: &NameTable) -> &mut Self {
        let mut is_full = false;
        if let Some(Data::Text(texts)) = self.next(true) {
            texts.push_name(name, names);
            is_full = texts.text.len() >= TEXT_MAX_BYTES;
        }
        self.batch.is_full |= is_full;
        self
    }

    /// Adds a name, or no value if it is empty.
    #[inline]
    pub(crate) fn maybe_name(&mut self, name: NameId, names: &NameTable) -> &mut Self {
        match name.is_none() {
            true => {
                self.next(false);
                self
            }
            false => self.name(name, names),
        }
    }

    /// Adds one of a few texts that the caller numbers from 0.
    #[inline]
    pub(crate) fn choice(&mut self, choice: Option<(usize, &'static str)>) -> &mut Self {
        if let Some(Data::Text(texts)) = self.next(choice.is_some())
            && let Some((index, text)) = choice
        {
            texts.push_indexed(index, text);
        }
        self
    }
}

impl Texts {
    /// Adds a text, and returns its number in the column.
    pub(crate) fn push(&mut self, text: &str) -> u32 {
        let index = self.add(text);
        self.indexes.push(index);
        index
    }

    /// Adds the text with this number once more.
    pub(crate) fn push_again(&mut self, index: u32) {
        self.indexes.push(index);
    }

    /// Adds a text as the value of several rows.
    pub(crate) fn push_often(&mut self, text: &str, rows: usize) {
        let index = self.add(text);
        self.indexes.resize(self.indexes.len() + rows, index);
    }

    #[inline]
    fn push_name(&mut self, name: NameId, names: &NameTable) {
        match self.of_name.get(name.index()) {
            Some(index @ 1..) => self.indexes.push(index - 1),
            _ => self.push_new_name(name.index(), names.text(name)),
        }
    }

    /// Adds a text that the caller has numbered. Texts with equal numbers must be equal.
    #[inline]
    fn push_indexed(&mut self, index: usize, text: &str) {
        match self.of_name.get(index) {
            Some(index @ 1..) => self.indexes.push(index - 1),
            _ => self.push_new_name(index, text),
        }
    }

    #[cold]
    fn push_new_name(&mut self, name: usize, text: &str) {
        if name >= self.of_name.len() {
            self.of_name.resize(name + 1, 0);
        }
        let index = self.add(text);
        self.of_name[name] = index + 1;
        self.indexes.push(index);
    }

    fn add(&mut self, text: &str) -> u32 {
        self.text.extend_from_slice(text.as_bytes());
        self.ends.push(self.text.len() as u32);
        self.ends.len() as u32 - 1
    }

    /// Returns the index of each value, and the texts that they stand for.
    pub(crate) fn into_values(self) -> (Vec<u32>, Vec<ByteArray>) {
        let text = ByteArray::from(self.text);
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let texts = starts.zip(&self.ends);
        let texts = texts.map(|(start, end)| text.slice(start as usize, (end - start) as usize));
        let texts = texts.collect();
        (self.indexes, texts)
    }
}
