//! `.ci/figures`, `.ci/baseline` and `.ci/loop` with programs in place of what they build and measure.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A checkout with one of the scripts, and programs that come before those of this machine.
struct PlayedCheckout {
    dir: tempfile::TempDir,
}

impl PlayedCheckout {
    fn with(script: &str) -> Self {
        let checkout = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["root/.ci", "bin", "tmp"] {
            fs::create_dir_all(checkout.at(folder)).unwrap();
        }
        let top = Path::new(codebutler_testbed::FOLDER).join("..");
        let to = checkout.at("root/.ci").join(script);
        fs::copy(top.join(".ci").join(script), to).unwrap();
        checkout
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn add_program(&self, path: &str, does: &str) {
        self.write(path, &format!("#!/bin/bash\n{does}\n"));
        fs::set_permissions(self.at(path), Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let others = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{others}", self.at("bin").display()));
        command.env("TMPDIR", self.at("tmp")).current_dir(self.at("root"));
        command
    }

    /// True if the script ends well, and what it prints.
    fn run(&self, script: &str, words: &[&str], env: &[(&str, &str)]) -> (bool, String) {
        let mut command = self.command(&self.at("root/.ci").join(script));
        let output = command.args(words).envs(env.iter().copied()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
}

/// Figures of which two die, one with a message and one without, unless `ALL_RUN` is set.
const FIGURES: &str = r#"
case $1 in
  --names) printf 'redact\nproxy\nwake\n'; exit 0 ;;
  --table) cat "$2"; ! grep -q null "$2"; exit ;;
esac
[ "$1" = redact ] || [ -n "${ALL_RUN:-}" ] || { [ "$1" = wake ] && kill -KILL $$; echo "$1: no bed" >&2; exit 1; }
printf '{"name": "%s.rate", "value": 1, "limit": 2}\n' "$1""#;

#[test]
fn a_figure_that_does_not_run_is_red_and_in_the_table() {
    let checkout = PlayedCheckout::with("figures");
    checkout.add_program("bin/cargo", "exit 0");
    checkout.add_program("root/target/release/figures", FIGURES);
    let kept = checkout.at("root/.ci/figures.jsonl");
    let (passed, said) = checkout.run("figures", &["--record"], &[]);
    assert!(!passed && said.contains("red: proxy wake"), "{said}");
    for name in ["proxy", "wake"] {
        let row = format!(r#"{{"name": "{name}", "value": null, "unit": "not measured"}}"#);
        assert!(said.contains(&row), "{said}");
    }
    assert!(!kept.exists(), "a red run was kept as a release's");
    let (passed, said) = checkout.run("figures", &["--record", "redact"], &[("ALL_RUN", "1")]);
    assert!(!passed && !kept.exists(), "some figures were kept as all: {said}");
    let (passed, said) = checkout.run("figures", &["--record"], &[("ALL_RUN", "1")]);
    assert!(passed, "{said}");
    assert_eq!(fs::read_to_string(kept).unwrap().lines().count(), 3);
}

/// Takes its time of a clock of its own: a step takes `COST_before` or `COST_now` seconds.
const CARGO: &str = r#"
tree=${PWD##*/} cost=COST_${PWD##*/}
echo "$tree $*" >>"$PLAYED/calls"
[ "$1" = fetch ] || echo "$(($(cat "$PLAYED/clock") + ${!cost} * 1000000000))" >"$PLAYED/clock"
case $1 in
  test) [ "${FAILS:-}" != "$tree" ] || exit 101; echo 'test result: ok. 1 passed; 0 failed' ;;
  demo) echo $$ >>"$PLAYED/demos"; echo 'Open the chat page and pick a suggestion.'; exec sleep 600 ;;
esac"#;

/// A repository whose first commit has one crate, and whose second one has another for Slack.
fn lay_out_trees(checkout: &PlayedCheckout) {
    let git = |words: &[&str]| {
        let mut command = checkout.command(Path::new("git"));
        command.args(["-c", "user.name=Ana", "-c", "user.email=ana@example.com"]);
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let word = "let text = \"This thread is closed. Start a new one for anything else.\";\n";
    git(&["init", "--quiet"]);
    checkout.write("root/operator/Cargo.toml", "[package]\nname = \"codebutler-operator\"\n");
    checkout.write("root/operator/src/gateway/slack/effects.rs", word);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "One crate"]);
    git(&["tag", "one-crate"]);
    git(&["rm", "--quiet", "-r", "operator/src"]);
    let slack = "[package]\nname = \"codebutler-slack\"\n";
    checkout.write("root/operator/gateway/slack/Cargo.toml", slack);
    checkout.write("root/operator/gateway/slack/src/inbound/effects.rs", word);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "A crate for Slack"]);
}

