//! Refuses what would destroy or never end: a destination that is a source or lies inside one, two sources under one name.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

use super::{absolute, is_local_pattern, is_pattern, relative};
use crate::endpoint::{Endpoint, Location, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Selection, Symlinks, TransferOptions};
use crate::path::RelativePath;
use crate::plan::{is_chosen, minimal};
use crate::protocol::message::Root;

const INSIDE: &str = "the destination lies inside the source";
const CHOSEN: &str = "some of what was chosen lies where the copy would be written";
const MATCHED: &str = "what a pattern matches";
const MIRRORED: &str = "the source lies inside the destination, from which a mirror would remove it";

/// An error that names both if two sources would have the same name below the destination. `roots` are those of `sources`, in order.
pub(crate) fn distinct(sources: &[Endpoint], roots: &[Root]) -> Result<()> {
    let mut named: Vec<_> = roots.iter().zip(sources).filter(|(root, _)| !root.prefix.is_empty()).collect();
    named.sort_by_key(|(root, _)| &root.prefix);
    let Some(pair) = named.windows(2).find(|pair| pair[0].0.prefix == pair[1].0.prefix) else { return Ok(()) };
    let name = String::from_utf8_lossy(&pair[0].0.prefix);
    Err(Error::new(ErrorKind::InvalidInput, format!("could not copy both `{}` and `{}`", pair[0].1, pair[1].1))
        .with_cause(format!("both would be `{name}` at the destination"))
        .with_hint("copy them one after the other, each to a destination of its own"))
}

/// An error if what is to be mirrored is not one source that is named, whose content the destination gets.
pub(crate) fn mirrored(roots: &[Root], options: &TransferOptions) -> Result<()> {
    if options.selection != Selection::Mirror || options.is_alone(roots.len()) {
        return Ok(());
    }
    Err(no_mirror(if roots.len() > 1 { "several sources" } else { MATCHED }))
}

/// An error if what a pattern matches is to be mirrored: it may be another one of several the next time. That nothing matches, which `find`
/// tells, comes first.
pub(crate) fn unmirrored(options: &TransferOptions, find: impl FnOnce() -> Result<()>) -> Result<()> {
    if options.selection != Selection::Mirror {
        return Ok(());
    }
    find()?;
    Err(no_mirror(MATCHED))
}

fn no_mirror(what: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("{what} cannot be mirrored to one destination"))
        .with_hint("mirror each source, by its name, to a directory of its own")
}

/// An error if a local destination is a source or lies inside one, and for a mirror also if a source lies inside it. Of a source of which
/// files were chosen only these are read: the destination may lie beside them.
///
/// A server's files cannot be copied to a server, so no overlap is possible there.
pub(crate) fn separate(sources: &[Endpoint], destination: &Endpoint, options: &TransferOptions) -> Result<()> {
    let (base, directory) = match destination.resolve()? {
        Location::Local { path, directory } => (path, directory),
        Location::Service(url) => return apart(sources, destination, &url, options),
        _ => return Ok(()),
    };
    for source in sources {
        let Location::Local { path, .. } = source.resolve()? else { continue };
        let alone = options.is_alone(sources.len());
        let (from, to) = if is_local_pattern(&path) {
            match matched(&path, &real(&base)?)? {
                Some(pair) => pair,
                None => continue,
            }
        } else {
            let from = if alone || options.symlinks == Symlinks::Follow { real(&path)? } else { unfollowed(&path)? };
            let into = !alone || (from.is_file() && (directory || base.is_dir()));
            let name = if into { absolute(&path)?.file_name().map(OsStr::to_owned) } else { None };
            (from, real(&name.map_or_else(|| base.clone(), |name| base.join(name)))?)
        };
        let found = |file: &RelativePath| {
            let path = from.join(file.to_local()?);
            names(&if options.symlinks == Symlinks::Follow { real(&path)? } else { unfollowed(&path)? })
        };
        let why = match (&options.files, to.starts_with(&from)) {
            _ if from == to => "they are the same",
            (None, true) => INSIDE,
            (Some(files), true) if meets(files, &names(&to)?, found)? => CHOSEN,
            _ if options.selection == Selection::Mirror && from.starts_with(&to) => MIRRORED,
            _ => continue,
        };
        return Err(overlapping(source, destination, why));
    }
    Ok(())
}

