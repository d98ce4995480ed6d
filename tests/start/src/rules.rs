//! Rules about the demo's options: which go together, and which values they take. The demo judges most of it, too, but
//! only once it is built.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::options::GivenOptions;

/// Options that may be given several times.
const REPEATED: [&str; 3] = ["--arm", "--model", "--tasks"];
/// Options that do nothing unless one of others is given.
const NEEDED: [(&str, &[&str]); 19] = [
    ("--arm", &["--bench"]),
    ("--branch", &["--repo"]),
    ("--budget", &["--bench"]),
    ("--cluster", &["--images"]),
    ("--forge", &["--bench"]),
    ("--interject", &["--bench"]),
    ("--json", &["--scenario", "--bench"]),
    ("--keep", &["--scenario"]),
    ("--memory", &["--bench"]),
    ("--model", &["--repo", "--bench", "--state"]),
    ("--model-url", &["--repo", "--bench", "--state"]),
    ("--out", &["--bench"]),
    ("--outside", &["--images"]),
    ("--patience", &["--bench"]),
    ("--rule", &["--bench"]),
    ("--runs", &["--bench"]),
    ("--tasks", &["--bench"]),
    ("--validate", &["--bench"]),
    ("--window", &["--bench"]),
];
/// Options that exclude others.
const APART: [(&str, &[&str]); 4] = [
    ("--bench", &["--scenario", "--repo", "--state"]),
    ("--cluster", &["--scenario", "--bench", "--repo", "--state", "--outside"]),
    ("--state", &["--scenario"]),
    ("--validate", &["--runs", "--out", "--budget"]),
];
/// Variables that stand for options.
const VARIABLES: [(&str, &str); 2] =
    [("--images", "CODEBUTLER_IMAGES"), ("--outside", "CODEBUTLER_OUTSIDE")];
/// Variable that names a cluster, which the demo uses with its own nodes alone.
pub(crate) const KUBECONFIG: &str = "KUBECONFIG";
/// Variable that names a folder with the programs of a real API server.
const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// Options that take a whole number, and from where to where.
const NUMBERS: [(&str, RangeInclusive<u64>); 4] = [
    ("--patience", 1..=3600),
    ("--repo-limit", 0..=u64::MAX),
    ("--runs", 1..=1000),
    ("--window", 8000..=4_294_967_295),
];
/// Options that take one of a few words.
const CHOICES: [(&str, &[&str]); 2] =
    [("--memory", &["on", "off"]), ("--solver", &["oracle", "wrong", "cheat"])];
/// Options that name a file, a folder or an address.
const PLACES: [&str; 5] = ["--bench", "--out", "--repo", "--scenario", "--state"];

/// Finds options that the demo would refuse, or would pass over without a word.
pub(crate) fn find_broken_rule(
    options: &GivenOptions,
    env: &impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let given = options.demo_pairs();
    let variable = |name: &str| {
        let found = VARIABLES.iter().find(|(option, _)| *option == name);
        found.map(|(_, variable)| *variable).filter(|variable| env(variable).is_some())
    };
    let is_typed = |name: &str| given.iter().any(|(known, _)| known == name);
    let is_set = |name: &str| is_typed(name) || variable(name).is_some();
    let show = |name: &str| match variable(name) {
        Some(variable) if !is_typed(name) => format!("{variable} (`{name}`)"),
        _ => format!("`{name}`"),
    };
    let twice = given.iter().enumerate().find(|(place, (name, _))| {
        !REPEATED.contains(&&**name) && given[..*place].iter().any(|(earlier, _)| earlier == name)
    });
    if let Some((_, (name, _))) = twice {
        return Some(format!("`{name}` is given twice: leave one out"));
    }
    if let Some(wrong) = given.iter().find_map(|(name, value)| judge_value(name, value.as_deref()?))
    {
        return Some(wrong);
    }
    for (name, others) in APART.iter().filter(|(name, _)| is_set(name)) {
        if let Some(other) = others.iter().find(|other| is_set(other)) {
            return Some(format!(
                "{} and {} do not go together: leave one out",
                show(name),
                show(other)
            ));
        }
    }
    for (name, others) in NEEDED.iter().filter(|(name, _)| is_set(name)) {
        if !others.iter().any(|other| is_set(other)) {
            return Some(format!("{} does nothing without {}", show(name), others.join(" or ")));
        }
    }
    let is_given = |name: &str| env(name).is_some_and(|value| !value.is_empty());
    let uses_nodes = is_set("--outside");
    if uses_nodes && !is_given(KUBECONFIG) {
        let outside = show("--outside");
        return Some(format!(
            "{outside} is for the nodes of a cluster: name that with {KUBECONFIG}"
        ));
    }
    if !is_set("--state") {
        return None;
    }
    let other = [(KUBECONFIG, uses_nodes), (ASSETS, true)];
    let other = other.into_iter().find(|(name, counts)| *counts && is_given(name));
    other.map(|(name, _)| {
        format!("`--state` keeps the objects of the embedded API server: unset {name} to use it")
    })
}

