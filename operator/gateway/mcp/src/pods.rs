//! Sessions with servers in pods, over the bridges of those pods.

use std::sync::Arc;

use async_trait::async_trait;
use codebutler_crds::Thread;

use crate::bridges::{
    BridgeServices, PodLink, PodLinkError, ServerSecrets, find_new_secrets, has_pod, keep_pod,
    open_pod_link, release_pod,
};
use crate::session_key::ServerPlace;
use crate::{LinkError, OpenedLink, PodLinks};

/// Opens sessions with servers in pods.
pub struct BridgedPods(pub Arc<BridgeServices>);

impl BridgedPods {
    /// The Thread whose own the server is.
    fn thread(&self, place: &ServerPlace) -> Option<Arc<Thread>> {
        let own = place.thread.as_ref().filter(|_| place.key.thread.is_some())?;
        self.0.context.thread(own)
    }
}

#[async_trait]
impl PodLinks for BridgedPods {
    fn has_pod(&self, place: &ServerPlace) -> bool {
        has_pod(&self.0, &place.repo, self.thread(place).as_ref(), &place.spec.name)
    }

    async fn open_pod_link(&self, place: &ServerPlace) -> Result<OpenedLink, LinkError> {
        let (thread, name) = (self.thread(place), &place.spec.name);
        let opened = open_pod_link(&self.0, &place.repo, thread.as_ref(), name).await;
        let PodLink { link, secrets } = opened.map_err(|error| match error {
            PodLinkError::NoRoom(why) => LinkError::NoRoom(why),
            PodLinkError::Late { waits, .. } => LinkError::Starting(waits),
            error if error.is_passing() => LinkError::Passing(error.to_string()),
            error => LinkError::Pod(error.to_string()),
        })?;
        Ok(OpenedLink { link, secrets, grant: None })
    }

    async fn new_secrets(&self, place: &ServerPlace, mark: &str) -> Option<ServerSecrets> {
        find_new_secrets(&self.0, &place.repo, &place.spec, mark).await
    }

    async fn keep_pod(&self, place: &ServerPlace) {
        let (thread, name) = (self.thread(place), &place.spec.name);
        if let Err(error) = keep_pod(&self.0, &place.repo, thread.as_ref(), name).await {
            tracing::warn!(%error, server = name, "server_pod_renewal_failed");
        }
    }

    async fn release_pod(&self, place: &ServerPlace) {
        let (thread, name) = (self.thread(place), &place.spec.name);
        if let Err(error) = release_pod(&self.0, &place.repo, thread.as_ref(), name).await {
            tracing::warn!(%error, server = name, "server_pod_release_failed");
        }
    }
}