/// The same on one service, where names are all there is to go by.
fn apart(sources: &[Endpoint], destination: &Endpoint, url: &ServiceUrl, options: &TransferOptions) -> Result<()> {
    let to = RelativePath::from_user(&url.path)?;
    for source in sources {
        let Location::Service(from) = source.resolve()? else { continue };
        if !from.same_place(url) {
            continue;
        }
        let from = RelativePath::from_user(&from.path)?;
        let (from, to) = if is_pattern(from.as_bytes()) {
            let Some(holder) = matched_there(&from, &to) else { continue };
            (holder, to.clone())
        } else if !options.is_alone(sources.len()) {
            let to = to.join(&RelativePath::from_bytes(from.name().unwrap_or_default())?);
            (from, to)
        } else {
            (from, to.clone())
        };
        let why = match (&options.files, to.strip_prefix(&from).is_some()) {
            _ if from == to => "they are the same",
            (None, true) => INSIDE,
            (Some(files), true) if meets(files, &to, |file| Ok(from.join(file)))? => CHOSEN,
            _ if options.selection == Selection::Mirror && from.strip_prefix(&to).is_some() => MIRRORED,
            _ => continue,
        };
        return Err(overlapping(source, destination, why));
    }
    Ok(())
}

/// What of a pattern's matches on a service holds the destination; the pattern's directory, if the destination is that or outside it.
fn matched_there(pattern: &RelativePath, destination: &RelativePath) -> Option<RelativePath> {
    let base = std::iter::successors(Some(pattern.clone()), RelativePath::parent).find(|path| !is_pattern(path.as_bytes()))?;
    if base == *destination || destination.strip_prefix(&base).is_none() {
        return Some(base);
    }
    // A pattern that cannot be understood is an error of the listing.
    let glob = GlobBuilder::new(&pattern.to_string()).literal_separator(true).build().ok()?.compile_matcher();
    std::iter::successors(Some(destination.clone()), RelativePath::parent)
        .find(|path| !path.is_root() && glob.is_match(path.to_string()))
}

