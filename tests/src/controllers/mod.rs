//! What kube-controller-manager does, as far as CodeButler needs it.
