//! A real control plane from a folder with `etcd` and `kube-apiserver` on free ports, and with
//! `kube-controller-manager` where the folder has it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::{ClusterError, READY, Result};
use crate::apiserver;

/// Most attempts at a free port: one that another process took meanwhile is drawn again.
const ATTEMPTS: u32 = 3;

/// The processes of etcd, API server and controller manager.
pub(super) struct AssetProcesses {
    etcd: Child,
    server: Child,
    manager: Option<Child>,
    /// An administrator's kubeconfig, as YAML.
    pub kubeconfig: String,
}

impl AssetProcesses {
    /// Starts them and waits until the API server is ready. Data and logs go below `dir`.
    pub(super) async fn start(folder: &Path, dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)
            .map_err(ClusterError::io(format!("making {}", dir.display())))?;
        let mut last = ClusterError::Timeout("starting kube-apiserver");
        for attempt in 0..ATTEMPTS {
            match Self::try_start(folder, &dir.join(attempt.to_string())).await {
                Ok(assets) => return Ok(assets),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn try_start(folder: &Path, dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)
            .map_err(ClusterError::io(format!("making {}", dir.display())))?;
        let (client_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let etcd_url = format!("http://127.0.0.1:{client_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let etcd = run_program(
            &folder.join("etcd"),
            &dir.join("etcd.log"),
            &[
                format!("--data-dir={}", dir.join("etcd").display()),
                format!("--listen-client-urls={etcd_url}"),
                format!("--advertise-client-urls={etcd_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=default={peer_url}"),
                // Lost data means a lost test cluster: no need to wait for the disk.
                "--unsafe-no-fsync".to_owned(),
            ],
        )?;
        let files = AssetFiles::write(dir)?;
        let path = |path: &Path| path.display().to_string();
        let server = run_program(
            &folder.join("kube-apiserver"),
            &dir.join("kube-apiserver.log"),
            &[
                format!("--etcd-servers={etcd_url}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                format!("--tls-cert-file={}", path(&files.certificate)),
                format!("--tls-private-key-file={}", path(&files.key)),
                format!("--service-account-issuer={}", apiserver::API_AUDIENCE),
                format!("--service-account-key-file={}", path(&files.account_public_key)),
                format!("--service-account-signing-key-file={}", path(&files.account_key)),
                format!("--token-auth-file={}", path(&files.tokens)),
                "--authorization-mode=RBAC".to_owned(),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                "--allow-privileged=true".to_owned(),
                // Loopback only: nothing to advertise, and no endpoints to keep for it.
                "--advertise-address=127.0.0.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                format!("--cert-dir={}", path(dir)),
            ],
        )?;
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = apiserver::kubeconfig_yaml(&url, &files.ca, &files.token, None);
        let mut assets = Self { etcd, server, manager: None, kubeconfig };
        assets.wait().await?;
        assets.start_manager(folder, dir, &files)?;
        Ok(assets)
    }

    fn start_manager(&mut self, folder: &Path, dir: &Path, files: &AssetFiles) -> Result<()> {
        let program = folder.join("kube-controller-manager");
        if !program.exists() {
            return Ok(());
        }
        let (access, ca) = (dir.join("manager.kubeconfig"), dir.join("ca.crt"));
        super::write_private(&access, &self.kubeconfig)?;
        super::write_private(&ca, &files.ca)?;
        let manager = run_program(
            &program,
            &dir.join("kube-controller-manager.log"),
            &[
                format!("--kubeconfig={}", access.display()),
                format!("--root-ca-file={}", ca.display()),
                format!("--service-account-private-key-file={}", files.account_key.display()),
                "--leader-elect=false".to_owned(),
                // Nobody asks it anything.
                "--secure-port=0".to_owned(),
            ],
        )?;
        self.manager = Some(manager);
        Ok(())
    }

    async fn wait(&mut self) -> Result<()> {
        let config = Kubeconfig::from_yaml(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(config, &options).await?;
        super::without_proxy(&mut config);
        let client = Client::try_from(config).map_err(ClusterError::request("client"))?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let deadline = Instant::now() + READY;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new()).unwrap_or_default();
            let ready = client.request_text(request).await.is_ok_and(|text| text == "ok");
            // The server makes its own namespaces a moment after it says that it is ready.
            if ready && namespaces.get("default").await.is_ok() && gives_addresses(&client).await {
                return Ok(());
            }
            let ended = matches!(self.server.try_wait(), Ok(Some(_)))
                || matches!(self.etcd.try_wait(), Ok(Some(_)));
            if ended || Instant::now() > deadline {
                return Err(ClusterError::Timeout("starting kube-apiserver"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Kills the processes and waits for their end.
    pub(super) async fn shutdown(mut self) {
        // They are killed anyway when they are dropped.
        if let Some(mut manager) = self.manager.take() {
            let _ = manager.kill().await;
        }
        let _ = self.server.kill().await;
        let _ = self.etcd.kill().await;
    }
}

/// True once a Service can be made. The range that its address comes from is an object too, which the
/// server makes for itself; until then it answers 500.
async fn gives_addresses(client: &Client) -> bool {
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let service = Service {
        metadata: ObjectMeta { generate_name: Some("probe-".to_owned()), ..ObjectMeta::default() },
        spec: Some(ServiceSpec {
            ports: Some(vec![ServicePort { port: 1, ..ServicePort::default() }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    !matches!(services.create(&params, &service).await, Err(kube::Error::Api(why)) if why.code >= 500)
}

struct AssetFiles {
    certificate: PathBuf,
    key: PathBuf,
    account_key: PathBuf,
    /// kube-apiserver reads a private key in PKCS #8 where it signs, but not where it verifies.
    account_public_key: PathBuf,
    tokens: PathBuf,
    ca: String,
    token: String,
}

impl AssetFiles {
    fn write(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "codebutler-testbed-ca");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let mut params = CertificateParams::new(
            ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned),
        )?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &ca)?;
        let account = KeyPair::generate()?;
        let token = apiserver::random_token();
        let put = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.join(name);
            super::write_private(&path, text)?;
            Ok(path)
        };
        Ok(Self {
            certificate: put("server.crt", &certificate.pem())?,
            key: put("server.key", &key.serialize_pem())?,
            account_key: put("accounts.key", &account.serialize_pem())?,
            account_public_key: put("accounts.pub", &account.public_key_pem())?,
            tokens: put("tokens.csv", &format!("{token},kubernetes-admin,1,system:masters\n"))?,
            ca: ca.pem(),
            token,
        })
    }
}

fn run_program(program: &Path, log: &Path, arguments: &[String]) -> Result<Child> {
    let log = std::fs::File::create(log)
        .map_err(ClusterError::io(format!("making {}", log.display())))?;
    let errors = log.try_clone().map_err(ClusterError::io("log"))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .kill_on_drop(true)
        .spawn()
        .map_err(ClusterError::io(format!("starting {}", program.display())))
}

fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")
        .map_err(ClusterError::io("looking for a free port"))?;
    Ok(listener.local_addr().map_err(ClusterError::io("looking for a free port"))?.port())
}
