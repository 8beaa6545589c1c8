//! The adapter, on a service in memory that does what object stores promise and counts what it is asked.

mod answers;
mod interrupts;
mod slashes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::store::remote::{About, Body, Content, CopySource, Limits, Page, Part, Upload};
use crate::testing::conformance;

/// When everything was uploaded.
const UPLOADED_NS: i64 = 1_700_000_000_123_456_789;

#[derive(Default)]
struct Service {
    objects: Mutex<BTreeMap<String, (Object, Vec<u8>)>>,
    uploads: Mutex<BTreeMap<String, Begun>>,
    requests: Mutex<Vec<String>>,
    /// How often a key was made a URL.
    shown: AtomicUsize,
    /// Answers of uploads that are lost on their way.
    lost: AtomicUsize,
    /// Whether the user may neither list nor describe.
    blind: AtomicBool,
    /// What is interrupted while the next upload is begun.
    interrupted: Mutex<Option<Patience>>,
}

#[derive(Default)]
struct Begun {
    key: String,
    metadata: Metadata,
    parts: BTreeMap<u32, Vec<u8>>,
}

struct Bytes(Vec<u8>);

impl Body for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = buffer.len().min(self.0.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}

fn failed(kind: ErrorKind, key: &str) -> Error {
    Error::new(kind, format!("could not do it with `mem://b/{key}`"))
}

impl Service {
    fn asked(&self, what: &str, key: &str) {
        self.requests.lock().push(format!("{what} {key}"));
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock())
    }

    fn place(&self, key: &str, content: &[u8], metadata: &Metadata, about: &About) -> Result<()> {
        let mut objects = self.objects.lock();
        if about.overwrite == Overwrite::Never && objects.contains_key(key) {
            return Err(failed(ErrorKind::AlreadyExists, key));
        }
        if about.crc64nvme.is_some_and(|crc| crc != crc_fast::crc64_nvme(content)) {
            return Err(failed(ErrorKind::Corrupted, key));
        }
        let tag = Some(blake3::hash(content).to_string());
        let (metadata, uploaded_ns) = (metadata.clone(), Some(UPLOADED_NS));
        let object = Object { key: key.to_owned(), size: content.len() as u64, uploaded_ns, metadata, tag, kept: None };
        objects.insert(key.to_owned(), (object, content.to_vec()));
        drop(objects);
        let lost = self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |lost| lost.checked_sub(1));
        if lost.is_ok() { Err(failed(ErrorKind::ConnectionLost, key)) } else { Ok(()) }
    }
}

impl Objects for Arc<Service> {
    fn limits(&self) -> Limits {
        Limits { least_part: 5 << 20, most_parts: 10_000, largest_put: 5 << 30, connections: Some(32) }
    }

    fn show(&self, key: &str) -> String {
        self.shown.fetch_add(1, Ordering::SeqCst);
        format!("mem://b/{key}")
    }

    fn probe(&self) -> Result<()> {
        self.page("", false, 1, None).map(drop)
    }

    fn head(&self, key: &str, _: Purpose) -> Result<Object> {
        self.asked("head", key);
        if self.blind.load(Ordering::SeqCst) {
            return Err(failed(ErrorKind::PermissionDenied, key));
        }
        self.objects.lock().get(key).map(|(object, _)| object.clone()).ok_or_else(|| failed(ErrorKind::NotFound, key))
    }

