//! Help texts and exit statuses.

use crate::process::run;

#[test]
fn every_command_is_explained_with_an_example() {
    let overview = run(&["--help"]).fine();
    assert!(overview.text().contains("Exit status: 0"), "{overview:?}");
    let commands: Vec<&str> = overview
        .text()
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let help = run(&[command, "--help"]).fine();
        let example = format!("Example: tracezero {command} ");
        assert!(help.text().contains(&example), "{help:?}");
    }
}

#[test]
fn wrong_arguments_have_exit_status_2() {
    assert_eq!(run(&["sumary"]).status, 2);
    assert_eq!(run(&["summary"]).status, 2);
    assert_eq!(run(&["summary", "--sort", "luck", "x"]).status, 2);
    assert_eq!(
        run(&["--version"]).fine().text(),
        concat!("tracezero ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn shells_complete_every_command_and_manuals_describe_it() {
    let overview = run(&["--help"]).fine();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).fine();
        assert!(script.text().contains("snapshot"), "{shell}");
    }
    let folder = support::Folder::empty();
    run(&["manual", folder.path().to_str().unwrap()]).fine();
    for command in ["record", "summary", "status"] {
        assert!(overview.text().contains(command));
        let page = folder.read(format!("tracezero-{command}.1"));
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("SYNOPSIS"), "{page}");
    }
}
