//! A robots.txt as RFC 9309 has it: groups, the rules of the one that counts, and which of them fits a path. Pure.

use std::fmt::Write as _;
use std::str::Lines;

/// Product token that groups name to mean the gateway.
pub(super) const TOKEN: &str = "codebutler";
/// Rules of a file that are kept: a file as long as one is read has no more.
const MOST_RULES: usize = 1 << 16;
/// Longest pattern of a rule, in bytes: no address is longer.
const LONGEST_PATTERN: usize = 2_048;

/// The rules of a site that are meant for the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RobotsRules {
    /// All patterns in their one spelling, one behind the other.
    patterns: String,
    rules: Vec<RobotsRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RobotsRule {
    allows: bool,
    /// End of its pattern, which begins where that of the rule before it ends.
    end: usize,
}

/// Programs that a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupReach {
    /// Groups that name the gateway.
    Own,
    /// Groups for whatever is not named.
    All,
    /// Groups of others.
    Others,
}

impl RobotsRules {
    /// Reads a file, or its beginning. What can't be understood is passed over.
    pub(super) fn parse(file: &[u8]) -> Self {
        let text = String::from_utf8_lossy(file);
        let text = text.trim_start_matches('\u{feff}').replace('\r', "\n");
        let (mut own, mut all, mut has_own) = (Self::default(), Self::default(), false);
        let (mut reach, mut names_agents) = (GroupReach::Others, false);
        for (field, value) in records(text.lines()) {
            match field.as_str() {
                "user-agent" => {
                    // Lines beside each other are of one group.
                    let before = if names_agents { reach } else { GroupReach::Others };
                    reach = widest(before, GroupReach::of(value));
                    names_agents = true;
                    has_own |= reach == GroupReach::Own;
                }
                "allow" | "disallow" => {
                    names_agents = false;
                    let rules = match reach {
                        GroupReach::Own => &mut own,
                        GroupReach::All => &mut all,
                        GroupReach::Others => continue,
                    };
                    rules.keep(field == "allow", value);
                }
                _ => {}
            }
        }
        let mut rules = if has_own { own } else { all };
        rules.patterns.shrink_to_fit();
        rules.rules.shrink_to_fit();
        rules
    }

    fn keep(&mut self, allows: bool, pattern: &str) {
        if pattern.is_empty() || pattern.len() > LONGEST_PATTERN || self.rules.len() >= MOST_RULES {
            return;
        }
        self.patterns.push_str(&spell_pattern(pattern));
        self.rules.push(RobotsRule { allows, end: self.patterns.len() });
    }

    /// Each rule's pattern, and true if it allows.
    fn patterns(&self) -> impl Iterator<Item = (&str, bool)> {
        let mut begin = 0;
        self.rules.iter().map(move |rule| {
            let pattern = &self.patterns[begin..rule.end];
            begin = rule.end;
            (pattern, rule.allows)
        })
    }

    /// The pattern that keeps programs from a path with its query; none if it may be read. The longest one that fits
    /// decides, and of two as long the one that allows.
    pub(super) fn find_ban(&self, path: &str) -> Option<&str> {
        if path == "/robots.txt" {
            return None;
        }
        let path = spell_path(path);
        let fitting = self.patterns().filter(|(pattern, _)| fits(pattern, &path));
        let (pattern, allows) = fitting.max_by_key(|(pattern, allows)| (pattern.len(), *allows))?;
        (!allows).then_some(pattern)
    }

    /// Bytes that the rules take.
    pub(super) fn size(&self) -> usize {
        self.patterns.len() + self.rules.len() * size_of::<RobotsRule>()
    }
}

impl GroupReach {
    fn of(agent: &str) -> Self {
        let is_part = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
        let token = agent.split(|c| !is_part(c)).next().unwrap_or_default();
        if agent.starts_with('*') {
            Self::All
        } else if token.eq_ignore_ascii_case(TOKEN) {
            Self::Own
        } else {
            Self::Others
        }
    }
}

fn widest(one: GroupReach, other: GroupReach) -> GroupReach {
    match (one, other) {
        (GroupReach::Own, _) | (_, GroupReach::Own) => GroupReach::Own,
        (GroupReach::All, _) | (_, GroupReach::All) => GroupReach::All,
        _ => GroupReach::Others,
    }
}

/// Lines with a field and its value, without comments.
fn records(lines: Lines<'_>) -> impl Iterator<Item = (String, &str)> {
    lines.filter_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let (field, value) = line.split_once(':')?;
        Some((field.trim().to_ascii_lowercase(), value.trim()))
    })
}

/// One spelling for what can be written in several: plain characters are plain, and all others are encoded in capitals.
fn spell(text: &str, is_special: impl Fn(u8) -> bool) -> String {
    let bytes = text.as_bytes();
    let mut spelled = String::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let hex = hex.filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let encoded = hex.and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        let (byte, is_encoded) = encoded.map_or((bytes[at], false), |byte| (byte, true));
        at += if is_encoded { 3 } else { 1 };
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if is_plain || (!is_encoded && byte.is_ascii_graphic() && byte != b'%' && !is_special(byte))
        {
            spelled.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(spelled, "%{byte:02X}");
        }
    }
    spelled
}

fn spell_pattern(pattern: &str) -> String {
    spell(pattern, |_| false)
}

/// In an address the two signs of patterns mean themselves.
fn spell_path(path: &str) -> String {
    spell(path, |byte| byte == b'*' || byte == b'$')
}

