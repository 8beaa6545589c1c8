//! The parts of a table that clients read beside each other: one for each row group or file, or as many as were asked for.

use arrow_schema::SchemaRef;
use edt::path::RelativePath;
use edt::{Error, ErrorKind, Result};

use super::file::TableFile;
use super::members::{Members, check_columns};
use crate::contract::{Command, FileFacts, Form};
use crate::service::info::MOST_ENDPOINTS;
use crate::service::root::Root;

/// The most parts of a table.
const MOST: usize = MOST_ENDPOINTS as usize;

/// What the files of a table tell, and the tickets.
pub(super) struct Plan {
    pub(super) schema: SchemaRef,
    pub(super) rows: Option<u64>,
    pub(super) bytes: u64,
    pub(super) tickets: Vec<Command>,
    pub(super) facts: Option<FileFacts>,
}

/// What one ticket can read: a file, or a row group of it.
struct Unit {
    ticket: Command,
    rows: Option<u64>,
}

/// Opens every file of a table, and divides it.
pub(super) fn plan(root: &Root, command: &Command, members: &Members) -> Result<Plan> {
    let mut expected: Option<(RelativePath, SchemaRef)> = None;
    let (mut units, mut bytes, mut facts) = (Vec::new(), 0, None);
    for (path, version) in &members.wanted(root, command)? {
        let file = TableFile::open(root, path, members.kind, version.as_deref())?;
        let schema = file.schema();
        check_columns(expected.get_or_insert_with(|| (path.clone(), SchemaRef::clone(&schema))), path, &schema)?;
        bytes += file.entry.size;
        facts = Some(FileFacts {
            size: file.entry.size,
            modified_ns: file.entry.modified_ns,
            mode: file.entry.mode,
            version: file.version.clone(),
        });
        units.extend(divide(command, &file)?);
    }
    let (_, schema) = expected.ok_or_else(|| super::members::none(&command.path))?;
    let facts = facts.filter(|_| !members.is_directory);
    let units = within(command, units);
    let rows = units.iter().try_fold(0u64, |sum, unit| Some(sum.saturating_add(unit.rows?)));
    let version = match &facts {
        Some(facts) => facts.version.clone(),
        None => members.version(root)?,
    };
    let whole = Command { form: Some(Form::Table), version: Some(version), endpoints: None, ..command.clone() };
    let tickets = match command.endpoints {
        Some(count) => evenly(&whole, rows, count)?,
        // Clients refuse long answers: parts that are too many are put together, where their rows are known.
        None if units.len() > MOST && rows.is_some() => evenly(&whole, rows, MOST_ENDPOINTS)?,
        None if units.len() > MOST => vec![whole],
        // Where a file does not tell its rows, a range of them cannot be divided.
        None if command.rows.is_some() && rows.is_none() => vec![whole],
        None if units.is_empty() => vec![Command { rows: Some([0, 0]), ..whole }],
        None => units.into_iter().map(|unit| unit.ticket).collect(),
    };
    Ok(Plan { schema, rows, bytes, tickets, facts })
}

/// The units of a file.
fn divide(command: &Command, file: &TableFile) -> Result<Vec<Unit>> {
    let ticket = Command {
        path: file.path().to_string(),
        form: Some(Form::Table),
        version: Some(file.version.clone()),
        endpoints: None,
        rows: None,
        ..command.clone()
    };
    let named = file.group(command.row_group)?;
    let groups = file.groups();
    let unit = |(group, rows): (usize, u64)| {
        let row_group = u32::try_from(group).ok().filter(|_| groups.len() > 1 || named.is_some());
        Unit { ticket: Command { row_group, ..ticket.clone() }, rows: Some(rows) }
    };
    if groups.is_empty() {
        return Ok(vec![Unit { rows: file.rows(None), ticket }]);
    }
    let chosen = groups.iter().copied().enumerate().filter(|(group, _)| named.is_none_or(|named| named == *group));
    Ok(chosen.map(unit).collect())
}

/// The units that hold a part of the rows that were asked for, each with that part.
fn within(command: &Command, units: Vec<Unit>) -> Vec<Unit> {
    let Some([mut skip, mut take]) = command.rows else { return units };
    let part = |unit: Unit| {
        let Some(rows) = unit.rows else { return Some(unit) };
        let skipped = rows.min(skip);
        let taken = (rows - skipped).min(take);
        skip -= skipped;
        take -= taken;
        let range = (taken < rows).then_some([skipped, taken]);
        (taken > 0).then_some(Unit { ticket: Command { rows: range, ..unit.ticket }, rows: Some(taken) })
    };
    units.into_iter().filter_map(part).collect()
}

/// As many tickets as were asked for, with as many rows each.
fn evenly(whole: &Command, rows: Option<u64>, count: u32) -> Result<Vec<Command>> {
    if count == 1 {
        return Ok(vec![whole.clone()]);
    }
    let rows = rows.ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, format!("could not divide `{}` into {count} endpoints", whole.path))
            .with_cause("CSV does not tell how many rows there are")
            .with_hint("leave `endpoints` out, or read the file as bytes")
    })?;
    let first = whole.rows.map_or(0, |[first, _]| first);
    let count = u64::from(count).clamp(1, rows.max(1));
    let bound = |part: u64| rows / count * part + rows % count * part / count;
    let ticket = |part: u64| Command { rows: Some([first + bound(part), bound(part + 1) - bound(part)]), ..whole.clone() };
    Ok((0..count).map(ticket).collect())
}
