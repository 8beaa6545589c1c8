//! Which files a table consists of.

use arrow_schema::SchemaRef;
use edt::path::RelativePath;
use edt::pipeline::digest::crc64nvme;
use edt::store::EntryKind;
use edt::{Error, ErrorKind, Result};

use crate::contract::{Command, Kind, hex64, version};
use crate::service::root::{Root, changed, path};

/// The files of a table, in order.
pub(super) struct Members {
    pub(super) paths: Vec<RelativePath>,
    /// What they are; `None` if their beginning must tell.
    pub(super) kind: Option<Kind>,
    pub(super) is_directory: bool,
}

impl Members {
    pub(super) fn find(root: &Root, command: &Command) -> Result<Self> {
        let path = path(&command.path)?;
        if !root.is_directory(&path)? {
            return Ok(Self { kind: Kind::of_name(&command.path), paths: vec![path], is_directory: false });
        }
        if command.row_group.is_some() {
            return Err(Error::new(ErrorKind::InvalidInput, format!("could not read a row group of `{}`", command.path))
                .with_cause("it is a directory")
                .with_hint("name one of its files"));
        }
        let mut members = Self { paths: Vec::new(), kind: None, is_directory: true };
        for entry in root.files_in(&path)? {
            // What begins so is there for other programs, as `_SUCCESS` and checksums.
            if entry.path.name().is_some_and(|name| name.starts_with(b".") || name.starts_with(b"_")) {
                continue;
            }
            let kind = (entry.kind == EntryKind::File).then(|| Kind::of_name(&entry.path.to_string())).flatten();
            if kind.is_none() || members.kind.is_some_and(|first| Some(first) != kind) {
                return Err(mixed(&command.path, &entry.path));
            }
            members.kind = kind;
            members.paths.push(entry.path);
        }
        if members.paths.is_empty() { Err(none(&command.path)) } else { Ok(members) }
    }

    /// The version of a directory: that of all its files together.
    pub(super) fn version(&self, root: &Root) -> Result<String> {
        Ok(together(&self.versions(root)?))
    }

    fn versions(&self, root: &Root) -> Result<Vec<(RelativePath, String)>> {
        self.paths.iter().map(|path| Ok((path.clone(), version(&root.read.stat(path)?)))).collect()
    }

    /// The files, each with the version that it must have if the command names one of them all; an error if they have another now.
    pub(super) fn wanted(&self, root: &Root, command: &Command) -> Result<Vec<(RelativePath, Option<String>)>> {
        let Some(wanted) = command.version.as_ref().filter(|_| self.is_directory) else {
            return Ok(self.paths.iter().map(|path| (path.clone(), command.version.clone())).collect());
        };
        let versions = self.versions(root)?;
        if *wanted != together(&versions) {
            return Err(changed(&path(&command.path)?));
        }
        Ok(versions.into_iter().map(|(path, version)| (path, Some(version))).collect())
    }
}

fn together(versions: &[(RelativePath, String)]) -> String {
    let parts = versions.iter().flat_map(|(path, version)| [path.as_bytes(), b"\0", version.as_bytes(), b"\0"]);
    hex64(crc64nvme(&parts.collect::<Vec<_>>().concat()))
}

fn mixed(directory: &str, found: &RelativePath) -> Error {
    Error::new(ErrorKind::WrongType, format!("could not read the directory `{directory}` as a table"))
        .with_cause(format!("`{found}` is no Parquet, Arrow or CSV file, or not of the same kind as the others"))
        .with_hint("name one of its files, or list the directory with the action `list`")
}

/// What is said of a directory without files.
pub(super) fn none(directory: &str) -> Error {
    Error::new(ErrorKind::WrongType, format!("could not read the directory `{directory}` as a table"))
        .with_cause("it holds no files")
}

/// An error that names the file whose columns are not those of the first.
pub(super) fn check_columns(expected: &(RelativePath, SchemaRef), path: &RelativePath, schema: &SchemaRef) -> Result<()> {
    let (first, columns) = expected;
    if columns.fields() == schema.fields() {
        return Ok(());
    }
    let differs = columns.fields().iter().zip(schema.fields()).find(|(a, b)| a != b);
    let cause = match differs {
        Some((a, b)) => format!(
            "in `{first}` there is `{}`: {}, and here `{}`: {}",
            a.name(),
            shown(a.data_type(), a.is_nullable()),
            b.name(),
            shown(b.data_type(), b.is_nullable())
        ),
        None => format!("`{first}` has {} columns, and it has {}", columns.fields().len(), schema.fields().len()),
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("could not read `{path}` as a part of one table"))
        .with_cause(cause)
        .with_hint("the files of a directory must have the same columns; read them one by one"))
}

fn shown(data_type: &arrow_schema::DataType, nullable: bool) -> String {
    if nullable { format!("{data_type}") } else { format!("{data_type} not null") }
}
