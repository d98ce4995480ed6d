//! The program as its users run it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn timesheet(log: &str, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_timesheet"))
        .arg("-")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    program
        .stdin
        .take()
        .unwrap()
        .write_all(log.as_bytes())
        .unwrap();
    program.wait_with_output().unwrap()
}

fn report(log: &str, arguments: &[&str]) -> String {
    let output = timesheet(log, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_day_is_added_up() {
    let log = "2025-03-03 09:00-12:30 website\n2025-03-03 13:15-17:00 website\n";
    assert_eq!(report(log, &[]), "website   7:15\ntotal     7:15\n");
}

#[test]
fn one_project_can_be_picked() {
    let log = "2025-03-03 09:00-10:00 website\n2025-03-03 10:00-12:00 support\n";
    assert_eq!(
        report(log, &["--project", "support"]),
        "support   2:00\ntotal     2:00\n"
    );
}

#[test]
fn a_night_shift_is_added_up() {
    let log = "2025-03-07 22:00-01:30 support\n2025-03-08 09:00-10:00 support\n";
    assert_eq!(report(log, &[]), "support   4:30\ntotal     4:30\n");
}

#[test]
fn a_line_that_makes_no_sense_is_named() {
    let output = timesheet("2025-03-03 09:00-10:00\n", &[]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "timesheet: -: line 1: expected a project\n");
}
