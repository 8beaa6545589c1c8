use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::endpoint::{Endpoint, Location};

fn ftp(url: &str) -> Ftp {
    let Location::Service(url) = Endpoint::from(url).resolve().unwrap() else { panic!() };
    Ftp::open(&url).unwrap()
}

#[test]
fn a_list_with_a_line_of_another_form_is_no_list() {
    let ftp = ftp("ftp://me@localhost/");
    let root = RelativePath::root();
    let known = ["total 8", "drwxr-xr-x 2 me me 4096 Nov 05 2018 .", "-rw-r--r-- 1 me me 5 Nov 05 2018 a"];
    let mut lines = Vec::from(known.map(str::to_owned));
    let told = ftp.told(&root, &lines, facts::of_list_line).unwrap();
    assert_eq!(told.iter().map(|(path, _)| path.as_bytes()).collect::<Vec<_>>(), [b"a"]);
    lines.push("-rw-r--r-- 1 me me 5 5. Nov 2018 b".to_owned());
    let error = ftp.told(&root, &lines, facts::of_list_line).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.cause().is_some_and(|cause| cause.contains("5. Nov 2018 b")), "{error}");
}

/// Answers on a control connection: with `lines` to what lists, and as `other` says to what not every server knows.
fn serve(mut control: &TcpStream, lines: &str, other: fn(&str) -> &'static str) {
    let data = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = data.local_addr().unwrap().port();
    control.write_all(b"220 ready\r\n").unwrap();
    for line in BufReader::new(control).lines().map_while(io::Result::ok) {
        let answer = match line.split(' ').next().unwrap_or_default() {
            "USER" => "331 and the password".to_owned(),
            "PASS" => "230 welcome".to_owned(),
            "PWD" => "257 \"/\"".to_owned(),
            "TYPE" => "200 binary".to_owned(),
            "PASV" => format!("227 it is (127,0,0,1,{},{})", port / 256, port % 256),
            "LIST" | "MLSD" => {
                control.write_all(b"150 here it comes\r\n").unwrap();
                data.accept().unwrap().0.write_all(lines.as_bytes()).unwrap();
                "226 that was it".to_owned()
            }
            _ => other(&line).to_owned(),
        };
        if control.write_all(format!("{answer}\r\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// A server that answers like this on all connections.
fn served(lines: &'static str, other: fn(&str) -> &'static str) -> Ftp {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ftp = ftp(&format!("ftp://me@{}/", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for control in listener.incoming() {
            std::thread::spawn(move || serve(&control.unwrap(), lines, other));
        }
    });
    ftp
}

#[test]
fn a_file_is_listed_as_it_is_described_also_where_neither_has_a_time() {
    let ftp = served("-rw-r--r-- 1 me me 5 Nov 05 2018 a\r\n", |line| match line.split(' ').next() {
        Some("SIZE") => "213 5",
        _ => "502 unknown",
    });
    let listed = ftp.children(&RelativePath::root()).unwrap();
    let described = ftp.stat(&RelativePath::from_user("a").unwrap()).unwrap();
    assert_eq!((described.size, described.modified_ns), (5, None));
    assert_eq!(listed, [described]);
}

#[test]
fn a_size_that_is_not_listed_is_asked_for_and_a_file_without_one_leaves_the_others_alone() {
    let lines = "type=file;size=5; a\r\ntype=file;modify=20090213233130; b\r\ntype=file; c\r\n";
    let ftp = served(lines, |line| match line.split_at_checked(4) {
        Some(("FEAT", _)) => "211-It knows\r\n MLST type*;modify*;\r\n211 End",
        Some(("MLST", path)) if path.ends_with('b') => "250-It is\r\n type=file;modify=20090213233130; b\r\n250 End",
        Some(("SIZE", path)) if path.ends_with('b') => "213 7",
        _ => "550 no",
    });
    let listed = ftp.children(&RelativePath::root()).unwrap();
    let told: Vec<_> = listed.iter().map(|entry| (entry.path.to_string(), entry.kind.clone(), entry.size)).collect();
    let expected = [("a", EntryKind::File, 5), ("b", EntryKind::File, 7), ("c", EntryKind::Other, 0)];
    assert_eq!(told, expected.map(|(name, kind, size)| (name.to_owned(), kind, size)));
    assert_eq!(ftp.stat(&listed[1].path).unwrap(), listed[1]);
    let trouble = ftp.trouble(&listed[2].path).unwrap();
    assert!(trouble.what().ends_with("/c`") && trouble.hint().is_some(), "{trouble}");
    assert!(ftp.trouble(&listed[1].path).is_none());
}
