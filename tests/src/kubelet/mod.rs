//! Runs a pod's containers as local processes in namespaces of their own.
