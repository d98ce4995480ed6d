//! What was not checked is red where nobody reads what was printed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// `.ci/dependencies` in a folder of its own, on a machine without its tools and without PyPI.
fn run_without_tools(ci: Option<&str>) -> (bool, String) {
    let top = Path::new(codebutler_testbed::FOLDER).join("..");
    let dir = tempfile::tempdir().unwrap();
    let (own, bin) = (dir.path().join(".ci"), dir.path().join("bin"));
    fs::create_dir_all(&own).unwrap();
    fs::create_dir_all(&bin).unwrap();
    for file in ["dependencies", "tools.lock"] {
        fs::copy(top.join(".ci").join(file), own.join(file)).unwrap();
    }
    for program in ["bash", "dirname", "cmp", "rm", "cp"] {
        let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(program));
        symlink(found.iter().find(|path| path.exists()).unwrap(), bin.join(program)).unwrap();
    }
    fs::write(bin.join("python3"), "#!/bin/bash\nexit 1\n").unwrap();
    fs::set_permissions(bin.join("python3"), Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(bin.join("bash"));
    command.arg(own.join("dependencies")).env_clear().env("PATH", &bin);
    command.envs(ci.map(|value| ("CI", value)));
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn dependencies_that_were_not_checked_are_red_in_ci() {
    for (ci, passes) in
        [(Some("true"), false), (Some("1"), false), (Some("false"), true), (None, true)]
    {
        let (passed, said) = run_without_tools(ci);
        assert_eq!(passed, passes, "CI={ci:?}: {said}");
        for what in ["NOT CHECKED", "licences", "sources", "cargo-deny"] {
            assert!(said.contains(what), "CI={ci:?} {what}: {said}");
        }
    }
}
