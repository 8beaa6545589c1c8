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
    let entries = ftp.entries(&root, &lines, facts::of_list_line).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.path.as_bytes()).collect::<Vec<_>>(), [b"a"]);
    lines.push("-rw-r--r-- 1 me me 5 5. Nov 2018 b".to_owned());
    let error = ftp.entries(&root, &lines, facts::of_list_line).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.cause().is_some_and(|cause| cause.contains("5. Nov 2018 b")), "{error}");
}

/// Answers on a control connection as a server that knows neither MLST nor MDTM and has one file.
fn serve(mut control: &TcpStream) {
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
            "LIST" => {
                control.write_all(b"150 here it comes\r\n").unwrap();
                data.accept().unwrap().0.write_all(b"-rw-r--r-- 1 me me 5 Nov 05 2018 a\r\n").unwrap();
                "226 that was it".to_owned()
            }
            "SIZE" => "213 5".to_owned(),
            _ => "502 unknown".to_owned(),
        };
        if control.write_all(format!("{answer}\r\n").as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_file_is_listed_as_it_is_described_also_where_neither_has_a_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ftp = ftp(&format!("ftp://me@{}/", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for control in listener.incoming() {
            std::thread::spawn(move || serve(&control.unwrap()));
        }
    });
    let listed = ftp.children(&RelativePath::root()).unwrap();
    let described = ftp.stat(&RelativePath::from_user("a").unwrap()).unwrap();
    assert_eq!((described.size, described.modified_ns), (5, None));
    assert_eq!(listed, [described]);
}
