//! `edt cp` between directories of this host: what is copied, what is told, and how it ends.

mod support;

use serde_json::Value;
use support::{World, names};

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

fn world_with_tree() -> World {
    let world = World::new();
    world.write("src/a.txt", "alpha");
    world.write("src/sub/b.bin", vec![7; 300_000]);
    world.write("src/sub/empty", "");
    world
}

const TREE: [&str; 3] = ["a.txt", "sub/b.bin", "sub/empty"];

#[test]
fn a_file_is_copied_to_a_file() {
    let world = World::new();
    world.write("a", "content");
    let ended = world.edt("cp a b").expect(0);
    assert_eq!(world.read("b"), "content");
    assert!(ended.out.is_empty(), "{}", ended.out);
    assert!(ended.err.contains("1 file, 7 B"), "{}", ended.err);
}

#[test]
fn a_tree_is_copied_into_a_directory() {
    let world = world_with_tree();
    world.edt("cp src dst").expect(0);
    assert_eq!(names(&world.path("dst")), TREE);
    assert_eq!(std::fs::read(world.path("dst/sub/b.bin")).unwrap(), vec![7; 300_000]);
}

#[test]
fn several_sources_keep_their_names() {
    let world = world_with_tree();
    world.write("other", "o");
    world.edt("cp src other dst/").expect(0);
    assert_eq!(names(&world.path("dst")), ["other", "src/a.txt", "src/sub/b.bin", "src/sub/empty"]);
    // One that holds another too.
    world.edt("cp src/a.txt src both/").expect(0);
    assert_eq!(names(&world.path("both")), ["a.txt", "src/a.txt", "src/sub/b.bin", "src/sub/empty"]);
}

#[test]
fn sources_of_one_name_are_refused_before_anything_is_copied() {
    let world = World::new();
    world.write("one/name", "1");
    world.write("two/name", "2");
    let err = world.edt("cp one/name two/name dst/").expect(2).err;
    assert!(err.contains("`one/name`") && err.contains("`two/name`") && err.contains("hint: "), "{err}");
    world.edt("cp */name dst/").expect(2);
    assert!(!world.exists("dst"));
}

#[test]
fn a_destination_in_the_source_and_a_mirror_over_it_are_refused() {
    let world = world_with_tree();
    for arguments in ["src src", "src src/sub/new", "src/a.txt src", "--sync --delete src/sub src", "--sync --delete src ."] {
        let err = world.edt(&format!("cp {arguments}")).expect(2).err;
        assert!(err.contains("hint: "), "{err}");
    }
    assert_eq!(names(&world.path("src")), TREE);
    world.edt("cp src/sub src").expect(0);
    assert_eq!(names(&world.path("src")), ["a.txt", "b.bin", "empty", "sub/b.bin", "sub/empty"]);
}

#[test]
fn a_destination_below_a_file_is_refused_as_a_whole() {
    let world = world_with_tree();
    world.write("file", "f");
    let err = world.edt("cp src file/below").expect(1).err;
    assert!(err.starts_with("error: could not write to `file/below`") && err.contains("hint: "), "{err}");
}

#[cfg(unix)]
#[test]
fn a_destination_that_nobody_lets_us_write_is_refused_as_a_whole() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::process::CommandExt as _;

    let world = world_with_tree();
    world.make_directory("ro");
    let allow = |name: &str, mode| std::fs::set_permissions(world.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    allow("ro", 0o555);
    let superuser = rustix::process::geteuid().is_root();
    if superuser {
        // Modes do not keep the superuser from anything.
        chown(world.path(""), Some(65_534), None).unwrap();
    }
    for arguments in [["src/a.txt", "ro/"], ["src/a.txt", "ro/new"], ["src", "ro"], ["src", "ro/new/deep"]] {
        let mut command = world.command(&["cp", arguments[0], arguments[1]]);
        if superuser {
            command.uid(65_534);
        }
        let ended: support::Ended = command.output().unwrap().into();
        let err = ended.expect(3).err;
        assert!(err.starts_with(&format!("error: could not write to `{}`", arguments[1])), "{err}");
    }
    allow("ro", 0o755);
}

