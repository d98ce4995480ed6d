//! Judges orders to build tools and script runners, by the names of targets.

use super::super::RiskVerdict;
use super::super::names::is_handover;
use super::super::programs::TARGETS;
use super::super::reach::only_tells;
use super::super::shell::ShellWord;

/// Targets that clean up: what they remove is in nobody's list.
const CLEANS: [&str; 6] = ["clean", "distclean", "reset", "purge", "flush", "clobber"];

/// Options that name the program that `cargo run` runs.
const RUNS: [&str; 4] = ["--bin", "--example", "-p", "--package"];

/// Options before a target that take a value.
fn option_values(name: &str) -> &'static str {
    match name {
        "gradle" | "gradlew" => "-b -c -p -I -g -x --exclude-task --build-file --project-dir",
        "mvn" | "mvnw" => "-f -pl -P -s -gs -T --file --projects --settings",
        "nx" | "turbo" | "lerna" => {
            "-p --projects --filter --exclude -c --configuration --scope --cwd --parallel"
        }
        "npm" | "pnpm" | "yarn" | "bun" => "--prefix -w --workspace --filter -F -C --dir --cwd",
        "tox" | "nox" => "-c --conf -f --noxfile",
        "cargo" | "deno" | "mix" | "composer" => "--manifest-path --config -c -d --working-dir",
        _ => "-C -f -I -o -W -d --directory --file --makefile --justfile --rakefile --taskfile",
    }
}

/// A runner of targets; nothing if it is none.
pub(super) fn target_risk(name: &str, rest: &[ShellWord]) -> Option<RiskVerdict> {
    let (_, verbs, all) =
        TARGETS.iter().find(|(names, ..)| names.split(' ').any(|one| one == name))?;
    let texts: Vec<&str> = rest.iter().filter_map(Option::as_deref).collect();
    let shows = only_tells(&texts)
        || (*all
            && texts.iter().any(|text| matches!(*text, "-n" | "--just-print" | "-l" | "--list")));
    if shows {
        return Some(RiskVerdict::local(format!("`{name}` tells what it would do")));
    }
    let mut words = find_targets(name, rest, verbs, *all);
    if name == "cargo" && texts.iter().any(|text| matches!(*text, "run" | "r")) {
        let own = texts.iter().take_while(|text| **text != "--");
        let named = texts.iter().skip(1).zip(own).filter(|(_, option)| RUNS.contains(option));
        let joined = texts.iter().filter_map(|text| {
            let (option, program) = text.split_once('=')?;
            RUNS.contains(&option).then_some(program)
        });
        // One that is called `release` more often makes one than hands it over.
        let programs = named.map(|(program, _)| *program).chain(joined);
        words.extend(programs.filter(|program| *program != "release"));
    }
    if let Some(target) = words
        .iter()
        .find(|word| is_target_handover(word) && !(name == "mix" && **word == "release"))
    {
        return Some(RiskVerdict::leaves(format!(
            "`{name} {target}` hands something over, by its name"
        )));
    }
    let cleans = words.iter().any(|word| CLEANS.contains(word));
    Some(if cleans {
        RiskVerdict::loses(format!("`{name}` cleans up"))
    } else {
        RiskVerdict::local(format!("`{name}` runs in the sandbox"))
    })
}

fn is_target_handover(word: &str) -> bool {
    let applies = [
        "apply",
        "tf-apply",
        "terraform-apply",
        "infra-apply",
        "k8s-apply",
        "kubectl-apply",
        "helm-apply",
    ];
    is_handover(word) || applies.contains(&word)
}

/// The targets among the arguments: all, or the first after one of `verbs`.
fn find_targets<'a>(name: &str, rest: &'a [ShellWord], verbs: &str, all: bool) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut words = rest.iter();
    let mut after_verb = verbs.is_empty();
    while let Some(word) = words.next() {
        let Some(word) = word.as_deref() else { continue };
        if word == "--" {
            break;
        }
        if matches!(word, "-t" | "--target" | "--targets" | "-e" | "-s" | "--session")
            && matches!(name, "nx" | "turbo" | "tox" | "nox")
        {
            out.extend(words.next().and_then(|word| word.as_deref()));
        } else if let Some(target) =
            word.strip_prefix("--target=").or(word.strip_prefix("--targets="))
        {
            out.push(target);
        } else if option_values(name).split(' ').any(|option| option == word) {
            words.next();
        } else if word.starts_with('-')
            || word.contains('=')
            || (word.starts_with('+') && !verbs.is_empty())
        {
        } else if !after_verb && verbs.split(' ').any(|verb| verb == word) {
            after_verb = true;
        } else {
            // Without the verb, a word is the script itself where that is a way to say it.
            let implied = verbs.split(' ').any(|verb| verb == "*");
            if after_verb || implied {
                out.push(word.rsplit("//").next().unwrap_or(word));
            }
            if !all {
                break;
            }
        }
    }
    out
}
