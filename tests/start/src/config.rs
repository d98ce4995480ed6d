//! The number of jobs in cargo's configuration files, which cargo itself does not tell.

use std::path::{Path, PathBuf};

/// Names of a configuration file. Where both are there, cargo reads the first.
const NAMES: [&str; 2] = ["config", "config.toml"];

/// Reads `build.jobs` as cargo does in a folder: the nearest file that names it counts, and the user's own is the last.
pub(crate) fn configured_jobs(
    folder: &Path,
    home: Option<PathBuf>,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<i64> {
    let folders = folder.ancestors().map(|folder| folder.join(".cargo")).chain(home);
    let mut texts =
        folders.filter_map(|folder| NAMES.iter().find_map(|name| read(&folder.join(name))));
    texts.find_map(|text| read_jobs(&text))
}

/// Finds `build.jobs` in one file. Whatever else is in it is not looked at.
fn read_jobs(text: &str) -> Option<i64> {
    let mut table = String::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[') {
            table = plain_key(name.trim_end_matches(']'));
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = plain_key(key);
        let key = if table.is_empty() { key } else { format!("{table}.{key}") };
        match key.as_str() {
            "build.jobs" => return value.trim().parse().ok(),
            // All of it in one line: build = { jobs = 2 }
            "build" => {
                let parts = value.trim().trim_start_matches('{').trim_end_matches('}').split(',');
                let mut parts = parts.filter_map(|part| part.split_once('='));
                let jobs = parts.find(|(key, _)| plain_key(key) == "jobs");
                return jobs.and_then(|(_, value)| value.trim().parse().ok());
            }
            _ => {}
        }
    }
    None
}

/// A key without spaces and quotes.
fn plain_key(key: &str) -> String {
    key.chars().filter(|c| !c.is_whitespace() && !"\"'".contains(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_in_each_form_of_the_file() {
        for (text, jobs) in [
            ("[build]\njobs = 1 # small\n", Some(1)),
            ("[net]\nretry = 2\n[build]\nrustflags = [\"-C\", \"x=y\"]\njobs=-1\n", Some(-1)),
            ("build.jobs = 3", Some(3)),
            ("build = { incremental = true, jobs = 4 }", Some(4)),
            ("[ \"build\" ]\n'jobs' = 5", Some(5)),
            ("[build]\njobs = \"default\"", None),
            ("[profile.dev]\njobs = 1", None),
            ("", None),
        ] {
            assert_eq!(read_jobs(text), jobs, "{text}");
        }
    }

    #[test]
    fn the_nearest_file_counts() {
        let files = [
            ("/src/shop/.cargo/config.toml", "[alias]\nx = \"run\""),
            ("/src/.cargo/config.toml", "[build]\njobs = 2"),
            ("/home/ana/.cargo/config.toml", "[build]\njobs = 1"),
        ];
        let of = |folder: &str| {
            let home = Some(PathBuf::from("/home/ana/.cargo"));
            configured_jobs(Path::new(folder), home, |path| {
                let found = files.iter().find(|(known, _)| Path::new(known) == path)?;
                Some(found.1.to_owned())
            })
        };
        assert_eq!((of("/src/shop"), of("/src/shop/a"), of("/other")), (Some(2), Some(2), Some(1)));
    }
}
