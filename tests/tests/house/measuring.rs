//! `.ci/figures` with programs in place of what it builds and measures: what can't be measured is red.

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