/// True if a pattern fits the beginning of a path, or with `$` all of it. Each part is searched onward from where the
/// last one was found, so this takes no longer than the path is.
fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, is_whole) = pattern.strip_suffix('$').map_or((pattern, false), |p| (p, true));
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if is_whole && parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    !is_whole || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(file: &str, path: &str) -> Option<String> {
        RobotsRules::parse(file.as_bytes()).find_ban(path).map(ToOwned::to_owned)
    }

    #[test]
    fn the_group_that_names_the_gateway_counts_alone() {
        let file = "User-agent: *\nDisallow: /\n\nuser-agent: CodeButler/2.0 (+https://x)\nDisallow: /private # ours\n\
            Sitemap: https://a.dev/s.xml\n\nUser-Agent: other\nDisallow: /docs";
        assert_eq!(ban(file, "/docs"), None);
        assert_eq!(ban(file, "/private/x?y").as_deref(), Some("/private"));
        assert_eq!(ban("User-agent: codebutlers\nDisallow: /", "/"), None, "another program");
        let all = "User-agent: a\nUser-agent: *\nCrawl-delay: 5\nUser-agent: b\nDisallow: /x";
        assert_eq!(ban(all, "/x").as_deref(), Some("/x"), "agents of one group");
        let twice = "User-agent: codebutler\nDisallow: /a\nUser-agent: x\nDisallow: /c\nUser-agent: codebutler\nDisallow: /b";
        assert!(
            ban(twice, "/a").is_some() && ban(twice, "/b").is_some() && ban(twice, "/c").is_none()
        );
        let empty = "User-agent: *\nDisallow: /\nUser-agent: codebutler\nDisallow:";
        assert_eq!(ban(empty, "/a"), None, "an own group without rules allows everything");
    }

    #[test]
    fn the_longest_rule_decides_and_of_two_as_long_the_one_that_allows() {
        // Examples of RFC 9309.
        let file = |rules: &str| format!("user-agent: *\n{rules}");
        let longest = file("allow: /example/page/\ndisallow: /example/page/disallowed.gif");
        assert_eq!(ban(&longest, "/example/page/x"), None);
        assert!(ban(&longest, "/example/page/disallowed.gif").is_some());
        let even = file("disallow: /page\nallow: /page");
        assert_eq!(ban(&even, "/page"), None);
        let all = file("disallow: /");
        assert!(ban(&all, "/").is_some() && ban(&all, "/a?b=c").is_some());
        assert_eq!(ban(&all, "/robots.txt"), None, "what says so may be read");
    }

    #[test]
    fn patterns_have_stars_and_ends() {
        let file = "user-agent: *\ndisallow: *.gif$\ndisallow: /*/secret\nallow: /publications/\ndisallow: /end$";
        for (path, is_banned) in [
            ("/a.gif", true),
            ("/a.gif?x", false),
            ("/a.gif.gif", true),
            ("/b/secret/c", true),
            ("/secret", false),
            ("/publications/", false),
            ("/end", true),
            ("/end/", false),
        ] {
            assert_eq!(ban(file, path).is_some(), is_banned, "{path}");
        }
        assert!(fits("/a*$", "/abc") && fits("/a*b$", "/axbxb") && !fits("/a*b*c$", "/acb"));
        assert!(fits("/", "/") && fits("", "/x") && !fits("/a", "/"));
    }

    #[test]
    fn one_address_in_several_spellings_is_one() {
        let file = "user-agent: *\ndisallow: /foo/bar/\u{30c4}\ndisallow: /a%3cd.html\ndisallow: /%7ejoe\ndisallow: /file-with-a-%2A.html";
        for path in [
            "/foo/bar/%E3%83%84",
            "/foo/bar/\u{30c4}",
            "/a%3Cd.html",
            "/~joe/x",
            "/%7Ejoe/x",
            "/file-with-a-*.html",
            "/file-with-a-%2a.html",
        ] {
            assert!(ban(file, path).is_some(), "{path}");
        }
        assert_eq!(ban(file, "/file-with-a-b.html"), None);
        assert_eq!(ban("user-agent: *\ndisallow: /100%\n", "/100%").as_deref(), Some("/100%25"));
    }

    #[test]
    fn the_last_rule_of_a_long_file_counts() {
        let rules: Vec<String> = (0..20_000).map(|n| format!("disallow: /{n}/x")).collect();
        let file = format!("user-agent: *\n{}", rules.join("\n"));
        assert!(file.len() < 500 << 10, "as long as RFC 9309 wants it to be read");
        assert_eq!(ban(&file, "/19999/x").as_deref(), Some("/19999/x"));
        assert_eq!(ban(&file, "/0/x").as_deref(), Some("/0/x"));
        assert_eq!(ban(&file, "/20000/x"), None);
    }

    #[test]
    fn a_file_made_to_hurt_is_read_in_time_and_kept_short() {
        let begun = std::time::Instant::now();
        let stars = format!(
            "user-agent: *\n{}",
            format!("disallow: /{}x\n", "*a".repeat(1_000)).repeat(300)
        );
        let rules = RobotsRules::parse(stars.as_bytes());
        assert_eq!(rules.find_ban(&format!("/{}", "a".repeat(2_000))), None);
        let many = format!("user-agent: *\n{}", "disallow: /x\n".repeat(100_000));
        let many = RobotsRules::parse(many.as_bytes());
        assert!(many.rules.len() == MOST_RULES && many.size() < 3 << 20, "{}", many.size());
        for odd in
            [&b"\xff\xfe:\x00:"[..], b":::\n\r\r:disallow", b"disallow: /\nallow", b"<html>", b""]
        {
            assert_eq!(RobotsRules::parse(odd).find_ban("/"), None, "{odd:?}");
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
