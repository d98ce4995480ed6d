#!/usr/bin/env bash
# CodeButler on a k3d cluster of this machine, without a registry: charts/examples/quickstart/k3d.sh [--dry-run].
# CLUSTER names the cluster (codebutler), VERSION the images' tag. About ten minutes, most of them for building the images.
. "$(dirname "$0")/lib.sh"
cluster=${CLUSTER:-codebutler}
need_builder
need_docker_socket
need_rust
need k3d "it makes the cluster; https://k3d.io/stable/#installation has one line for each system"
need kubectl "https://kubernetes.io/docs/tasks/tools/"
need helm "https://helm.sh/docs/intro/install/"
k3d cluster get "$cluster" > /dev/null 2>&1 || need_room
ready
if [ -n "$dry" ] || ! k3d cluster get "$cluster" > /dev/null 2>&1; then
  run k3d cluster create "$cluster" --wait
fi
run kubectl config use-context "k3d-$cluster"
run .ci/images --load k3d --cluster "$cluster" localhost/ "$version"
install_charts localhost
finish
