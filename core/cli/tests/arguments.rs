//! What the program answers before it moves a byte: help, usage errors, completions, man pages, doctor.

mod support;

use support::World;

const COMMANDS: [&str; 11] = ["cp", "serve", "ls", "stat", "rm", "verify", "history", "jobs", "doctor", "completions", "man"];

/// What a user may set.
const VARIABLES: [&str; 16] = [
    "EDT_TOKEN",
    "EDT_CONFIG_DIR",
    "EDT_HISTORY,",
    "EDT_HISTORY_DAYS",
    "EDT_DATA_DIR",
    "EDT_HOST_STREAMS",
    "EDT_SERVER_STREAMS",
    "EDT_HOST_MEMORY",
    "EDT_HOST_RATE",
    "EDT_BROKER,",
    "EDT_BROKER_DIR",
    "EDT_HTTP_TOKEN",
    "EDT_HTTP_TPC",
    "EDT_SSH",
    "EDT_PYTHON",
    "EDT_LOG",
];

#[test]
fn help_of_the_program_lists_commands_and_exit_codes() {
    let help = World::new().edt("help").expect(0).out;
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is missing in\n{help}");
    }
    assert!(help.starts_with("Moves trees of files"), "{help}");
    for text in ["Exit codes:", "130  interrupted", "EDT_TOKEN", "EDT_LOG"] {
        assert!(help.contains(text), "{text} is missing in\n{help}");
    }
    assert_eq!(help.contains("\n  flight://"), cfg!(feature = "flight"), "{help}");
}

#[test]
fn help_of_the_program_names_every_variable_that_it_heeds() {
    let help = World::new().edt("help").expect(0).out;
    for variable in VARIABLES {
        assert!(help.contains(&format!(" {variable}")), "{variable} is missing in\n{help}");
    }
}

#[test]
fn every_command_has_help_on_both_ways() {
    let world = World::new();
    for command in COMMANDS {
        let help = world.edt(&format!("{command} --help")).expect(0).out;
        assert!(help.contains(&format!("Usage: edt {command}")), "{help}");
        assert!(!world.edt(&format!("help {command}")).expect(0).out.is_empty());
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(World::new().edt("--version").expect(0).out.trim(), concat!("edt ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_cannot_be_used_is_a_usage_error() {
    let world = World::new();
    world.write("src", "x");
    for wrong in [
        "",
        "fly",
        "cp",
        "cp src",
        "cp --optimizer magic src dst",
        "cp --limit-rate fast src dst",
        "cp --limit-rate 0 src dst",
        "cp --max-streams 0 src dst",
        "cp --chunk-size 1 src dst",
        "cp --interval 0.001 src dst",
        "cp --delete src dst",
        "cp --quiet --verbose src dst",
        "cp --concurrency 4 --optimizer falcon src dst",
        "cp --token secret src dst",
        "cp --symlinks maybe src dst",
        "cp src gopher://host/dst",
        "serve --tls-cert cert.pem .",
        "serve --max-sessions 0 .",
        "ls",
        "ls --long --json .",
        "rm",
        "rm -r /",
        "rm -r .",
        "rm -r src ./",
        "rm -r sub/..",
        "rm edt://host/",
        "verify manifest",
        "verify no-such-manifest .",
        "completions nushell-of-the-future",
    ] {
        let ended = world.edt(wrong);
        assert_eq!(ended.code, 2, "edt {wrong}: {}{}", ended.out, ended.err);
        assert!(!ended.err.is_empty() && ended.out.is_empty(), "edt {wrong}");
    }
    assert!(world.exists("src") && !world.exists("dst"));
}

#[cfg(unix)]
#[test]
fn a_link_is_removed_without_what_it_leads_to() {
    let world = World::new();
    world.write("target/file", "x");
    std::os::unix::fs::symlink("target", world.path("link")).unwrap();
    let err = world.edt("rm -r link/").expect(2).err;
    assert!(err.contains("hint: leave out the slash") && world.exists("link"), "{err}");
    world.edt("rm -r link").expect(0);
    assert!(!world.exists("link") && world.exists("target/file"));
}

#[test]
fn a_directory_that_is_not_empty_is_removed_only_when_asked() {
    let world = World::new();
    world.write("full/file", "x");
    assert!(world.edt("rm full").expect(1).err.contains("edt rm -r"));
    assert!(world.exists("full/file"));
}

#[test]
fn one_path_is_not_enough_to_copy() {
    let err = World::new().edt("cp src").expect(2).err;
    assert!(err.contains("a source and a destination are needed"), "{err}");
}

#[test]
fn options_that_name_what_is_always_done_are_told_so() {
    for option in ["-r", "-av", "-a", "--recursive", "--preserve"] {
        let err = World::new().edt(&format!("cp {option} src dst")).expect(2).err;
        assert!(err.contains("hint: directories are always copied"), "{err}");
    }
    for others in ["cp --unknown src dst", "ls -R src"] {
        let err = World::new().edt(others).expect(2).err;
        assert!(!err.contains("hint:"), "{err}");
    }
}

#[test]
fn a_secret_in_a_url_is_refused_with_the_way_to_give_it() {
    let world = World::new();
    world.write("src", "x");
    for arguments in ["cp src edt://user:password@host/", "ls edt://token@host/"] {
        let err = world.edt(arguments).expect(2).err;
        assert!(err.contains("EDT_TOKEN"), "{err}");
    }
}

#[test]
fn an_error_names_place_cause_and_hint() {
    let err = World::new().edt("ls gopher://host/").expect(2).err;
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines[0].contains("`gopher://host/`"), "{err}");
    assert!(lines[1].starts_with("source: ") && lines[2].starts_with("hint: "), "{err}");
}

#[test]
fn completions_exist_for_every_shell_and_know_every_command() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = world.edt(&format!("completions {shell}")).expect(0).out;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
        assert!(script.contains("limit-rate"), "{shell}");
    }
}

#[test]
fn completions_offer_the_values_of_options() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.edt(&format!("completions {shell}")).expect(0).out.contains("falcon"), "{shell}");
    }
}

#[test]
fn man_pages_go_to_standard_output() {
    let pages = World::new().edt("man").expect(0).out;
    assert!(pages.contains(".TH edt 1"), "{pages}");
    for command in COMMANDS {
        assert!(pages.contains(&format!(".TH edt-{command} 1")), "{command} is missing");
    }
    assert!(pages.contains("Exit codes:") && pages.contains("limit\\-rate"));
}

#[test]
fn man_pages_go_to_a_directory() {
    let world = World::new();
    let printed = world.edt("man made/man1").expect(0).out;
    assert!(printed.is_empty());
    assert!(world.read("made/man1/edt.1").contains(".TH edt 1"));
    for command in COMMANDS {
        assert!(world.exists(&format!("made/man1/edt-{command}.1")), "{command} is missing");
    }
}

#[test]
fn doctor_tells_people_and_programs_the_same() {
    let world = World::new();
    let json = world.edt("doctor --json").expect(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let text = world.edt("doctor").expect(0).out;
    assert!(findings.iter().any(|finding| finding["name"] == "processors"));
    for finding in findings {
        assert!(text.contains(finding["name"].as_str().unwrap()));
        assert!(["good", "notice", "limits"].contains(&finding["verdict"].as_str().unwrap()));
    }
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_transfer() {
    let world = World::new();
    world.write("src", "x");
    let err = world.edt("cp --report no/such/directory/report.json src dst").expect(2).err;
    assert!(err.contains("no/such/directory/report.json"), "{err}");
    assert!(!world.exists("dst"));
}
