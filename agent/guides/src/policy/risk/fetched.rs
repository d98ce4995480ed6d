//! Files that a script brings from elsewhere, or takes out of what hides it, and runs later.

use super::super::shell::PlainCommand;
use super::runs::BRINGS;

/// Options after which the name of the file stands.
const NAMED: [&str; 6] = ["-o", "--output", "-O", "--output-document", "-out", "--outfile"];

/// Names of files with content from elsewhere.
pub(super) fn fetched_files(found: &[PlainCommand]) -> Vec<String> {
    let mut files = Vec::new();
    for simple in found {
        let Some(name) = simple.words.first().and_then(Option::as_deref) else { continue };
        let name = name.rsplit('/').next().unwrap_or(name);
        let brings = |name: &str| BRINGS.contains(&name.rsplit('/').next().unwrap_or(name));
        if brings(name) || simple.from.iter().any(|from| brings(from)) {
            files.extend(simple.writes.iter().flatten().cloned());
        }
        if name == "tee" && simple.from.iter().any(|from| brings(from)) {
            files.extend(simple.words.iter().skip(1).flatten().cloned());
        }
        if brings(name) {
            files.extend(named_outputs(name, simple));
        }
    }
    for file in &mut files {
        *file = plain_path(file).to_owned();
    }
    // A file that is renamed or copied is the same text.
    for simple in found {
        if let [Some(name), Some(from), Some(to)] = simple.words.as_slice()
            && matches!(name.as_str(), "mv" | "cp" | "install" | "ln")
            && files.iter().any(|file| file == plain_path(from))
        {
            files.push(plain_path(to).to_owned());
        }
    }
    files
}

pub(super) fn plain_path(path: &str) -> &str {
    path.trim_start_matches("./")
}

fn named_outputs(name: &str, simple: &PlainCommand) -> Vec<String> {
    let mut files = Vec::new();
    let shapes = &simple.shapes[1..];
    for (at, word) in shapes.iter().enumerate() {
        let short = word.starts_with('-') && !word.starts_with("--");
        let takes_next = NAMED.contains(&word.as_str())
            || (short && name == "curl" && word.ends_with('o'))
            || (short && name == "wget" && word.ends_with('O'));
        if takes_next && !(name == "curl" && word == "-O") {
            files.extend(shapes.get(at + 1).cloned());
        } else if let Some((option, file)) = word.split_once('=')
            && NAMED.contains(&option)
        {
            files.push(file.to_owned());
        } else if let Some(file) = word.strip_prefix("-o").filter(|_| name == "curl") {
            files.push(file.to_owned());
        } else if word.contains("://") {
            // Its own name at the other end.
            let path = word.split(['?', '#']).next().unwrap_or(word);
            files.extend(path.rsplit('/').next().map(str::to_owned));
        }
    }
    files.retain(|file| !file.is_empty());
    files
}
