//! A container as the sandbox gets it: mounts, `/etc`, user, command. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::ResourceExt;

use super::env;
use super::image::LocalImage;
use super::sandbox::spec::{BindMount, ContainerSpec, ProcessSpec};

/// An error in a container's spec that keeps it from being started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SpecError {
    /// A mount of a volume that the pod doesn't have.
    #[error("volume mount {0:?} names no volume of the pod")]
    NoVolume(String),
    /// `runAsNonRoot`, but the user is root.
    #[error("container has runAsNonRoot and its user is root")]
    Root,
    /// Neither the container nor its image has a command.
    #[error("no command specified")]
    NoCommand,
    /// A right that no sandbox here gives.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
}

/// The node's part of a container: sandbox, root folder, volumes and address.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerSurroundings<'a> {
    /// Process that holds the pod's namespaces.
    pub sandbox: i32,
    /// Empty folder to build the root on.
    pub root: &'a Path,
    /// Host folders of the pod's volumes.
    pub volumes: &'a BTreeMap<String, PathBuf>,
    pub ip: IpAddr,
}

/// The spec of `container`, whose image and environment are known.
pub(super) fn container_spec(
    pod: &Pod,
    container: &Container,
    image: &LocalImage,
    environment: &BTreeMap<String, String>,
    around: ContainerSurroundings<'_>,
) -> Result<ContainerSpec, SpecError> {
    let spec = pod.spec.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let shared = spec.security_context.clone().unwrap_or_default();
    if own.privileged == Some(true) {
        return Err(SpecError::Unsupported("privileged"));
    }
    let uid = own.run_as_user.or(shared.run_as_user).map_or(image.user, narrow_id);
    let gid = own.run_as_group.or(shared.run_as_group).map_or(uid, narrow_id);
    if uid == 0 && own.run_as_non_root.or(shared.run_as_non_root) == Some(true) {
        return Err(SpecError::Root);
    }
    let argv = env::command_line(container, &image.entrypoint, environment);
    if argv.is_empty() {
        return Err(SpecError::NoCommand);
    }
    let home = environment.get("HOME").map_or("/", String::as_str);
    Ok(ContainerSpec {
        pod: around.sandbox,
        root: around.root.to_owned(),
        read_only_root: own.read_only_root_filesystem == Some(true),
        etc: etc_files(pod, &spec, around.ip, (uid, gid), home),
        image: image.binds.iter().map(|(source, target)| image_bind(source, target)).collect(),
        mounts: bind_mounts(container, environment, around.volumes)?,
        process: ProcessSpec {
            argv,
            env: environment.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            cwd: container.working_dir.clone().filter(|dir| !dir.is_empty()).unwrap_or("/".into()),
            uid,
            gid,
        },
    })
}

/// Host name of the pod: its own or its name, as a valid label.
pub(super) fn pod_hostname(pod: &Pod) -> String {
    let name = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let mut name = name.unwrap_or_else(|| pod.name_any());
    name.truncate(63);
    name.trim_end_matches(['-', '.']).to_owned()
}

fn narrow_id(id: i64) -> u32 {
    u32::try_from(id).unwrap_or(super::image::DEFAULT_USER)
}

fn image_bind(source: &Path, target: &str) -> BindMount {
    BindMount {
        source: source.to_owned(),
        sub_path: None,
        target: target.to_owned(),
        read_only: true,
    }
}

fn bind_mounts(
    container: &Container,
    environment: &BTreeMap<String, String>,
    volumes: &BTreeMap<String, PathBuf>,
) -> Result<Vec<BindMount>, SpecError> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts
        .map(|mount| {
            let source =
                volumes.get(&mount.name).ok_or_else(|| SpecError::NoVolume(mount.name.clone()))?;
            let by_expression =
                mount.sub_path_expr.as_ref().map(|path| env::expand_variables(path, environment));
            let sub_path = mount.sub_path.clone().or(by_expression);
            Ok(BindMount {
                source: source.clone(),
                sub_path: sub_path.filter(|path| !path.is_empty()),
                target: mount.mount_path.clone(),
                read_only: mount.read_only == Some(true),
            })
        })
        .collect()
}

