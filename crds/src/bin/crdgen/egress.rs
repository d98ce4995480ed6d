//! The page of egress presets, from their list.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use codebutler_crds::egress::EgressPreset;

const HEAD: &str = "# Egress presets\n\n\
    `spec.egress.presets` of a Repo names ecosystems, and commands may connect to the hosts of each, on the ports 443 and\n\
    80. `spec.egress.hosts` adds hosts of your own. Written by `cargo crdgen`.\n\n\
    ```yaml\n\
    spec:\n  egress:\n    presets: [npm, debian]\n    hosts: [registry.acme.dev]\n\
    ```\n\n\
    A host is open for all that it serves. Registries take uploads of anyone who has an account there, and\n\
    `storage.googleapis.com` holds anyone's buckets: a command that a stranger's text has misled can send files there.\n\
    Where that is too much, name a mirror of your own in `hosts` and no preset.\n\n\
    What no preset has: GitHub (`github.com`, `codeload.github.com`), from which Git dependencies, prebuilt binaries of\n\
    some npm packages and the Gradle wrapper's distributions come; private registries; Ubuntu's mirrors.\n\n\
    | preset | host | for |\n|---|---|---|\n";

/// The page, beside the chart.
pub(crate) fn egress_page(chart: &Path) -> (PathBuf, String) {
    let mut text = HEAD.to_owned();
    for preset in EgressPreset::ALL {
        for host in preset.hosts() {
            let _ = writeln!(text, "| `{}` | `{}` | {} |", preset.name(), host.name, host.serves);
        }
    }
    text.push_str("\nWhere these hosts were looked up:\n\n");
    for preset in EgressPreset::ALL {
        let _ = writeln!(text, "- `{}`: {}.", preset.name(), preset.source());
    }
    (chart.join("EGRESS.md"), text)
}