#[test]
fn patterns_that_match_nothing_are_said_to() {
    let world = world_with_tree();
    for arguments in ["--include *.none src dst", "--dry-run --include *.none src dst"] {
        let err = world.edt(&format!("cp {arguments}")).expect(0).err;
        assert!(err.contains("hint: no file matches --include"), "{err}");
    }
}

#[test]
fn a_rate_limit_that_is_reached_is_what_limited() {
    let err = World::new().edt("cp --limit-rate 4MB zero:1x12MB null:").expect(0).err;
    assert!(err.contains("limited by: --limit-rate") && !err.contains("storage"), "{err}");
    assert!(err.contains("how it went: held to --limit-rate; "), "{err}");
}

#[cfg(unix)]
#[test]
fn a_link_at_the_destination_is_replaced_and_one_to_a_directory_is_entered() {
    let world = world_with_tree();
    world.write("kept", "k");
    world.make_directory("directory");
    std::os::unix::fs::symlink("kept", world.path("link")).unwrap();
    std::os::unix::fs::symlink("directory", world.path("way")).unwrap();
    world.edt("cp src/a.txt link").expect(0);
    world.edt("cp src/a.txt way").expect(0);
    assert_eq!((world.read("kept").as_str(), world.read("link").as_str()), ("k", "alpha"));
    assert_eq!(names(&world.path("directory")), ["a.txt"]);
}

#[test]
fn a_quoted_pattern_is_expanded() {
    let world = World::new();
    for name in ["in/a.h5", "in/b.h5", "in/c.txt", "in/deep/d.h5"] {
        world.write(name, name);
    }
    world.edt("cp in/*.h5 dst/").expect(0);
    assert_eq!(names(&world.path("dst")), ["a.h5", "b.h5"]);
    let err = world.edt("cp in/*.nc dst/").expect(4).err;
    assert!(err.contains("`in/*.nc`") && err.contains("hint: "), "{err}");
}

#[test]
fn filters_see_each_match_of_a_pattern_as_a_source_whoever_expands_it() {
    let world = world_with_tree();
    // What has braces alone is expanded by the core, as all patterns of other callers are.
    for (pattern, into) in [("src/*", "one"), ("src/{a.txt,sub}", "two")] {
        world.edt(&format!("cp --exclude /a.txt --exclude sub --exclude /empty {pattern} {into}")).expect(0);
        assert_eq!(names(&world.path(into)), ["sub/b.bin"]);
    }
}

#[test]
fn a_dry_run_names_the_files_and_changes_nothing() {
    let world = world_with_tree();
    let ended = world.edt("cp --dry-run src dst").expect(0);
    assert!(!world.exists("dst"));
    for name in TREE {
        assert!(ended.out.contains(name), "{name} is missing in\n{}", ended.out);
    }
    assert!(ended.err.contains("dry run: 3 files"), "{}", ended.err);
}

#[test]
fn a_dry_run_of_a_mirror_counts_what_it_would_remove() {
    let world = world_with_tree();
    let ended = world.edt("cp --dry-run --sync --delete src dst").expect(0);
    assert!(ended.err.contains("dry run: 3 files"), "{}", ended.err);
    world.edt("cp src dst").expect(0);
    world.write("dst/surplus.txt", "x");
    let ended = world.edt("cp --dry-run --sync --delete src dst").expect(0);
    assert!(ended.err.contains("0 files") && ended.err.contains("1 item would be removed"), "{}", ended.err);
    assert!(world.exists("dst/surplus.txt"));
}

#[test]
fn a_chunk_size_of_any_number_of_bytes_is_usable() {
    let world = World::new();
    world.write("src.bin", vec![7; 3_000_000]);
    let server = world.serve(".");
    world.edt(&format!("cp --chunk-size 300001 src.bin {}/copy.bin", server.url)).expect(0);
    assert_eq!(std::fs::read(world.path("copy.bin")).unwrap(), vec![7; 3_000_000]);
}

