//! Images of real servers: packages of npm and PyPI, and programs of this machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use codebutler_testbed::kubelet::LocalImage;
use codebutler_testbed::nodetools::{NodeToolsError, ensure_modules};
use codebutler_testbed::pytools::{PyToolsError, ensure_venv};

/// The folder of npm's packages in an image.
const MODULES: &str = "/srv/node_modules";

pub(super) fn skip(why: &str) {
    let current = std::thread::current();
    let name = current.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
}

/// An image with these packages; none where the machine has no node, said in a line.
pub(super) async fn node_image(packages: &'static [&'static str]) -> Option<LocalImage> {
    match tokio::task::spawn_blocking(move || ensure_modules(packages)).await.unwrap() {
        Ok(modules) => Some(binding(vec![(modules, MODULES.to_owned())])),
        Err(NodeToolsError::NoNode) => {
            skip("there is no node with npm");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The command of a script of a package.
pub(super) fn node_command(script: &str) -> Vec<String> {
    vec!["node".to_owned(), format!("{MODULES}/{script}")]
}

/// A virtual environment with a package; none where the machine has no Python, said in a line.
pub(super) async fn python_venv(package: &'static str) -> Option<PathBuf> {
    match tokio::task::spawn_blocking(move || ensure_venv(&[package])).await.unwrap() {
        Ok(venv) => Some(venv),
        Err(PyToolsError::NoPython) => {
            skip("there is no python3 with venv");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// An image with a virtual environment at `/srv/venv`, with the interpreter that it was made from, and a script at
/// `/srv/server.py`.
pub(super) fn python_image(venv: &Path, script: &Path) -> LocalImage {
    let config = std::fs::read_to_string(venv.join("pyvenv.cfg")).unwrap();
    let home = config.lines().find_map(|line| line.strip_prefix("home = ")).unwrap();
    let base = Path::new(home).parent().unwrap();
    let mut binds = vec![
        (venv.to_owned(), "/srv/venv".to_owned()),
        (script.to_owned(), "/srv/server.py".to_owned()),
    ];
    // Everything below `/usr` is in every image.
    if !base.starts_with("/usr") {
        binds.push((base.to_owned(), base.to_str().unwrap().to_owned()));
    }
    binding(binds)
}

pub(super) fn binding(binds: Vec<(PathBuf, String)>) -> LocalImage {
    LocalImage { binds, ..LocalImage::default() }
}
