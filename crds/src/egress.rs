//! Presets of `spec.egress`: the hosts that the package managers of an ecosystem download from, by exact name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An ecosystem whose registries commands may connect to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EgressPreset {
    /// JavaScript: npm, pnpm, Yarn.
    Npm,
    /// Registries of Python: pip, uv, Poetry.
    Pypi,
    /// Registries of Rust: Cargo, rustup.
    Crates,
    /// Module proxy and checksum database of Go.
    Go,
    /// Java and Kotlin: Maven, Gradle.
    Maven,
    /// Registries of Ruby: gem, Bundler.
    Rubygems,
    /// Package archives of Debian: apt.
    Debian,
    /// Container images of Docker Hub, GitHub and Quay.
    Containers,
}

/// One host that a preset opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresetHost {
    /// Exact host name, without wildcards.
    pub name: &'static str,
    /// The downloads that it serves.
    pub serves: &'static str,
}

/// Hosts of one preset, and their source.
struct PresetFacts {
    name: &'static str,
    /// Documentation in which the hosts were looked up.
    source: &'static str,
    hosts: &'static [PresetHost],
}

const fn host(name: &'static str, serves: &'static str) -> PresetHost {
    PresetHost { name, serves }
}

impl EgressPreset {
    /// Every preset, in the order in which they are listed for people.
    pub const ALL: [Self; 8] = [
        Self::Npm,
        Self::Pypi,
        Self::Crates,
        Self::Go,
        Self::Maven,
        Self::Rubygems,
        Self::Debian,
        Self::Containers,
    ];

    /// The preset's name in a Repo.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The page that names its hosts, or the default of the program that connects to them.
    #[must_use]
    pub const fn source(self) -> &'static str {
        self.facts().source
    }

    /// Hosts of the preset, each with the ports 443 and 80.
    #[must_use]
    pub const fn hosts(self) -> &'static [PresetHost] {
        self.facts().hosts
    }

    /// The first preset that has this host.
    #[must_use]
    pub fn find_host(host: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.hosts().iter().any(|own| own.name == host))
    }

    const fn facts(self) -> PresetFacts {
        match self {
            Self::Npm => NPM,
            Self::Pypi => PYPI,
            Self::Crates => CRATES,
            Self::Go => GO,
            Self::Maven => MAVEN,
            Self::Rubygems => RUBYGEMS,
            Self::Debian => DEBIAN,
            Self::Containers => CONTAINERS,
        }
    }
}

const NPM: PresetFacts = PresetFacts {
    name: "npm",
    source: "the default `registry` of npm and of Yarn 1; Corepack's list of package managers; node-gyp's `dist-url`",
    hosts: &[
        host("registry.npmjs.org", "packages, for npm, pnpm and Yarn from 2 on"),
        host(
            "registry.yarnpkg.com",
            "the same packages, under the name that Yarn 1 writes into lock files",
        ),
        host("repo.yarnpkg.com", "Yarn itself, from 2 on"),
        host("nodejs.org", "headers of Node.js, with which node-gyp builds native packages"),
    ],
};

const PYPI: PresetFacts = PresetFacts {
    name: "pypi",
    source: "the default `index-url` of pip; <https://docs.pypi.org/api/index-api/>",
    hosts: &[
        host("pypi.org", "the index"),
        host("files.pythonhosted.org", "wheels and source archives"),
    ],
};

const CRATES: PresetFacts = PresetFacts {
    name: "crates",
    source: "<https://index.crates.io/config.json>; the default `RUSTUP_DIST_SERVER` of rustup",
    hosts: &[
        host("index.crates.io", "the sparse index"),
        host("static.crates.io", "crates"),
        host("static.rust-lang.org", "toolchains that a `rust-toolchain.toml` asks for"),
    ],
};

const GO: PresetFacts = PresetFacts {
    name: "go",
    source: "the defaults of `GOPROXY` and `GOSUMDB`; <https://github.com/golang/go/issues/52908>",
    hosts: &[
        host("proxy.golang.org", "modules, and toolchains that a `go.mod` asks for"),
        host("sum.golang.org", "checksums"),
        host("storage.googleapis.com", "archives of modules, to which the proxy redirects"),
    ],
};

const MAVEN: PresetFacts = PresetFacts {
    name: "maven",
    source: "Maven's super POM; Gradle's `mavenCentral()` and plugin portal",
    hosts: &[
        host("repo.maven.apache.org", "Maven Central"),
        host("repo1.maven.org", "Maven Central, under its other name"),
        host("plugins.gradle.org", "plugins of Gradle"),
        host(
            "plugins-artifacts.gradle.org",
            "files of these plugins, to which the portal redirects",
        ),
    ],
};

const RUBYGEMS: PresetFacts = PresetFacts {
    name: "rubygems",
    source: "the default source of RubyGems and Bundler",
    hosts: &[
        host("rubygems.org", "gems and their index"),
        host("index.rubygems.org", "the compact index"),
    ],
};

const DEBIAN: PresetFacts = PresetFacts {
    name: "debian",
    source: "`/etc/apt/sources.list.d/debian.sources` of Debian's images; <https://deb.debian.org/>",
    hosts: &[
        host("deb.debian.org", "packages and security updates"),
        host("security.debian.org", "security updates, under their other name"),
    ],
};

const CONTAINERS: PresetFacts = PresetFacts {
    name: "containers",
    source: "<https://docs.docker.com/desktop/setup/allow-list/>; GitHub's and Red Hat's pages on firewalls",
    hosts: &[
        host("registry-1.docker.io", "manifests of Docker Hub"),
        host("auth.docker.io", "tokens for Docker Hub"),
        host("production.cloudflare.docker.com", "layers of Docker Hub"),
        host("production.cloudfront.docker.com", "layers of Docker Hub"),
        host(
            "docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com",
            "layers of Docker Hub",
        ),
        host("ghcr.io", "manifests of GitHub's registry"),
        host("pkg-containers.githubusercontent.com", "layers of GitHub's registry"),
        host("quay.io", "manifests of Quay"),
        host("cdn.quay.io", "layers of Quay"),
        host("cdn01.quay.io", "layers of Quay"),
        host("cdn02.quay.io", "layers of Quay"),
        host("cdn03.quay.io", "layers of Quay"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_written_as_it_is_named_and_its_hosts_are_exact() {
        for preset in EgressPreset::ALL {
            assert_eq!(serde_json::to_value(preset).unwrap(), preset.name());
            for host in preset.hosts() {
                assert!(!host.name.contains(['*', ':', '/']), "{}", host.name);
                assert_eq!(EgressPreset::find_host(host.name), Some(preset), "{}", host.name);
            }
        }
        assert_eq!(EgressPreset::find_host("npmjs.org"), None);
    }
}