#[test]
fn json_events_end_with_the_report() {
    let world = world_with_tree();
    let ended = world.edt("cp --json src dst").expect(0);
    let lines = json_lines(&ended.out);
    let (report, events) = lines.split_last().unwrap();
    assert_eq!((report["event"].as_str(), report["totals"]["files_done"].as_u64()), (Some("report"), Some(3)));
    assert!(events.iter().all(|event| event["event"].is_string()));
    assert!(events.iter().any(|event| event["event"] == "planned"));
    let tuned: Vec<_> = events.iter().filter(|event| event["event"] == "tuned").collect();
    let says_why = |event: &&Value| event["decision"]["reason"].as_str().is_some_and(|reason| !reason.is_empty());
    assert!(!tuned.is_empty() && tuned.iter().all(says_why), "{tuned:?}");
    assert_eq!(events.last().unwrap()["event"], "finished");
}

#[test]
fn a_transfer_that_cannot_start_ends_its_json_with_the_failure() {
    let lines = json_lines(&World::new().edt("cp --json missing dst").expect(4).out);
    let last = lines.last().unwrap();
    assert_eq!((last["event"].as_str(), last["kind"].as_str()), (Some("failed"), Some("not-found")));
}

#[test]
fn the_report_is_written_to_a_file() {
    let world = world_with_tree();
    world.edt("cp --report report.json src dst").expect(0);
    let report: Value = serde_json::from_str(&world.read("report.json")).unwrap();
    assert_eq!(report["totals"]["files_done"], 3);
}

#[test]
fn quiet_says_nothing_at_success() {
    let world = world_with_tree();
    let ended = world.edt("cp --quiet src dst").expect(0);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
}

#[test]
fn verbose_names_each_file() {
    let world = world_with_tree();
    let err = world.edt("cp --verbose src dst").expect(0).err;
    for name in TREE {
        assert!(err.contains(name), "{name} is missing in\n{err}");
    }
}

#[cfg(unix)]
#[test]
fn one_bad_file_is_listed_and_the_others_arrive() {
    let world = world_with_tree();
    std::os::unix::fs::symlink("nowhere", world.path("src/dangling")).unwrap();
    let err = world.edt("cp --symlinks follow src dst").expect(1).err;
    assert!(err.contains("failed: ") && err.contains("dangling"), "{err}");
    assert_eq!(names(&world.path("dst")), TREE);
}

#[test]
fn a_missing_source_is_unreachable() {
    let world = World::new();
    let err = world.edt("cp missing dst").expect(4).err;
    assert!(err.contains("missing") && err.contains("hint: "), "{err}");
    assert!(!world.exists("dst"));
}

#[test]
fn patterns_choose_files() {
    let world = world_with_tree();
    world.edt("cp --include *.txt src only").expect(0);
    assert_eq!(names(&world.path("only")), ["a.txt"]);
    world.edt("cp --exclude sub src without").expect(0);
    assert_eq!(names(&world.path("without")), ["a.txt"]);
}

#[test]
fn sync_sends_what_changed_and_delete_removes_the_rest() {
    let world = world_with_tree();
    world.edt("cp src dst").expect(0);
    world.write("src/a.txt", "alpha, longer");
    world.write("dst/stale", "old");
    let lines = json_lines(&world.edt("cp --sync --json src dst").expect(0).out);
    let totals = &lines.last().unwrap()["totals"];
    assert_eq!((totals["files_done"].as_u64(), totals["files_skipped"].as_u64()), (Some(1), Some(2)));
    assert!(world.exists("dst/stale"));
    world.edt("cp --sync --delete src dst").expect(0);
    assert_eq!(names(&world.path("dst")), TREE);
    assert_eq!(world.read("dst/a.txt"), "alpha, longer");
}

