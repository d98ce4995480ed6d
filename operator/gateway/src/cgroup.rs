//! Memory limit of this container, read from its control group.

use std::path::Path;

/// Files with the memory limit, of control groups v2 and v1.
const FILES: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
/// Threshold above which a value means no limit: more than any machine has.
const NONE: u64 = 1 << 60;

/// Limit in bytes; None where there is no limit, or nobody says.
pub fn memory_limit() -> Option<u64> {
    FILES
        .iter()
        .find_map(|file| std::fs::read_to_string(Path::new(file)).ok())
        .and_then(|text| read_limit(&text))
}

fn read_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_from_none() {
        assert_eq!(read_limit("1073741824\n"), Some(1 << 30));
        assert_eq!(
            (read_limit("max\n"), read_limit("9223372036854771712\n"), read_limit("")),
            (None, None, None)
        );
    }
}
