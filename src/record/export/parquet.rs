//! Rows as Parquet: zstd, one row group for some ten thousand rows, which is what is held in memory.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::rows::RowWriter;
use crate::record::{Cell, Field, FieldType, Table};

/// Rows of a group at most.
const GROUP_ROWS: usize = 50_000;
/// Bytes of text in a group, after which it ends.
const GROUP_BYTES: usize = 16 << 20;

/// Writes one table.
pub struct Parquet<W: Write + Send> {
    /// `None` once it has ended.
    file: Option<SerializedFileWriter<W>>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

/// The values of a column in a group.
struct Column {
    values: Values,
    /// 1 where there is a value, 0 for null; empty where there is always one.
    present: Vec<i16>,
    optional: bool,
}

enum Values {
    Text(Vec<ByteArray>),
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Flag(Vec<bool>),
}

impl<W: Write + Send> Parquet<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn new(to: W, table: Table) -> io::Result<Self> {
        let fields = table.fields();
        let about = vec![
            KeyValue::new("dlrun.kind".to_owned(), table.kind().to_owned()),
            KeyValue::new("dlrun.format".to_owned(), Table::FORMAT.to_string()),
        ];
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(format!("dlrun version {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(about))
            .build();
        let schema = schema(table, &fields).map_err(wrong)?;
        let file = SerializedFileWriter::new(to, schema, Arc::new(properties)).map_err(wrong)?;
        let columns = fields.iter().map(Column::of).collect();
        Ok(Self {
            file: Some(file),
            columns,
            rows: 0,
            bytes: 0,
        })
    }

    fn end_group(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.rows > 0) else {
            return Ok(());
        };
        let mut group = file.next_row_group().map_err(wrong)?;
        for column in &mut self.columns {
            column.write(&mut group).map_err(wrong)?;
        }
        group.close().map_err(wrong)?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

impl<W: Write + Send> RowWriter for Parquet<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.bytes += column.push(cell);
        }
        self.rows += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.end_group()
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end_group()?;
        match self.file.take() {
            Some(file) => file.close().map(drop).map_err(wrong),
            None => Ok(()),
        }
    }
}

impl Column {
    fn of(field: &Field) -> Self {
        let values = match field.of {
            FieldType::Text | FieldType::Json => Values::Text(Vec::new()),
            FieldType::Whole => Values::Whole(Vec::new()),
            FieldType::Real => Values::Real(Vec::new()),
            FieldType::Flag => Values::Flag(Vec::new()),
        };
        Self {
            values,
            present: Vec::new(),
            optional: field.is_optional(),
        }
    }

    /// Takes a value; returns the bytes that it takes.
    fn push(&mut self, cell: &Cell<'_>) -> usize {
        let mut bytes = 8;
        let known = match (&mut self.values, cell) {
            (Values::Text(values), Cell::Text(text)) => {
                bytes += text.len();
                put(values, ByteArray::from(&**text))
            }
            (Values::Whole(values), Cell::Whole(number)) => put(values, *number),
            (Values::Real(values), Cell::Real(number)) => put(values, *number),
            (Values::Flag(values), Cell::Flag(flag)) => put(values, *flag),
            _ => false,
        };
        if self.optional {
            self.present.push(i16::from(known));
        } else if !known {
            // A column that is never null, of a database where it is.
            match &mut self.values {
                Values::Text(values) => values.push(ByteArray::from("")),
                Values::Whole(values) => values.push(0),
                Values::Real(values) => values.push(0.0),
                Values::Flag(values) => values.push(false),
            }
        }
        bytes
    }

    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let present = self.optional.then_some(self.present.as_slice());
        match &mut self.values {
            Values::Text(values) => write::<ByteArrayType, W>(group, values, present)?,
            Values::Whole(values) => write::<Int64Type, W>(group, values, present)?,
            Values::Real(values) => write::<DoubleType, W>(group, values, present)?,
            Values::Flag(values) => write::<BoolType, W>(group, values, present)?,
        }
        self.present.clear();
        Ok(())
    }
}

fn put<T>(values: &mut Vec<T>, value: T) -> bool {
    values.push(value);
    true
}

fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    present: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General(
            "more columns than in the schema".to_owned(),
        ));
    };
    column.typed::<T>().write_batch(values, present, None)?;
    values.clear();
    column.close()
}

fn schema(table: Table, fields: &[Field]) -> Result<TypePtr, ParquetError> {
    let columns: Vec<TypePtr> = fields.iter().map(column_type).collect::<Result<_, _>>()?;
    Ok(Arc::new(
        Type::group_type_builder(table.kind())
            .with_fields(columns)
            .build()?,
    ))
}

fn column_type(field: &Field) -> Result<TypePtr, ParquetError> {
    let (physical, text) = match field.of {
        FieldType::Text | FieldType::Json => (Physical::BYTE_ARRAY, true),
        FieldType::Whole => (Physical::INT64, false),
        FieldType::Real => (Physical::DOUBLE, false),
        FieldType::Flag => (Physical::BOOLEAN, false),
    };
    let repetition = if field.is_optional() {
        Repetition::OPTIONAL
    } else {
        Repetition::REQUIRED
    };
    let mut builder =
        Type::primitive_type_builder(field.name, physical).with_repetition(repetition);
    if text {
        builder = builder
            .with_logical_type(Some(LogicalType::String))
            .with_converted_type(ConvertedType::UTF8);
    }
    Ok(Arc::new(builder.build()?))
}

/// A full disk is reported as such.
fn wrong(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
