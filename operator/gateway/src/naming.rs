//! Paths, commands and counts in messages to people. Names are data of others: nothing in them is markup.

/// Longest part of a path that is shown, in characters.
const MAX_PATH: usize = 160;
/// Files that are named; more are counted.
const MAX_NAMED: usize = 5;

/// Text as inline code, whatever is in it.
pub fn as_code(text: &str) -> String {
    let plain = |c: char| if c == '`' || c.is_control() { '\'' } else { c };
    format!("`{}`", text.chars().map(plain).collect::<String>())
}

/// A path as inline code, cut to what a message has room for.
pub fn path_as_code(path: &str) -> String {
    as_code(&path.chars().take(MAX_PATH).collect::<String>())
}

/// Names of files; the number of those that are too many.
pub fn name_files<'f>(files: impl ExactSizeIterator<Item = &'f String>) -> String {
    let more = files.len().saturating_sub(MAX_NAMED);
    let all: Vec<_> = files.take(MAX_NAMED).map(|file| path_as_code(file)).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", all.join(", "))
}

/// A number with its noun: `1 file`, `2 files`.
pub fn count_noun(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_data_and_too_many_are_counted() {
        assert_eq!(as_code("a`b\n"), "`a'b'`");
        let files: Vec<String> = (0..10).map(|n| format!("{n}.rs")).collect();
        assert!(name_files(files.iter()).ends_with("`4.rs` and 5 more"));
        assert_eq!(name_files(files[..1].iter()), "`0.rs`");
        assert_eq!(path_as_code(&"x".repeat(300)).len(), MAX_PATH + 2);
        assert_eq!(
            (count_noun(1, "file"), count_noun(2, "file")),
            ("1 file".into(), "2 files".into())
        );
    }
}
