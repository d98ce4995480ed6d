//! Cones of a sparse checkout: folders that are there whole, in the patterns that `git sparse-checkout` writes and reads.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The patterns that a cone begins with: all files at the top, and no folder.
const TOP: [&str; 2] = ["/*", "!/*/"];

/// Formats the patterns of these folders, with the files directly above each. What names no folder inside of the
/// repository is passed over.
pub(crate) fn cone_patterns<'a>(folders: impl IntoIterator<Item = &'a str>) -> String {
    let wanted: BTreeSet<String> = folders.into_iter().filter_map(plain_folder).collect();
    let is_within = |folder: &str| parents(folder).any(|above| wanted.contains(above));
    let whole: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|folder| !is_within(folder)).collect();
    let above: BTreeSet<&str> = whole.iter().flat_map(|folder| parents(folder)).collect();
    let mut patterns = TOP.map(|line| format!("{line}\n")).concat();
    for folder in above {
        let folder = escape(folder);
        let _ = write!(patterns, "/{folder}/\n!/{folder}/*/\n");
    }
    for folder in whole {
        let _ = writeln!(patterns, "/{}/", escape(folder));
    }
    patterns
}

/// The folders that a cone has whole. None: the patterns are no cone.
pub(crate) fn cone_folders(patterns: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> = patterns.lines().filter(|line| !line.is_empty()).collect();
    let mut partly = BTreeSet::new();
    let mut named = Vec::new();
    for line in lines.strip_prefix(&TOP)? {
        if let Some(below) = line.strip_prefix('!') {
            partly.insert(below.strip_suffix("*/")?);
        } else {
            named.push(*line);
        }
    }
    let whole = named.into_iter().filter(|line| !partly.contains(line));
    whole.map(|line| Some(unescape(line.strip_prefix('/')?.strip_suffix('/')?))).collect()
}

/// The path of a folder without what means nothing in it.
fn plain_folder(folder: &str) -> Option<String> {
    let parts: Vec<&str> = folder.split('/').filter(|part| !["", "."].contains(part)).collect();
    let is_name = |part: &&str| *part != ".." && !part.chars().any(char::is_control);
    (!parts.is_empty() && parts.iter().all(is_name)).then(|| parts.join("/"))
}

/// The folders above a folder, without the top.
fn parents(folder: &str) -> impl Iterator<Item = &str> {
    folder.match_indices('/').map(|(end, _)| &folder[..end])
}

fn escape(folder: &str) -> String {
    let mut escaped = String::with_capacity(folder.len());
    for c in folder.chars() {
        if matches!(c, '*' | '?' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn unescape(folder: &str) -> String {
    let mut plain = String::with_capacity(folder.len());
    let mut chars = folder.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_written_as_git_itself_writes_them() {
        let folders = ["src", "docs/x/y", "app/[id]", "src/within", "/My Folder/", "docs/x//y"];
        let patterns = cone_patterns(folders);
        assert_eq!(
            patterns,
            "/*\n!/*/\n/app/\n!/app/*/\n/docs/\n!/docs/*/\n/docs/x/\n!/docs/x/*/\n/My Folder/\n\
             /app/\\[id]/\n/docs/x/y/\n/src/\n"
        );
        assert_eq!(cone_folders(&patterns).unwrap(), ["My Folder", "app/[id]", "docs/x/y", "src"]);
        assert_eq!(cone_patterns(["..", "a/../b", ".", "a\nb"]), "/*\n!/*/\n");
        assert_eq!(cone_folders("/*\n!/*/\n").unwrap(), [""; 0]);
        let odd =
            ["!b", "#a", " lead", "a,b=~&", "a\\", "back\\slash", "q?", "st*r", "trail ", "x[1]y"];
        let mut folders = cone_folders(&cone_patterns(odd)).unwrap();
        folders.sort();
        let mut sorted = odd;
        sorted.sort_unstable();
        assert_eq!(folders, sorted);
        for other in ["", "/*\n!docs\n", "/*\n!/*/\nsrc\n", "/*\n!/*/\n!/src\n"] {
            assert_eq!(cone_folders(other), None, "{other}");
        }
    }
}
