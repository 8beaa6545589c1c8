use super::*;

#[cfg(unix)]
#[test]
fn a_path_that_is_not_utf_8_is_a_url_of_its_bytes_and_a_url_is_nothing_else() {
    let of = |bytes: &[u8]| Endpoint::from_argument(std::os::unix::ffi::OsStrExt::from_bytes(bytes));
    for (written, directory) in [(&b"/a b/100%/\xff"[..], false), (b"/*?#\xfe/", true), (b"/x/./y://\xff", false)] {
        let path = PathBuf::from(local_name(written.to_vec()).unwrap());
        assert_eq!(of(written).unwrap().resolve().unwrap(), Location::Local { path, directory });
    }
    let text = |bytes: &[u8]| of(bytes).unwrap().as_str().to_owned();
    assert_eq!(text(b"/a b/100%/\xff"), "file:///a%20b/100%25/%FF");
    assert!(text(b"c\xff").starts_with("file:///") && text("ü".as_bytes()) == "ü");
    let error = of(b"s3://b/\xff").unwrap_err().explain();
    assert!(error.contains("a URL holds nothing but UTF-8"), "{error}");
}

#[test]
fn a_url_names_host_port_and_path() {
    let Location::Remote(remote) = Endpoint::from("edt://[::1]:9000/a%20b/").resolve().unwrap() else { panic!() };
    assert_eq!((remote.host.as_str(), remote.port, remote.path.as_str()), ("::1", 9000, "a b"));
    assert!(remote.directory && !remote.tls);
}

#[test]
fn a_text_without_scheme_is_a_path() {
    assert!(Endpoint::from("a/b:c").is_local());
    assert!(Endpoint::from("file:///tmp/x").is_local());
    assert!(!Endpoint::from("file://host/x").is_local());
}

#[test]
fn memory_has_as_many_files_as_it_is_asked_for() {
    for (text, count, size) in [("zero:", 0, 0), ("zero:5", 1, 5), ("zero:4x1GiB", 4, 1 << 30)] {
        assert_eq!(Endpoint::from(text).resolve().unwrap(), Location::Zero { count, size });
    }
}

#[test]
fn a_service_keeps_keys_as_written_and_decodes_paths() {
    let Location::Service(s3) = Endpoint::from("s3://bucket/a%20b?c").resolve().unwrap() else { panic!() };
    assert_eq!((s3.host.as_str(), s3.path.as_str(), s3.query, s3.directory), ("bucket", "a%20b?c", None, false));
    let Location::Service(http) = Endpoint::from("https://h:81/a%20b/?c=%2F").resolve().unwrap() else { panic!() };
    assert_eq!((http.port, http.path.as_str(), http.query.as_deref()), (Some(81), "a b/", Some("c=%2F")));
    let Location::Service(sftp) = Endpoint::from("sftp://me@[::1]:22//x").resolve().unwrap() else { panic!() };
    assert_eq!((sftp.user.as_deref(), sftp.path.as_str()), (Some("me"), "/x"));
    assert_eq!(sftp.place(), "sftp://me@[::1]:22");
}

#[test]
fn an_error_shows_no_password() {
    for url in [
        "ftp://me:hunter2@h/a",
        "edt://me:hunter2@h/a",
        "what://me:hunter2@h/a",
        "https://me:hun/ter2@h/a",
        "edt://me:hun/ter2:hunter2@h/a",
        "webdavs://me@x.org:hun/ter2@h/a",
        "https://me:h@un/ter2@h/a",
        "https://me@h:0/a?sig=hunter2",
        "https://me:hun?ter2@h/a",
        "https://me@x.org:hun?ter2@h/a",
        "s3://me:hunter2@bucket/a",
    ] {
        let error = Endpoint::from(url).resolve().unwrap_err().explain();
        assert!(!error.contains("ter2") && error.contains("me"), "{error}");
    }
    for (url, shown) in
        [("s3://me:hun/ter2@bucket/a", "s3://me:...@bucket/a"), ("s3://arn:hunter2@bucket/a", "s3://arn:...@bucket/a")]
    {
        assert_eq!(Endpoint::from(url).to_string(), shown);
    }
}

#[test]
fn what_holds_no_password_is_shown_as_it_was_written() {
    for text in [
        "https://h:81/a@b",
        "https://[::1]:81/a:b@c",
        "https://h?x=a:b@c",
        "https://me@h:81?x=a:b/c@d",
        "edt://h/a:b@c",
        "ftp://me@h/a:b@c",
        "s3://arn:aws:s3:eu-north-1:1:accesspoint:p/a@b",
        "a b/c://d:e@f",
        "https_logs/a?key=b",
    ] {
        assert!(Endpoint::from(text).resolve().is_ok(), "{text}");
        assert_eq!(Endpoint::from(text).to_string(), text);
    }
}

#[test]
fn a_query_right_behind_the_host_is_none_of_its_name() {
    for url in ["https://h?x=1/2&sig=hunter2", "https://h/?x=1/2&sig=hunter2"] {
        let Location::Service(http) = Endpoint::from(url).resolve().unwrap() else { panic!() };
        assert_eq!((http.place().as_str(), http.path.as_str(), http.directory), ("https://h", "", true));
        assert_eq!(http.query.as_deref(), Some("x=1/2&sig=hunter2"));
    }
    let Location::Service(s3) = Endpoint::from("s3://b/a?x=1/2").resolve().unwrap() else { panic!() };
    assert_eq!((s3.path.as_str(), s3.query), ("a?x=1/2", None));
}

#[test]
fn a_signature_is_not_shown() {
    let shown = |url: &str| Endpoint::from(url).to_string();
    assert_eq!(shown("https://h/a?x=1&X-Amz-Signature=abc"), "https://h/a?x=1&X-Amz-Signature=...");
    assert_eq!(shown("HTTPS://h/a?sig=abc"), "HTTPS://h/a?sig=...");
    assert_eq!(shown("s3://b/a?sig=abc"), "s3://b/a?sig=abc");
}

#[test]
fn unknown_schemes_and_broken_urls_are_refused() {
    for bad in [
        "gopher://x/y",
        "edt://",
        "edt://host:0/",
        "edt://host:99999/",
        "edt://user@host/",
        "edt://h/%zz",
        "edt://h/%+5",
        "edt://h/%5",
        "",
        "zero:x",
    ] {
        assert!(Endpoint::from(bad).resolve().is_err(), "{bad} passed");
    }
}

#[test]
fn sizes_have_units() {
    assert_eq!(parse_size("4MiB"), Some(4 << 20));
    assert_eq!(parse_size("1.5G"), Some(1_500_000_000));
    assert_eq!(parse_size("x"), None);
}
