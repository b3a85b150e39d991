//! Runs a query.

use std::path::Path;

use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use tracezero_lake::Table;

use crate::depth;
use crate::error::QueryError;
use crate::resources::Resources;
use crate::tables::LakeTables;

/// The schema of the tables that describe the others.
const DESCRIPTIONS: &str = "information_schema";

/// Starts a query over tables of a lake.
///
/// # Errors
///
/// If the lake has no traces, or the engine refuses the query.
pub(crate) async fn rows(
    sql: &str,
    tables: &LakeTables,
    resources: &Resources,
) -> Result<SendableRecordBatchStream, QueryError> {
    refuse_empty(&tables.lake)?;
    let config = SessionConfig::new().with_information_schema(true);
    let context = SessionContext::new_with_config_rt(config, resources.environment()?);
    let state = context.state();
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect)?;
    if depth::is_too_deep(&statement) {
        return Err(QueryError::TooDeep);
    }
    let names = state.resolve_table_references(&statement)?;
    // The columns of a table are in its files. So only those that the query names are looked at.
    let is_about_all = names.iter().any(|name| name.schema() == Some(DESCRIPTIONS));
    for table in Table::ALL {
        if is_about_all || names.iter().any(|name| name.table() == table.name()) {
            tables.register(&context, table).await?;
        }
    }
    let plan = context.state().statement_to_plan(statement).await;
    let plan = plan.map_err(|error| refusal(error, &names))?;
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)
        .map_err(|error| QueryError::NotARead(error.find_root().message().into_owned()))?;
    let frame = DataFrame::new(context.state(), plan);
    Ok(frame.execute_stream().await?)
}

/// Converts the error of a query that has no plan. `names` are the tables that it names.
fn refusal(error: DataFusionError, names: &[TableReference]) -> QueryError {
    if let DataFusionError::Plan(message) = error.find_root()
        && message.ends_with("not found")
    {
        let is_unknown = |name: &&str| Table::ALL.iter().all(|table| table.name() != *name);
        let mut unknown = names.iter().map(TableReference::table).filter(is_unknown);
        if let Some(name) = unknown.find(|name| message.contains(name)) {
            return QueryError::UnknownTable(name.to_owned());
        }
    }
    error.into()
}

/// Refuses folders that are no lake, and lakes that nothing was exported to.
fn refuse_empty(lake: &Path) -> Result<(), QueryError> {
    let mut folders = vec![lake.join(Table::Trace.name())];
    if !folders[0].is_dir() {
        return Err(QueryError::NotALake(lake.to_owned()));
    }
    while let Some(folder) = folders.pop() {
        let failed = |source| QueryError::File {
            path: folder.clone(),
            source,
        };
        for entry in folder.read_dir().map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|it| it == "parquet") {
                return Ok(());
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    Err(QueryError::EmptyLake(lake.to_owned()))
}
