//! A slash at the end of a URL, where an object has the name that the keys of others begin with.

use super::*;

/// A service with an object beside what is below its name.
fn twofold() -> Place {
    let place = Place::new();
    place.put("data", b"object");
    place.put("data/a", b"below");
    place
}

fn opened(place: &Place, url: &str) -> Opened {
    open(Arc::clone(&place.service), &service_url(url), Purpose::Read).unwrap()
}

fn kind(place: &Place, url: &str) -> Result<EntryKind> {
    let Opened { store, base } = opened(place, url);
    store.stat(&base).map(|entry| entry.kind)
}

fn remove(place: &Place, url: &str, depth: Depth) -> Result<()> {
    let Opened { store, base } = opened(place, url);
    store.remove(&base, depth)
}

fn keys(place: &Place) -> Vec<String> {
    place.service.objects.lock().keys().cloned().collect()
}

#[test]
fn with_a_slash_what_is_below_is_meant_and_the_object_if_nothing_is() {
    let place = twofold();
    assert_eq!(kind(&place, "s3://b/data").unwrap(), EntryKind::File);
    assert_eq!(kind(&place, "s3://b/data/").unwrap(), EntryKind::Directory);
    place.service.objects.lock().remove("data/a");
    assert_eq!(kind(&place, "s3://b/data/").unwrap(), EntryKind::File);
    place.service.requests();
    assert_eq!(kind(&place, "s3://b/none/").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(place.service.requests(), ["page none/", "head none"]);
}

#[test]
fn with_a_slash_what_is_below_is_removed_and_the_object_stays() {
    let place = twofold();
    assert_eq!(remove(&place, "s3://b/data/", Depth::One).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(keys(&place), ["data", "data/a"]);
    remove(&place, "s3://b/data/", Depth::Tree).unwrap();
    assert_eq!(keys(&place), ["data"]);
}

#[test]
fn with_a_slash_the_object_is_never_removed() {
    let place = Place::new();
    place.put("data", b"object");
    for depth in [Depth::One, Depth::Tree] {
        let error = remove(&place, "s3://b/data/", depth).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.what().ends_with("b/data/`") && error.hint().is_some_and(|hint| hint.contains("slash")), "{error}");
    }
    assert_eq!(keys(&place), ["data"]);
}

#[test]
fn without_a_slash_all_of_a_name_is_removed() {
    let place = twofold();
    remove(&place, "s3://b/data", Depth::Tree).unwrap();
    assert!(keys(&place).is_empty());
}