    fn page(&self, prefix: &str, delimited: bool, most: u32, next: Option<&str>) -> Result<Page> {
        self.asked("page", prefix);
        if self.blind.load(Ordering::SeqCst) {
            return Err(failed(ErrorKind::PermissionDenied, prefix));
        }
        let (mut page, objects) = (Page::default(), self.objects.lock());
        // Pages of two, so that there are many.
        let most = most.min(2) as usize;
        for (key, (object, _)) in objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
            let stop = key[prefix.len()..].find('/').filter(|_| delimited).map(|at| key[..=prefix.len() + at].to_owned());
            let name = stop.as_ref().unwrap_or(key);
            if next.is_some_and(|next| name.as_str() <= next) || page.prefixes.last() == Some(name) {
                continue;
            }
            if page.objects.len() + page.prefixes.len() == most {
                let last = page.objects.last().map(|object| &object.key).max(page.prefixes.last());
                page.next = last.cloned();
                break;
            }
            match stop {
                Some(prefix) => page.prefixes.push(prefix),
                None => page.objects.push(Object { metadata: Metadata::default(), ..object.clone() }),
            }
        }
        Ok(page)
    }

    fn get(&self, object: &Object, range: Range<u64>) -> Result<Content> {
        self.asked("get", &object.key);
        let objects = self.objects.lock();
        let (found, content) = objects.get(&object.key).ok_or_else(|| failed(ErrorKind::NotFound, &object.key))?;
        if found.tag != object.tag {
            return Err(failed(ErrorKind::SourceChanged, &object.key));
        }
        let crc64nvme = (range == (0..object.size)).then(|| crc_fast::crc64_nvme(content));
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        Ok(Content { body: Box::new(Bytes(content[range].to_vec())), crc64nvme })
    }

    fn crc64nvme(&self, object: &Object) -> Result<Option<u64>> {
        self.asked("crc64nvme", &object.key);
        Ok(self.objects.lock().get(&object.key).map(|(_, content)| crc_fast::crc64_nvme(content)))
    }

    fn put(&self, key: &str, content: &bytes::Bytes, about: &About) -> Result<()> {
        self.asked("put", key);
        self.place(key, content, &about.metadata, about)
    }

    fn begin(&self, key: &str, about: &About) -> Result<String> {
        self.asked("begin", key);
        let mut uploads = self.uploads.lock();
        let id = format!("{}-{}", uploads.len(), self.requests.lock().len());
        let begun = Begun { key: key.to_owned(), metadata: about.metadata.clone(), ..Begun::default() };
        uploads.insert(id.clone(), begun);
        if let Some(patience) = self.interrupted.lock().take() {
            patience.interrupt();
        }
        Ok(id)
    }

    fn put_part(&self, upload: &Upload, number: u32, content: &bytes::Bytes, crc64nvme: u64) -> Result<Part> {
        self.asked("part", &number.to_string());
        assert_eq!(crc64nvme, crc_fast::crc64_nvme(content));
        let mut uploads = self.uploads.lock();
        let begun = uploads.get_mut(&upload.id).ok_or_else(|| failed(ErrorKind::NotFound, &upload.key))?;
        begun.parts.insert(number, content.to_vec());
        Ok(Part { number, size: content.len() as u64, tag: number.to_string(), crc64nvme: None })
    }

    fn parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        self.asked("parts", &upload.key);
        let uploads = self.uploads.lock();
        let begun = uploads.get(&upload.id).ok_or_else(|| failed(ErrorKind::NotFound, &upload.key))?;
        let part = |(number, content): (&u32, &Vec<u8>)| Part {
            number: *number,
            size: content.len() as u64,
            tag: number.to_string(),
            crc64nvme: None,
        };
        Ok(begun.parts.iter().map(part).collect())
    }

    fn complete(&self, upload: &Upload, parts: &[Part], about: &About) -> Result<()> {
        self.asked("complete", &upload.key);
        let mut uploads = self.uploads.lock();
        let begun = uploads.get(&upload.id).ok_or_else(|| failed(ErrorKind::NotFound, &upload.key))?;
        let content: Vec<u8> = parts.iter().flat_map(|part| begun.parts[&part.number].clone()).collect();
        let placed = self.place(&upload.key, &content, &begun.metadata, about);
        if !matches!(&placed, Err(error) if error.kind() != ErrorKind::ConnectionLost) {
            uploads.remove(&upload.id);
        }
        placed
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        self.asked("abort", &upload.key);
        self.uploads.lock().remove(&upload.id);
        Ok(())
    }

    fn copy(&self, source: &CopySource<'_>, key: &str, about: &About, _: &Patience) -> Result<Option<u64>> {
        self.asked("copy", key);
        let content = self.objects.lock().get(source.key).map(|(_, content)| content.clone());
        let content = content.ok_or_else(|| failed(ErrorKind::NotFound, source.key))?;
        self.place(key, &content, &about.metadata, about).map(|()| Some(crc_fast::crc64_nvme(&content)))
    }

    fn uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        let uploads = self.uploads.lock();
        let below = uploads.iter().filter(|(_, begun)| begun.key.starts_with(prefix));
        Ok(below.map(|(id, begun)| Upload { key: begun.key.clone(), id: id.clone(), begun_ns: None }).collect())
    }

    fn delete(&self, keys: &[String]) -> Vec<Result<()>> {
        self.asked("delete", &keys.join(" "));
        let mut objects = self.objects.lock();
        let remove = |key: &String| {
            objects.remove(key);
            Ok(())
        };
        keys.iter().map(remove).collect()
    }
}

