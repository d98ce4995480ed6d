//! Recognizes commands that build: those that take a build slot. Pure; a script that can't be parsed is no build.

use super::programs::{SHELLS, WRAPPERS};
use super::shell::{ShellWord, parse_commands};

/// Programs and the words after which they build; none: always.
const BUILDS: [(&str, &[&str]); 56] = [
    (
        "cargo",
        &[
            "build",
            "b",
            "test",
            "t",
            "check",
            "c",
            "clippy",
            "run",
            "r",
            "bench",
            "doc",
            "nextest",
            "install",
            "rustc",
            "fix",
            "miri",
            "llvm-cov",
            "tarpaulin",
        ],
    ),
    ("rustc", &[]),
    ("go", &["build", "test", "vet", "install", "generate", "run"]),
    ("golangci-lint", &[]),
    ("npm", &["ci", "install", "i", "add", "test", "t", "run", "run-script", "exec", "start"]),
    ("pnpm", &["install", "i", "add", "test", "t", "run", "build", "exec", "dlx", "start"]),
    ("yarn", &["install", "add", "test", "run", "build", "exec", "dlx", "start"]),
    ("bun", &["install", "i", "add", "test", "run", "build", "x"]),
    ("npx", &[]),
    ("bunx", &[]),
    ("tsc", &[]),
    ("webpack", &[]),
    ("vite", &[]),
    ("rollup", &[]),
    ("next", &[]),
    ("jest", &[]),
    ("vitest", &[]),
    ("mocha", &[]),
    ("turbo", &[]),
    ("nx", &[]),
    ("pytest", &[]),
    ("tox", &[]),
    ("nox", &[]),
    ("mypy", &[]),
    ("pip", &["install", "wheel"]),
    ("pip3", &["install", "wheel"]),
    ("uv", &["sync", "run", "pip", "build", "add"]),
    ("poetry", &["install", "run", "build", "add"]),
    ("pipenv", &["install", "sync", "run"]),
    ("bundle", &["install", "exec"]),
    ("rake", &[]),
    ("rspec", &[]),
    ("composer", &["install", "require", "update"]),
    ("mvn", &[]),
    ("mvnw", &[]),
    ("gradle", &[]),
    ("gradlew", &[]),
    ("sbt", &[]),
    ("ant", &[]),
    ("bazel", &["build", "test", "run", "coverage"]),
    ("make", &[]),
    ("gmake", &[]),
    ("cmake", &[]),
    ("ctest", &[]),
    ("ninja", &[]),
    ("meson", &[]),
    ("gcc", &[]),
    ("g++", &[]),
    ("cc", &[]),
    ("c++", &[]),
    ("clang", &[]),
    ("clang++", &[]),
    ("swift", &["build", "test", "run"]),
    ("xcodebuild", &[]),
    ("pod", &["install", "update"]),
    ("dotnet", &["build", "test", "publish", "run", "restore"]),
];
/// Modules that build when they are run with `python -m`.
const MODULES: [&str; 6] = ["pytest", "unittest", "pip", "build", "tox", "mypy"];
/// Deepest nesting of scripts in scripts.
const DEEPEST: u32 = 4;

/// True if a Bash command builds anything.
pub fn is_build(script: &str) -> bool {
    builds_within(script, 0)
}

fn builds_within(script: &str, depth: u32) -> bool {
    let Ok(found) = parse_commands(script) else { return false };
    depth < DEEPEST && found.iter().any(|simple| program_builds(&simple.words, depth))
}

fn program_builds(words: &[ShellWord], depth: u32) -> bool {
    let Some((Some(first), rest)) = words.split_first() else { return false };
    let name = first.rsplit('/').next().unwrap_or(first);
    if WRAPPERS.contains(&name) {
        // Its own options look like programs of other names, at worst.
        return (0..rest.len()).any(|at| program_builds(&rest[at..], depth));
    }
    let mut texts = rest.iter().filter_map(Option::as_deref);
    if SHELLS.contains(&name) {
        return texts.any(|text| text.contains(' ') && builds_within(text, depth + 1));
    }
    if name.starts_with("python") {
        let mut texts = texts.skip_while(|text| *text != "-m").skip(1);
        return texts.next().is_some_and(|module| MODULES.contains(&module));
    }
    let Some((_, verbs)) = BUILDS.iter().find(|(known, _)| *known == name) else { return false };
    let bare = rest.is_empty() && name == "yarn";
    bare || verbs.is_empty() || texts.any(|text| verbs.contains(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_told_from_everything_else() {
        for build in [
            "cargo test --workspace",
            "cargo +nightly clippy",
            "cd web && npm run build",
            "CI=1 yarn",
            "timeout 60 go test ./...",
            "env A=b nice -n 5 make -j8",
            "bash -c 'cd x; ./gradlew test'",
            "python3 -m pytest -q",
            ".venv/bin/pytest",
            "echo go && xcodebuild test | tail",
            "for d in a b; do (cd $d && mvn -q verify); done",
        ] {
            assert!(is_build(build), "{build}");
        }
        for other in [
            "ls",
            "cargo fmt",
            "cargo --version",
            "git log",
            "npm ls",
            "go env",
            "cat Makefile",
            "grep -r make .",
            "python3 x.py",
            "echo cargo test",
            "if",
            "",
        ] {
            assert!(!is_build(other), "{other}");
        }
    }
}
