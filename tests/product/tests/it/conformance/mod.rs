//! Behaviours of an API server, as one table: the same assertions against the embedded server and, with `KUBECONFIG`
//! or `KUBEBUILDER_ASSETS`, against a real one. They are written from Kubernetes' own behaviour, wording included.
//! Nothing here but the runner knows which server it talks to.

#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod access;
mod core;
mod custom;
mod deletion;
mod lab;
mod names;
mod ownership;
mod patches;
mod protocol;
mod reading;
mod table;
mod watching;
mod writing;

use std::future::Future;
use std::io::Write as _;
use std::pin::Pin;

use codebutler_testbed::apiserver::ServerOptions;
use codebutler_testbed::cluster::TestCluster;
use futures::{FutureExt as _, StreamExt as _};

use lab::Lab;
use table::{Column, Verdict};

/// Number of behaviours that are checked at the same time.
const AT_ONCE: usize = 8;

/// Behaviours in which the embedded server is known to differ. A behaviour that holds may not be listed here.
const GAPS: &[&str] = &[];

type Run = fn(Lab) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// One behaviour: what is expected, and the assertions.
pub(crate) struct Behaviour {
    area: &'static str,
    says: &'static str,
    run: Run,
}

/// Names the functions of an area.
macro_rules! behaviours {
    ($area:literal, $($run:ident => $says:literal),* $(,)?) => {
        pub(crate) const ALL: &[crate::conformance::Behaviour] = &[
            $(crate::conformance::Behaviour {
                area: $area, says: $says, run: |lab| Box::pin($run(lab)),
            }),*
        ];
    };
}
use behaviours;

fn all() -> impl Iterator<Item = &'static Behaviour> {
    [
        writing::ALL,
        patches::ALL,
        ownership::ALL,
        reading::ALL,
        watching::ALL,
        deletion::ALL,
        names::ALL,
        core::pods::ALL,
        core::claims::ALL,
        core::limits::ALL,
        core::maps::ALL,
        core::others::ALL,
        custom::definitions::ALL,
        custom::values::ALL,
        custom::rules::ALL,
        custom::served::ALL,
        access::ALL,
        protocol::ALL,
    ]
    .into_iter()
    .flatten()
}

async fn judge(title: String, cluster: &TestCluster, gaps: &[&str]) -> Column {
    cluster.install_crds().await.unwrap();
    let verdicts = futures::stream::iter(all())
        .map(|behaviour| async move {
            let lab = Lab::new(cluster).await;
            let run = std::panic::AssertUnwindSafe((behaviour.run)(lab.clone())).catch_unwind();
            let ended = tokio::time::timeout(lab::PATIENCE, run).await;
            lab.clean().await;
            let known = gaps.contains(&behaviour.says);
            match ended {
                Ok(Ok(())) if known => Verdict::Fails("holds by now: no gap any more".to_owned()),
                Ok(Ok(())) => Verdict::Holds,
                _ if known => Verdict::Differs,
                Ok(Err(panic)) => Verdict::Fails(table::reason(panic.as_ref())),
                Err(_) => Verdict::Fails("took too long".to_owned()),
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    Column { title, verdicts }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_behave_as_kubernetes_does() {
    let only = std::env::var("CODEBUTLER_CONFORMANCE").unwrap_or_default();
    let dir = tempfile::tempdir().unwrap();
    let mut columns = Vec::new();
    if only != "real" {
        let embedded = TestCluster::embedded(dir.path(), ServerOptions::default()).await.unwrap();
        columns.push(judge("embedded".to_owned(), &embedded, GAPS).await);
        embedded.shutdown().await;
    }
    let real = TestCluster::start(&dir.path().join("real")).await.unwrap();
    let is_real = !real.is_embedded();
    if is_real {
        let title = real.version().await.unwrap();
        columns.push(judge(title, &real, &[]).await);
    }
    real.shutdown().await;
    let table = table::of(all(), &columns);
    if is_real {
        // Past the capture of test output: this table is what such a run is for.
        let _ = std::io::stderr().write_all(table.as_bytes());
    } else {
        println!("{table}");
    }
    let failed = columns.iter().flat_map(|c| &c.verdicts).any(|v| matches!(v, Verdict::Fails(_)));
    assert!(!failed, "see the table");
}
