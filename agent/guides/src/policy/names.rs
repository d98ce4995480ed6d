//! Reads the name of a script or of a target: it may promise to hand work to the world. Pure.

/// Words of names that hand something over.
const HANDS_OVER: [&str; 13] = [
    "deploy",
    "redeploy",
    "undeploy",
    "deployment",
    "publish",
    "unpublish",
    "release",
    "rollout",
    "rollback",
    "promote",
    "upload",
    "push",
    "destroy",
];
/// Words of these that count in the name of a file: modules are called `upload.py`, too.
const FILES: [&str; 5] = ["deploy", "redeploy", "undeploy", "publish", "release"];
/// Last words of files that only look at what is handed over.
const FILES_LOOK: [&str; 9] =
    ["test", "tests", "spec", "check", "checks", "plan", "lint", "validate", "config"];
/// First words after which the others only say what is looked at.
const LOOKS: [&str; 37] = [
    "test",
    "tests",
    "build",
    "lint",
    "check",
    "verify",
    "validate",
    "fmt",
    "format",
    "typecheck",
    "clean",
    "generate",
    "gen",
    "render",
    "diff",
    "plan",
    "show",
    "list",
    "ls",
    "print",
    "watch",
    "serve",
    "dev",
    "bench",
    "e2e",
    "unit",
    "cov",
    "coverage",
    "compile",
    "preview",
    "assemble",
    "process",
    "merge",
    "mock",
    "stop",
    "logs",
    "help",
];
/// Words of orders that throw away what is there.
const THROWS: [&str; 12] = [
    "drop",
    "reset",
    "wipe",
    "purge",
    "flush",
    "fresh",
    "refresh",
    "truncate",
    "nuke",
    "clean",
    "obliterate",
    "loss",
];
/// First words after which `release` is a kind of build.
const BUILDS: [&str; 7] = ["bundle", "install", "package", "pack", "sign", "run", "cargo"];
/// Words that make it harmless wherever they stand.
const HARMLESS: [&str; 6] = ["local", "dry", "notes", "note", "changelog", "snapshot"];
/// Words that join a second action to the first.
const JOINS: [&str; 3] = ["and", "then", "n"];

/// True if a target such as `docs:deploy` hands something over.
pub(super) fn is_handover(target: &str) -> bool {
    hands_over(&name_words(target), &HANDS_OVER)
}

/// The same of a script's path.
pub(super) fn is_handover_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = match name.split_once('.') {
        Some((stem, rest)) if !stem.is_empty() => {
            if rest.split('.').any(|part| FILES_LOOK.contains(&part)) {
                return false;
            }
            stem
        }
        _ => name,
    };
    let words = name_words(stem);
    let looks = words.last().is_some_and(|last| FILES_LOOK.contains(&last.as_str()));
    !looks && hands_over(&words, &FILES)
}

/// True if a word is nothing but an order to hand over, as in `./manage.sh deploy`.
pub(super) fn is_order(word: &str) -> bool {
    matches!(word, "deploy" | "redeploy" | "undeploy" | "publish" | "release" | "rollback")
}

/// True if a word such as `db:drop` or `migrate:fresh` tells to throw something away. No path, and no sentence.
pub(super) fn throws_away(word: &str) -> bool {
    let plain = !word.contains(['/', '=']) && !word.contains(char::is_whitespace);
    // Of a file the end counts: `test_reset.py` is none, `ecto.reset` is an order.
    let end = word.rsplit('.').next().unwrap_or(word);
    plain && name_words(end).iter().any(|word| THROWS.contains(&word.as_str()))
}

fn hands_over(words: &[String], known: &[&str]) -> bool {
    let is = |list: &[&str], word: &String| list.contains(&word.as_str());
    let Some(first) = words.first() else { return false };
    if words.iter().any(|word| is(&HARMLESS, word)) {
        return false;
    }
    let looks = is(&LOOKS, first) && !words.iter().any(|word| is(&JOINS, word));
    let builds = is(&BUILDS, first);
    words
        .iter()
        .enumerate()
        .any(|(at, word)| is(known, word) && (at == 0 || !(looks || (builds && word == "release"))))
}

/// Lower-case words, cut at punctuation and before capitals.
fn name_words(name: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        let cut = !c.is_alphanumeric() || (c.is_uppercase() && lower);
        lower = c.is_lowercase();
        if cut && out.last().is_some_and(|word| !word.is_empty()) {
            out.push(String::new());
        }
        if let Some(word) = out.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    out.retain(|word| !word.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_to_throw_away_are_known_by_their_words() {
        for yes in ["db:drop", "reset", "migrate:fresh", "drop-all", "ecto.reset", "--force-reset"]
        {
            assert!(throws_away(yes), "{yes}");
        }
        for no in ["test_reset.py", "a/reset", "drop table x", "dropbox", "rest", "--env=reset", ""]
        {
            assert!(!throws_away(no), "{no}");
        }
    }

    #[test]
    fn names_promise_what_their_words_say() {
        for yes in [
            "deploy",
            "deploy:prod",
            "deploy_staging",
            "docs:deploy",
            "publish",
            "npm-publish",
            "release",
            "release-minor",
            "docker-push",
            "publishToSonatype",
            "build-and-deploy",
            "DEPLOY",
        ] {
            assert!(is_handover(yes), "{yes}");
        }
        for no in [
            "test",
            "build-release",
            "build:release",
            "assembleRelease",
            "bundleRelease",
            "publishToMavenLocal",
            "deploy:local",
            "deploy-dry-run",
            "release-notes",
            "test:deploy",
            "check-release",
            "employ",
            "pushd",
            "",
        ] {
            assert!(!is_handover(no), "{no}");
        }
        for (yes, file) in [
            (true, "deploy.sh"),
            (true, "./scripts/release.js"),
            (true, "bin/publish"),
            (true, "../deploy-prod.py"),
            (false, "deploy/run.sh"),
            (false, "upload.py"),
            (false, "deploy_test.py"),
            (false, "release.test.ts"),
            (false, "scripts/release-check.sh"),
            (false, "deploy.config.js"),
            (false, "scripts/release_notes.py"),
            (false, "test_deploy.py"),
        ] {
            assert_eq!(is_handover_file(file), yes, "{file}");
        }
    }
}