#[test]
fn without_overwrite_a_file_that_stands_there_fails_and_stays() {
    let world = world_with_tree();
    world.write("dst/a.txt", "mine");
    let dry = world.edt("cp --no-overwrite --dry-run src dst").expect(1);
    assert!(dry.err.contains("`a.txt`: the name is taken") && dry.err.contains("dry run: 2 files"), "{}", dry.err);
    assert!(!dry.out.contains("a.txt") && dry.out.contains("b.bin") && !world.exists("dst/sub"), "{}", dry.out);
    world.edt("cp --no-overwrite src dst").expect(1);
    assert_eq!(world.read("dst/a.txt"), "mine");
    assert!(world.exists("dst/sub/b.bin"));
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_kept_followed_or_skipped() {
    let world = World::new();
    world.write("src/file", "f");
    std::os::unix::fs::symlink("file", world.path("src/link")).unwrap();
    for how in ["keep", "follow", "skip"] {
        world.edt(&format!("cp --symlinks {how} src {how}")).expect(0);
    }
    assert_eq!(std::fs::read_link(world.path("keep/link")).unwrap().to_str(), Some("file"));
    assert!(world.path("follow/link").symlink_metadata().unwrap().is_file());
    assert!(!world.exists("skip/link"));
}

#[test]
fn memory_is_a_source_and_nothing_a_destination() {
    World::new().edt("cp --concurrency 2 zero:4x1MiB null:").expect(0);
}

#[cfg(unix)]
#[test]
fn an_interrupted_copy_says_how_to_resume() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;

    let world = World::new();
    let mut command = world.command(&["cp", "--json", "--limit-rate", "1MB", "zero:1x1GB", "dst/"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().expect("an event once the transfer runs").unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let last = lines.map(Result::unwrap).last().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{err}");
    assert!(err.contains("interrupted: run the same command again to resume"), "{err}");
    assert_eq!(json_lines(&last)[0]["kind"], "cancelled");
}

#[test]
fn a_dry_run_leaves_the_manifest_of_a_copy_as_it_is() {
    let world = world_with_tree();
    world.edt("cp --manifest manifest src dst").expect(0);
    let before = world.read("manifest");
    for options in ["--dry-run", "--dry-run --sync", "--dry-run --json"] {
        let err = world.edt(&format!("cp {options} --manifest manifest src dst")).expect(0).err;
        assert!(err.contains("a dry run writes no manifest: `manifest`"), "{err}");
        assert_eq!(world.read("manifest"), before);
    }
    world.edt("cp --dry-run --manifest new src dst").expect(0);
    assert!(!world.exists("new"));
}

#[cfg(unix)]
#[test]
fn a_manifest_goes_into_a_pipe_too() {
    let world = world_with_tree();
    let lines = json_lines(&world.edt("cp -q --manifest /dev/stdout src dst").expect(0).out);
    assert_eq!((lines.len(), lines[2]["files"].as_u64()), (3, Some(3)));
}

#[test]
fn an_empty_manifest_verifies_nothing() {
    let world = world_with_tree();
    world.write("empty", "");
    let err = world.edt("verify empty src").expect(2).err;
    assert!(err.contains("the manifest is empty") && err.contains("hint: "), "{err}");
    world.make_directory("none");
    world.edt("cp --manifest manifest none dst").expect(0);
    let ended = world.edt("verify manifest dst").expect(0);
    assert!(ended.out.starts_with("0 ok") && ended.err.is_empty(), "{}", ended.err);
}

#[test]
fn a_manifest_that_may_be_cut_is_said_to_be() {
    let world = world_with_tree();
    world.edt("cp --manifest manifest src dst").expect(0);
    let text = world.read("manifest");
    world.write("cut", text.split_inclusive('\n').take(2).collect::<String>());
    let err = world.edt("verify cut dst").expect(0).err;
    assert!(err.contains("or it was cut"), "{err}");
    assert!(world.edt("verify manifest dst").expect(0).err.is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn output_for_which_there_is_no_room_is_a_failure_that_names_it() {
    let world = world_with_tree();
    world.edt("cp --manifest manifest src dst").expect(0);
    for arguments in ["cp --dry-run src new", "cp --json src new", "ls src", "stat src", "verify manifest dst", "history list"] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = world.command(&arguments).stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let ended: support::Ended = output.wait_with_output().unwrap().into();
        let err = ended.expect(1).err;
        assert!(err.contains("error: could not write to standard output: "), "{arguments:?}: {err}");
    }
    assert_eq!(names(&world.path("new")), TREE);
}
