//! The output of test runners, read as names of tests that passed or did not.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A form of a test runner's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// The output of `cargo test`.
    Cargo,
    /// `python3 -m unittest -v`.
    Unittest,
    /// The Test Anything Protocol: node's, perl's and bats' own, and easily printed by any program.
    Tap,
}

/// Tests by name, and whether they passed. One that is skipped did not.
pub(super) type TestOutcomes = BTreeMap<String, bool>;

/// Reads a log. A name that comes twice has passed only if it did each time.
#[must_use]
pub(super) fn read_outcomes(format: LogFormat, text: &str) -> TestOutcomes {
    let mut all = TestOutcomes::new();
    let mut pending = None;
    for line in text.lines() {
        let found = match format {
            LogFormat::Cargo => cargo_line(line),
            LogFormat::Unittest => unittest_line(line, &mut pending),
            LogFormat::Tap => tap_line(line),
        };
        if let Some((name, passed)) = found {
            all.entry(name).and_modify(|before| *before &= passed).or_insert(passed);
        }
    }
    all
}

fn cargo_line(line: &str) -> Option<(String, bool)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((name.trim().to_owned(), result.trim() == "ok"))
}

/// `test_a (module.Class.test_a) ... ok`; with a docstring, the result is on the line after.
fn unittest_line(line: &str, pending: &mut Option<String>) -> Option<(String, bool)> {
    if let Some(name) = unittest_name(line) {
        *pending = Some(name);
    }
    let (_, result) = line.rsplit_once(" ... ")?;
    let name = pending.take()?;
    Some((name, matches!(result.trim(), "ok" | "expected failure")))
}

fn unittest_name(line: &str) -> Option<String> {
    let (test, rest) = line.split_once(" (")?;
    let (path, _) = rest.split_once(')')?;
    if test.is_empty() || !test.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    // Python 3.11 repeats the test's name.
    let class = path.strip_suffix(test).map_or(path, |path| path.trim_end_matches('.'));
    let class = class.rsplit('.').next().unwrap_or(class);
    Some(format!("{class}.{test}"))
}

fn tap_line(line: &str) -> Option<(String, bool)> {
    let line = line.trim_start();
    let (passed, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let name = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = match name.split_once(" # ") {
        Some((name, directive)) => (name, directive.to_lowercase()),
        None => (name, String::new()),
    };
    let counted = !directive.starts_with("skip") && !directive.starts_with("todo");
    Some((name.trim().to_owned(), passed && counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: LogFormat, text: &str) -> Vec<(String, bool)> {
        read_outcomes(format, text).into_iter().collect()
    }

    fn named(list: &[(&str, bool)]) -> Vec<(String, bool)> {
        list.iter().map(|(name, passed)| ((*name).to_owned(), *passed)).collect()
    }

    #[test]
    fn cargo_s_log() {
        let text = "running 4 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored\n\
                    test e - should panic ... ok\ntest result: FAILED. 1 passed\n";
        let expected = [("a::b", true), ("c", false), ("d", false), ("e - should panic", true)];
        assert_eq!(read(LogFormat::Cargo, text), named(&expected));
    }

    #[test]
    fn unittest_s_log_of_two_pythons_and_docstrings() {
        let text = "test_a (tests.test_x.Case.test_a) ... ok\ntest_b (tests.test_x.Case) ... FAIL\n\
                    test_c (m.Case.test_c)\nWhat it is for ... ok\ntest_d (m.Case.test_d) ... skipped 'no'\n";
        let expected = [
            ("Case.test_a", true),
            ("Case.test_b", false),
            ("Case.test_c", true),
            ("Case.test_d", false),
        ];
        assert_eq!(read(LogFormat::Unittest, text), named(&expected));
    }

    #[test]
    fn tap_s_log_and_a_name_that_comes_twice() {
        let text = "TAP version 13\n# Subtest: a\nok 1 - a\n  ok 2 - b # time=3ms\nnot ok 3 - c\n\
                    ok 4 - d # SKIP no\nok 5 e\nok 6 - c\n1..6\n";
        let expected = [("a", true), ("b", true), ("c", false), ("d", false), ("e", true)];
        assert_eq!(read(LogFormat::Tap, text), named(&expected));
    }
}