/// Judges the value of an option; none where it is taken, or nothing is known of it here.
fn judge_value(name: &str, value: &str) -> Option<String> {
    if let Some((_, range)) = NUMBERS.iter().find(|(known, _)| *known == name) {
        let is_fit = value.parse::<u64>().is_ok_and(|number| range.contains(&number));
        let (least, most) = (range.start(), range.end());
        let bounds = match *most {
            u64::MAX => format!("from {least} on"),
            most => format!("from {least} to {most}"),
        };
        return (!is_fit).then(|| format!("`{name}` takes a whole number {bounds}, not `{value}`"));
    }
    if value.is_empty() && PLACES.contains(&name) {
        return Some(format!("`{name}` wants a value behind it"));
    }
    if let Some((_, words)) = CHOICES.iter().find(|(known, _)| *known == name) {
        let is_fit = words.contains(&value);
        return (!is_fit).then(|| format!("`{name}` takes {}, not `{value}`", words.join(" or ")));
    }
    let is_address = || value.parse::<IpAddr>().is_ok_and(|address| !address.is_unspecified());
    (name == "--outside" && !is_address()).then(|| {
        format!("`{name}` takes an IP address of this machine that pods reach, not `{value}`")
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn broken(line: &str, env: &[(&str, &str)]) -> Option<String> {
        let options = GivenOptions::parse(line.split_whitespace().map(OsString::from));
        find_broken_rule(&options, &|name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn options_that_go_together_are_taken() {
        for line in [
            "",
            "-- --repo ./shop --branch main --repo-limit 500 --state kept",
            "-- --repo ./shop --scenario x.yaml --json --keep",
            "-- --bench tests/bench --tasks a,b --runs 3 --model a/b --model c/d --window 8000",
            "-- --state kept --model-url http://gpu/v1",
            "-- --cluster --images 127.0.0.1:5000/team/",
        ] {
            assert_eq!(broken(line, &[]), None, "{line}");
        }
        let outside = "-- --outside 192.0.2.7 --images r.example/x/";
        assert_eq!(broken(outside, &[("KUBECONFIG", "/tmp/config")]), None);
        assert_eq!(broken("-- --state kept", &[("KUBECONFIG", "/tmp/config")]), None);
        assert_eq!(broken("-- --cluster", &[("CODEBUTLER_IMAGES", "r.example/x/")]), None);
    }

    #[test]
    fn each_rule_has_a_sentence() {
        for (line, said) in [
            ("-- --state a --scenario x.yaml", "`--state` and `--scenario` do not go together"),
            ("-- --bench t --repo ./shop", "`--bench` and `--repo` do not go together"),
            ("-- --cluster --images x --json", "`--json` does nothing without --scenario or"),
            ("-- --branch main", "`--branch` does nothing without --repo"),
            ("-- --repo ./shop --runs 3", "`--runs` does nothing without --bench"),
            ("-- --model-url http://gpu/v1", "`--model-url` does nothing without --repo or"),
            ("-- --repo=", "`--repo` wants a value"),
            ("-- --repo ./shop --repo ./other", "`--repo` is given twice"),
            ("-- --json --json --scenario x.yaml", "`--json` is given twice"),
            ("-- --repo x --repo-limit 2GB", "whole number from 0 on, not `2GB`"),
            ("-- --bench t --runs 0", "whole number from 1 to 1000, not `0`"),
            ("-- --bench t --memory yes", "`--memory` takes on or off, not `yes`"),
            ("-- --outside gpu --images x", "takes an IP address"),
            ("-- --outside 192.0.2.7 --images x", "name that with KUBECONFIG"),
        ] {
            let found = broken(line, &[]);
            assert!(found.as_deref().is_some_and(|f| f.contains(said)), "{line}: {found:?}");
        }
        let found = broken("-- --state kept", &[("KUBEBUILDER_ASSETS", "/opt")]);
        assert!(found.is_some_and(|found| found.contains("unset KUBEBUILDER_ASSETS")));
        let outside = [("CODEBUTLER_OUTSIDE", "192.0.2.7"), ("KUBECONFIG", "/tmp/config")];
        let found = broken("-- --cluster --images x", &outside);
        assert!(found.is_some_and(|found| found.contains("CODEBUTLER_OUTSIDE (`--outside`)")));
        let found = broken("", &outside);
        assert!(found.is_some_and(|found| found.contains("does nothing without --images")));
    }
}
