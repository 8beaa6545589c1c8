//! Commands against a real `edt serve` process on this host.

mod support;

use serde_json::Value;
use support::{World, names};

fn world_with_tree() -> World {
    let world = World::new();
    world.write("src/a.txt", "alpha");
    world.write("src/sub/b.bin", vec![7; 300_000]);
    world.make_directory("root");
    world
}

#[test]
fn a_tree_goes_to_a_server_and_back() {
    let world = world_with_tree();
    let server = world.serve("root");
    let url = &server.url;
    world.edt(&format!("cp src {url}/up")).expect(0);
    assert_eq!(names(&world.path("root/up")), ["a.txt", "sub/b.bin"]);
    world.edt(&format!("cp {url}/up back")).expect(0);
    assert_eq!(names(&world.path("back")), ["a.txt", "sub/b.bin"]);
    assert_eq!(world.read("back/a.txt"), "alpha");
}

#[test]
fn a_pattern_is_expanded_on_the_server() {
    let world = world_with_tree();
    world.write("root/x 1.h5", "1");
    world.write("root/x 2.h5", "2");
    world.write("root/y.txt", "y");
    let server = world.serve("root");
    world.edt(&format!("cp {}/*.h5 dst/", server.url)).expect(0);
    assert_eq!(names(&world.path("dst")), ["x 1.h5", "x 2.h5"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_written_hides_nothing() {
    let world = world_with_tree();
    std::os::unix::fs::symlink("nowhere", world.path("src/dangling")).unwrap();
    let err = world.edt("cp --symlinks follow --report /dev/full src dst").expect(1).err;
    assert!(err.contains("dangling") && err.contains("error: could not write") && err.contains("/dev/full"), "{err}");
    let err = world.edt("cp --report /dev/full src/a.txt b.txt").expect(1).err;
    assert!(err.contains("error: could not write") && world.path("b.txt").exists(), "{err}");
    let err = world.edt("cp --report /dev/full missing dst").expect(4).err;
    assert!(err.contains("could not open the source `missing`") && err.contains("/dev/full"), "{err}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_went_away_does_not_make_files_that_differ_the_same() {
    let world = world_with_tree();
    world.edt("cp --manifest manifest src dst").expect(0);
    for (content, code) in [("alpha", 0), ("other", 1)] {
        world.write("dst/a.txt", content);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = world.command(&["verify", "--json", "manifest", "dst"]).stdout(writer).output().unwrap();
        support::Ended::from(output).expect(code);
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_went_away_keeps_no_log_from_being_imported() {
    let world = World::new();
    for name in ["1", "2"] {
        world.write(name, format!("start_s,files,bytes,concurrency,throughput_bytes_per_s\n{name},1,1,1,1\n"));
    }
    let (_, writer) = std::io::pipe().unwrap();
    support::Ended::from(world.command(&["history", "import", "1", "2"]).stdout(writer).output().unwrap()).expect(0);
    assert_eq!(world.edt("history import 2").expect(0).out, "2 was imported before\n");
}

#[test]
fn a_dry_run_tells_what_of_another_kind_is_in_the_way_as_the_copy_does() {
    let world = world_with_tree();
    let server = world.serve("root");
    for (to, root) in [(format!("{}/to", server.url), "root/to"), ("dst".to_owned(), "dst")] {
        world.write(&format!("{root}/a.txt/inside"), "a directory");
        world.write(&format!("{root}/sub"), "a file");
        for options in ["--dry-run", "--dry-run --sync", "--dry-run --no-overwrite", ""] {
            let ended = world.edt(&format!("cp --json {options} src {to}")).expect(1);
            let report: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
            let mut failed: Vec<_> = report["failures"].as_array().unwrap().iter().map(|item| item["path"].as_str()).collect();
            failed.sort_unstable();
            assert_eq!(failed, ["a.txt", "sub", "sub/b.bin"].map(Some), "{options}: {}", ended.err);
        }
        let ended = world.edt(&format!("cp --dry-run src/a.txt {to}/")).expect(1);
        assert!(ended.err.contains("a directory stands there"), "{}", ended.err);
        let ended = world.edt(&format!("cp --dry-run --sync --delete src {to}")).expect(0);
        assert!(ended.err.contains("dry run: 2 files") && ended.err.contains("1 item would be removed"), "{}", ended.err);
    }
}

#[test]
fn a_directory_that_alone_is_matched_keeps_its_name_and_is_not_mirrored() {
    let world = World::new();
    world.write("root/runs/b/x", "b");
    world.write("dst/a/x", "a");
    let server = world.serve("root");
    for source in [format!("{}/runs/*", server.url), "root/runs/*".to_owned()] {
        let err = world.edt(&format!("cp --sync --delete {source} dst")).expect(2).err;
        assert!(err.starts_with("error: what a pattern matches cannot be mirrored") && err.contains("hint: "), "{err}");
        assert_eq!(names(&world.path("dst")), ["a/x"]);
        world.edt(&format!("cp {source} dst")).expect(0);
        assert_eq!(names(&world.path("dst")), ["a/x", "b/x"]);
        std::fs::remove_dir_all(world.path("dst/b")).unwrap();
    }
    // With a slash at its end a pattern means directories alone.
    world.write("root/runs/loose", "l");
    for source in [format!("{}/runs/*/", server.url), "root/runs/*/".to_owned()] {
        world.edt(&format!("cp {source} only")).expect(0);
        assert_eq!(names(&world.path("only")), ["b/x"]);
        std::fs::remove_dir_all(world.path("only")).unwrap();
    }
    std::fs::remove_file(world.path("root/runs/loose")).unwrap();
    world.edt(&format!("cp root/runs/* {}/up", server.url)).expect(0);
    assert_eq!(names(&world.path("root/up")), ["b/x"]);
    // It would be written over itself.
    world.edt("cp root/runs/* root/runs").expect(2);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_directory_that_alone_is_matched_is_not_mirrored() {
    let world = World::new();
    world.write("root/run/x", "x");
    world.write("dst/a/x", "a");
    std::os::unix::fs::symlink("run", world.path("root/latest")).unwrap();
    let server = world.serve("root");
    for source in [format!("{}/lat*", server.url), "root/lat*".to_owned()] {
        let err = world.edt(&format!("cp --sync --delete {source} dst")).expect(2).err;
        assert!(err.starts_with("error: what a pattern matches cannot be mirrored"), "{err}");
        assert_eq!(names(&world.path("dst")), ["a/x"]);
    }
}

#[test]
fn a_name_with_the_characters_of_a_pattern_wins_where_it_exists() {
    let world = world_with_tree();
    world.write("root/m/a[1].txt", "literal");
    world.write("root/m/a1.txt", "matched");
    world.write("local[1].txt", "l");
    world.make_directory("dst");
    let server = world.serve("root");
    let url = &server.url;
    world.edt(&format!("cp {url}/m/a[1].txt one")).expect(0);
    assert_eq!(world.read("one"), "literal");
    world.edt(&format!("cp {url}/m/a[1].txt {url}/m/a1.txt dst")).expect(0);
    world.edt("cp local[1].txt one dst").expect(0);
    world.edt("cp local[1].txt dst/in/").expect(0);
    assert_eq!(names(&world.path("dst")), ["a1.txt", "a[1].txt", "in/local[1].txt", "local[1].txt", "one"]);
    world.edt(&format!("cp {url}/m/a[12].txt dst/set/")).expect(0);
    assert_eq!(names(&world.path("dst/set")), ["a1.txt"]);
    for command in ["ls", "stat", "rm"] {
        let err = world.edt(&format!("{command} {url}/m/*")).expect(4).err;
        assert!(err.contains(&format!("`edt ls {url}/m/` shows")), "{err}");
    }
}

#[test]
fn a_secret_that_cannot_be_used_is_refused_and_a_file_that_is_not_there_is_a_mistake() {
    let world = world_with_tree();
    let server = world.serve("root");
    world.write("short", "short\n");
    assert!(world.edt(&format!("ls --token-file short {}/", server.url)).expect(3).err.contains("hint: "));
    assert!(world.edt(&format!("ls --token-file nope {}/", server.url)).expect(2).err.contains("`nope`"));
    world.edt("serve --listen 127.0.0.1:0 --token-file short root").expect(3);
    world.edt("serve --listen 127.0.0.1:0 --tls-cert nope --tls-key nope root").expect(2);
}

#[test]
fn an_address_that_cannot_be_used_is_unreachable_and_a_file_cannot_be_served() {
    let world = world_with_tree();
    let server = world.serve("root");
    let address = server.url.trim_start_matches("edt://");
    assert!(world.edt(&format!("serve --listen {address} root")).expect(4).err.contains("hint: "));
    world.edt("serve --listen 192.0.2.1:0 root").expect(4);
    assert!(world.edt("serve src/a.txt").expect(2).err.contains("hint: serve the directory"));
    world.edt("serve nothing").expect(4);
}

#[test]
fn a_server_that_cannot_start_makes_no_secret() {
    let world = world_with_tree();
    let server = world.serve("root");
    let address = server.url.trim_start_matches("edt://");
    let elsewhere = "hint: choose another address or port";
    let mut wrong = vec![
        (format!("--listen {address}"), 4, elsewhere),
        ("--listen no..host:0".to_owned(), 4, elsewhere),
        ("--listen 127.0.0.1:0 --tls-cert nope --tls-key nope".to_owned(), 2, "`nope`"),
    ];
    if cfg!(feature = "flight") {
        wrong.push((format!("--listen 127.0.0.1:0 --flight {address}"), 4, elsewhere));
    }
    for (options, code, told) in wrong {
        let arguments = format!("serve {options} root");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let output = world.command(&arguments).env_remove("EDT_TOKEN").output().unwrap();
        let err = support::Ended::from(output).expect(code).err;
        assert!(err.contains(told), "{err}");
        let kept = names(&world.path(".configuration"));
        assert!(!kept.is_empty() && !kept.iter().any(|name| name.ends_with("token")), "{kept:?}");
    }
}

#[test]
fn a_first_identity_is_said_to_be_pinned_once() {
    let world = world_with_tree();
    let server = world.serve("root");
    let url = server.url.replace("edt://", "edts://");
    let first = world.edt(&format!("ls {url}/")).expect(0).err;
    assert!(first.lines().count() == 1 && first.contains("pinned the identity of") && first.contains("SHA256:"), "{first}");
    assert_eq!(world.edt(&format!("ls {url}/")).expect(0).err, "");
}

#[test]
fn a_transfer_whose_server_goes_away_says_what_arrived_and_how_to_resume() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;

    let world = world_with_tree();
    let server = world.serve("root");
    let to = format!("{}/big", server.url);
    let mut command = world.command(&["cp", "--json", "--limit-rate", "1MB", "zero:1x1GB", &to]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let verified = |line: &String| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["totals"]["bytes_verified"].as_u64().is_some_and(|bytes| bytes > 0)
    };
    lines.find(verified).expect("progress");
    drop(server);
    let last: Value = serde_json::from_str(&lines.last().unwrap()).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{err}");
    assert!(err.contains("the transfer broke off after 0 files and ") && err.contains("5 new attempts"), "{err}");
    assert!(last["hint"].as_str().unwrap().ends_with("run the same command again to resume"), "{last}");
}

#[test]
fn a_wrong_secret_is_refused() {
    let world = world_with_tree();
    let server = world.serve("root");
    world.write("token", "a secret that the server does not have\n");
    for command in [format!("cp --token-file token src {}/up", server.url), format!("ls --token-file token {}/", server.url)] {
        let err = world.edt(&command).expect(3).err;
        assert!(err.contains("hint: "), "{err}");
    }
    assert!(names(&world.path("root")).is_empty());
}

#[test]
fn a_secret_from_a_file_is_accepted() {
    let world = world_with_tree();
    let server = world.serve("root");
    world.write("token", format!("{}\n", support::SECRET));
    let arguments = format!("ls --token-file token {}/", server.url);
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let status = world.command(&arguments).env_remove("EDT_TOKEN").status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_read_only_server_is_read_but_not_written() {
    let world = world_with_tree();
    let server = world.serve("--read-only src");
    let url = &server.url;
    world.edt(&format!("cp {url}/ copy")).expect(0);
    world.edt(&format!("cp copy/a.txt {url}/new")).expect(3);
    world.edt(&format!("rm {url}/a.txt")).expect(3);
    world.edt(&format!("rm {url}/a.txt {url}/sub/b.bin")).expect(3);
    assert_eq!(names(&world.path("src")), ["a.txt", "sub/b.bin"]);
}

#[test]
fn nobody_listening_is_unreachable() {
    let world = world_with_tree();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("edt://{}", free.local_addr().unwrap());
    drop(free);
    world.edt(&format!("cp src {url}/up")).expect(4);
    world.edt(&format!("ls {url}/")).expect(4);
}

#[test]
fn a_listing_tells_names_and_sizes() {
    let world = world_with_tree();
    let server = world.serve("src");
    let url = &server.url;
    let mut short: Vec<String> = world.edt(&format!("ls {url}/")).expect(0).out.lines().map(str::to_owned).collect();
    short.sort();
    assert_eq!(short, ["a.txt", "sub/"]);
    assert!(world.edt(&format!("ls -r {url}/")).expect(0).out.contains("sub/b.bin"));
    let long = world.edt(&format!("ls -l -r {url}/")).expect(0).out;
    assert!(long.lines().any(|line| line.contains(" 300000 ") && line.ends_with(" sub/b.bin")), "{long}");
    let json = world.edt(&format!("ls --json {url}/sub")).expect(0).out;
    let entry: Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(
        (entry["path"].as_str(), entry["kind"].as_str(), entry["size"].as_u64()),
        (Some("b.bin"), Some("file"), Some(300_000))
    );
}

#[test]
fn an_entry_is_described() {
    let world = world_with_tree();
    let server = world.serve("src");
    let url = &server.url;
    let text = world.edt(&format!("stat {url}/a.txt")).expect(0).out;
    assert!(text.contains("kind      file") && text.contains("size      5 bytes"), "{text}");
    let json: Value = serde_json::from_str(&world.edt(&format!("stat --json {url}/sub")).expect(0).out).unwrap();
    assert_eq!(json["kind"], "directory");
    world.edt(&format!("stat {url}/missing")).expect(4);
}

#[test]
fn files_are_removed_one_by_one_and_trees_only_when_asked() {
    let world = world_with_tree();
    let server = world.serve("src");
    let url = &server.url;
    world.edt(&format!("rm {url}/a.txt")).expect(0);
    world.edt(&format!("rm {url}/sub")).expect(1);
    assert_eq!(names(&world.path("src")), ["sub/b.bin"]);
    world.edt(&format!("rm -r {url}/sub {url}/missing")).expect(1);
    assert!(!world.exists("src/sub"));
}

#[test]
fn a_copy_is_verified_against_the_manifest_of_its_transfer() {
    let world = world_with_tree();
    let server = world.serve("root");
    let url = format!("{}/up", server.url);
    world.edt(&format!("cp --manifest manifest src {url}")).expect(0);
    let out = world.edt(&format!("verify manifest {url}")).expect(0).out;
    assert!(out.contains("2 ok, 0 differ, 0 missing, 0 failed"), "{out}");
    world.write("root/up/a.txt", "alphA");
    std::fs::remove_file(world.path("root/up/sub/b.bin")).unwrap();
    let out = world.edt(&format!("verify manifest {url}")).expect(1).out;
    assert!(out.contains("differs: a.txt") && out.contains("missing: sub/b.bin"), "{out}");
    let json = world.edt(&format!("verify --json manifest {url}")).expect(1).out;
    let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!((last["ok"].as_u64(), last["differs"].as_u64(), last["missing"].as_u64()), (Some(0), Some(1), Some(1)));
}

#[test]
fn one_file_that_went_into_a_directory_is_verified_there() {
    let world = world_with_tree();
    world.make_directory("here");
    world.make_directory("root/up");
    let server = world.serve("root");
    let up = format!("{}/up", server.url);
    for (source, into) in [("src/a.txt", "here"), ("src/a.txt", up.as_str()), (&format!("{up}/a.txt"), "new/")] {
        let told = world.edt(&format!("cp --json --manifest manifest {source} {into}")).expect(0).out;
        assert!(told.contains(r#""event":"file_done","path":"a.txt""#), "{told}");
        let out = world.edt(&format!("verify manifest {into}")).expect(0).out;
        assert!(out.contains("1 ok"), "{out}");
    }
    world.edt("cp --manifest manifest src/a.txt another").expect(0);
    assert!(world.edt("verify manifest another").expect(0).out.contains("1 ok"));
}

#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_stop_ends_well() {
    use rustix::process::{Pid, Signal, kill_process};

    let world = world_with_tree();
    let mut server = world.serve("root");
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_new_secret_is_shown_once_with_the_command_that_uses_it() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;

    let world = world_with_tree();
    let start = || {
        let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "root"]);
        let mut child = command.env_remove("EDT_TOKEN").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    };
    let (first, second) = (start(), start());
    let shown = first.split("EDT_TOKEN=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(shown.len() >= 16 && shown != "...", "{first}");
    assert!(!second.contains(shown), "{second}");
}
