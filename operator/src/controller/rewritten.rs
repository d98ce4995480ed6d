//! Pods that were made with other images than were asked for: an admission webhook, such as one that
//! names a mirror, did that. What they run is nobody's meddling afterwards.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Beyond this many all are forgotten, which costs one replacement of each idle pod.
const REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub struct Rewritten(Mutex<HashSet<String>>);

impl Rewritten {
    /// Compares a pod that was just made with what was asked for.
    pub fn made(&self, wanted: &Pod, pod: &Pod) {
        if images(wanted) == images(pod) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.extend(pod.uid());
    }

    /// Whether a pod's images are not what was asked for from the start.
    pub fn knows(&self, pod: &Pod) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pod.uid().is_some_and(|uid| known.contains(&uid))
    }
}

/// A pod's images in the order of its containers: all that anybody may change of them later.
pub fn images(pod: &Pod) -> Vec<Option<&str>> {
    let spec = pod.spec.iter();
    let all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.map(|container| container.image.as_deref()).collect()
}