/// Whether one of the chosen files and directories holds the destination, or what is written of them below it, or lies in that. `found`
/// tells where a chosen one is.
fn meets(files: &[RelativePath], to: &RelativePath, found: impl Fn(&RelativePath) -> Result<RelativePath>) -> Result<bool> {
    let chosen = minimal(files.to_vec());
    let is_written = |below: &RelativePath| {
        let before = chosen.partition_point(|file| file.components().lt(below.components()));
        is_chosen(&chosen, below) || chosen[before..].first().is_some_and(|file| file.strip_prefix(below).is_some())
    };
    for file in &chosen {
        let item = found(file)?;
        if to.strip_prefix(&item).is_some() || item.strip_prefix(to).is_some_and(|below| is_written(&below)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The names of a whole path.
fn names(path: &Path) -> Result<RelativePath> {
    relative(&path.components().filter(|part| matches!(part, Component::Normal(_))).collect::<PathBuf>())
}

fn overlapping(source: &Endpoint, destination: &Endpoint, why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not copy `{source}` to `{destination}`"))
        .with_cause(why)
        .with_hint("choose a destination outside the source")
}

/// What of a pattern's matches holds the destination, with the destination itself; for one that holds nothing, its directory.
fn matched(pattern: &Path, destination: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    let whole = absolute(pattern)?;
    let mut base = whole.clone();
    while is_local_pattern(&base) {
        base.pop();
    }
    let below = whole.strip_prefix(&base).unwrap_or(&whole).to_string_lossy().into_owned();
    let base = real(&base)?;
    let Ok(inside) = destination.strip_prefix(&base) else { return Ok(Some((base, destination.to_owned()))) };
    if inside.as_os_str().is_empty() {
        return Ok(Some((base, destination.to_owned())));
    }
    // A pattern that cannot be understood is an error of the listing.
    let Ok(glob) = GlobBuilder::new(&below).literal_separator(true).build() else { return Ok(None) };
    let glob = glob.compile_matcher();
    let holder = inside.ancestors().find(|path| !path.as_os_str().is_empty() && glob.is_match(path));
    Ok(holder.map(|path| (base.join(path), destination.to_owned())))
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> Result<PathBuf> {
    let whole = absolute(path)?;
    let existing = whole.ancestors().find_map(|above| std::fs::canonicalize(above).ok().map(|real| (above, real)));
    let Some((above, real)) = existing else { return Ok(whole.clone()) };
    let rest = whole.strip_prefix(above).unwrap_or(Path::new(""));
    Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

/// The same, but a link at the end stays one: it is copied as a link.
fn unfollowed(path: &Path) -> Result<PathBuf> {
    let whole = absolute(path)?;
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) if whole.is_symlink() => Ok(real(parent)?.join(name)),
        _ => real(&whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Naming;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            let world = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir_all(world.0.path().join("src/sub")).unwrap();
            std::fs::create_dir_all(world.0.path().join("src-2")).unwrap();
            std::fs::write(world.0.path().join("src/file"), "x").unwrap();
            world
        }

        fn at(&self, name: &str) -> Endpoint {
            Endpoint::new(format!("{}/{name}", self.0.path().display()))
        }

        fn check(&self, sources: &[&str], destination: &str, selection: Selection) -> Option<String> {
            self.check_with(sources, destination, &TransferOptions { selection, ..TransferOptions::default() })
        }

        fn check_with(&self, sources: &[&str], destination: &str, options: &TransferOptions) -> Option<String> {
            let sources: Vec<_> = sources.iter().map(|name| self.at(name)).collect();
            separate(&sources, &self.at(destination), options).err().map(|error| error.explain())
        }
    }

    #[test]
    fn a_destination_that_is_a_source_or_inside_it_is_refused() {
        let world = World::new();
        for (sources, destination) in [
            (&["src"][..], "src"),
            (&["src/"], "src/./"),
            (&["src"], "src/sub"),
            (&["src"], "src/new/deep"),
            (&["src/sub/.."], "src/new"),
            (&["src/file"], "src/file"),
            (&["src/file"], "src"),
            (&["src/file", "src-2"], "src/"),
            (&["src-2", "src"], "src/sub"),
            (&["src/*"], "src"),
            (&["src/*"], "src/sub/new"),
        ] {
            assert!(world.check(sources, destination, Selection::All).is_some(), "{sources:?} to {destination}");
        }
    }

    #[test]
    fn what_only_lies_beside_the_source_is_allowed() {
        let world = World::new();
        for (sources, destination) in [
            (&["src"][..], "src-2"),
            (&["src"], "new/deep"),
            (&["src/sub"], "src"),
            (&["src/file"], "src/sub"),
            (&["src/file"], "src/copy"),
            (&["src/file", "src-2"], "src/sub/"),
            (&["src/*"], "src-2"),
            (&["src/f*"], "src/sub"),
        ] {
            assert_eq!(world.check(sources, destination, Selection::All), None, "{sources:?} to {destination}");
        }
    }

    #[test]
    fn a_source_that_keeps_its_name_is_not_written_over_itself() {
        let world = World::new();
        let options = TransferOptions { naming: Naming::OfEach, ..TransferOptions::default() };
        assert_eq!(world.check_with(&["src/sub"], "src", &TransferOptions::default()), None);
        assert!(world.check_with(&["src/sub"], "src", &options).is_some());
        assert!(separate(&["s3://b/src/sub".into()], &"s3://b/src".into(), &options).is_err());
        assert_eq!(world.check_with(&["src/sub"], "src-2", &options), None);
    }

    #[test]
    fn a_mirror_onto_what_holds_the_source_is_refused() {
        let world = World::new();
        for (source, destination) in [("src/sub", "src"), ("src", ""), ("src", "src")] {
            let refused = world.check(&[source], destination, Selection::Mirror);
            assert!(refused.is_some_and(|text| text.contains("hint: ")), "{source} to {destination}");
        }
        assert_eq!(world.check(&["src"], "src-2", Selection::Mirror), None);
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_hide_that_both_are_the_same() {
        let world = World::new();
        std::os::unix::fs::symlink("src", world.0.path().join("link")).unwrap();
        assert!(world.check(&["src"], "link", Selection::All).is_some());
        assert!(world.check(&["link"], "src/sub", Selection::All).is_some());
        // Among several sources a link stays a link, so it does not hold what it leads to.
        assert_eq!(world.check(&["link", "src-2"], "src/sub/", Selection::All), None);
    }

    fn choosing(files: &[&str]) -> TransferOptions {
        let files = files.iter().map(|name| RelativePath::from_user(name).unwrap()).collect();
        TransferOptions { files: Some(files), ..TransferOptions::default() }
    }

    #[test]
    fn a_destination_may_lie_beside_the_files_that_were_chosen() {
        let world = World::new();
        let check = |files: &[&str], destination: &str| {
            let there = world.check_with(&["src"], destination, &choosing(files)).is_some();
            let service = separate(&["s3://b/src".into()], &format!("s3://b/{destination}").into(), &choosing(files)).is_err();
            assert_eq!(there, service, "{files:?} to {destination}");
            there
        };
        for (files, destination) in [
            (&["file"][..], "src/sub"),
            (&["file"], "src/new/deep"),
            (&["file", "su"], "src/sub"),
            (&["sub/old"], "src/sub"),
            (&[], "src/sub"),
        ] {
            assert!(!check(files, destination), "{files:?} to {destination}");
        }
        for (files, destination) in [
            (&["sub"][..], "src/sub"),
            (&["sub"], "src/sub/new"),
            (&["file", "sub"], "src/sub/new/deep"),
            (&["."], "src/sub"),
            (&["file"], "src"),
            (&["file"], "src/file"),
            // What one is copied to is another that was chosen, lies in it, or holds it.
            (&["file", "sub/file"], "src/sub"),
            (&["a/b", "sub/a"], "src/sub"),
            (&["a", "a-b", "sub/a/b"], "src/sub"),
        ] {
            assert!(check(files, destination), "{files:?} to {destination}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_hide_that_a_chosen_directory_holds_the_destination() {
        let world = World::new();
        std::os::unix::fs::symlink("sub", world.0.path().join("src/link")).unwrap();
        let through = choosing(&["link/new"]);
        assert!(world.check_with(&["src"], "src/sub/new/deep", &through).is_some());
        let followed = TransferOptions { symlinks: Symlinks::Follow, ..choosing(&["link"]) };
        assert!(world.check_with(&["src"], "src/sub/new", &followed).is_some());
        assert_eq!(world.check_with(&["src"], "src/sub/new", &choosing(&["link"])), None);
    }

    #[test]
    fn on_a_service_names_tell_what_overlaps() {
        let check = |source: &str, destination: &str, selection| {
            let options = TransferOptions { selection, ..TransferOptions::default() };
            separate(&[source.into()], &destination.into(), &options).is_err()
        };
        for (source, destination) in
            [("s3://b/a", "s3://b/a/"), ("s3://b/a/", "s3://b/a/c"), ("s3://b", "s3://b/x"), ("s3://b/*", "s3://b/x/y")]
        {
            assert!(check(source, destination, Selection::All), "{source} to {destination}");
        }
        for (source, destination) in
            [("s3://b/a", "s3://b/ab"), ("s3://b/a", "s3://c/a"), ("s3://b/a/c", "s3://b/a"), ("s3://b/a*", "s3://b/x")]
        {
            assert!(!check(source, destination, Selection::All), "{source} to {destination}");
        }
        assert!(check("s3://b/a/c", "s3://b/a", Selection::Mirror));
    }

    #[test]
    fn two_sources_of_one_name_are_named() {
        let root = |prefix: &str| Root { path: Vec::new(), prefix: prefix.into() };
        let sources = ["a/x", "b/y", "c/x", "p/*", "q/*"].map(Endpoint::from);
        let error = distinct(&sources, &["x", "y", "x", "", ""].map(root)).unwrap_err();
        assert!(error.what().contains("`a/x`") && error.what().contains("`c/x`"), "{error}");
        assert!(distinct(&sources, &["x", "y", "z", "", ""].map(root)).is_ok());
    }
}
