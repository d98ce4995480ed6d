//! Commands that pages name: each program of ours has the subcommand, the argument and the flag.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory as _, Parser as _};
use codebutler_agent::args::AgentArgs;
use codebutler_operator::args::OperatorArgs;
use codebutler_product::demo::DemoArgs;
use codebutler_product::figures::NAMES;
use regex::Regex;

/// Flags that pages name alone, of others' programs and of scripts.
const OTHERS: [&str; 5] =
    ["--disable-network-policy", "--dry-run", "--proxy-bypass", "--set", "--workspace"];
/// The page that lists what the plugin can do.
const OPERATE: &str = "charts/codebutler/OPERATE.md";

/// Our programs by the words with which pages call them.
fn programs() -> Vec<(&'static str, Command)> {
    let mut all = vec![
        ("kubectl codebutler", codebutler_kubectl::plugin_command()),
        ("codebutler-agent", AgentArgs::command()),
        ("codebutler-operator", OperatorArgs::command()),
        ("cargo demo --", DemoArgs::command()),
    ];
    for (_, command) in &mut all {
        // Flags of all subcommands are then flags of each.
        command.build();
    }
    all
}

fn top() -> PathBuf {
    Path::new(codebutler_testbed::FOLDER).join("..")
}

/// Pages for people by their path, without the history of changes.
fn pages() -> BTreeMap<String, String> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "-co", "--exclude-standard", "*.md"]).current_dir(top());
    let names = String::from_utf8(git.output().unwrap().stdout).unwrap();
    let is_ours = |name: &&str| {
        // Prompts are for models, and the tasks of benches are others' repositories.
        let is_foreign = name.starts_with("tests/bench/") && *name != "tests/bench/README.md";
        !is_foreign
            && !name.starts_with("seeds/")
            && !name.contains("/prompts/")
            && !name.ends_with("CHANGELOG.md")
    };
    let read =
        |name: &str| Some((name.to_owned(), std::fs::read_to_string(top().join(name)).ok()?));
    names.lines().filter(is_ours).filter_map(read).collect()
}

/// Lines of a page's blocks of code, each with those that continue it, and its pieces of code in sentences.
fn code_of(page: &str) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut prose) = (Vec::<String>::new(), String::new());
    let (mut is_code, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            (is_code, goes_on) = (!is_code, false);
        } else if is_code {
            let part = line.trim_end_matches('\\');
            match lines.last_mut().filter(|_| goes_on) {
                Some(begun) => begun.push_str(part),
                None => lines.push(part.to_owned()),
            }
            goes_on = part.len() < line.len();
        } else {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let pieces = quoted.captures_iter(&prose).map(|found| found[1].replace('\n', " ")).collect();
    (lines, pieces)
}

/// Words of the first command of a line, as a shell reads them.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word = Some(word.unwrap_or_default());
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | ';' | '&' | '>' | '<' | ')') => break,
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Text of our own scripts, which name each flag where they read it.
fn scripts() -> String {
    let all = std::fs::read_dir(top().join(".ci")).unwrap().map(|entry| entry.unwrap().path());
    all.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

fn find_flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| name == format!("-{short}")),
    })
}

/// True if the command, or one below it, has this flag.
fn has_flag(command: &Command, name: &str) -> bool {
    find_flag(command, name).is_some() || command.get_subcommands().any(|one| has_flag(one, name))
}

/// The first word that the program does not know.
fn find_unknown<'a>(program: &Command, words: &'a [String]) -> Option<&'a str> {
    let (mut at, mut is_value) = (program, false);
    for word in words {
        let is_flag = word.len() > 1 && word.starts_with('-');
        if std::mem::take(&mut is_value) && !is_flag {
            continue;
        }
        if word == "--" {
            return None;
        }
        if is_flag {
            let name = word.split('=').next().unwrap_or_default();
            let Some(arg) = find_flag(at, name) else { return Some(word) };
            is_value = arg.get_action().takes_values() && !word.contains('=');
        } else if let Some(below) = at.find_subcommand(word) {
            at = below;
        } else if at.get_positionals().next().is_none() {
            return Some(word);
        }
    }
    None
}

