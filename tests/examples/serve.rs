#[tokio::main]
async fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let c = codebutler_testbed::cluster::Cluster::start(&dir).await.unwrap();
    println!("{}", c.kubeconfig().display());
    println!("{:?}", c.install_crds().await);
    println!("{} {}", c.url(), c.version().await.unwrap());
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
}