fn etc_files(
    pod: &Pod,
    spec: &PodSpec,
    ip: IpAddr,
    (uid, gid): (u32, u32),
    home: &str,
) -> Vec<(String, String)> {
    let hostname = pod_hostname(pod);
    let mut passwd = "root:x:0:0:root:/root:/bin/sh\n".to_owned();
    let mut group = "root:x:0:\n".to_owned();
    if uid != 0 {
        let _ = writeln!(passwd, "user:x:{uid}:{gid}::{home}:/bin/sh");
    }
    if gid != 0 {
        let _ = writeln!(group, "user:x:{gid}:");
    }
    let mut hosts = format!("127.0.0.1\tlocalhost\n::1\tlocalhost\n{ip}\t{hostname}\n");
    for alias in spec.host_aliases.iter().flatten() {
        let names = alias.hostnames.clone().unwrap_or_default();
        let _ = writeln!(hosts, "{}\t{}", alias.ip, names.join("\t"));
    }
    [
        ("passwd", passwd),
        ("group", group),
        ("hosts", hosts),
        ("hostname", format!("{hostname}\n")),
        ("resolv.conf", resolv_conf(spec)),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
    ]
    .map(|(name, content)| (name.to_owned(), content))
    .into()
}

/// No pod can reach a name server, whatever its DNS policy; only its own configuration is shown.
fn resolv_conf(spec: &PodSpec) -> String {
    let mut text = String::new();
    let Some(config) = &spec.dns_config else { return text };
    for server in config.nameservers.iter().flatten() {
        let _ = writeln!(text, "nameserver {server}");
    }
    if let Some(searches) = config.searches.as_ref().filter(|searches| !searches.is_empty()) {
        let _ = writeln!(text, "search {}", searches.join(" "));
    }
    for option in config.options.iter().flatten() {
        let name = option.name.as_deref().unwrap_or_default();
        let value = option.value.as_ref().map(|value| format!(":{value}")).unwrap_or_default();
        let _ = writeln!(text, "options {name}{value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn build(pod: Value, container: Value) -> Result<ContainerSpec, SpecError> {
        let pod: Pod = from_value(pod).unwrap();
        let container: Container = from_value(container).unwrap();
        let image = LocalImage::default();
        let volumes = BTreeMap::from([("v".to_owned(), PathBuf::from("/host/v"))]);
        let around = ContainerSurroundings {
            sandbox: 7,
            root: Path::new("/host/root"),
            volumes: &volumes,
            ip: [10, 0, 0, 1].into(),
        };
        let env = image.environment(&pod_hostname(&pod));
        container_spec(&pod, &container, &image, &env, around)
    }

    #[test]
    fn a_container_in_full() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [], "securityContext": {"runAsUser": 1000},
            "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["a", "b"]}],
            "dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]},
        }});
        let container = json!({
            "name": "c", "command": ["run"], "workingDir": "/w",
            "securityContext": {"readOnlyRootFilesystem": true, "runAsGroup": 5},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s", "readOnly": true}],
        });
        insta::assert_yaml_snapshot!(build(pod, container).unwrap());
    }

    #[test]
    fn what_is_refused() {
        let refused = |container: Value| {
            let pod = json!({"spec": {"containers": []}});
            build(pod, container).unwrap_err().to_string()
        };
        assert_eq!(refused(json!({"name": "c"})), "no command specified");
        let user = json!({"runAsUser": 0, "runAsNonRoot": true});
        let root = json!({"name": "c", "command": ["x"], "securityContext": user});
        assert!(refused(root).contains("user is root"));
        let mount = json!([{"name": "none", "mountPath": "/x"}]);
        let lost = json!({"name": "c", "command": ["x"], "volumeMounts": mount});
        assert!(refused(lost).contains("names no volume"));
    }
}