/// Words behind each mention of a program in a piece of code.
fn calls_of(name: &str, code: &str) -> Vec<Vec<String>> {
    let mention = format!(r#"(?:^|[\s("'=;|&]){}(?:\s|$)"#, regex::escape(name));
    let mention = Regex::new(&mention).unwrap();
    mention.find_iter(code).map(|found| shell_words(&code[found.end()..])).collect()
}

#[test]
fn commands_that_pages_name_exist() {
    let (programs, scripts) = (programs(), scripts());
    let (mut seen, mut wrong) = (0, BTreeSet::new());
    for (page, text) in pages() {
        let (lines, pieces) = code_of(&text);
        for (code, (name, command)) in
            lines.iter().chain(&pieces).flat_map(|code| programs.iter().map(move |one| (code, one)))
        {
            for words in calls_of(name, code) {
                seen += 1;
                if let Some(word) = find_unknown(command, &words) {
                    wrong.insert(format!("{page}: {name} knows no `{word}`: {code}"));
                }
            }
        }
        for piece in pieces.iter().filter(|piece| piece.starts_with("--")) {
            let flag = piece.split([' ', '=']).next().unwrap_or_default();
            let is_known = programs.iter().any(|(_, command)| has_flag(command, flag))
                || scripts.contains(&format!("{flag})"));
            if !is_known && !OTHERS.contains(&flag) {
                wrong.insert(format!("{page}: nothing of ours has the flag {flag}"));
            }
        }
    }
    assert!(seen > 30, "{seen}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_plugins_page_lists_each_of_its_commands() {
    let page = std::fs::read_to_string(top().join(OPERATE)).unwrap();
    let section = page.split_once("\n## kubectl codebutler\n").unwrap().1;
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let first = rows.map(|row| row.split(" |").next().unwrap_or_default().to_owned());
    let listed: Vec<Vec<String>> = first
        .flat_map(|cell| {
            let calls = cell.split('`').map(str::to_owned).collect::<Vec<_>>();
            calls.into_iter().filter(|call| !call.trim_matches([',', ' ']).is_empty())
        })
        .map(|call| shell_words(&call))
        .collect();
    let (_, plugin) = programs().swap_remove(0);
    for words in &listed {
        assert_eq!(find_unknown(&plugin, words), None, "{words:?}");
    }
    let visible = plugin.get_subcommands().filter(|one| !one.is_hide_set());
    for command in visible.map(Command::get_name).filter(|name| *name != "help") {
        assert!(listed.iter().any(|words| words[0] == command), "{command} is in no row");
    }
}

#[test]
fn figures_that_pages_name_are_measured_and_all_are_listed() {
    let pages = pages();
    for (page, text) in &pages {
        let (lines, pieces) = code_of(text);
        for words in lines.iter().chain(&pieces).flat_map(|code| calls_of("cargo figures", code)) {
            let unknown = words.iter().find(|word| !NAMES.contains(&word.as_str()));
            assert_eq!(unknown, None, "{page}");
        }
    }
    let list = &pages["tests/README.md"];
    let missing: Vec<_> =
        NAMES.iter().filter(|name| !list.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "tests/README.md does not list {missing:?}");
}

#[test]
fn each_experiment_of_the_bench_is_one_command() {
    let page = std::fs::read_to_string(top().join("tests/bench/README.md")).unwrap();
    let (lines, _) = code_of(&page);
    let variable = |name: &str| {
        let found = lines.iter().find_map(|line| line.strip_prefix(&format!("{name}=\"")));
        found.unwrap().trim_end_matches('"').to_owned()
    };
    let (bench, models) = (variable("B"), variable("M"));
    let mut arms = BTreeSet::new();
    for line in lines.iter().filter(|line| line.starts_with("$B ")) {
        let line = line.replace("$B", &bench).replace("$M", &models);
        let words = shell_words(&line);
        let given = words.iter().skip_while(|word| *word != "--").map(String::as_str);
        let args = DemoArgs::try_parse_from(["demo"].into_iter().chain(given.skip(1)));
        let args = args.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(args.bench.tasks_folder().is_some() && args.bench.arm.len() == 2, "{line}");
        arms.extend(args.bench.arm.into_iter().map(|arm| arm.name));
    }
    let expected = [
        "before",
        "compaction-old",
        "edits-plain",
        "keys-sorted",
        "limits-late",
        "now",
        "voice-old",
    ];
    assert!(arms.iter().eq(expected.iter()), "{arms:?}");
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let programs = programs();
    let unknown = |n: usize, line: &str| {
        let words = shell_words(line);
        find_unknown(&programs[n].1, &words).map(str::to_owned)
    };
    assert_eq!(unknown(0, "doctor -A -n team   # all"), None);
    assert_eq!(unknown(0, "-n team stop --repo shop | cat"), None);
    assert_eq!(unknown(0, "heal -A").as_deref(), Some("heal"));
    assert_eq!(unknown(0, "threads --everything").as_deref(), Some("--everything"));
    assert_eq!(unknown(1, "policy 'rm -rf /' --json"), None);
    assert_eq!(unknown(1, "validate --fix").as_deref(), Some("--fix"));
    assert_eq!(unknown(3, "--repo ~/src/shop --scenario x.yaml"), None);
    let (lines, pieces) = code_of("See `a b`.\n```sh\none \\\n  two\nthree\n```\n`c\nd`\n");
    assert_eq!(lines, ["one   two", "three"]);
    assert_eq!(pieces, ["a b", "c d"]);
}
