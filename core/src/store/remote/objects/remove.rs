//! Removing an object, or all objects below a prefix, page by page.

use std::sync::Arc;

use super::{Bucket, below};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::Depth;

/// Objects that one request removes at most.
const PAGE: u32 = 1000;

/// Removes the object of a path, and with [`Depth::Tree`] what is below it too; of a URL with a slash at its end only what is below.
pub(super) fn remove(bucket: &Arc<Bucket>, path: &RelativePath, depth: Depth) -> Result<()> {
    let key = bucket.key(path)?;
    if bucket.means_directory(&key) {
        return if remove_content(bucket, &key, depth)? { Ok(()) } else { Err(nothing_below(bucket, &key)) };
    }
    // A service takes no offence at removing what is not there; a caller does.
    let itself = match bucket.head(&key) {
        _ if key.is_empty() => false,
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if itself {
        delete(bucket, vec![key.clone()])?;
    }
    let alone = itself && depth == Depth::One;
    let below = !alone && remove_content(bucket, &key, depth)?;
    if itself || below || key.is_empty() { Ok(()) } else { Err(bucket.missing("remove", &key)) }
}

/// The same command again, or a slip of the finger, must not take an object that it does not name.
fn nothing_below(bucket: &Bucket, key: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("could not remove `{}`", bucket.service.show(&below(key))))
        .with_cause("there is nothing below it")
        .with_hint("leave out the slash at the end to remove an object of that name")
}

/// Removes what is below a key, without [`Depth::Tree`] if it is an empty directory; false if there was nothing.
fn remove_content(bucket: &Bucket, key: &str, depth: Depth) -> Result<bool> {
    match depth {
        Depth::Tree => remove_below(bucket, key),
        Depth::One => remove_empty(bucket, key),
    }
}

/// Removes everything below a key; false if there was nothing.
fn remove_below(bucket: &Bucket, key: &str) -> Result<bool> {
    let (prefix, mut next, mut any) = (below(key), None, false);
    loop {
        let page = bucket.patience.run(|| bucket.service.page(&prefix, false, PAGE, next.as_deref()))?;
        if !page.objects.is_empty() {
            any = true;
            delete(bucket, page.objects.into_iter().map(|object| object.key).collect())?;
        }
        next = page.next;
        if next.is_none() {
            return Ok(any);
        }
    }
}

/// Removes the object that marks an empty directory; false if there is none.
fn remove_empty(bucket: &Bucket, key: &str) -> Result<bool> {
    let marker = below(key);
    let page = bucket.patience.run(|| bucket.service.page(&marker, false, 2, None))?;
    match page.objects.as_slice() {
        [] => Ok(false),
        [only] if only.key == marker => delete(bucket, vec![marker]).map(|()| true),
        _ => Err(Error::new(ErrorKind::AlreadyExists, format!("could not remove `{}`", bucket.service.show(key)))
            .with_cause("there are objects below it")
            .with_hint("remove it with all that is below it: `edt rm --recursive`")),
    }
}

/// Removes objects; those that fail and may be tried again are.
fn delete(bucket: &Bucket, mut keys: Vec<String>) -> Result<()> {
    for key in &keys {
        bucket.listed.take(key);
    }
    bucket.patience.run(|| {
        let answers = bucket.service.delete(&keys);
        let mut failure = None;
        let mut left = Vec::new();
        for (key, answer) in keys.drain(..).zip(answers) {
            if let Err(error) = answer {
                left.push(key);
                failure.get_or_insert(error);
            }
        }
        keys = left;
        failure.map_or(Ok(()), Err)
    })
}
