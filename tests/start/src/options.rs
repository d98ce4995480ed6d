//! The options of `cargo demo`: cargo's own, and behind `--` those of the demo.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Questions that a program answers about itself.
const QUESTIONS: [&str; 4] = ["--help", "-h", "--version", "-V"];

/// The demo's own options, each with whether a value follows. They are judged here before the demo is built, which can
/// do it no sooner.
pub const DEMO_OPTIONS: [(&str, bool); 28] = [
    ("--arm", true),
    ("--bench", true),
    ("--branch", true),
    ("--budget", true),
    ("--cluster", false),
    ("--forge", false),
    ("--images", true),
    ("--interject", true),
    ("--json", false),
    ("--keep", false),
    ("--log", true),
    ("--memory", true),
    ("--model", true),
    ("--model-url", true),
    ("--out", true),
    ("--outside", true),
    ("--patience", true),
    ("--repo", true),
    ("--repo-limit", true),
    ("--rule", true),
    ("--runs", true),
    ("--scenario", true),
    ("--solver", true),
    ("--state", true),
    ("--tasks", true),
    ("--validate", false),
    ("--window", true),
    ("--workspace", true),
];

/// Options as the user gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenOptions {
    /// Options for the build, which cargo gets.
    pub cargo: Vec<OsString>,
    pub demo: Vec<OsString>,
}

impl GivenOptions {
    /// Parses all words behind `cargo demo`.
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Self {
        let mut cargo: Vec<OsString> = words.collect();
        let end = cargo.iter().position(|word| word == "--").unwrap_or(cargo.len());
        let demo = cargo.split_off(end).into_iter().skip(1).collect();
        Self { cargo, demo }
    }

    /// True if cargo is only asked about itself.
    pub(crate) fn asks_cargo(&self) -> bool {
        asks(&self.cargo)
    }

    /// True if the demo is only asked about itself: then it is built, and does nothing.
    pub(crate) fn asks_demo(&self) -> bool {
        asks(&self.demo)
    }

    /// True where the product runs on the nodes of a cluster: then no pod runs here.
    pub(crate) fn uses_other_nodes(&self) -> bool {
        self.demo.iter().any(|word| word.to_string_lossy().starts_with("--outside"))
    }

    /// Value of one of the demo's options, such as `--repo`.
    pub(crate) fn demo_value(&self, name: &str) -> Option<String> {
        values(&self.demo, name, None).last()
    }

    /// True if a person is going to write on the chat page.
    pub(crate) fn is_chat(&self) -> bool {
        let others = ["--scenario", "--bench"].map(|name| self.demo_value(name));
        others.iter().all(Option::is_none) && !self.demo.iter().any(|word| word == "--cluster")
    }

    /// Finds the first word that the demo would not take.
    pub(crate) fn find_wrong_word(&self) -> Option<String> {
        let mut words = self.demo.iter().map(|word| word.to_string_lossy()).peekable();
        while let Some(word) = words.next() {
            let (name, value) = word.split_once('=').map_or((&*word, None), |(n, v)| (n, Some(v)));
            let known = DEMO_OPTIONS.iter().find(|(known, _)| *known == name);
            match known {
                Some((_, true)) if value.is_none() => {
                    if words.next_if(|next| is_value(next)).is_none() {
                        return Some(format!("`{name}` wants a value behind it"));
                    }
                }
                Some((_, false)) if value.is_some() => {
                    return Some(format!("`{name}` takes no value"));
                }
                Some(_) => {}
                None if word.starts_with('-') => {
                    let names = DEMO_OPTIONS.map(|(known, _)| known).join(", ");
                    return Some(format!("the demo has no option `{name}`: it has {names}"));
                }
                None => {
                    return Some(format!(
                        "`{word}` belongs to no option: a repository of yours is named as --repo {word}"
                    ));
                }
            }
        }
        None
    }

    /// The demo's options in their order, each with its value. For words none of which is wrong.
    pub(crate) fn demo_pairs(&self) -> Vec<(String, Option<String>)> {
        let mut words = self.demo.iter().map(|word| word.to_string_lossy());
        let mut pairs = Vec::new();
        while let Some(word) = words.next() {
            let (name, value) = word.split_once('=').map_or((&*word, None), |(n, v)| (n, Some(v)));
            let takes_value = DEMO_OPTIONS.iter().any(|(known, takes)| *takes && *known == name);
            let value = match value {
                Some(value) => Some(value.to_owned()),
                None if takes_value => words.next().map(Cow::into_owned),
                None => None,
            };
            pairs.push((name.to_owned(), value));
        }
        pairs
    }

    /// True if the number of jobs is among cargo's options.
    pub(crate) fn names_jobs(&self) -> bool {
        let configures = self.values("--config", None).any(|value| value.contains("build.jobs"));
        configures || self.values("--jobs", Some("-j")).next().is_some()
    }

    /// The folder of builds that cargo is told to use.
    pub(crate) fn target_folder(&self) -> Option<PathBuf> {
        let named = self.values("--target-dir", None).last()?;
        std::path::absolute(Path::new(&named)).ok()
    }

