//! `timesheet FILE [--project NAME]`

use std::io::Read;
use std::process::ExitCode;

use timesheet::{entry, report};

const USAGE: &str = "usage: timesheet FILE [--project NAME]   (FILE may be -)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (file, project) = match arguments.as_slice() {
        [file] => (*file, None),
        [file, "--project", name] => (*file, Some(*name)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(file, project) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("timesheet: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &str, project: Option<&str>) -> Result<String, String> {
    let mut log = String::new();
    let read = if file == "-" {
        std::io::stdin().read_to_string(&mut log).map(drop)
    } else {
        std::fs::read_to_string(file).map(|text| log = text)
    };
    read.map_err(|error| format!("{file}: {error}"))?;
    let mut entries = entry::parse(&log).map_err(|error| format!("{file}: {error}"))?;
    if let Some(project) = project {
        entries.retain(|entry| entry.project == project);
    }
    Ok(report::render(&report::totals(&entries)))
}
