//! Optimizers and the wire codec are pure: time and randomness reach them as arguments only.

use std::fs;
use std::path::{Path, PathBuf};

const FORBIDDEN: [&str; 12] = [
    "std::net",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "time::Instant",
    "Instant::now",
    "SystemTime",
    "tokio",
    "socket2",
    "rustix",
    "libc::",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is part of the crate") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn impurities(text: &str) -> Vec<&'static str> {
    FORBIDDEN.into_iter().filter(|word| text.contains(word)).collect()
}

#[test]
fn optimizers_and_codec_touch_no_socket_file_thread_or_clock() {
    for folder in ["src/optimizer", "src/protocol"] {
        let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
        assert!(files.len() >= 4, "{folder} has only {} files", files.len());
        for file in files {
            let found = impurities(&fs::read_to_string(&file).unwrap());
            assert!(found.is_empty(), "{} uses {found:?}", file.display());
        }
    }
}

#[test]
fn the_search_finds_what_it_looks_for() {
    assert_eq!(impurities("use std::time::Duration;\nlet now = Instant::now();"), ["Instant::now"]);
    assert_eq!(impurities("use std::net::TcpStream;"), ["std::net"]);
}
