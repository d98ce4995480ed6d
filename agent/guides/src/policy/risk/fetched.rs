//! Files that a script brings from elsewhere, or takes out of what hides it, and runs later.

use super::super::shell::PlainCommand;
use super::files::unpacks;
use super::runs::brings;

/// Options after which, or joined to which, the name of the file stands.
const NAMED: [&str; 6] = ["-o", "--output", "-O", "--output-document", "-out", "--outfile"];
/// Options after which the folder stands that an archive or a file goes to.
const FOLDERS: [&str; 8] = [
    "-P",
    "--directory-prefix",
    "--output-dir",
    "-C",
    "--directory",
    "-d",
    "--one-top-level",
    "--prefix",
];
const ARCHIVES: [&str; 9] =
    [".tar.gz", ".tar.xz", ".tar.bz2", ".tar.zst", ".tgz", ".txz", ".tar", ".zip", ".7z"];

/// Files and folders that a script has brought from elsewhere.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchedFiles {
    files: Vec<String>,
    /// Folders in which all that lies is from elsewhere.
    folders: Vec<String>,
    /// Names of archives that are unpacked, without their endings: so are the folders in them called mostly.
    unpacked: Vec<String>,
    /// The script goes into such a folder, or unpacks there where it is what has no name.
    here: bool,
}

impl FetchedFiles {
    pub(super) fn of(found: &[PlainCommand]) -> Self {
        let mut fetched = Self { files: fetched_files(found), ..Self::default() };
        for simple in found {
            let Some(name) = simple.program() else { continue };
            if matches!(name, "cd" | "pushd") {
                let to = simple.words.iter().skip(1).flatten().find(|word| !word.starts_with('-'));
                fetched.here |= to.is_some_and(|to| fetched.has(&format!("{to}/x")));
            } else if name == "git" && simple.shapes.iter().any(|word| word == "clone") {
                fetched.folders.extend(clone_folder(simple));
            } else if matches!(name, "tar" | "unzip" | "7z" | "cpio") && unpacks(name, simple) {
                let archives = simple.words.iter().skip(1).flatten();
                let archives = archives.filter(|word| fetched.is_file(word));
                let stems: Vec<String> =
                    archives.map(|archive| archive_stem(base_name(archive)).to_owned()).collect();
                // An archive that comes through a pipe has no name.
                let piped = simple.from.iter().any(|from| brings(from));
                if !stems.is_empty() || piped {
                    let folders = folders_of(simple);
                    fetched.here |= piped && folders.is_empty();
                    fetched.folders.extend(folders);
                }
                fetched.unpacked.extend(stems);
            }
        }
        fetched
    }

    /// True for a file that is, or may be, one of those.
    pub(super) fn has(&self, file: &str) -> bool {
        let path = plain_path(file);
        let within = |folder: &String| {
            path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let mut folders = path.rsplit('/').skip(1).filter(|part| !matches!(*part, "" | "." | ".."));
        self.is_file(file)
            || (self.here && is_near(file))
            || self.folders.iter().any(within)
            || folders.any(|part| {
                let alike =
                    |stem: &String| stem.starts_with(part) || part.starts_with(stem.as_str());
                self.unpacked.iter().any(alike)
            })
    }

    /// True if a fetched file has this name: which folder it went to is not always said.
    fn is_file(&self, path: &str) -> bool {
        self.files.iter().any(|fetched| base_name(fetched) == base_name(path))
    }
}

/// True for a path below where a script is, but for the programs that a project has of its build tool.
fn is_near(path: &str) -> bool {
    let leads_out = path.starts_with(['/', '~']) || path.split('/').any(|part| part == "..");
    !leads_out && !matches!(base_name(path), "gradlew" | "mvnw")
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn archive_stem(name: &str) -> &str {
    ARCHIVES.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Names of files with content from elsewhere.
fn fetched_files(found: &[PlainCommand]) -> Vec<String> {
    let mut files = Vec::new();
    for simple in found {
        let Some(name) = simple.program() else { continue };
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
    files.retain(|file| !base_name(file).is_empty() && !file.starts_with("/dev/"));
    // A file that is renamed or copied is the same text.
    for simple in found {
        if let [Some(name), Some(from), Some(to)] = simple.words.as_slice()
            && matches!(name.as_str(), "mv" | "cp" | "install" | "ln")
            && files.iter().any(|file| base_name(file) == base_name(from))
            && !base_name(to).is_empty()
        {
            files.push(to.clone());
        }
    }
    files
}

fn plain_path(path: &str) -> &str {
    path.trim_start_matches("./")
}

/// Folders that the options of a program name as its target.
fn folders_of(simple: &PlainCommand) -> Vec<String> {
    let shapes = simple.shapes.get(1..).unwrap_or_default();
    let folders = shapes.iter().enumerate().filter_map(|(at, word)| {
        if FOLDERS.contains(&word.as_str()) {
            return shapes.get(at + 1).map(String::as_str);
        }
        let joined = word.split_once('=').filter(|(option, _)| FOLDERS.contains(option));
        joined.map(|(_, folder)| folder)
    });
    let folders = folders.map(|folder| plain_path(folder).trim_end_matches('/').to_owned());
    folders.filter(|folder| !matches!(folder.as_str(), "" | "." | "/")).collect()
}

/// The folder that a clone is put into.
fn clone_folder(simple: &PlainCommand) -> Option<String> {
    let mut words = simple.shapes.iter().skip_while(|word| *word != "clone").skip(1);
    let is_address = |word: &&String| ["://", "@", ".git"].iter().any(|part| word.contains(part));
    let from = words.find(is_address)?;
    let named = words.find(|word| !word.starts_with('-'));
    let own = base_name(from.trim_end_matches('/')).trim_end_matches(".git");
    let folder = named.map_or(own, |named| plain_path(named).trim_end_matches('/'));
    (!folder.is_empty() && folder != ".").then(|| folder.to_owned())
}

fn named_outputs(name: &str, simple: &PlainCommand) -> Vec<String> {
    let mut files = Vec::new();
    let shapes = &simple.shapes[1..];
    let cluster = match name {
        "curl" => Some('o'),
        "wget" => Some('O'),
        _ => None,
    };
    for (at, word) in shapes.iter().enumerate() {
        let short = word.starts_with('-') && !word.starts_with("--");
        // Such as `-fsSLo file` or `-qOfile`.
        let joined = cluster.filter(|_| short).and_then(|letter| {
            let (flags, file) = word[1..].split_once(letter)?;
            flags.bytes().all(|flag| flag.is_ascii_alphabetic()).then_some(file)
        });
        let takes_next = joined == Some("") || (joined.is_none() && NAMED.contains(&word.as_str()));
        if takes_next && !(name == "curl" && word == "-O") {
            files.extend(shapes.get(at + 1).cloned());
        } else if let Some(file) = joined {
            files.push(file.to_owned());
        } else if let Some((option, file)) = word.split_once('=')
            && NAMED.contains(&option)
        {
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