/// A bucket, its service, and the directory in which transfers to it are remembered.
struct Place {
    service: Arc<Service>,
    state: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { service: Arc::default(), state: tempfile::tempdir().unwrap() }
    }

    fn store(&self, purpose: Purpose) -> ObjectStore {
        let state = State::at(self.state.path().join("transfers"));
        let bucket = Bucket::new(Box::new(Arc::clone(&self.service)), purpose, Ok(state));
        ObjectStore { bucket: Arc::new(bucket) }
    }

    fn put(&self, key: &str, content: &[u8]) {
        let about = About { metadata: Metadata::default(), crc64nvme: None, overwrite: Overwrite::Replace };
        self.service.put(key, &bytes::Bytes::copy_from_slice(content), &about).unwrap();
        self.service.requests();
    }
}

fn service_url(text: &str) -> ServiceUrl {
    let crate::endpoint::Location::Service(url) = crate::Endpoint::from(text).resolve().unwrap() else { panic!() };
    url
}

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn publish(store: &ObjectStore, writer: Box<dyn Writer>, overwrite: Overwrite) -> Result<()> {
    let metadata = Metadata { modified_ns: Some(5_000_000_000), mode: None };
    store.publish(vec![Publication { metadata, overwrite, ..Publication::of(writer) }], Fsync::None).remove(0)
}

#[test]
fn an_object_store_keeps_the_contract_of_stores() {
    let places = Mutex::new(Vec::new());
    conformance::check(&|| {
        let place = Place::new();
        let store = place.store(Purpose::Write);
        places.lock().push(place);
        Box::new(store)
    });
}

#[test]
fn a_small_file_costs_one_request_each_way() {
    let place = Place::new();
    for name in ["d/a", "d/b", "d/c"] {
        place.put(name, b"content");
    }
    let store = place.store(Purpose::Read);
    let files: Vec<Entry> = store.list(&path(""), Depth::Tree, Arc::new(|_| false)).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 4);
    place.service.requests();
    for file in &files[1..] {
        let reader = store.open(&file.path).unwrap();
        assert_eq!(reader.read_at(0, &mut [0; 100]).unwrap(), 7);
        assert_eq!(reader.stat().unwrap(), *file);
    }
    assert_eq!(place.service.requests(), ["get d/a", "get d/b", "get d/c"]);
    let writer = store.create(&NewFile { size: 3, ..NewFile::of(path("new")) }).unwrap();
    writer.write_at(0, b"new").unwrap();
    publish(&store, writer, Overwrite::Never).unwrap();
    assert_eq!(place.service.requests(), ["put new"]);
}

#[test]
fn an_object_replaced_since_it_was_listed_is_not_read() {
    let place = Place::new();
    place.put("a", b"old");
    let store = place.store(Purpose::Read);
    let entry = store.stat(&path("a")).unwrap();
    assert_eq!(entry.modified_ns, Some(1_700_000_000_000_000_000));
    place.put("a", b"new");
    let error = store.open(&path("a")).unwrap().read_at(0, &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged);
    assert_eq!(place.service.requests().last().unwrap(), "get a", "it is not asked for again");
}

