//! Detection of a user namespace, by what the kernel says: a runtime that is too old ignores the wish for one without
//! a word.

/// The user namespace of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserSpace {
    /// The node's: user 0 of the pod is user 0 there.
    Node,
    /// A namespace of the pod's own.
    Own,
}

/// A sandbox's level, with whose users commands have.
pub fn describe_level(level: &str) -> String {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    describe_with(level, &map)
}

/// A runtime with a kernel of its own shows that kernel's users, which says nothing of the node's.
fn describe_with(level: &str, map: &str) -> String {
    if !level.starts_with("landlock-") {
        return level.to_owned();
    }
    match read_map(map) {
        Some(UserSpace::Own) => format!("{level}, user namespace"),
        Some(UserSpace::Node) => format!("{level}, users of the node"),
        None => level.to_owned(),
    }
}

/// Lines of first user inside, first user outside, and how many.
fn read_map(map: &str) -> Option<UserSpace> {
    let mut lines = map.lines().map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let first = lines.next()??;
    let whole = first == (0, 0, u32::MAX) && lines.next().is_none();
    Some(if whole { UserSpace::Node } else { UserSpace::Own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_whose_users_commands_have() {
        for (level, map, shown) in [
            ("landlock-7", "         0          0 4294967295\n", "landlock-7, users of the node"),
            ("landlock-7", "         0  131072000      65536\n", "landlock-7, user namespace"),
            ("landlock-7", "0 100000 1\n1 200000 65535\n", "landlock-7, user namespace"),
            ("landlock-7", "10001 0 1\n", "landlock-7, user namespace"),
            ("landlock-7", "", "landlock-7"),
            ("runtime", "0 0 4294967295\n", "runtime"),
            ("its kernel has no Landlock", "0 0 4294967295\n", "its kernel has no Landlock"),
        ] {
            assert_eq!(describe_with(level, map), shown, "{level} {map}");
        }
    }
}
