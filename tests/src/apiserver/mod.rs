//! An in-process Kubernetes API server over HTTPS.