#[test]
fn an_upload_whose_answer_was_lost_is_found() {
    let place = Place::new();
    let store = place.store(Purpose::Write);
    for (name, size) in [("small", 10), ("large", 10 << 20)] {
        place.service.lost.store(1, Ordering::SeqCst);
        let metadata = Metadata { modified_ns: Some(5_000_000_000), mode: None };
        let writer = store.create(&NewFile { size: size as u64, metadata, ..NewFile::of(path(name)) }).unwrap();
        writer.write_at(0, &vec![1; size]).unwrap();
        publish(&store, writer, Overwrite::Never).unwrap();
    }
    assert!(place.service.uploads.lock().is_empty());
    let taken = store.create(&NewFile { size: 10, ..NewFile::of(path("small")) }).unwrap();
    taken.write_at(0, &[2; 10]).unwrap();
    assert_eq!(publish(&store, taken, Overwrite::Never).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn an_upload_goes_on_in_another_process_and_is_discarded_with_its_key() {
    let place = Place::new();
    let content: Vec<u8> = (0..20u32 << 20).map(|index| (index >> 16).to_le_bytes()[0]).collect();
    let resume = Some(crate::store::Partial { key: "k".to_owned(), number: 3 });
    let file = NewFile { size: content.len() as u64, resume, ..NewFile::of(path("f")) };
    place.store(Purpose::Write).create(&file).unwrap().write_at(0, &content[..9 << 20]).unwrap();
    assert_eq!(place.service.requests(), ["begin f", "part 1"]);
    let store = place.store(Purpose::Write);
    let writer = store.create(&file).unwrap();
    assert_eq!(writer.kept(), std::slice::from_ref(&(0..8 << 20)));
    writer.write_at(8 << 20, &content[8 << 20..]).unwrap();
    publish(&store, writer, Overwrite::Replace).unwrap();
    assert_eq!(place.service.requests(), ["parts f", "part 2", "part 3", "complete f"]);

    let writer = store.create(&file).unwrap();
    writer.write_at(0, &content).unwrap();
    let wrong = Publication { crc64nvme: Some(1), ..Publication::of(writer) };
    store.bucket.patience.interrupt();
    assert!(store.publish(vec![wrong], Fsync::None).remove(0).is_err());
    assert_eq!(place.service.uploads.lock().len(), 1, "what failed for another reason than its bytes stays");
    place.store(Purpose::Write).discard("k").unwrap();
    assert!(place.service.uploads.lock().is_empty());
}

#[test]
fn uploads_that_nobody_completes_are_found_below_their_url_and_removed() {
    let place = Place::new();
    let about = About { metadata: Metadata::default(), crc64nvme: None, overwrite: Overwrite::Replace };
    for key in ["d/a", "d/b", "dd", "d"] {
        place.service.begin(key, &about).unwrap();
    }
    let url = service_url("s3://b/d/");
    let mut uploads = uploads::open(Arc::clone(&place.service), &url).unwrap();
    let items: Vec<_> = uploads.list().unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(items.len(), 3);
    assert!(items.iter().any(|item| item.name.starts_with("mem://b/d/a#")));
    for item in &items {
        uploads.remove(item).unwrap();
        uploads.remove(item).unwrap();
    }
    assert_eq!(place.service.uploads.lock().values().map(|begun| begun.key.clone()).collect::<Vec<_>>(), ["dd"]);
    assert_eq!(place.service.shown.load(Ordering::SeqCst), 3, "each of them is named once, however many there are");
}

#[test]
fn the_path_of_a_url_is_taken_as_it_stands() {
    let based = |text: &str| match crate::Endpoint::from(text).resolve().unwrap() {
        crate::endpoint::Location::Service(url) => base(&url).map(|path| path.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(based("s3://b").unwrap(), "");
    assert_eq!(based("s3://b/a%41/b/").unwrap(), "a%41/b");
    for odd in ["s3://b/a//b", "s3://b//a", "s3://b/a/../b", "s3://b/a//"] {
        assert_eq!(based(odd).unwrap_err().kind(), ErrorKind::InvalidInput, "{odd}");
    }
}
