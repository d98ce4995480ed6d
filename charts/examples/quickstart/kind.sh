#!/usr/bin/env bash
# CodeButler on a kind cluster of this machine, without a registry: charts/examples/quickstart/kind.sh [--dry-run].
# CLUSTER names the cluster (codebutler), VERSION the images' tag. About ten minutes, most of them for building the images.
. "$(dirname "$0")/lib.sh"
cluster=${CLUSTER:-codebutler}
need_builder
need_rust
need kind "it makes the cluster; https://kind.sigs.k8s.io/docs/user/quick-start/#installation has one line for each system"
need_version kind "$(kind version -q 2> /dev/null || true)" 0.24.0 "older ones enforce no NetworkPolicy, and roles would run no commands; https://kind.sigs.k8s.io has the newest"
need kubectl "https://kubernetes.io/docs/tasks/tools/"
need helm "https://helm.sh/docs/intro/install/"
kind get clusters 2> /dev/null | grep -qx "$cluster" || need_room
ready
if [ -n "$dry" ] || ! kind get clusters 2> /dev/null | grep -qx "$cluster"; then
  run kind create cluster --name "$cluster" --config charts/examples/quickstart/kind.yaml
elif [ "$(kind get nodes --name "$cluster" 2> /dev/null | grep -c .)" = 1 ]; then
  alone="  The cluster $cluster has one node, where its plugin keeps no pod from the API server: roles only work with spec.egress.requireEnforcement: false
  of the Repo. For a cluster with a worker: kind delete cluster --name $cluster, and run this again."
  printf '%s\n' "$alone" >&2
fi
run kubectl config use-context "kind-$cluster"
run .ci/images --load kind --cluster "$cluster" localhost/ "$version"
install_charts localhost
finish
printf '%s\n' "${alone:-  On kind the Repo needs spec.egress.allowOwnNode: true, since its network plugin keeps no pod from its own node.}"