#[test]
fn the_loop_is_timed_beside_an_earlier_commit() {
    let checkout = PlayedCheckout::with("loop");
    lay_out_trees(&checkout);
    checkout.add_program("bin/cargo", CARGO);
    checkout.add_program("bin/date", r#"cat "$PLAYED/clock""#);
    checkout.add_program("bin/df", r"printf 'Avail\n 100\n'");
    checkout.write("clock", "1\n");
    let played = checkout.dir.path().display().to_string();
    let run = |now: &str, fails: &str| {
        let costs = [("COST_before", "10"), ("COST_now", now), ("FAILS", fails)];
        let env = [costs.as_slice(), &[("PLAYED", &*played)]].concat();
        let ended = checkout.run("loop", &["one-crate", "--rounds", "1"], &env);
        assert_eq!(fs::read_dir(checkout.at("tmp")).unwrap().count(), 0, "{}", ended.1);
        let demos = fs::read_to_string(checkout.at("demos")).unwrap();
        let left = demos.lines().filter(|pid| Path::new("/proc").join(pid).exists());
        assert_eq!(left.count(), 0, "a demo was left behind");
        ended
    };
    let (passed, said) = run("1", "");
    assert!(passed && !said.contains("RED"), "{said}");
    for row in ["cold   1.00 s        ≤ 0.6", "word   1.00 s        ≤ 0.2", "demo   1.00 s"] {
        assert!(said.contains(&format!("loop.{row}")), "{said}");
    }
    let calls = fs::read_to_string(checkout.at("calls")).unwrap();
    for (tree, package) in [("before", "codebutler-operator"), ("now", "codebutler-slack")] {
        let call = format!("{tree} test --quiet --locked --package {package} --lib ");
        assert_eq!(calls.matches(&call).count(), 2, "{calls}");
    }
    let (passed, said) = run("9", "");
    assert!(!passed && said.contains("red: loop.cold loop.word loop.demo"), "{said}");
    let (passed, said) = run("1", "now");
    assert!(!passed && said.contains("the test of now fails"), "{said}");
}

#[test]
fn a_baseline_is_built_once_in_a_checkout_of_its_commit() {
    let checkout = PlayedCheckout::with("baseline");
    lay_out_trees(&checkout);
    // The first time it is interrupted when one of both programs is there.
    let build = r#"[ "$1" = build ] && echo "$PWD" >>"$PLAYED" || exit 1
        mkdir -p target/release/deps && touch target/release/figures && chmod +x target/release/figures
        [ "$(wc -l <"$PLAYED")" != 1 ] || exit 130
        touch target/release/codebutler-agent"#;
    checkout.add_program("bin/cargo", build);
    let calls = checkout.at("calls").display().to_string();
    let env = [("PLAYED", &*calls)];
    assert!(!checkout.run("baseline", &["one-crate"], &env).0, "an interrupted build is none");
    for _ in 0..2 {
        let (passed, said) = checkout.run("baseline", &["one-crate"], &env);
        assert!(passed, "{said}");
        let figures = PathBuf::from(said.trim());
        assert!(figures.is_file() && !figures.with_file_name("deps").exists(), "{said}");
        assert!(figures.with_file_name("codebutler-agent").exists(), "{said}");
        let top = figures.ancestors().nth(3).unwrap();
        assert!(top.join("operator/src/gateway/slack/effects.rs").exists(), "another commit's");
    }
    assert_eq!(fs::read_to_string(&calls).unwrap().lines().count(), 2);
    let (passed, said) = checkout.run("baseline", &["no-such-commit"], &env);
    assert!(!passed && said.contains("there is no commit no-such-commit"), "{said}");
}
