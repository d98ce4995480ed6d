//! Pods that were made with other images than were asked for: an admission webhook, such as one that
//! names a mirror, did that. What they run is nobody's meddling afterwards.

use codebutler_runtime::recent::RecentKeys;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Beyond this many the oldest are forgotten, which costs one replacement of each, once it is idle.
const REMEMBERED: usize = 4096;

#[derive(Debug)]
pub(crate) struct RewrittenObjects(RecentKeys<String>);

impl Default for RewrittenObjects {
    fn default() -> Self {
        Self(RecentKeys::of(REMEMBERED))
    }
}

impl RewrittenObjects {
    /// Compares a pod that was just made with what was asked for.
    pub(crate) fn made(&self, wanted: &Pod, pod: &Pod) {
        if pod_images(wanted) == pod_images(pod) {
            return;
        }
        if let Some(uid) = pod.uid() {
            self.0.first_time(uid);
        }
    }

    /// True if a pod's images have differed from the requested ones from the start.
    pub(crate) fn knows(&self, pod: &Pod) -> bool {
        pod.uid().is_some_and(|uid| self.0.contains(&uid))
    }
}

/// A pod's images in the order of its containers: all that anybody may change of them later.
pub(crate) fn pod_images(pod: &Pod) -> Vec<Option<&str>> {
    let spec = pod.spec.iter();
    let all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.map(|container| container.image.as_deref()).collect()
}
