//! An earlier build of the product on the testbed of today: its program, with the definitions, rights and roles of its
//! own checkout. A build is made for these: an operator of before may make objects that today's finds made, and
//! today's rights would refuse it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Folders and files of a checkout. In newer ones these are links into the charts.
const DEFINITIONS: &str = "crds/yaml";
const RIGHTS: [&str; 2] = ["operator/deploy/controller.yaml", "operator/deploy/gateway.yaml"];
const ROLES: &str = "seeds/roles";

/// An earlier build; see the module.
#[derive(Clone, Debug)]
pub struct EarlierBuild {
    /// The binary that is every process of that build under another name.
    pub program: PathBuf,
    /// Definitions of its resources.
    pub definitions: Vec<CustomResourceDefinition>,
    /// Its accounts, rights and Services, as YAML.
    pub rights: Vec<String>,
    /// File name and YAML of each of its roles.
    pub roles: Vec<(String, String)>,
}

impl EarlierBuild {
    /// Reads the checkout in which a program was built: the nearest folder above it that has the definitions.
    ///
    /// # Errors
    /// When the program is not below such a checkout, or one of its files can't be read.
    pub fn find(program: &Path) -> anyhow::Result<Self> {
        ensure!(program.is_file(), "there is no program {}", program.display());
        let program = std::path::absolute(program)?;
        let mut folders = program.ancestors().skip(1);
        let root = folders.find(|folder| folder.join(DEFINITIONS).is_dir()).with_context(|| {
            format!("{} is not in the target folder of its own checkout", program.display())
        })?;
        let definitions = read_folder(&root.join(DEFINITIONS))?;
        let definitions = definitions.iter().map(|(file, yaml)| {
            // By way of JSON: the types of schemas are written for it.
            let read = serde_saphyr::from_str::<serde_json::Value>(yaml)?;
            serde_json::from_value(read).with_context(|| format!("{DEFINITIONS}/{file}"))
        });
        let definitions = definitions.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(!definitions.is_empty(), "{} has no definitions", root.display());
        let rights = RIGHTS.map(|file| read_file(&root.join(file)));
        let rights = rights.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let roles = read_folder(&root.join(ROLES))?;
        Ok(Self { program, definitions, rights, roles })
    }

    /// Its definitions would replace those of a cluster that others use.
    pub fn refuse_cluster(&self) -> anyhow::Error {
        let program = self.program.display();
        anyhow!("{program} needs a cluster of its own: unset KUBECONFIG")
    }

    /// File name and YAML of each role.
    pub fn role_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.roles.iter().map(|(file, yaml)| (file.as_str(), yaml.as_str()))
    }
}

/// Reads the YAML files of a folder, in the order of their names.
fn read_folder(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|kind| kind == "yaml") {
            files.push((name, read_file(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::ServerOptions;
    use crate::cluster::TestCluster;
    use crate::place::InstallPlace;
    use crate::stack::manifests;

    /// This checkout, whose files have the form of every earlier one's, with a program in its target folder.
    fn lay_out(dir: &Path) -> PathBuf {
        let top = Path::new(crate::FOLDER).join("..");
        for folder in [DEFINITIONS, "operator/deploy", ROLES] {
            std::fs::create_dir_all(dir.join(folder)).unwrap();
            for (file, yaml) in read_folder(&top.join(folder)).unwrap() {
                std::fs::write(dir.join(folder).join(file), yaml).unwrap();
            }
        }
        std::fs::create_dir_all(dir.join("target/release")).unwrap();
        let program = dir.join("target/release/figures");
        std::fs::write(&program, "").unwrap();
        program
    }

    #[test]
    fn an_earlier_build_brings_the_files_of_its_own_checkout() {
        let dir = tempfile::tempdir().unwrap();
        let program = lay_out(dir.path());
        let right = "kind: OfBefore\nmetadata: {name: gateway}\n";
        std::fs::write(dir.path().join(RIGHTS[1]), right).unwrap();
        std::fs::write(dir.path().join(ROLES).join("README.md"), "no role").unwrap();
        let earlier = EarlierBuild::find(&program).unwrap();
        assert_eq!(earlier.program, program);
        assert_eq!(earlier.definitions.len(), codebutler_crds::all_definitions().len());
        assert_eq!(earlier.rights[1], right);
        assert_eq!(earlier.role_files().count(), crate::seeds::role_files().count());
        let yaml = manifests::system_manifests(&InstallPlace::usual(), Some(&earlier)).unwrap();
        assert!(yaml[1].contains("OfBefore"), "{}", yaml[1]);
    }

    #[test]
    fn a_program_without_its_checkout_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("figures");
        let missing = EarlierBuild::find(&program).unwrap_err().to_string();
        assert!(missing.contains("there is no program"), "{missing}");
        std::fs::write(&program, "").unwrap();
        let alone = EarlierBuild::find(&program).unwrap_err().to_string();
        assert!(alone.contains("target folder of its own checkout"), "{alone}");
        let damaged = lay_out(dir.path());
        std::fs::remove_file(dir.path().join(RIGHTS[0])).unwrap();
        let lacking = EarlierBuild::find(&damaged).unwrap_err().to_string();
        assert!(lacking.contains(RIGHTS[0]), "{lacking}");
    }

    /// An apply would be refused: the field is not declared in the schema.
    #[tokio::test]
    async fn a_field_that_earlier_definitions_lack_is_left_out() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let mut earlier = EarlierBuild::find(&lay_out(dir.path())).unwrap();
        let roles = earlier.definitions.iter_mut().filter(|one| one.spec.names.kind == "AgentRole");
        for version in roles.flat_map(|one| &mut one.spec.versions) {
            let schema = version.schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
            let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
            spec.properties.as_mut().unwrap().remove("description");
            if let Some(required) = &mut spec.required {
                required.retain(|name| name != "description");
            }
        }
        let at = dir.path().join("cluster");
        let cluster = TestCluster::embedded(&at, ServerOptions::default()).await.unwrap();
        cluster.install_definitions(&earlier.definitions).await.unwrap();
        InstallPlace::usual().make(&cluster).await.unwrap();
        let roles = manifests::read_roles(&InstallPlace::usual(), earlier.role_files(), |_| None);
        let mut role = serde_json::to_value(&roles.unwrap()[0]).unwrap();
        role.as_object_mut().unwrap().remove("status");
        let refused = cluster.apply_yaml(&role.to_string()).await.unwrap_err();
        let why = std::error::Error::source(&refused).unwrap().to_string();
        assert!(why.contains("field not declared in schema"), "{why}");
        cluster.create_yaml(&role.to_string()).await.unwrap();
        cluster.shutdown().await;
    }
}