    /// Name of the folder in it, in which the demo is built.
    pub(crate) fn profile_folder(&self) -> String {
        let is_release = |word: &OsString| word == "--release" || word == "-r";
        match self.values("--profile", None).last().as_deref() {
            Some("dev" | "test") => "debug".to_owned(),
            Some("bench") => "release".to_owned(),
            Some(other) => other.to_owned(),
            None if self.cargo.iter().any(is_release) => "release".to_owned(),
            None => "debug".to_owned(),
        }
    }

    /// Values of one of cargo's options.
    fn values(&self, long: &str, short: Option<&str>) -> impl Iterator<Item = String> {
        values(&self.cargo, long, short)
    }
}

/// Values of an option, as `--jobs 4`, `--jobs=4`, `-j 4`, `-j=4` or `-j4`.
fn values(words: &[OsString], long: &str, short: Option<&str>) -> impl Iterator<Item = String> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    words.iter().enumerate().filter_map(move |(place, word)| {
        let word = text(word);
        let next = || words.get(place + 1).map(text);
        if word == long || Some(&*word) == short {
            return next();
        }
        if let Some(rest) = word.strip_prefix(long) {
            return rest.strip_prefix('=').map(str::to_owned);
        }
        let value = word.strip_prefix(short?)?;
        Some(value.strip_prefix('=').unwrap_or(value).to_owned())
    })
}

/// True if a word can be the value of an option: one with dashes in front would be the next option.
fn is_value(word: &str) -> bool {
    word == "-" || !word.starts_with('-')
}

fn asks(words: &[OsString]) -> bool {
    words.iter().any(|word| QUESTIONS.contains(&&*word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> GivenOptions {
        GivenOptions::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn what_stands_before_the_dashes_is_for_cargo() {
        let options = given("-j 2 --offline -- --repo ./shop -- x");
        assert_eq!(options.cargo, ["-j", "2", "--offline"]);
        assert_eq!(options.demo, ["--repo", "./shop", "--", "x"]);
        assert_eq!(given(""), GivenOptions::default());
        assert!(given("-- --help").asks_demo() && !given("-- --help").asks_cargo());
        assert!(given("--help").asks_cargo() && !given("--help").asks_demo());
    }

    #[test]
    fn a_number_of_jobs_is_found_however_it_is_written() {
        for line in ["-j 2", "-j2", "-j=2", "--jobs 2", "--jobs=2", "--config build.jobs=2"] {
            assert!(given(line).names_jobs(), "{line}");
        }
        for line in ["", "--locked", "-- -j 2", "--config build.rustc=\"x\""] {
            assert!(!given(line).names_jobs(), "{line}");
        }
    }

    #[test]
    fn the_demo_is_looked_for_where_cargo_is_told_to_build_it() {
        for (line, profile, target) in [
            ("", "debug", None),
            ("--release --target-dir /big", "release", Some("/big")),
            ("-r --target-dir=/big/place", "release", Some("/big/place")),
            ("--profile dev", "debug", None),
            ("--profile=small", "small", None),
        ] {
            let options = given(line);
            assert_eq!(options.profile_folder(), profile, "{line}");
            assert_eq!(options.target_folder().as_deref(), target.map(Path::new), "{line}");
        }
    }

    #[test]
    fn a_demo_whose_pods_run_elsewhere_needs_no_namespaces_here() {
        for (line, elsewhere) in [
            ("-- --outside 192.0.2.7 --images r.example/x/", true),
            ("-- --outside=192.0.2.7", true),
            ("-- --repo ./shop", false),
        ] {
            assert_eq!(given(line).uses_other_nodes(), elsewhere, "{line}");
        }
    }

    #[test]
    fn a_word_that_the_demo_does_not_take_is_named() {
        for (line, said) in [
            ("", None),
            ("-- --repo ./shop --branch=main --json", None),
            ("-- --senario x.yaml", Some("no option `--senario`: it has --arm, ")),
            ("-- --senario=x.yaml", Some("no option `--senario`:")),
            (
                "-- ./shop",
                Some(
                    "`./shop` belongs to no option: a repository of yours is named as --repo ./shop",
                ),
            ),
            ("-- --json --repo", Some("`--repo` wants a value")),
            ("-- --repo --json", Some("`--repo` wants a value")),
            ("-- --json=yes", Some("`--json` takes no value")),
        ] {
            let wrong = given(line).find_wrong_word();
            assert_eq!(wrong.is_some(), said.is_some(), "{line}: {wrong:?}");
            assert!(said.is_none_or(|part| wrong.unwrap().contains(part)), "{line}");
        }
    }

    #[test]
    fn the_demos_options_are_told_from_those_with_a_longer_name() {
        let options = given("--repo x -- --repo-limit 5 --repo=./shop");
        assert_eq!(options.demo_value("--repo").as_deref(), Some("./shop"));
        assert_eq!(options.demo_value("--repo-limit").as_deref(), Some("5"));
        assert!(options.is_chat() && !given("-- --scenario x.yaml").is_chat());
        assert_eq!(given("-- --repo").demo_value("--repo"), None);
    }
}
